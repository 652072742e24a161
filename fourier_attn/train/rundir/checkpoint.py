"""Saves and restores checkpoints with Orbax, and detects damaged files, which Orbax does not."""

import contextlib
import hashlib
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from etils import epath
from tqdm import tqdm

from fourier_attn import atomic, causes, paths
from fourier_attn.train.distributed import processes
from fourier_attn.train.distributed.sharding import to_host

T = TypeVar("T")
CHECKPOINT_ID = re.compile(r"(\d+)(?:-(unvalidated|stopped))?")
DAMAGED = "damaged-"  # prefix of a checkpoint that was renamed because it is damaged
OLD = "removed-"  # prefix of a checkpoint that is being removed
KEPT = 2  # number of checkpoints, in addition to the one that is being written


class CheckpointId(NamedTuple):
    """Names a checkpoint; identifiers are sorted in the order in which a run reaches them.

    Args:
      step: number of training steps made.
      validated: at the end of an epoch, whether the state includes its validation; default True.
      regular: whether an uninterrupted run also has this checkpoint; False after a signal and after skipped
        updates. Default True.
    """

    step: int
    validated: bool = True
    regular: bool = True

    def __str__(self) -> str:
        if not self.validated:
            return f"{self.step}-unvalidated"
        return str(self.step) if self.regular else f"{self.step}-stopped"


def checkpoint_ids(workdir: Path) -> list[CheckpointId]:
    """Returns the complete checkpoints of a run, the newest first."""
    directory = workdir / "checkpoints"
    entries = directory.iterdir() if directory.is_dir() else ()
    matches = [CHECKPOINT_ID.fullmatch(path.name) for path in entries if path.is_dir()]
    return sorted((_parse(m) for m in matches if m), reverse=True)


def _parse(match: re.Match[str]) -> CheckpointId:
    return CheckpointId(int(match[1]), match[2] != "unvalidated", match[2] != "stopped")


