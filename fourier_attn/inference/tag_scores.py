"""Scores the predicted tags of words, and formats the scores as a table."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from fourier_attn.data.tables.sentences import marks_entities
from fourier_attn.train import entity_scores, scores
from fourier_attn.train.entity_scores import Counts


class TagScores:
    """Compares predicted tags with the tags in a file, sentence by sentence.

    Args:
      names: names of the tags.
    """

    def __init__(self, names: Sequence[str]):
        self.names, self.entities = names, marks_entities(names)
        self.sentences, self.words = 0, Counter[tuple[int, int]]()  # (label, prediction) -> words
        self.counts: dict[str, Counts] = {}

    def add(self, true: Sequence[str], answer: dict[str, Any]) -> None:
        """Adds the `answer` to a sentence with the tags `true`. Words that were cut off are not counted."""
        found = [word["tag"] for word in answer["words"]]
        true = true[: len(found)]
        self.sentences += 1
        number = self.names.index
        self.words.update((number(a), number(b)) for a, b in zip(true, found, strict=True))
        for kind, each in entity_scores.count([found], [true]).items() if self.entities else ():
            self.counts[kind] = entity_scores.total({"": each, " ": self.counts.get(kind, Counts(0, 0, 0))})

    def scores(self) -> dict[str, Any]:
        """Returns the scores of words, see `scores.per_class`; {} without any tags.

        If tags mark entities, the result also has the scores of all entities and of each type, and `examples`
        counts sentences.
        """
        if not self.words:
            return {}
        pairs = list(self.words.elements())
        label, prediction = ([pair[i] for pair in pairs] for i in (0, 1))
        of_words = scores.per_class(prediction, label, self.names)
        if not self.entities:
            return of_words
        values = entity_scores.total(self.counts).scores()
        undefined = {name: why for name, why in entity_scores.WHY.items() if math.isnan(values[name])}
        types = {kind: {**each.scores(), "entities": each.true} for kind, each in sorted(self.counts.items())}
        return of_words | values | {"examples": self.sentences, "undefined": undefined, "types": types}


def type_table(result: dict[str, Any]) -> Iterator[str]:
    """Yields the lines of a table with the scores of each type of entity; `-` marks undefined scores."""
    types = result["types"]
    width = max(len("type"), *map(len, types))
    yield f"{'type':<{width}}  precision  recall      f1  entities"
    for kind, each in types.items():
        three = (each[f"entity_{name}"] for name in ("precision", "recall", "f1"))
        cells = ("-" if math.isnan(cell) else f"{cell:.4f}" for cell in three)
        shown = "  ".join(f"{cell:>{size}}" for cell, size in zip(cells, (9, 6, 6), strict=True))
        yield f"{kind:<{width}}  {shown}  {each['entities']:>8}"
