"""The price of training by fixed parts: both sides train, and each row has their times and memory."""

import jax
import pytest

from benchmarks import fixed_parts


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_a_row_compares_steps_by_parts_with_ordinary_ones() -> None:
    [row] = fixed_parts.rows(("identity",), b=8, rounds=2)
    assert (row["what"], row["pass"]) == ("identity: whole batch / 8 parts", "training step")
    assert row["size"] == "8 x 256 tokens, 1 device"
    assert 0 < row["lowest"] <= row["times_faster"] <= row["highest"]
    assert row["parts_mb"] != row["whole_mb"]  # two programs


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("name", fixed_parts.SIDES)
def test_each_side_takes_a_step_with_every_call(name: str) -> None:
    call, size = fixed_parts.side("identity", 8, 1, fixed_parts.SIDES[name])
    assert [int(jax.block_until_ready(call())) for _ in range(3)] == [1, 2, 3]
    assert size > 0
