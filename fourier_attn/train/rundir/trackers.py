"""Trackers, which show the metrics of a run: TensorBoard, Weights & Biases, or none."""

import importlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.summary import scalar

from fourier_attn import atomic, extras
from fourier_attn.choices import check_choice

PROTO: Any = importlib.import_module("tensorboardX.proto.event_pb2")  # generated, without static names
ID = "wandb-id.txt"  # in the run's directory


class Tracker(Protocol):
    """Shows metrics. `flush` is called before every checkpoint."""

    def write(self, step: int, epoch: int | float, values: Mapping[str, float]) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class TensorBoard:
    """Writes event files to `tensorboard` in the run's directory.

    Events are written by this thread: the library's own writer has another one, for whose queue its `flush`
    does not wait.

    Args:
      last: events of later steps are marked as void, since a resumed run writes them again.
    """

    def __init__(self, workdir: Path, last: int, config: Mapping[str, Any]):
        self.folder = workdir / "tensorboard"
        atomic.make_folder(self.folder)
        self.file = EventsWriter(str(self.folder / "events"))
        self._add(last + 1, file_version="brain.Event:2")
        self._add(last + 1, session_log=PROTO.SessionLog(status=PROTO.SessionLog.START))

    def _add(self, step: int, **what: Any) -> None:
        self.file.write_event(PROTO.Event(wall_time=time.time(), step=step, **what))

    def write(self, step: int, epoch: int | float, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._add(step, summary=scalar(name, value))
        self.file.flush()  # or a kill would take what waits

    def flush(self) -> None:
        self.file.flush()
        atomic.sync_tree(self.folder)

    def close(self) -> None:
        self.file.close()
        atomic.sync_tree(self.folder)


class WeightsAndBiases:
    """Logs to Weights & Biases, under an id that the run's directory keeps.

    Its own files go to WORKDIR.wandb, since they contain links, which a run's directory does not have. Each
    line is committed when it is written; metrics are shown over "step".

    Args:
      config: the options of the run, by their full names.
    Raises: ValueError where the library cannot start.
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
        self.run.log({"step": step, "epoch": epoch, **values}, commit=True)

    def flush(self) -> None:
        """Does nothing: no line waits."""

    def close(self) -> None:
        self.run.finish()


class Nothing:
    """Shows nothing."""

    def __init__(self, workdir: Path, last: int, config: Mapping[str, Any]): ...
    def write(self, step: int, epoch: int | float, values: Mapping[str, float]) -> None: ...
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


def library() -> Any:
    """Returns the module wandb. Raises: ValueError where it is not installed."""
    try:
        return importlib.import_module("wandb")
    except ImportError as error:
        raise ValueError(
            f"--tracker=wandb needs the package wandb; {extras.install('wandb')}, or choose "
            "--tracker=tensorboard"
        ) from error
