"""Answers of an exported classifier: python classify.py "a text" "another"; of pairs, one after the other,
each text and its second. Needs jax, numpy, tokenizers, flatbuffers and the files beside it, nothing else."""

import json
import sys
from pathlib import Path
from typing import Any

import jax.export
import numpy as np
from tokenizers import Tokenizer


class Classifier:
    """The programs in a folder, and what tokens they take."""

    def __init__(self, folder: str | Path):
        folder = Path(folder)
        self.facts = json.loads((folder / "manifest.json").read_text())
        read = {length: (folder / name).read_bytes() for length, name in self.facts["programs"].items()}
        self.programs = {int(t): jax.export.deserialize(bytearray(program)) for t, program in read.items()}
        if self.facts["inputs"] == "tokens":
            self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self.tokenizer.no_padding()
            self.tokenizer.no_truncation()
            self.tokenizer.encode_special_tokens = True

    def __call__(self, inputs: Any, text_pairs: Any = None) -> np.ndarray:
        """Probabilities (n, classes), or scores (n), of texts, or of images, bytes (n, rows, cols, 3).

        Of nothing they are an empty array.
        """
        if not len(inputs):
            return np.zeros((0,), np.float32)
        if self.facts["inputs"] != "tokens":
            return self.run(0, np.asarray(inputs, np.uint8))
        if (text_pairs is None) == self.facts["pairs"]:
            raise ValueError(
                f"this network judges {'pairs; give' if text_pairs is None else 'no pairs; omit'} text_pairs"
            )
        rows = [self.row(*texts) for texts in zip(inputs, text_pairs or [None] * len(inputs), strict=True)]
        fitting = [min(t for t in self.programs if t >= len(row)) for row in rows]
        answers: dict[int, np.ndarray] = {}
        for t in sorted(set(fitting)):
            places = [i for i, fits in enumerate(fitting) if fits == t]
            tokens = np.full((len(places), t), self.facts["pad"], np.int32)
            mask = np.zeros(tokens.shape, bool)
            for place, i in enumerate(places):
                tokens[place, : len(rows[i])], mask[place, : len(rows[i])] = rows[i], True
            ends = tokens == (-1 if self.facts["sep"] is None else self.facts["sep"])
            types = mask & (np.cumsum(ends, axis=-1) - ends > 0)
            answers |= dict(zip(places, self.run(t, tokens, mask, types.astype(np.int32)), strict=True))
        return np.stack([answers[i] for i in range(len(rows))])

    def row(self, text: str, pair: str | None) -> list[int]:
        """The tokens of a text or a pair, cut as in training."""
        cls, sep, length = self.facts["cls"], self.facts["sep"], self.facts["length"]
        a = self.tokenizer.encode(text, add_special_tokens=False).ids
        if cls is None or sep is None:
            return a[:length] or [self.facts["unknown"]]
        if pair is None:
            return [cls, *a[: length - 2], sep]
        b = self.tokenizer.encode(pair, add_special_tokens=False).ids
        a = a[: max(length - 3 - len(b), min(len(a), (length - 2) // 2))]
        return [cls, *a, sep, *b[: length - 3 - len(a)], sep]

    def run(self, program: int, *arrays: np.ndarray) -> np.ndarray:
        """The answers of a program, which may take a fixed number of rows only."""
        count, parts = self.facts["batch"] or len(arrays[0]), []
        for start in range(0, len(arrays[0]), count):
            given = [array[start : start + count] for array in arrays]
            short = count - len(given[0])
            given = [np.concatenate([array, array[:1].repeat(short, axis=0)]) for array in given]
            parts.append(np.asarray(self.programs[program].call(*given))[: count - short])
        return np.concatenate(parts)


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    classifier = Classifier(Path(__file__).parent)
    if classifier.facts["inputs"] != "tokens":
        size = classifier.programs[0].in_avals[0].shape[1:]
        print(
            f"error: {sys.argv[1]!r}: this network takes images, and reads no files; in Python, give "
            f"classify.Classifier(folder) an array of bytes (n, {', '.join(map(str, size))})",
            file=sys.stderr,
        )
        sys.exit(2)
    texts, pairs = sys.argv[1:], None
    if classifier.facts["pairs"]:
        texts, pairs = texts[::2], texts[1::2]
        if len(texts) > len(pairs):
            print(f"error: {texts[-1]!r} has no second text; give texts in pairs", file=sys.stderr)
            sys.exit(2)
    for line, answer in zip(texts, classifier(texts, pairs), strict=True):
        best = classifier.facts["labels"][int(answer.argmax())] if classifier.facts["labels"] else "score"
        print(f"{best}\t{answer.max():.4f}\t{line}")
