"""Data sets and your own files, from the name of a task to batches of token ids or of images."""

from fourier_attn.data.batches import padded_lengths
from fourier_attn.data.checks import check
from fourier_attn.data.loaders import load
from fourier_attn.data.reading import check_available
from fourier_attn.data.splits import Origin, Splits, hidden, write_submission
from fourier_attn.data.tasks import TASKS, Task, register_task, source, task_of

__all__ = [
    "TASKS",
    "Origin",
    "Splits",
    "Task",
    "check",
    "check_available",
    "hidden",
    "load",
    "padded_lengths",
    "register_task",
    "source",
    "task_of",
    "write_submission",
]
