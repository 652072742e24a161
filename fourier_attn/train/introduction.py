"""What a run says before it begins."""

from collections.abc import Iterable
from pathlib import Path

import jax

from fourier_attn.config import Config
from fourier_attn.data import Splits
from fourier_attn.train.distributed.sharding import Placement
from fourier_attn.train.optimizer import warmup


def introduction(
    config: Config,
    splits: Splits,
    placement: Placement,
    parameters: int,
    notes: Iterable[str],
    directory: Path,
    step: int,
) -> list[str]:
    """The first lines of a run: data, devices, network, where it comes from and goes to.

    Args:
      parameters: of one network.
      notes: on the weights to start from.
      step: at which it goes on.
    """
    seeds, steps = config.train.seeds, len(splits.train)
    lines = [
        f"            {splits.describe()}",
        *(f"            {note}" for note in splits.notes),
        *devices(placement, config.data.batch // config.train.accumulate),
    ]
    lines.append(f"parameters  {parameters:,}" + (f" x {seeds} seeds" if seeds > 1 else ""))
    if config.init_from:
        lines.append(f"weights     {config.init_from}, whose architecture is used")
        lines += [f"            {note}" for note in notes]
    if warmup(config.optim) >= steps:
        lines.append(
            f"note        optim.warmup_steps={config.optim.warmup_steps} is the whole schedule of "
            f"{steps} steps: the learning rate never reaches its peak; --config.optim.warmup_share=0.1 gives "
            "it a tenth of them"
        )
    return [*lines, f"workdir     {directory}" + (f", going on from step {step}" if step else "")]


def devices(placement: Placement, rows: int) -> list[str]:
    """How many devices there are, what they do, and which are not used, because rows do not divide."""
    first, used, there = jax.devices()[0], placement.mesh.devices.size, jax.device_count()
    shared = f" in {jax.process_count()} processes" if jax.process_count() > 1 else ""
    split = f"{used} devices{shared}: {placement}; " if used > 1 else ""
    lines = [f"device      {split}{first.device_kind} ({first.platform})"]
    if used < there:
        lines.append(
            f"note        {there - used} of {there} devices are not used: {rows} rows of a (micro-)batch do "
            "not divide by more; change data.batch"
        )
    return lines
