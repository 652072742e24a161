"""Measures a guess on ListOps: python -m evidence.suite.operator_rule --out=FILE.json

The guess uses only the first token of a list, its outermost operator: it is the most frequent value of the
training lists with the same operator. A network with the accuracy of the guess may have learned no more.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from absl import flags

from evidence.suite.ledger import pack
from fourier_attn import command, paths, provenance
from fourier_attn.data import tfds, tfds_splits
from fourier_attn.data.sources import listops


def define_flags() -> None:
    flags.DEFINE_string("out", None, "file of the result, which must not exist", required=True)
    flags.DEFINE_string("data_dir", None, "directory of TFDS data sets; default: that of TFDS")


def main() -> None:
    """Writes the accuracy of the guess on the test lists."""
    out = paths.given(flags.FLAGS.out)
    if out.exists():
        raise ValueError(f"out={out} exists; choose another name, or move the file away")
    builder = tfds.prepared("short_list_ops", flags.FLAGS.data_dir, listops.builder)
    train, test = (tfds_splits.read_split(builder, split) for split in ("train", "test"))
    answers = most_frequent(train.texts, train.labels)
    right = guessed_right(test.texts, test.labels, answers)
    operators = np.array([outermost(text) for text in test.texts])
    rows = [
        {
            "operator": operator.removeprefix("["),
            "guess": guess,
            "examples": int(np.sum(operators == operator)),
            "accuracy": float(np.mean(right[operators == operator])),
        }
        for operator, guess in sorted(answers.items())
    ]
    result = {"accuracy": float(right.mean()), "right": pack(right), "rows": rows}
    provenance.write(out, provenance.record("tensorflow-datasets") | result)
    print(f"accuracy {right.mean():.4f}\nwritten to {out}")


def outermost(text: str) -> str:
    """Returns the outermost operator of a list, such as "[MAX"."""
    return text.split(maxsplit=1)[0]


def most_frequent(texts: Sequence[str], values: Sequence[int] | np.ndarray) -> dict[str, int]:
    """Returns the most frequent value for each outermost operator; of equally frequent ones the smallest.

    Args:
      texts: lists.
      values: their values.
    """
    counts = defaultdict(Counter)
    for text, value in zip(texts, values, strict=True):
        counts[outermost(text)][int(value)] += 1
    return {
        operator: min(found, key=lambda value: (-found[value], value)) for operator, found in counts.items()
    }


def guessed_right(
    texts: Sequence[str], values: Sequence[int] | np.ndarray, answers: Mapping[str, int]
) -> np.ndarray:
    """Returns whether the guess is the value of each list (bool, n).

    Args:
      texts: lists.
      values: their values.
      answers: the guess for each outermost operator.
    """
    return np.array([answers[outermost(text)] == value for text, value in zip(texts, values, strict=True)])


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
