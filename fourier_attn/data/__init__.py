"""Loads published and custom datasets: from the name of a task to batches of token ids or images."""

from fourier_attn.data.batches import padded_lengths as padded_lengths
from fourier_attn.data.checks import check as check
from fourier_attn.data.loaders import load
from fourier_attn.data.reading import check_available as check_available
from fourier_attn.data.splits import Origin, Splits
from fourier_attn.data.splits import hidden as hidden
from fourier_attn.data.splits import write_submission as write_submission
from fourier_attn.data.tasks import TASKS, Task, register_task, task_of
from fourier_attn.data.tasks import source as source

__all__ = ["TASKS", "Origin", "Splits", "Task", "load", "register_task", "task_of"]
