"""Logs the metrics of a run to TensorBoard or to Weights & Biases."""

import importlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from fourier_attn import atomic, extras
from fourier_attn.choices import check_choice

ID = "wandb-id.txt"  # in the run's directory


class Tracker(Protocol):
    """Declares a tracker. `flush` is called before every checkpoint.

    Metrics have names like "train/loss"; epochs may be fractions.
    """

    def write(self, step: int, epoch: int | float, values: Mapping[str, float]) -> None:
        """Logs metrics, `values` by name, at a `step` and an `epoch`."""

    def flush(self) -> None:
        """Writes everything that is buffered."""

    def close(self) -> None:
        """Ends the log."""


class TensorBoard:
    """Writes event files to the folder `tensorboard` in the run's directory.

    Events are written by this thread. The library's own writer uses a second thread, and its `flush` does not
    wait for it.

    Args:
      workdir: directory of the run.
      last: last valid step; events of later steps are marked as invalid, because a resumed run repeats them.
      config: not used.
    """

    def __init__(self, workdir: Path, last: int, config: Mapping[str, Any]):
        # tensorboardX imports torch where torch is installed, which takes seconds. Only loggers should wait.
        names = ("event_file_writer", "summary", "proto.event_pb2")  # the last is generated, and has no types
        writer, summary, self.proto = (importlib.import_module(f"tensorboardX.{name}") for name in names)
        self.scalar = summary.scalar
        self.folder = workdir / "tensorboard"
        atomic.make_folder(self.folder)
        self.file = writer.EventsWriter(str(self.folder / "events"))
        self._add(last + 1, file_version="brain.Event:2")
        self._add(last + 1, session_log=self.proto.SessionLog(status=self.proto.SessionLog.START))

    def _add(self, step: int, **what: Any) -> None:
        self.file.write_event(self.proto.Event(wall_time=time.time(), step=step, **what))

    def write(self, step: int, epoch: int | float, values: Mapping[str, float]) -> None:
        """Writes an event for each of the `values` at a `step`; `epoch` is not used."""
        for name, value in values.items():
            self._add(step, summary=self.scalar(name, value))
        self.file.flush()  # otherwise a kill would lose buffered events

    def flush(self) -> None:
        self.file.flush()
        atomic.sync_tree(self.folder)

    def close(self) -> None:
        self.file.close()
        atomic.sync_tree(self.folder)


class WeightsAndBiases:
    """Logs to Weights & Biases, with an id that is stored in the run's directory.

    The library's own files go to WORKDIR.wandb, because they contain links, which a run's directory must not
    contain. Metrics are plotted over "step".

    Args:
      workdir: directory of the run.
      last: not used.
      config: options of the run by dotted path.
    Raises: ValueError if the library cannot start.
    """

    def __init__(self, workdir: Path, last: int, config: Mapping[str, Any]):
        wandb, folder = library(), workdir.with_name(f"{workdir.name}.wandb")
        kept = workdir / ID
        if not kept.exists():
            atomic.write(kept, secrets.token_hex(4))
        atomic.make_folder(folder)
        project = os.environ.get("WANDB_PROJECT", "fourier_attn")
        about = {"id": kept.read_text().strip(), "name": workdir.name, "dir": str(folder)}
        try:
            self.run = wandb.init(project=project, resume="allow", config=dict(config), **about)
        except wandb.Error as error:
            raise ValueError(
                f"--tracker=wandb cannot start ({error}); log in with `wandb login`, set WANDB_MODE=offline, "
                "or choose another tracker"
            ) from error
        self.run.define_metric("*", step_metric="step")

    def write(self, step: int, epoch: int | float, values: Mapping[str, float]) -> None:
        """Logs `values` with `step` and `epoch`."""
        self.run.log({"step": step, "epoch": epoch, **values}, commit=True)

    def flush(self) -> None:
        """Does nothing, because each line is committed when it is written."""

    def close(self) -> None:
        self.run.finish()


class Nothing:
    """Logs nothing.

    Args:
      workdir, last, config: not used.
    """

    def __init__(self, workdir: Path, last: int, config: Mapping[str, Any]): ...

    def write(self, step: int, epoch: int | float, values: Mapping[str, float]) -> None:
        """Does nothing; `step`, `epoch` and `values` are not used."""

    def flush(self) -> None: ...
    def close(self) -> None: ...


TRACKERS: dict[str, Callable[[Path, int, Mapping[str, Any]], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "none": Nothing,
}


def check(tracker: str) -> None:
    """Checks that a tracker is known and installed. Raises: ValueError."""
    check_choice("--tracker", tracker, TRACKERS)
    if tracker == "wandb":
        library()
    if tracker == "tensorboard":
        importlib.import_module("tensorboardX")


def library() -> Any:
    """Returns the module wandb. Raises: ValueError if it is not installed."""
    try:
        return importlib.import_module("wandb")
    except ImportError as error:
        raise ValueError(
            f"--tracker=wandb needs the package wandb; {extras.install('wandb')}, or choose "
            "--tracker=tensorboard"
        ) from error
