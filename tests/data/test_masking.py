"""Pre-training batches: what is masked, how often, and that a batch is a function of (seed, step)."""

import numpy as np
import pytest

from fourier_attn.data.batches import prefetch
from fourier_attn.data.masking import MaskedBatches
from fourier_attn.data.text import fit, special
from fourier_attn.data.windows import pack

WORDS = [f"w{i}" for i in range(60)]
TEXTS = [" ".join([*np.random.default_rng(i).choice(WORDS, 30 + i % 40).tolist(), "."]) for i in range(120)]
TOKENIZER = fit("bpe", TEXTS, 200)
IDS = special(TOKENIZER)
DOCUMENTS = [np.asarray(row.ids, np.int32) for row in TOKENIZER.encode_batch_fast(TEXTS)]


def make(seed: int | None = 0, **changes: object) -> MaskedBatches:
    arguments = {"length": 64, "batch": 8, "rate": 0.15, "seed": seed, "epochs": 2} | changes
    return MaskedBatches(DOCUMENTS, TOKENIZER, **arguments)


def restored(batch: dict) -> np.ndarray:
    """The tokens before they were masked."""
    tokens = batch["inputs"].copy()
    for row, places, labels in zip(tokens, batch["answer_positions"], batch["mlm_labels"], strict=True):
        row[places] = labels
    return tokens


def unswapped(row: np.ndarray, swapped: int) -> np.ndarray:
    """The window that a row was made from."""
    middle = np.flatnonzero(row == IDS.sep)[0]
    first, second = row[1:middle], row[middle + 1 : -1]
    return np.concatenate([second, first] if swapped else [first, second])


def test_a_row_is_a_window_cut_in_two() -> None:
    batches = make()
    for batch in (batches[i] for i in range(batches.steps_per_epoch)):
        tokens = restored(batch)
        assert tokens.shape[1] == 64
        assert (tokens[:, 0] == IDS.cls).all()
        assert (tokens[:, -1] == IDS.sep).all()
        assert ((tokens == IDS.sep).sum(1) == 2).all()
        assert (tokens != IDS.pad).all()
        for row, types, swapped, index in zip(
            tokens, batch["types"], batch["label"], batch["index"], strict=True
        ):
            np.testing.assert_array_equal(unswapped(row, swapped), batches.rows[index])
            middle = np.flatnonzero(row == IDS.sep)[0]
            assert types.tolist() == [0] * (middle + 1) + [1] * (63 - middle)
            assert min(middle - 1, 62 - middle) >= 61 // 4


def test_windows_are_all_the_text() -> None:
    rows = pack(DOCUMENTS, IDS.end, 61)
    stream = np.concatenate([np.append(document, IDS.end) for document in DOCUMENTS])
    np.testing.assert_array_equal(rows.ravel(), stream[: rows.size])
    assert len(stream) - rows.size < 61
    batches = make()
    seen = np.concatenate(
        [b["index"][b["weight"] > 0] for b in (batches[i] for i in range(batches.steps_per_epoch))]
    )
    assert sorted(seen) == list(range(len(rows)))


def test_no_token_at_a_cut_tells_the_order() -> None:
    """Texts of sentences: what stands before and after the first [SEP] is the same in and out of order."""
    texts = [" ".join(f"{text} ." for text in TEXTS[i : i + 4]) for i in range(0, 120, 4)]
    texts = [text.replace("w7", "w7 .").replace("w3", ". w3") for text in texts]  # sentences of any length
    stop = TOKENIZER.token_to_id(".")
    documents = [np.asarray(row.ids, np.int32) for row in TOKENIZER.encode_batch_fast(texts)]
    batches = MaskedBatches(documents, TOKENIZER, length=64, batch=8, rate=0.15, seed=0, epochs=60)
    before, after, last, swapped = [], [], [], []
    for batch in (batches[i] for i in range(len(batches))):
        for row, label in zip(restored(batch), batch["label"], strict=True):
            middle = np.flatnonzero(row == IDS.sep)[0]
            before.append(row[middle - 1] == stop)
            after.append(row[middle + 1] == stop)
            last.append(row[-2] == stop)
            swapped.append(label)
    assert np.mean(before) > 0.02
    deviation = 0.5 / np.sqrt(len(swapped))
    for rule in (before, after, last):
        assert abs(np.mean(np.equal(rule, swapped)) - 0.5) < 5 * deviation


