import numpy as np
import pytest

from fourier_attn.data.batches import Batches, prefetch

LENGTHS = [1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 8]


def make(seed: int | None = 0, epochs: int = 2, **changes: object) -> Batches:
    rows = [np.full(n, 10 + i, np.int32) for i, n in enumerate(LENGTHS)]
    arguments = {"buckets": (2, 4, 8), "batch": 2, "seed": seed, "epochs": epochs} | changes
    return Batches(rows, np.arange(len(LENGTHS)) % 3, **arguments)


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def test_an_epoch_holds_each_example_once() -> None:
    batches = make()
    for epoch in range(2):
        steps = range(epoch * batches.steps_per_epoch, (epoch + 1) * batches.steps_per_epoch)
        seen = np.concatenate([batches[i]["index"][batches[i]["weight"] > 0] for i in steps])
        assert sorted(seen) == list(range(len(LENGTHS)))
    assert len(batches) == 2 * batches.steps_per_epoch == 2 * (2 + 2 + 3)


def test_rows_stand_in_their_smallest_bucket() -> None:
    batches = make()
    for batch in (batches[i] for i in range(len(batches))):
        t = batch["inputs"].shape[1]
        for row, index, label in zip(batch["inputs"], batch["index"], batch["label"], strict=True):
            n = LENGTHS[index]
            assert t == min(b for b in (2, 4, 8) if b >= n)
            assert (row[:n] == 10 + index).all()
            assert (row[n:] == 0).all()
            assert label == index % 3


def test_filling_copies_the_first_row_at_weight_0() -> None:
    ragged = [b for b in (make()[i] for i in range(7)) if b["weight"].sum() == 1]
    assert len(ragged) == 3  # of 3, 3 and 5 rows in twos
    assert all((b["inputs"][0] == b["inputs"][1]).all() for b in ragged)


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    a, b = make(), make()
    order = np.random.default_rng(0).permutation(len(a))
    assert all(same(a[int(i)], b[int(i)]) for i in [*order, *range(len(a))])
    other = make(seed=1)
    assert not all(same(a[i], other[i]) for i in range(len(a)))
    assert not all(same(a[i], a[i + 7]) for i in range(7))  # another epoch, another order


def test_without_a_seed_the_order_is_that_of_the_rows() -> None:
    batches = make(seed=None, epochs=1)
    index = np.concatenate([batches[i]["index"][batches[i]["weight"] > 0] for i in range(len(batches))])
    assert index.tolist() == list(range(len(LENGTHS)))  # LENGTHS rises, so buckets keep the order


@pytest.mark.parametrize("start", [0, 1, 6, 13, 14])
def test_prefetching_changes_nothing(start: int) -> None:
    batches = make()
    ahead = list(prefetch(batches, start))
    assert len(ahead) == len(batches) - start
    assert all(same(batch, batches[start + i]) for i, batch in enumerate(ahead))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "data.batch=0 must be at least 1"),
        ({"buckets": (4, 2, 8)}, "must be whole positive numbers in rising order"),
        ({"buckets": (2, 4)}, "a row of 8 tokens exceeds"),
    ],
)
def test_bad_arguments(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**changes)
    with pytest.raises(ValueError, match="no examples are left"):
        Batches([], np.zeros(0), buckets=(2,), batch=1)
