"""Prints the first lines of a run, and shows its progress and speed."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
from tqdm import tqdm

from fourier_attn.config import Config
from fourier_attn.data import Splits
from fourier_attn.train import metrics
from fourier_attn.train.distributed.sharding import Placement, to_host
from fourier_attn.train.optimizer import warmup
from fourier_attn.train.step import State

LOOK = 0.5  # approximate seconds between two updates of the progress bar
LINE = 60.0  # seconds between two lines without a terminal


def introduction(
    config: Config,
    splits: Splits,
    placement: Placement,
    parameters: int,
    notes: Iterable[str],
    directory: Path,
    step: int,
) -> list[str]:
    """Returns the first lines of a run: data, devices, network, initial weights and directory.

    Args:
      config: configuration of the run.
      splits: its data.
      placement: its devices.
      parameters: number of parameters of one network.
      notes: lines about the initial weights.
      directory: directory of the run.
      step: step from which the run is resumed; 0 for a new run.
    """
    seeds, steps = config.train.seeds, len(splits.train)
    lines = [
        f"            {splits.describe()}",
        *(f"            {note}" for note in splits.notes),
        *_devices(placement, config.data.batch // config.train.accumulate),
    ]
    lines.append(f"parameters  {parameters:,}" + (f" x {seeds} seeds" if seeds > 1 else ""))
    if config.init_from:
        lines.append(f"weights     {config.init_from}, with its architecture")
        lines += [f"            {note}" for note in notes]
    if config.train.self_pretrain:
        lines.append(f"weights     self-pretrained for {config.train.self_pretrain} epochs")
    if warmup(config.optim) >= steps:
        lines.append(
            f"note        optim.warmup_steps={config.optim.warmup_steps} covers the whole schedule of "
            f"{steps} steps, so the learning rate reaches its peak in the last one; "
            "--config.optim.warmup_share=0.1 warms up for a tenth of the steps"
        )
    return [*lines, f"workdir     {directory}" + (f", resuming at step {step}" if step else "")]


def _devices(placement: Placement, rows: int) -> list[str]:
    """Returns lines about the devices, with a note on devices that cannot share `rows` evenly."""
    device, used, count = jax.devices()[0], placement.mesh.devices.size, jax.device_count()
    shared = f" in {jax.process_count()} processes" if jax.process_count() > 1 else ""
    split = f"{used} devices{shared}: {placement}; " if used > 1 else ""
    lines = [f"device      {split}{device.device_kind} ({device.platform})"]
    if used < count:
        lines.append(
            f"note        {count - used} of {count} devices are not used: {rows} rows of a (micro-)batch "
            "do not divide by more; change data.batch"
        )
    return lines


class Clock:
    """Measures examples per second since a step, and the share of the time spent waiting for data.

    Args:
      step: the current step.
    """

    def __init__(self, step: int):
        self.step, self.begin, self.waited = step, time.perf_counter(), 0.0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts the time inside the context as waiting."""
        begin = time.perf_counter()
        yield
        self.waited += time.perf_counter() - begin

    def read(self, step: int, batch: int) -> dict[str, float]:
        """Returns speed and share of waiting at `step`, for batches of `batch` examples; {} before a step."""
        if step == self.step:
            return {}
        elapsed = time.perf_counter() - self.begin
        return {"examples_per_s": (step - self.step) * batch / elapsed, "data_wait": self.waited / elapsed}


