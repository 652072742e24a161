"""Synthetic film reviews from a small grammar, whose label cannot be read off a bag of words.

Each review holds one judgement among irrelevant sentences. The judgement is a clause with an
adjective that may be negated; two contrasting clauses, of which the connective says which one
counts; or the opinion of others, with which the writer agrees or not, some sentences later. Whether
a clause is negated, which of two clauses comes first and whether the writer agrees are drawn
independently of the label, and the plot has adjectives and negations of its own. So single words
say little: adjectives are negated often enough that counting them leaves every third review wrong.
"""

import random

import tensorflow_datasets as tfds

from fourier_attn.data.sources.drawn import Drawn

LABELS = ("negative", "positive")
SPLITS = {"train": 8_000, "validation": 1_000, "test": 2_000}

GOOD = [
    "brilliant",
    "charming",
    "clever",
    "delightful",
    "funny",
    "gripping",
    "inspired",
    "moving",
    "superb",
    "witty",
]
BAD = ["awful", "boring", "clumsy", "dreary", "dull", "flat", "lifeless", "stale", "tedious", "weak"]
ASPECTS = [
    "the film",
    "the movie",
    "the acting",
    "the script",
    "the direction",
    "the dialogue",
    "the camera work",
    "the ending",
]
OTHERS = ["the critics", "my friends", "most people", "the papers", "my neighbours"]
PEOPLE = [
    "a captain",
    "a detective",
    "a farmer",
    "a nurse",
    "a pianist",
    "a young girl",
    "an old man",
    "two brothers",
    "a thief",
    "a teacher",
]
DEEDS = ["finds", "hides", "steals", "loses", "paints", "sells", "remembers", "follows"]
UNDONE = ["does not find", "never sees", "hardly knows", "does not trust", "never leaves"]
LOOKS = [
    "small",
    "large",
    "old",
    "new",
    "red",
    "blue",
    "white",
    "wooden",
    "hidden",
    "broken",
    "empty",
    "distant",
]
THINGS = ["letter", "island", "violin", "house", "horse", "map", "painting", "village", "train", "garden"]
PLACES = [
    "in paris",
    "by the sea",
    "before the war",
    "one winter",
    "in the mountains",
    "at night",
    "on a small farm",
]
NEGATIONS = ["not", "never", "hardly"]


def review(draw: random.Random) -> tuple[str, int]:
    """Draws one review and its label: 0 negative, 1 positive."""
    label = draw.randrange(2)
    judgement = draw.choice((_plain, _plain, _contrast, _opinion))(draw, bool(label))
    before, after = _plot(draw, draw.randrange(2)), _plot(draw, draw.randrange(2))
    return " ".join([*before, *judgement, *after]), label


def _plain(draw: random.Random, good: bool) -> list[str]:
    return [f"{_clause(draw, good)} ."]


def _contrast(draw: random.Random, good: bool) -> list[str]:
    counts, concedes = _clause(draw, good), _clause(draw, not good)
    if draw.randrange(2):
        return [f"{counts} , although {concedes} ."]
    return [draw.choice((f"although {concedes} , {counts} .", f"{concedes} , but {counts} ."))]


def _opinion(draw: random.Random, good: bool) -> list[str]:
    agree = draw.random() < 0.6
    said = f"{draw.choice(OTHERS)} called {draw.choice(ASPECTS)} {_adjective(draw, good == agree)} ."
    return [said, *_plot(draw, 1), "i agree ." if agree else "i disagree ."]


def _clause(draw: random.Random, good: bool) -> str:
    negated = draw.random() < 0.35
    word = f"{draw.choice(NEGATIONS)} " if negated else ""
    return f"{draw.choice(ASPECTS)} was {word}{_adjective(draw, good != negated)}"


def _adjective(draw: random.Random, good: bool) -> str:
    return draw.choice(GOOD if good else BAD)


def _plot(draw: random.Random, sentences: int) -> list[str]:
    """Irrelevant sentences, with adjectives and negations that mean nothing."""
    return [
        f"{draw.choice(PEOPLE)} {draw.choice(DEEDS + UNDONE)} a {draw.choice(LOOKS + GOOD + BAD)} "
        f"{draw.choice(THINGS)} {draw.choice(PLACES)} ."
        for _ in range(sentences)
    ]


class SyntheticReviews(Drawn, tfds.core.GeneratorBasedBuilder):
    """The TFDS data set `synthetic_reviews`."""

    labels, sizes = LABELS, SPLITS
    about = "Synthetic film reviews from a grammar; the label needs words to be combined."
    example = staticmethod(review)


def builder(data_dir: str | None) -> tfds.core.DatasetBuilder:
    """Makes the TFDS builder of the synthetic reviews in `data_dir`."""
    return SyntheticReviews(data_dir=data_dir, file_format="array_record")
