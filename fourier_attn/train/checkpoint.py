"""Checkpoints: Orbax, and what it does not do by itself, to notice that a file was damaged."""

import hashlib
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp

T = TypeVar("T")


class Checkpoints:
    """The checkpoints of one run, in `workdir/checkpoints/STEP`; the newest two are kept.

    Saving is asynchronous and atomic. Beside the arrays stands the SHA-256 sum of each, which is
    compared when they are restored: Orbax itself restores flipped bits without a word. With
    `read_only` nothing is created or cleaned up, so that a run that is still going on is not disturbed.
    """

    def __init__(self, workdir: Path, *, read_only: bool = False):
        options = ocp.CheckpointManagerOptions(
            max_to_keep=2, create=not read_only, cleanup_tmp_directories=not read_only, read_only=read_only
        )
        self.directory = workdir.resolve() / "checkpoints"
        self.manager = ocp.CheckpointManager(self.directory, options=options)

    def save(self, step: int, state: Any) -> None:
        """Starts to save `state`; returns once it is copied."""
        if self.manager.latest_step() == step:
            return
        copy = jax.tree.map(np.array, state)  # a copy: the next step reuses the state's memory
        items = ocp.args.Composite(state=ocp.args.StandardSave(copy), sums=ocp.args.JsonSave(_sums(copy)))
        self.manager.save(step, args=items)

    def delete(self, step: int) -> None:
        """Removes the state of `step`, so that another one can be saved for it."""
        self.manager.delete(step)

    def restore(self, like: T) -> T | None:
        """The newest state, with the structure, shapes and dtypes of `like`; None if there is none.

        Raises: ValueError for a checkpoint that cannot be read or whose sums do not match.
        """
        step = self.manager.latest_step()
        if step is None:
            return None
        items = ocp.args.Composite(state=ocp.args.StandardRestore(like), sums=ocp.args.JsonRestore())
        try:
            restored: Any = self.manager.restore(step, args=items)
            if _sums(restored.state) != restored.sums:
                raise ValueError("its contents do not match their SHA-256 sums")
        except Exception as error:  # a damaged file shows as one of many kinds
            older = sorted(set(self.manager.all_steps()) - {step})
            instead = f"to go on from step {older[-1]}" if older else "to start the run anew"
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise ValueError(
                f"the checkpoint {self.directory / str(step)} is damaged ({reason}); move it away {instead}"
            ) from error
        return restored.state

    def close(self) -> None:
        """Waits until everything is on the disk."""
        self.manager.close()


def _sums(state: Any) -> dict[str, str]:
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {
        jax.tree_util.keystr(path): hashlib.sha256(np.ascontiguousarray(leaf).tobytes()).hexdigest()
        for path, leaf in leaves
    }