class Progress:
    """Shows the progress of steps or batches: metrics, examples per second and remaining time.

    Steps are dispatched before the devices have computed the previous ones. `due` says when to wait for the
    devices: about every `LOOK` seconds, and after each step if a step takes longer.

    Args:
      title: "train", or the name of a split.
      total: number of steps or batches.
      batch: number of examples in each.
      unit: "step" or "batch".
      done: number of steps that were done before; default 0.
      leave: whether the bar stays on the terminal at the end; default False.
      say: prints a line per minute if no terminal shows the bar; default None: no lines.
    """

    def __init__(
        self,
        title: str,
        total: int,
        batch: int,
        *,
        unit: str,
        done: int = 0,
        leave: bool = False,
        say: Callable[[str], None] | None = None,
    ):
        self.say = say
        self.title, self.total, self.batch = title, total, batch
        self.units = {"step": "steps", "batch": "batches"}[unit]
        self.bar = tqdm(
            desc=None if leave else title,
            total=total,
            initial=done,
            unit=unit,
            leave=leave,
            disable=None,
            mininterval=LOOK,
            **_width(),
        )
        self.metrics, self.line = "", time.perf_counter()
        self.looked, self.next = (done, self.line), done + 1
        self.since: tuple[int, float] | None = None  # start of the speed measurement, after compilation

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.close()

    def due(self, step: int) -> bool:
        """Returns whether to wait for the devices and show this `step`."""
        return step >= self.next

    def resume(self, step: int) -> None:
        """Restarts the measurement of the speed at `step`, after a pause."""
        self.looked = self.since = (step, time.perf_counter())
        self.next = step + 1

    def show(self, step: int, metrics: str = "") -> None:
        """Shows that `step` steps have been computed.

        Args:
          step: number of computed steps.
          metrics: formatted metrics; "": those shown before.
        """
        self.metrics = metrics or self.metrics
        (last, then), now = self.looked, time.perf_counter()
        seconds = (now - then) / max(step - last, 1)
        self.looked, self.next = (step, now), step + max(1, int(LOOK / max(seconds, 1e-6)))
        facts = [self.metrics] if self.metrics else []
        if self.since and step > self.since[0]:
            speed = (step - self.since[0]) / (now - self.since[1])
            facts.append(f"{speed * self.batch:,.0f} examples/s")
            if self.bar.disable:
                facts.append(f"{duration((self.total - step) / speed)} left")
        self.bar.set_postfix_str(", ".join(facts), refresh=False)
        self.bar.update(step - self.bar.n)
        if self.say and self.bar.disable and now - self.line >= LINE:
            self.say(f"{self.title:<11} {', '.join((f'{step:,} of {self.total:,} {self.units}', *facts))}")
            self.line = now
        if not self.since or self.line == now:
            self.since = (step, now)


class TrainingProgress(Progress):
    """Shows training steps with the means of the epoch so far.

    Args:
      names: names of the metrics to show.
      total: number of steps of the run.
      batch: number of examples of a step.
      done: number of steps that were made before.
    """

    def __init__(self, names: Sequence[str], total: int, batch: int, done: int):
        super().__init__("train", total, batch, unit="step", done=done, leave=True, say=tqdm.write)
        self.names = names
        # the next step to show, an array that is ready once it is computed, and its sums
        self.latest: tuple[int, jax.Array, metrics.Sums] | None = None

    def __enter__(self) -> "TrainingProgress":
        return self

    def follow(self, step: int, state: State, at_once: bool) -> None:
        """Shows a training step if one is due.

        Without `at_once` it shows the previous step, because the devices still compute this one while the
        next batch is read.

        Args:
          step: number of steps that were dispatched.
          state: the state after this step.
          at_once: whether to wait for this step and show it.
        """
        if at_once:
            jax.block_until_ready(state.step)
            self.show(step, _words(self._sums(state)))
        elif self.latest:
            before, made, sums = self.latest
            jax.block_until_ready(made)
            self.show(before, _words(sums))
        self.latest = None
        if not at_once and self.due(step):
            # copy, because the next step reuses the memory of this state
            made = jnp.copy(state.step.addressable_data(0))
            self.latest = step, made, jax.tree.map(_copy, self._sums(state))

    def _sums(self, state: State) -> metrics.Sums:
        """Returns the sums of the epoch so far; {} if other processes hold a part of them.

        Processes show progress at different times, so this must not wait for another process.
        """
        sums = {name: state.sums[name] for name in self.names}
        here = all(each.is_fully_addressable or each.is_fully_replicated for each in sums.values())
        return sums if here else {}


def _words(sums: metrics.Sums) -> str:
    """Formats the means of sums."""
    means = metrics.mean(to_host(sums))
    return ", ".join(f"{name.replace('_', ' ')} {means[name]:.3f}" for name in sums)


def _copy(leaf: jax.Array) -> jax.Array:
    """Copies the part of an array that this process holds, without other processes."""
    return jnp.copy(leaf.addressable_data(0) if leaf.is_fully_replicated else leaf)


def _width() -> dict[str, Any]:
    """Returns tqdm's arguments for the width of its bar, with a fixed width on a terminal of 0 columns."""
    try:
        known = os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError):  # not a terminal
        known = True
    return {"dynamic_ncols": True} if known else {"ncols": 100, "nrows": 20}


def duration(seconds: float) -> str:
    """Formats a duration, for example "40 s", "12 min" or "3 h 05 min"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
