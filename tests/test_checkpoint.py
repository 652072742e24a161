import re
import shutil
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal

from fourier_attn.train.checkpoint import Checkpoints


class Pair(NamedTuple):
    weights: dict
    step: jax.Array


def state(seed: int) -> Pair:
    kernel = normal(50, 20, seed=seed)
    return Pair({"kernel": kernel, "low": kernel.astype(jnp.bfloat16)}, jnp.asarray(seed))


def saved(directory: Path, *steps: int) -> None:
    checkpoints = Checkpoints(directory)
    for step in steps:
        checkpoints.save(step, state(step))
    checkpoints.close()


def restored(directory: Path) -> Pair | None:
    checkpoints = Checkpoints(directory)
    try:
        return checkpoints.restore(jax.eval_shape(lambda: state(0)))
    finally:
        checkpoints.close()


def test_the_newest_comes_back_bit_for_bit(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2, 3)
    jax.tree.map(np.testing.assert_array_equal, restored(tmp_path), state(3))
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["2", "3"]


def test_nothing_saved_is_none(tmp_path: Path) -> None:
    assert restored(tmp_path) is None


def data_files(step: Path) -> list[Path]:
    return [path for path in step.rglob("*") if path.is_file() and "/d/" in path.as_posix()]


def test_no_flipped_bit_gives_wrong_values(tmp_path: Path) -> None:
    """A flip is noticed, or it hit nothing that is restored."""
    saved(tmp_path, 1, 2)
    largest = max(data_files(tmp_path / "checkpoints" / "2"), key=lambda path: path.stat().st_size)
    whole, messages = largest.read_bytes(), []
    for place in np.linspace(0, len(whole) - 1, 24).astype(int):
        contents = bytearray(whole)
        contents[place] ^= 4
        largest.write_bytes(contents)
        try:
            jax.tree.map(np.testing.assert_array_equal, restored(tmp_path), state(2))
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) >= 20
    assert all(
        re.search(r"checkpoints/2 is damaged .* to go on from step 1", message) for message in messages
    )
    shutil.move(tmp_path / "checkpoints" / "2", tmp_path / "away")  # the cure that the message names
    jax.tree.map(np.testing.assert_array_equal, restored(tmp_path), state(1))


def test_missing_files_are_noticed(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    for path in data_files(tmp_path / "checkpoints" / "1"):
        path.unlink()
    with pytest.raises(ValueError, match=r"checkpoints/1 is damaged .* move it away to start the run anew"):
        restored(tmp_path)
