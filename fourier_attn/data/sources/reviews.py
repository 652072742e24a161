"""Generates synthetic film reviews from a small grammar; a bag of words does not determine the label.

Each review has one judgement among irrelevant sentences. The judgement is a clause with an adjective that may
be negated; or two contrasting clauses with a connective that decides which one counts; or the opinion of
others, followed some sentences later by "i agree" or "i disagree". Negation, the order of clauses and
agreement are independent of the label, and the plot also contains adjectives and negations. Single words
therefore say little: counting adjectives classifies every third review wrongly.
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


def review(rng: random.Random) -> tuple[str, int]:
    """Returns a random review and its label, 0 negative or 1 positive."""
    label = rng.randrange(2)
    judgement = rng.choice((_plain, _plain, _contrast, _opinion))(rng, bool(label))
    before, after = _plot(rng, rng.randrange(2)), _plot(rng, rng.randrange(2))
    return " ".join([*before, *judgement, *after]), label


def _plain(rng: random.Random, good: bool) -> list[str]:
    return [f"{_clause(rng, good)} ."]


def _contrast(rng: random.Random, good: bool) -> list[str]:
    counts, concedes = _clause(rng, good), _clause(rng, not good)
    if rng.randrange(2):
        return [f"{counts} , although {concedes} ."]
    return [rng.choice((f"although {concedes} , {counts} .", f"{concedes} , but {counts} ."))]


def _opinion(rng: random.Random, good: bool) -> list[str]:
    agree = rng.random() < 0.6
    said = f"{rng.choice(OTHERS)} called {rng.choice(ASPECTS)} {_adjective(rng, good == agree)} ."
    return [said, *_plot(rng, 1), "i agree ." if agree else "i disagree ."]


def _clause(rng: random.Random, good: bool) -> str:
    negated = rng.random() < 0.35
    word = f"{rng.choice(NEGATIONS)} " if negated else ""
    return f"{rng.choice(ASPECTS)} was {word}{_adjective(rng, good != negated)}"


def _adjective(rng: random.Random, good: bool) -> str:
    return rng.choice(GOOD if good else BAD)


def _plot(rng: random.Random, sentences: int) -> list[str]:
    """Returns irrelevant sentences, which also have adjectives and negations."""
    return [
        f"{rng.choice(PEOPLE)} {rng.choice(DEEDS + UNDONE)} a {rng.choice(LOOKS + GOOD + BAD)} "
        f"{rng.choice(THINGS)} {rng.choice(PLACES)} ."
        for _ in range(sentences)
    ]


class SyntheticReviews(Drawn, tfds.core.GeneratorBasedBuilder):
    """Builds the TFDS data set `synthetic_reviews`."""

    labels, sizes = LABELS, SPLITS
    about = "Synthetic film reviews from a grammar; the label needs words to be combined."
    example = staticmethod(review)


def builder(data_dir: str | None) -> tfds.core.DatasetBuilder:
    """Returns the TFDS builder of the synthetic reviews for a data directory."""
    return SyntheticReviews(data_dir=data_dir, file_format="array_record")