class Checkpoints:
    """Keeps the newest checkpoint of a run and two regular ones, in `workdir/checkpoints/STEP`.

    Saving is asynchronous and atomic: a checkpoint gets its name once it is complete. Older checkpoints are
    removed only after the newer ones are synced to the disk, which Orbax does not ensure. The SHA-256 hash of
    each array is saved as well and compared after restoring, because Orbax does not detect flipped bits.

    Each of several processes writes and reads its own parts. If one of them finds a damaged checkpoint, all
    of them skip it.

    Args:
      workdir: directory of the run.
      read_only: whether nothing is created, renamed or removed, so that an active run is not disturbed. This
        process then reads without the others. Default False.
    """

    def __init__(self, workdir: Path, *, read_only: bool = False):
        self.directory, self.read_only = paths.folder(workdir, "workdir") / "checkpoints", read_only
        if not read_only and processes.is_primary():
            for rest in (*self.directory.glob("*.orbax-checkpoint-tmp*"), *self.directory.glob(f"{OLD}*")):
                shutil.rmtree(rest)  # the process was killed while writing or removing it
            for path in self.directory.glob("*"):
                if CHECKPOINT_ID.fullmatch(path.name) and not path.is_dir():
                    path.rename(path.with_name(f"{DAMAGED}{path.name}"))
            if self.directory.is_dir():
                atomic.sync_tree(self.directory)  # an earlier process may have ended before syncing
        self.saved: Path | None = None  # the latest checkpoint, which may not be on the disk yet
        self.checkpointer = ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler())
        me = jax.process_index()  # otherwise Orbax waits for all processes, and one of them may find no file
        options = ocp.options.MultiprocessingOptions(primary_host=me, active_processes={me})
        self.reader = ocp.Checkpointer(ocp.CompositeCheckpointHandler(), multiprocessing_options=options)
        self.forms = ocp.StandardCheckpointHandler(multiprocessing_options=options)

    def save(self, name: CheckpointId, state: Any) -> None:
        """Starts to save a state, and returns once it is copied and the previous save is complete.

        Args:
          name: name of the checkpoint; an existing one is not saved again.
          state: tree of arrays.
        Raises: the error of the previous save.
        """
        self.wait()
        if {name, CheckpointId(name.step, name.validated)} & set(self._names()):
            return
        if processes.is_primary():
            atomic.make_folder(self.directory)
            self._remove_older()
        copy = jax.tree.map(_copy, state)  # the next step reuses the state's memory
        items = ocp.args.Composite(state=ocp.args.StandardSave(copy), sums=ocp.args.JsonSave(_sums(copy)))
        self.saved = self.directory / str(name)
        with _writing(self.saved):
            self.checkpointer.save(self.saved, args=items)

    def wait(self) -> None:
        """Waits until the last checkpoint is on the disk. Raises: the error of its save."""
        with _writing(self.saved or self.directory):
            self.checkpointer.wait_until_finished()
        if self.saved is not None and self.saved.is_dir():  # the primary process may have renamed it already
            atomic.sync_tree(self.saved)
        self.saved = None

    def restore(
        self,
        like: T,
        wanted: Callable[[CheckpointId], bool] = lambda name: True,
        earlier: Callable[[T], tuple[Any, Callable[[Any], T]]] | None = None,
    ) -> tuple[CheckpointId, T] | None:
        """Returns the newest intact checkpoint and its state; None if the run has no checkpoint.

        A damaged checkpoint is reported and renamed, and the previous one is restored.

        Args:
          like: tree of arrays, or of their shapes, with the structure of the state.
          wanted: selects checkpoints; default: all.
          earlier: returns the structure that an earlier version saved for `like`, and a function that
            converts such a state; default None.
        Raises: ValueError if all checkpoints are damaged; they are not changed.
        """
        damaged: dict[CheckpointId, str] = {}
        names = self._names()
        for name in filter(wanted, names):
            try:
                state = self._read(name, like, earlier)
            except ValueError as error:
                if self.read_only and name not in self._names():
                    return self.restore(like, wanted, earlier)  # an active run has replaced it by newer ones
                damaged[name] = str(error)
                continue
            for other, reason in damaged.items():
                self._report(other, reason)
            return name, state
        lost = [f"{name} damaged: {reason}" for name, reason in damaged.items()]
        lost += self._from_primary(lambda: [path.name for path in self.directory.glob(f"{DAMAGED}*")])
        if lost and len(damaged) == len(names):
            raise ValueError(
                f"all checkpoints in {self.directory} are damaged ({'; '.join(lost)}); "
                "restore a copy, or start again in another workdir"
            )
        return None

    def close(self) -> None:
        """Waits until everything is on the disk. Raises: the error of the last save."""
        try:
            self.wait()
            if not self.read_only and processes.is_primary():
                self._remove_older()
        finally:
            self.checkpointer.close()
            self.reader.close()
            self.forms.close()

    def _from_primary(self, work: Callable[[], list[str]]) -> list[str]:
        """Returns the result of the primary process, because other machines may see its files later."""
        return work() if self.read_only else processes.broadcast(work)

    def _together(self, work: Callable[[], T]) -> T:
        """Runs `work` in all processes. Raises: ValueError in all of them if one of them raises it."""
        return work() if self.read_only else processes.barrier(work)

    def _names(self) -> list[CheckpointId]:
        names = self._from_primary(lambda: [str(name) for name in checkpoint_ids(self.directory.parent)])
        return [_parse(match) for match in map(CHECKPOINT_ID.fullmatch, names) if match]

    def _read(
        self, name: CheckpointId, like: Any, earlier: Callable[[Any], tuple[Any, Callable]] | None
    ) -> Any:
        """Reads a state and compares its hashes.

        Args:
          name: name of the checkpoint.
          like, earlier: see `restore`.
        Raises: ValueError with the reason if the checkpoint is damaged.
        """
        state, sums, complete = self._together(lambda: self._parts(name, like, earlier))

        @causes.computing()
        def check() -> None:
            if _sums(state) != sums:  # gathers sharded arrays, for which all processes have read their parts
                raise ValueError("its contents do not match their SHA-256 sums")

        self._together(check)
        return complete(state)

    def _parts(
        self, name: CheckpointId, like: Any, earlier: Callable[[Any], tuple[Any, Callable]] | None
    ) -> tuple[Any, dict[str, str], Callable[[Any], Any]]:
        """Returns this process's part of a state, the saved hashes, and a function that converts the state.

        Args:
          name: name of the checkpoint.
          like, earlier: see `restore`.
        Raises: ValueError with the reason if the checkpoint is damaged; OSError if it cannot be read.
        """
        try:
            sums = dict(self._restore(name, sums=ocp.args.JsonRestore()).sums)
            form, complete = like, _same
            if earlier and set(sums) != set(_paths(like)):
                form, complete = earlier(like)
            if set(sums) != set(_paths(form)):
                raise ValueError("its arrays are those of another network, or of another version")
            written = self._as_written(name, form)
            state = self._restore(name, state=ocp.args.StandardRestore(written)).state
        except Exception as error:  # damaged files raise many types of errors
            if not causes.of_the_place(error):
                raise ValueError(_reason(error)) from error
            if not isinstance(error, ValueError):
                raise
            path = self.directory / str(name)
            raise OSError(f"the checkpoint {path} cannot be read ({_reason(error)})") from error
        return state, sums, lambda state: complete(jax.tree.map(_cast, state, form))

    def _as_written(self, name: CheckpointId, form: Any) -> Any:
        """Returns the structure in which a state is read, so that its hashes can be compared.

        Arrays that an earlier version saved in double precision (JAX_ENABLE_X64=1) are read as NumPy arrays.
        Shapes are compared before anything is read, because Orbax abandons other reads at a wrong shape.

        Raises: ValueError for a wrong shape.
        """
        saved = self.forms.metadata(epath.Path(self.directory / str(name) / "state"))
        stored = {_plain(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(saved.tree)}

        def as_saved(path: Any, leaf: Any) -> Any:
            saved = stored[_plain(path)]
            if tuple(saved.shape) != leaf.shape:
                raise ValueError("its arrays are those of another network")
            dtype = np.dtype(saved.dtype)
            return leaf if dtype == leaf.dtype else np.broadcast_to(np.zeros((), dtype), leaf.shape)

        return jax.tree_util.tree_map_with_path(as_saved, form)

    def _restore(self, name: CheckpointId, **items: Any) -> Any:
        return self.reader.restore(self.directory / str(name), args=ocp.args.Composite(**items))

    def _report(self, name: CheckpointId, reason: str) -> None:
        mine = processes.is_primary() and not self.read_only
        aside = f"; it is renamed to {self._set_aside(name).name}" if mine else ""
        text = f"The checkpoint {self.directory / str(name)} is damaged ({reason}){aside}."
        tqdm.write(text, file=sys.stderr if self.read_only else sys.stdout)

    def _set_aside(self, name: CheckpointId) -> Path:
        path = self.directory / str(name)
        aside = path.with_name(f"{DAMAGED}{name}")
        while aside.exists():
            aside = aside.with_name(f"{aside.name}-again")
        return path.rename(aside)

    def _remove_older(self) -> None:
        names = checkpoint_ids(self.directory.parent)
        kept = {*names[:1], *[name for name in names if name.validated and name.regular][:KEPT]}
        for name in set(names) - kept:
            path = self.directory / f"{OLD}{name}"
            (self.directory / str(name)).rename(path)  # an incomplete checkpoint must not keep its name
            shutil.rmtree(path)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turns Orbax's ValueError into OSError, because a ValueError means invalid input in this project."""
    try:
        yield
    except ValueError as error:
        raise OSError(f"the checkpoint {path} cannot be written ({_reason(error)})") from error


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _plain(path: Any) -> str:
    """Returns a path without the types of its nodes, because Orbax saves named tuples as dicts."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _cast(leaf: Any, like: Any) -> Any:
    """Returns an array with the dtype and the sharding of `like`."""
    if leaf.dtype == like.dtype:
        return leaf
    cast = leaf.astype(like.dtype)
    return jax.device_put(cast, like.sharding) if isinstance(like, jax.ShapeDtypeStruct) else cast


def _same(state: Any) -> Any:
    return state


def _copy(leaf: Any) -> Any:
    """Copies an array to the host; arrays of several processes are copied by Orbax, but on CPUs here."""
    if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
        return np.array(leaf)
    return jnp.copy(leaf) if jax.default_backend() == "cpu" else leaf


def _paths(state: Any) -> list[str]:
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(state)]


def _sums(state: Any) -> dict[str, str]:
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {
        jax.tree_util.keystr(path): hashlib.sha256(np.ascontiguousarray(to_host(leaf)).tobytes()).hexdigest()
        for path, leaf in leaves
    }
