"""The synthetic shapes: their answers are right, and neither image nor question alone tells them."""

from collections import Counter
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from fourier_attn.data.sources import shapes
from fourier_attn.data.tfds_splits import read_pictures

COUNT = 2_000


@pytest.fixture(scope="module")
def drawn() -> list[shapes.Example]:
    return list(shapes.examples("train", COUNT))


def seen(example: shapes.Example, kind: int) -> tuple[str, int]:
    """Colour and number of a kind, read from the pixels and the labels."""
    cells = np.argwhere(example.labels == kind + 1)
    patches = [example.image[8 * r : 8 * r + 8, 8 * c : 8 * c + 8].reshape(-1, 3) for r, c in cells]
    pixels = np.concatenate(patches).astype(float)
    coloured = pixels[np.abs(pixels - shapes.GREY).max(axis=1) > 4.5 * shapes.NOISE]
    distances = {name: np.linalg.norm(coloured.mean(axis=0) - rgb) for name, rgb in shapes.COLOURS.items()}
    return min(distances, key=distances.__getitem__), len(cells)


def test_answers_are_what_the_image_shows(drawn: list[shapes.Example]) -> None:
    for example in drawn[:200]:
        question = shapes.QUESTIONS[example.question]
        (kind,) = (i for i, name in enumerate(shapes.ONE) if name in question)
        colour, number = seen(example, kind)
        expected = colour if question.startswith("what colour") else shapes.NUMBERS[number - 1]
        assert shapes.ANSWERS[example.answer] == expected


def test_exactly_neither_image_nor_question_tells_the_answer() -> None:
    """Counted over all permutations of colours and numbers and over all questions, which are all alike."""
    by_image, by_question = {}, {}
    orders = [np.array(order) for order in permutations(range(4))]
    for colours, numbers in product(orders, orders):
        for question in range(len(shapes.QUESTIONS)):
            answer = shapes.answer(question, colours, numbers)
            by_image.setdefault((tuple(colours), tuple(numbers)), Counter())[answer] += 1
            by_question.setdefault(question, Counter())[answer] += 1
    assert all(sorted(found.values()) == [2] * 8 for found in by_image.values())
    assert all(len(found) == 4 and len(set(found.values())) == 1 for found in by_question.values())


def guess(found: list[tuple], answers: list[int]) -> float:
    """How often the answer is right that went most often with the same clue in the first half."""
    half = len(found) // 2
    table: dict[tuple, Counter] = {}
    for clue, answer in zip(found[:half], answers[:half], strict=True):
        table.setdefault(clue, Counter())[answer] += 1
    likeliest = Counter(answers[:half]).most_common(1)[0][0]
    pairs = zip(found[half:], answers[half:], strict=True)
    return float(
        np.mean([table.get(clue, Counter([likeliest])).most_common(1)[0][0] == a for clue, a in pairs])
    )


def test_of_what_is_drawn_frequencies_tell_no_more_than_chance(drawn: list[shapes.Example]) -> None:
    """Each number and colour of a kind, the whole of both, a cell, a pixel's channel, and the question."""
    answers = [example.answer for example in drawn]
    facts = [[seen(example, kind) for kind in range(4)] for example in drawn]
    clues = {
        **{f"kind {kind}": [fact[kind] for fact in facts] for kind in range(4)},
        "all kinds": [tuple(fact) for fact in facts],
        "a cell": [(int(example.labels[2, 2]),) for example in drawn],
        "brightness": [(int(example.image.mean() / 3),) for example in drawn],
    }
    rounding = 4 * np.sqrt(1 / 8 * 7 / 8 / (COUNT / 2))  # four deviations of a share
    for name, found in clues.items():
        assert guess(found, answers) < 1 / 8 + rounding, name
    alone = guess([(example.question,) for example in drawn], answers)
    assert alone < 1 / 4 + 4 * np.sqrt(1 / 4 * 3 / 4 / (COUNT / 2))
    both = [(example.question, *fact) for example, fact in zip(drawn, facts, strict=True)]
    asked = [(q[0], q[1 + q[0] % 4][q[0] % 8 // 4]) for q in both]  # the one fact that was asked for
    assert guess(asked, answers) == 1


def test_shapes_stay_in_their_cells_and_are_told_apart() -> None:
    """Pixels outside the labelled cells are background, and each kind covers other pixels."""
    labels = np.zeros((shapes.GRID, shapes.GRID), np.uint8)
    labels[1, 2], labels[3, 3] = 1, 4
    draw = np.random.default_rng(0)
    for _ in range(50):
        image = shapes.picture(labels, np.arange(4), draw).astype(float)
        covered = np.abs(image - shapes.GREY).max(axis=-1) > 6 * shapes.NOISE
        cells = covered.reshape(shapes.GRID, 8, shapes.GRID, 8).any(axis=(1, 3))
        np.testing.assert_array_equal(cells, labels > 0)
    masks = [shapes.outline(kind, 3.0, 4.0, 4.0) for kind in shapes.KINDS]
    assert [mask.sum() for mask in masks] == [32, 36, 18, 20]
    for one, mask in enumerate(masks):
        assert all((mask != other).sum() >= 4 for other in masks[:one])


def test_the_same_on_every_machine_and_no_image_twice(drawn: list[shapes.Example]) -> None:
    """An example depends on its split and number alone."""
    again = next(shapes.examples("train", 1))
    np.testing.assert_array_equal(again.image, drawn[0].image)
    assert (again.question, again.answer) == (drawn[0].question, drawn[0].answer)
    images = [e.image.tobytes() for split in shapes.SPLITS for e in shapes.examples(split, 100)]
    assert len(set(images)) == len(images)


def test_as_a_data_set_of_tfds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "SPLITS", {"train": 5, "validation": 2, "test": 3})
    builder = shapes.builder(str(tmp_path))
    builder.download_and_prepare()
    found = read_pictures(builder, "test", "label", "question")
    patches = read_pictures(builder, "test", "patches")
    assert {split: len(builder.as_data_source(split)) for split in shapes.SPLITS} == shapes.SPLITS
    rows = {image.tobytes(): i for i, image in enumerate(found.images)}
    for example in shapes.examples("test", 3):
        row = rows[example.image.tobytes()]
        assert found.questions[row] == shapes.QUESTIONS[example.question]
        assert found.labels[row] == example.answer
        np.testing.assert_array_equal(patches.labels[row], example.labels.ravel())
    assert set(patches.questions) == {""}
