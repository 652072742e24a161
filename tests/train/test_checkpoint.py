import shutil
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal

from fourier_attn.train.rundir.checkpoint import CheckpointId, Checkpoints, checkpoint_ids


class Pair(NamedTuple):
    weights: dict
    step: jax.Array


def state(seed: int) -> Pair:
    kernel = normal(50, 20, seed=seed)
    return Pair({"kernel": kernel, "low": kernel.astype(jnp.bfloat16)}, jnp.asarray(seed))


def saved(directory: Path, *steps: int) -> None:
    checkpoints = Checkpoints(directory)
    for step in steps:
        checkpoints.save(CheckpointId(step), state(step))
    checkpoints.close()


def restored(directory: Path) -> Pair | None:
    checkpoints = Checkpoints(directory)
    try:
        found = checkpoints.restore(jax.eval_shape(lambda: state(0)))
        return found and found[1]
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


def test_no_flipped_bit_gives_wrong_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A flip is noticed, and the state before is taken; or it hit nothing that is restored."""
    saved(tmp_path, 1, 2)
    two = tmp_path / "checkpoints" / "2"
    whole, noticed = two.with_name("copy"), 0
    shutil.copytree(two, whole)
    largest = max(data_files(whole), key=lambda path: path.stat().st_size)
    size = largest.stat().st_size
    for place in np.linspace(0, size - 1, 12).astype(int):
        shutil.rmtree(two, ignore_errors=True)
        shutil.copytree(whole, two)
        flipped = two / largest.relative_to(whole)
        contents = bytearray(flipped.read_bytes())
        contents[place] ^= 4
        flipped.write_bytes(contents)
        found = restored(tmp_path)
        step = int(found.step)
        jax.tree.map(np.testing.assert_array_equal, found, state(step))
        noticed += step == 1
    assert noticed >= 10
    assert capsys.readouterr().out.count("checkpoints/2 is damaged") == noticed
    assert (tmp_path / "checkpoints" / "damaged-2").is_dir()  # kept, under a name that says so


def test_no_sound_checkpoint_is_an_error(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    for path in data_files(tmp_path / "checkpoints" / "1"):
        path.unlink()
    for _ in range(2):  # once set aside, it is still no fresh start
        with pytest.raises(ValueError, match="all checkpoints in .* are damaged .*1 damaged"):
            restored(tmp_path)


def test_reading_changes_nothing(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    for path in data_files(tmp_path / "checkpoints" / "2"):
        path.unlink()
    before = sorted(tmp_path.rglob("*"))
    reader = Checkpoints(tmp_path, read_only=True)
    name, found = reader.restore(jax.eval_shape(lambda: state(0)))
    reader.close()
    assert (name, int(found.step)) == (CheckpointId(1), 1)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_may_save_while_its_state_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run removes the checkpoint that the reader has found, and no checkpoint is called damaged."""
    saved(tmp_path, 1, 2)
    reader = Checkpoints(tmp_path, read_only=True)

    def names() -> list[CheckpointId]:
        found = listed()
        if found[0] == CheckpointId(2):
            saved(tmp_path, 3, 4, 5)
        return found

    listed = reader._names
    monkeypatch.setattr(reader, "_names", names)
    name, found = reader.restore(jax.eval_shape(lambda: state(0)))
    reader.close()
    assert (name, int(found.step)) == (CheckpointId(5), 5)
    assert capsys.readouterr().err == ""


def test_a_checkpoint_with_another_name_is_damaged(tmp_path: Path) -> None:
    """No run writes 007, whose name is read as that of step 7."""
    (tmp_path / "checkpoints" / "007").mkdir(parents=True)
    reader = Checkpoints(tmp_path, read_only=True)
    with pytest.raises(ValueError, match="all checkpoints in .* are damaged .*7 damaged"):
        reader.restore(jax.eval_shape(lambda: state(0)))
    reader.close()


def test_a_new_state_of_a_step_stands_beside_the_old_one(tmp_path: Path) -> None:
    """At the end of an epoch: first before its validation, then after it."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(CheckpointId(3, validated=False), state(30))
    checkpoints.save(CheckpointId(3), state(31))
    checkpoints.wait()
    assert checkpoint_ids(tmp_path) == [CheckpointId(3), CheckpointId(3, validated=False)]
    checkpoints.close()
    assert checkpoint_ids(tmp_path) == [CheckpointId(3)]
    assert int(restored(tmp_path).step) == 31


def test_two_regular_states_survive_any_number_of_signals(tmp_path: Path) -> None:
    """A run that goes back takes the state that it would take without them."""
    saved(tmp_path, 2, 4)
    checkpoints = Checkpoints(tmp_path)
    for step in (5, 6, 7):
        checkpoints.save(CheckpointId(step, regular=False), state(step))
    checkpoints.close()
    assert checkpoint_ids(tmp_path) == [CheckpointId(7, regular=False), CheckpointId(4), CheckpointId(2)]
    assert (tmp_path / "checkpoints" / "7-stopped").is_dir()
    found = Checkpoints(tmp_path, read_only=True).restore(
        jax.eval_shape(lambda: state(0)), lambda name: name.regular
    )
    assert found[0] == CheckpointId(4)


def test_what_a_kill_left_half_done_is_cleaned_up(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    for name in ("3.orbax-checkpoint-tmp", "removed-1"):
        (tmp_path / "checkpoints" / name).mkdir()
    assert int(restored(tmp_path).step) == 2
    assert checkpoint_ids(tmp_path) == [CheckpointId(2), CheckpointId(1)]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["1", "2"]


def test_a_state_of_other_shapes_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    wider = jax.eval_shape(lambda: jax.tree.map(lambda array: jnp.tile(array, 2), state(0)))
    checkpoints = Checkpoints(tmp_path, read_only=True)
    with pytest.raises(ValueError, match="1 damaged: its arrays are those of another network"):
        checkpoints.restore(wider)
    checkpoints.close()
