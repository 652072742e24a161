"""Measures a baseline on ListOps: python -m evidence.suite.operator_rule --out=FILE.json

The baseline, called the guess, reads only the first token of a list, its outermost operator. It answers with
the value that is most frequent among the training lists with this operator. For n test lists, its loss in
nats is

    loss = -1/n sum_i log p_i

where $p_i$ is the share of the value of test list i among the training lists with the same operator.

A network that has the accuracy and the loss of the guess may have learned nothing but the outermost operator.
"""

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from absl import flags

from evidence.suite.ledger import pack
from fourier_attn import command, data, paths, provenance
from fourier_attn.data import tfds_splits
from fourier_attn.data.tfds import prepared

Frequencies = Mapping[str, Mapping[int, float]]  # operator -> value -> share of the lists


def define_flags() -> None:
    flags.DEFINE_string("out", None, "file of the result, which must not exist", required=True)
    flags.DEFINE_string("data_dir", None, "directory of TFDS data sets; default: that of TFDS")


def main() -> None:
    """Writes the accuracy and the loss of the guess on the test lists. Raises: ValueError if `out` exists."""
    out, task = paths.given(flags.FLAGS.out), data.TASKS["listops"]
    if out.exists():
        raise ValueError(f"out={out} exists; choose another name, or move the file away")
    builder = prepared(task.dataset, flags.FLAGS.data_dir, task.builder)
    train, test = (tfds_splits.read_split(builder, split) for split in ("train", "test"))
    known = frequencies(train.texts, train.labels)
    guesses = {operator: guess(shares) for operator, shares in known.items()}
    operators = np.array([outermost(text) for text in test.texts])
    right = np.array([guesses[operator] for operator in operators]) == test.labels
    rows = [
        {
            "operator": operator,
            "guess": guesses[operator],
            "examples": int(np.sum(operators == operator)),
            "accuracy": float(np.mean(right[operators == operator])),
        }
        for operator in sorted(guesses)
    ]
    whole = {"accuracy": float(right.mean()), "loss": loss(test.texts, test.labels, known)}
    result = whole | {"right": pack(right), "rows": rows}
    provenance.write(out, provenance.record("tensorflow-datasets") | result)
    print(f"accuracy {whole['accuracy']:.4f}, loss {whole['loss']:.4f}\nwritten to {out}")


def outermost(text: str) -> str:
    """Returns the outermost operator of a list, such as "MAX"."""
    return text.split(maxsplit=1)[0].removeprefix("[")


def frequencies(texts: Sequence[str], values: Sequence[int] | np.ndarray) -> Frequencies:
    """Returns the share of each value among the lists with each outermost operator.

    Args:
      texts: lists.
      values: their values.
    """
    counts = defaultdict(Counter)
    for text, value in zip(texts, values, strict=True):
        counts[outermost(text)][int(value)] += 1
    return {
        operator: {value: count / found.total() for value, count in found.items()}
        for operator, found in counts.items()
    }


def guess(shares: Mapping[int, float]) -> int:
    """Returns the most frequent value; of equally frequent ones the smallest."""
    return min(shares, key=lambda value: (-shares[value], value))


def loss(texts: Sequence[str], values: Sequence[int] | np.ndarray, known: Frequencies) -> float:
    """Returns the mean cross-entropy of lists under the frequencies of values; infinite for an unseen value.

    Args:
      texts: lists.
      values: their values.
      known: the frequencies for each outermost operator.
    """
    shares = [known[outermost(text)].get(int(value), 0.0) for text, value in zip(texts, values, strict=True)]
    return math.inf if 0.0 in shares else -math.fsum(map(math.log, shares)) / len(shares)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
