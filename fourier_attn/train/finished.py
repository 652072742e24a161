"""Whether the run in a directory is done."""

from pathlib import Path
from typing import Any

import numpy as np

from fourier_attn import data
from fourier_attn.train import init_from
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.rundir import workdir
from fourier_attn.train.rundir.checkpoint import checkpoint_ids
from fourier_attn.train.rundir.metrics_log import read_lines


def finished(directory: Path) -> dict[str, Any] | None:
    """The line with a finished run's metrics on the test set; None for a run that has to go on.

    A line alone does not say it: the state after the last step is there, sound, and so are all answers.
    """
    lines = read_lines(directory) if (directory / "config.json").exists() else []
    tests = [line for line in lines if line["split"] == "test"]
    saved = checkpoint_ids(directory)
    if not tests or not saved or saved[0].step != tests[-1]["step"] or not saved[0].validated:
        return None
    line, settings = tests[-1], workdir.load(directory)
    task, answers = data.task_of(settings.data), directory / "predictions.jsonl"
    known = set(line) & {"examples", *task.metrics, *OBJECTIVES[task.head].names}
    given = answers.read_bytes().count(b"\n") if answers.exists() else 0
    expected = line.get("examples", given)  # earlier versions did not say it
    if not known or (task.head != "pretraining" and (given != expected or not given)):
        return None
    try:
        _, _, name, state = init_from.restore_state(directory, on_device=False)
    except ValueError:  # none is sound: going on says so
        return None
    patience = settings.train.patience
    stopped = bool(patience) and int(np.min(state.epochs_since_best)) >= patience
    stopped = stopped and workdir.extended_at(directory) != line["step"]
    ended = line["step"] >= settings.optim.steps or stopped  # beyond them, where the data have become fewer
    return line if name == saved[0] and ended else None
