"""Generates ListOps: nested lists of digits with the operators MIN, MAX, MED and SM, and ten classes.

    [MAX 4 [SM 7 9 ] 2 ]  ->  6                    SM: the sum modulo 10; MED: the median, rounded down

The expressions follow Long Range Arena (Tay et al., arXiv 2011.04006, after Nangia and Bowman, arXiv
1804.06028): up to 10 levels, 2 to 10 arguments, each a list with probability 1/4. Theirs have 500 to 2,000
tokens and 96,000 examples. These are **shortened** to 128 to 512 tokens and 20,000 examples, for a CPU.
"""

import random
from statistics import median

import tensorflow_datasets as tfds

from fourier_attn.data.sources.drawn import Drawn

LABELS = tuple("0123456789")
SPLITS = {"train": 20_000, "validation": 1_000, "test": 2_000}
OPERATORS = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(median(values)),
    "[SM": lambda values: sum(values) % 10,
}
DEPTH, ARGUMENTS, LIST = 10, 10, 0.25
SHORTEST, LONGEST = 128, 512  # tokens


def expression(rng: random.Random, depth: int = 1) -> tuple[list[str], int]:
    """Returns the tokens and the value of a random expression at a nesting level `depth`."""
    if depth >= DEPTH or rng.random() > LIST:
        value = rng.randrange(10)
        return [str(value)], value
    operator = rng.choice(list(OPERATORS))
    parts = [expression(rng, depth + 1) for _ in range(rng.randint(2, ARGUMENTS))]
    tokens = [token for part, _ in parts for token in part]
    return [operator, *tokens, "]"], OPERATORS[operator]([value for _, value in parts])


def long_expression(rng: random.Random) -> tuple[str, int]:
    """Returns a random expression with `SHORTEST` to `LONGEST` tokens, and its value."""
    while True:
        tokens, value = expression(rng)
        if SHORTEST <= len(tokens) <= LONGEST:
            return " ".join(tokens), value


class ShortListOps(Drawn, tfds.core.GeneratorBasedBuilder):
    """Builds the TFDS data set `short_list_ops`."""

    labels, sizes = LABELS, SPLITS
    about = f"ListOps, shortened to {SHORTEST} to {LONGEST} tokens."
    example = staticmethod(long_expression)


def builder(data_dir: str | None) -> tfds.core.DatasetBuilder:
    """Returns the TFDS builder of the expressions for a data directory."""
    return ShortListOps(data_dir=data_dir, file_format="array_record")
