"""Extends a finished run by further epochs."""

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
    """Adds epochs to the configuration of a finished run; training its directory again makes them.

    Weights and the optimizer's state continue from the last step. The learning rate is that of a run with all
    these epochs from the beginning. With a "constant" schedule after the warm-up, the extended run is bitwise
    equal to such a run. Other schedules have fallen to zero and continue at the value of the longer schedule.
    The early-stopping counter of a run that was stopped early starts again.

    Args:
      directory: directory of the finished run.
      epochs: number of epochs to add.
    Returns: a note on the learning rate.
    Raises: ValueError for an unfinished run.
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
        f"from {made} to {total} epochs: weights and optimizer state continue, the learning rate is that of "
        f"a run of {total} epochs, {_rate(config, step):.3g} (before: {before:.3g})"
    )


@contextlib.contextmanager
def taken_back(directory: Path) -> Iterator[None]:
    """Undoes the extension if a ValueError occurs before another step has been saved."""
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