def test_statistics_of_masks() -> None:
    """15 % of the tokens are chosen; 80 % become [MASK], 10 % random, 10 % stay; half are swapped."""
    batches = make(epochs=60)
    kinds, chosen, swapped, inserted = np.zeros(3), np.zeros(64), [], set()
    for batch in (batches[i] for i in range(len(batches))):
        now = np.take_along_axis(batch["inputs"], batch["answer_positions"], 1)
        real = batch["mlm_weights"] > 0
        assert (batch["mlm_labels"][real] > IDS.mask).all()  # no special token
        assert batch["answer_positions"].shape == (8, round(0.15 * 61))
        assert (np.diff(batch["answer_positions"], axis=1) > 0).all()
        masked, same = (now == IDS.mask) & real, (now == batch["mlm_labels"]) & real
        inserted |= set(now[real & ~masked].tolist())
        kinds += [masked.sum(), (real & ~masked & ~same).sum(), same.sum()]
        swapped += batch["label"][batch["weight"] > 0].tolist()
        chosen += np.bincount(batch["answer_positions"][real], minlength=64)
        others = np.ones(batch["inputs"].shape, bool)
        np.put_along_axis(others, batch["answer_positions"], values=False, axis=1)
        assert (batch["inputs"][others] != IDS.mask).all()
    n = kinds.sum()
    assert n > 20_000
    assert min(inserted) > IDS.mask  # no special token, not even the unused ones
    # five standard deviations of a binomial; a random token is the one it replaces in one of ~190
    for share, expected in zip(kinds / n, (0.8, 0.1, 0.1), strict=True):
        assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / n) + 0.1 / 150
    assert abs(np.mean(swapped) - 0.5) < 5 * 0.5 / np.sqrt(len(swapped))
    assert chosen[1:-1].min() > 0.5 * chosen[1:-1].mean()  # everywhere
    assert chosen[0] == chosen[-1] == 0


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    a, b, other = make(), make(), make(seed=1)

    def same(x: dict, y: dict) -> bool:
        return all(np.array_equal(x[key], y[key]) for key in x)

    order = np.random.default_rng(0).permutation(len(a)).tolist()
    assert all(same(a[i], b[i]) for i in [*order, *range(len(a))])
    assert not any(same(a[i], other[i]) for i in range(len(a)))
    assert not any(same(a[i], a[i + a.steps_per_epoch]) for i in range(a.steps_per_epoch))
    assert all(same(x, a[3 + i]) for i, x in enumerate(prefetch(a, 3)))


def test_evaluation_is_the_same_each_time() -> None:
    a = make(None, epochs=1)
    assert [a[i]["index"].tolist() for i in range(2)] == [[*range(8)], [*range(8, 16)]]
    for key, value in a[1].items():
        np.testing.assert_array_equal(value, make(None, epochs=1)[1][key])


def test_the_last_batch_is_filled_at_weight_0() -> None:
    last = make(batch=7)[make(batch=7).steps_per_epoch - 1]
    filling = last["weight"] == 0
    assert filling.any()
    assert (last["mlm_weights"][filling] == 0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"length": 7}, "data.length=7 must be at least 8"),
        ({"batch": 0}, "data.batch=0 must be at least 1"),
        ({"rate": 0.0}, "data.mask_rate=0.0 must lie between 0 and 1"),
        ({"length": 100_000}, "data.length=100000 is too long for a split with"),
    ],
)
def test_bad_arguments(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_a_tokenizer_without_mask_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs a tokenizer with \[CLS\], \[SEP\], \[MASK\]"):
        MaskedBatches(DOCUMENTS, fit("words", TEXTS, 50), length=16, batch=2, rate=0.15)
