"""Gives a finished run more epochs."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fourier_attn import atomic, provenance
from fourier_attn.config import Config, with_values
from fourier_attn.train.optimizer import build_schedule
from fourier_attn.train.rundir import config_file, workdir
from fourier_attn.train.rundir.checkpoint import checkpoint_ids
from fourier_attn.train.summary import finished


def extend(directory: Path, epochs: int) -> str:
    """Gives the finished run in `directory` this many more epochs, which the next training makes.

    Weights and the optimiser's means are those of its last step. The learning rate is that of a run which had
    all these epochs from its beginning. With a "constant" schedule, after its warm-up, the extended run is
    bitwise that run. Another schedule had fallen to zero, and continues where the longer one is at that step.
    The early-stopping counter of a run that had lost its patience starts again.

    Returns: a note on the learning rate.
    Raises: ValueError for a run that is not finished.
    """
    directory = directory.resolve()
    with workdir.lock(directory):
        facts, line = config_file.record(directory), finished(directory)
        if line is None:
            raise ValueError(
                f"workdir={directory} is not finished; resume it without --extend first, then extend it"
            )
        config = config_file.load(directory)
        step, made = line["step"], round(line["epoch"])
        before, total = _rate(config, step - 1), made + epochs
        steps = round(step / line["epoch"]) * total
        config = with_values(config, {"optim.steps": steps, "train.epochs": total})
        facts["config"] = config.to_dict()
        entry = {"step": step, "epochs": total, "commit": provenance.commit()}
        facts["extended"] = [*facts.get("extended", []), entry]
        config_file.write_record(directory, facts)
    return (
        f"from {made} to {total} epochs: weights and optimiser as they were, the learning rate that of a run "
        f"of {total} epochs, {_rate(config, step):.3g} (its last one was {before:.3g})"
    )


@contextlib.contextmanager
def taken_back(directory: Path) -> Iterator[None]:
    """Undoes the extension where a ValueError comes before a further step has been saved."""
    path, step = directory / "config.json", _last_step(directory)
    before = path.read_bytes() if path.is_file() else None
    try:
        yield
    except ValueError:
        if before is not None and before != path.read_bytes() and _last_step(directory) <= step:
            atomic.write(path, before)
        raise


def _last_step(directory: Path) -> int:
    """Returns the step of the newest checkpoint; 0 without one."""
    return max((name.step for name in checkpoint_ids(directory)), default=0)


def _rate(config: Config, step: int) -> float:
    return np.asarray(build_schedule(config.optim)(step)).item()
