"""Windows of language models: what is predicted where, numbers of words, and fixed masks."""

import itertools

import numpy as np
import pytest

from fourier_attn.data.masking import MaskedTokenBatches
from fourier_attn.data.skills import IGNORED
from fourier_attn.data.text import fit, special
from fourier_attn.data.windows import NextTokenBatches

TEXTS = [f"{'one two three '[: 4 + 3 * i]}. some words and more of them {i}" for i in range(20)]
TOKENIZER = fit("bpe", TEXTS, 60)
DOCUMENTS = [np.asarray(row.ids, np.int32) for row in TOKENIZER.encode_batch_fast(TEXTS)]
WORDS = [len(text.split()) for text in TEXTS]
IDS = special(TOKENIZER)


def next_tokens(**changes: object) -> NextTokenBatches:
    arguments = {"separator": 2, "pad": 3, "length": 7, "batch": 4} | changes
    return NextTokenBatches(DOCUMENTS, WORDS, **arguments)


@pytest.mark.parametrize("length", [1, 7, 8, 50])
def test_every_token_is_predicted_once_from_the_one_before(length: int) -> None:
    """Documents in a row with a separator around each; windows join up; the ragged end is ignored."""
    batches = next_tokens(length=length)
    found: list[tuple[int, int]] = []
    for batch in (batches[i] for i in range(len(batches))):
        real = batch["label"] != IGNORED
        assert real[batch["weight"] > 0].any(1).all()
        for weight, row, label, kept in zip(
            batch["weight"], batch["inputs"], batch["label"], real, strict=True
        ):
            found += list(zip(row[kept], label[kept], strict=True)) if weight else []
            assert not kept[np.argmin(kept) :].any() or kept.all()  # only the end of a row is ignored
    stream = [2, *(token for document in DOCUMENTS for token in (*document.tolist(), 2))]
    assert found == list(itertools.pairwise(stream))


def test_words_are_those_of_the_texts() -> None:
    """Of a whole split exactly; of each window within two of its share."""
    batches = next_tokens()
    whole = sum(
        float(batch["words"] @ batch["weight"]) for batch in (batches[i] for i in range(len(batches)))
    )
    assert whole == sum(WORDS)
    few = next_tokens(most=10)
    assert len(few.rows) == 10
    share = 70 / sum(len(document) + 1 for document in DOCUMENTS)
    assert few.words.sum() == pytest.approx(sum(WORDS) * share, rel=0.2)


@pytest.mark.parametrize("kind", [NextTokenBatches, MaskedTokenBatches])
def test_the_order_is_a_function_of_seed_and_epoch(kind: type) -> None:
    def make(seed: int | None) -> NextTokenBatches | MaskedTokenBatches:
        return next_tokens(seed=seed, epochs=2) if kind is NextTokenBatches else masked(seed=seed, epochs=2)

    one, again, other = make(0), make(0), make(1)
    steps = one.steps_per_epoch
    first = [one[i]["index"].tolist() for i in range(steps)]
    assert first == [again[i]["index"].tolist() for i in reversed(range(steps))][::-1]
    assert first != [one[i]["index"].tolist() for i in range(steps, 2 * steps)]
    assert first != [other[i]["index"].tolist() for i in range(steps)]
    members = [n for i in range(steps) for n in one[i]["index"][one[i]["weight"] > 0].tolist()]
    assert sorted(members) == list(range(len(one.rows)))
    assert make(None)[0]["index"].tolist() == [0, 1, 2, 3]


def masked(**changes: object) -> MaskedTokenBatches:
    arguments = {"length": 12, "batch": 4, "rate": 0.3, "mask_seed": 0} | changes
    return MaskedTokenBatches(DOCUMENTS, TOKENIZER, **arguments)


def whole(batches: MaskedTokenBatches, epoch: int = 0) -> dict[str, np.ndarray]:
    """The arrays of an epoch in the order of the windows."""
    steps = range(epoch * batches.steps_per_epoch, (epoch + 1) * batches.steps_per_epoch)
    parts = [batches[i] for i in steps]
    kept = [part["weight"] > 0 for part in parts]
    joined = {
        name: np.concatenate([part[name][keep] for part, keep in zip(parts, kept, strict=True)])
        for name in parts[0]
    }
    order = np.argsort(joined["index"])
    return {name: array[order] for name, array in joined.items()}


def test_masks_hide_tokens_of_text_in_whole_windows() -> None:
    found = whole(masked())
    rows, places, label = found["inputs"].copy(), found["answer_positions"], found["label"]
    assert places.shape[1] == 3  # round(0.3 * 10)
    assert (label[label != IGNORED] > IDS.mask).all()
    hidden = np.take_along_axis(rows, places, 1)
    np.put_along_axis(rows, places, np.where(label == IGNORED, hidden, label), 1)
    stream = np.concatenate([[*document, IDS.end] for document in DOCUMENTS])
    np.testing.assert_array_equal(rows[:, 1:-1].ravel(), stream[: 10 * len(rows)])
    assert (rows[:, 0] == IDS.cls).all()
    assert (rows[:, -1] == IDS.sep).all()
    assert 0.6 < (hidden == IDS.mask).mean() < 0.95  # 80 %, of some 100


def test_masks_of_an_evaluation_are_fixed() -> None:
    """The same for every batch size, epoch and number of windows; another split_seed draws others."""
    expected = whole(masked())
    for batches in (masked(batch=3), masked(most=5), masked(batch=7)):
        for name, array in whole(batches).items():
            np.testing.assert_array_equal(array, expected[name][: len(array)])
    assert (whole(masked(mask_seed=1))["inputs"] != expected["inputs"]).any()
    train = masked(seed=5, epochs=2, mask_seed=1)
    assert (whole(train)["inputs"] != whole(train, 1)["inputs"]).any()
    np.testing.assert_array_equal(whole(train)["inputs"], whole(masked(seed=5, batch=2))["inputs"])


@pytest.mark.parametrize("make", [next_tokens, masked])
def test_texts_shorter_than_a_window(make: type) -> None:
    message = "data.length=5000 is too long for a split with [0-9]+ tokens; give more"
    with pytest.raises(ValueError, match=message):
        make(length=5000)
    with pytest.raises(ValueError, match="data.batch=0 must be at least 1"):
        make(batch=0)
