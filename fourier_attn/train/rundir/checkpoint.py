"""Saves and restores checkpoints with Orbax, and notices damaged files, which Orbax does not."""

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
DAMAGED = "damaged-"  # before the name of a checkpoint that was set aside
OLD = "removed-"  # before the name of one that is being removed
KEPT = 2  # besides the one that is being written


class CheckpointId(NamedTuple):
    """Names the state that a checkpoint holds; sorted in the order in which a run reaches them.

    Args:
      step: training steps made.
      validated: at the end of an epoch, whether its validation is part of the state.
      regular: whether an unbroken run has it, too; if not, a signal came, or the latest updates were skipped.
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

    Saving is asynchronous and atomic: a checkpoint has its name once it is whole. An older one is removed
    after the files of the newer ones are on the disk, which Orbax itself does not ensure. The SHA-256 sum of
    each array is saved, too, and compared when it is restored: Orbax itself restores flipped bits silently.
    Of several processes each writes and reads the parts that it holds. If one of them finds a checkpoint
    damaged, all of them skip it.

    Args:
      read_only: nothing is created, renamed or cleaned up, so that an active run is not disturbed; and this
        process reads by itself, whatever others do.
    """

    def __init__(self, workdir: Path, *, read_only: bool = False):
        self.directory, self.read_only = paths.folder(workdir, "workdir") / "checkpoints", read_only
        if not read_only and processes.is_primary():
            for rest in (*self.directory.glob("*.orbax-checkpoint-tmp*"), *self.directory.glob(f"{OLD}*")):
                shutil.rmtree(rest)  # a kill came while it was written or removed
            for path in self.directory.glob("*"):
                if CHECKPOINT_ID.fullmatch(path.name) and not path.is_dir():
                    path.rename(path.with_name(f"{DAMAGED}{path.name}"))
            if self.directory.is_dir():
                atomic.sync_tree(self.directory)  # their process may have ended before it did so
        self.saved: Path | None = None  # which may not be on the disk yet
        self.checkpointer = ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler())
        me = jax.process_index()  # Orbax would wait for the others, of which one may find no file
        options = ocp.options.MultiprocessingOptions(primary_host=me, active_processes={me})
        self.reader = ocp.Checkpointer(ocp.CompositeCheckpointHandler(), multiprocessing_options=options)
        self.forms = ocp.StandardCheckpointHandler(multiprocessing_options=options)

    def save(self, name: CheckpointId, state: Any) -> None:
        """Starts to save `state`; returns once it is copied, and an earlier save is done.

        Raises: an earlier save's error.
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
        """Waits until the last state that was given to `save` is on the disk. Raises: its error."""
        with _writing(self.saved or self.directory):
            self.checkpointer.wait_until_finished()
        if self.saved is not None and self.saved.is_dir():  # another process may have given it its name
            atomic.sync_tree(self.saved)
        self.saved = None

    def restore(
        self,
        like: T,
        wanted: Callable[[CheckpointId], bool] = lambda name: True,
        earlier: Callable[[T], tuple[Any, Callable[[Any], T]]] | None = None,
    ) -> tuple[CheckpointId, T] | None:
        """Returns the newest sound state, with the structure, shapes and dtypes of `like`; None without one.

        A damaged one is reported and set aside, under another name; the one before it is restored.

        Args:
          wanted: which checkpoints will do.
          earlier: gives for `like` the structure that an earlier version saved, and what makes today's of it.
        Raises: ValueError where there are checkpoints and none of them is sound; they stay as they are.
        """
        damaged: dict[CheckpointId, str] = {}
        names = self._names()
        for name in filter(wanted, names):
            try:
                state = self._read(name, like, earlier)
            except ValueError as error:
                damaged[name] = str(error)
                continue
            for other, reason in damaged.items():
                self._report(other, reason)
            return name, state
        lost = [f"{name} damaged: {reason}" for name, reason in damaged.items()]
        lost += self._from_primary(lambda: [path.name for path in self.directory.glob(f"{DAMAGED}*")])
        if lost and len(damaged) == len(names):
            raise ValueError(
                f"none of the checkpoints in {self.directory} is sound ({'; '.join(lost)}); "
                "put a copy back, or begin anew in another workdir"
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
        """Returns what process 0 finds: a file system may show it to another process later."""
        return work() if self.read_only else processes.broadcast(work)

    def _together(self, work: Callable[[], T]) -> T:
        """Runs `work` in all processes. Raises: ValueError in all of them, if in one."""
        return work() if self.read_only else processes.barrier(work)

    def _names(self) -> list[CheckpointId]:
        names = self._from_primary(lambda: [str(name) for name in checkpoint_ids(self.directory.parent)])
        return [_parse(match) for match in map(CHECKPOINT_ID.fullmatch, names) if match]

    def _read(
        self, name: CheckpointId, like: Any, earlier: Callable[[Any], tuple[Any, Callable]] | None
    ) -> Any:
        """Reads a state and compares its sums. Raises: ValueError that says why it is not sound."""
        state, sums, complete = self._together(lambda: self._parts(name, like, earlier))

        def check() -> None:
            if _sums(state) != sums:  # which gathers what is split: all have their parts by now
                raise ValueError("its contents do not match their SHA-256 sums")

        self._together(check)
        return complete(state)

    def _parts(
        self, name: CheckpointId, like: Any, earlier: Callable[[Any], tuple[Any, Callable]] | None
    ) -> tuple[Any, dict[str, str], Callable[[Any], Any]]:
        """Returns what this process reads of a state, the sums, and the function that completes it.

        Raises: ValueError that says why it is not sound; OSError where that cannot be found out.
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
        except Exception as error:  # a damaged file shows as one of many kinds
            if not causes.of_the_place(error):
                raise ValueError(_reason(error)) from error
            if not isinstance(error, ValueError):
                raise
            path = self.directory / str(name)
            raise OSError(f"the checkpoint {path} cannot be read ({_reason(error)})") from error
        return state, sums, lambda state: complete(jax.tree.map(_cast, state, form))

    def _as_written(self, name: CheckpointId, form: Any) -> Any:
        """Returns the structure in which a state is to be read for its sums to be compared.

        Arrays that were saved in another precision, by a run with JAX_ENABLE_X64=1 of an earlier version,
        are read as NumPy's in theirs. Shapes are compared here, before anything is read: where Orbax meets a
        wrong one it abandons reads of other arrays that are under way.

        Raises: ValueError where a shape is another one.
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
        aside = f"; it is set aside as {self._set_aside(name).name}" if mine else ""
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
            (self.directory / str(name)).rename(path)  # half a checkpoint must not have a checkpoint's name
            shutil.rmtree(path)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raises OSError where Orbax reports a failing disk by ValueError, which here means a user's mistake."""
    try:
        yield
    except ValueError as error:
        raise OSError(f"the checkpoint {path} cannot be written ({_reason(error)})") from error


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _plain(path: Any) -> str:
    """Returns the names on a path, whatever kind of node has them: Orbax saves named tuples as dicts."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _cast(leaf: Any, like: Any) -> Any:
    """Returns an array in the precision, and where it is to lie, of the wanted one."""
    if leaf.dtype == like.dtype:
        return leaf
    cast = leaf.astype(like.dtype)
    return jax.device_put(cast, like.sharding) if isinstance(like, jax.ShapeDtypeStruct) else cast


def _same(state: Any) -> Any:
    return state


def _copy(leaf: Any) -> Any:
    """Copies an array to the host; Orbax itself copies those of several processes, but not on CPU."""
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
