"""Reads the files of tagged sentences for training, validation and test."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fourier_attn import paths
from fourier_attn.data.examples import Selection, hold_out
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.tables.columns import LIMITS
from fourier_attn.data.tables.files import letters
from fourier_attn.data.tables.notes import describe_classes, duplicates, unseen_classes
from fourier_attn.data.tables.sentences import Columns, Sentence, marks_entities, read_file

MOST = 1_000  # largest number of tags; more indicate the wrong column


@dataclasses.dataclass(frozen=True)
class TaggedSplit(Selection):
    """Holds the sentences of a split in memory.

    Args:
      file: the file, as the configuration names it.
      sentences: n sentences, in the order of the split.
      rows: index of each sentence in the file from 0 (n,).
      in_train: whether each sentence is also in the training set (bool, n).
    """

    file: str
    sentences: Sequence[Sentence]
    rows: np.ndarray
    in_train: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: np.ndarray) -> "TaggedSplit":
        """Returns the sentences with the indices `index` (m,), in this order."""
        chosen = [self.sentences[i] for i in index]
        return TaggedSplit(self.file, chosen, self.rows[index], self.in_train[index])


@dataclasses.dataclass(frozen=True)
class Tagged:
    """Holds tagged sentences.

    Args:
      parts: the training, validation and test sets.
      labels: names of the tags.
      notes: lines for the user.
    """

    parts: Mapping[str, TaggedSplit]
    labels: tuple[str, ...]
    notes: tuple[str, ...]


def read(config: DataConfig) -> Tagged:
    """Reads the files `train`, `validation` and `test`; missing splits are held out of the training set.

    Raises: ValueError that names file, line, value and cure.
    """
    columns = columns_of(config)
    parts = {split: _read(config, split, columns) for split in LIMITS if config[split]}
    labels = tuple(config.labels) or _classes(parts["train"], config)
    for split, part in parts.items():
        _check_tags(part, split, labels)
    parts = hold_out(parts, tuple(LIMITS), config, ("sentences", "files"))
    seen = {letters(" ".join(sentence.words)) for sentence in parts["train"].sentences}
    for split in ("validation", "test"):
        same = [letters(" ".join(sentence.words)) in seen for sentence in parts[split].sentences]
        parts[split] = dataclasses.replace(parts[split], in_train=np.array(same, bool))
    limited = {split: parts[split].limit(config[knob]) for split, knob in LIMITS.items()}
    numbers = {name: i for i, name in enumerate(labels)}
    counted = np.array([numbers[tag] for s in limited["train"].sentences for tag in s.tags or ()], np.int64)
    notes = [describe_classes(labels, counted), scheme(labels), *duplicates(parts, "sentences")]
    return Tagged(limited, labels, (*notes, *unseen_classes(labels, counted)))


def scheme(labels: Sequence[str]) -> str:
    """Returns the note on the metrics."""
    if marks_entities(labels):
        return "tags mark entities, so precision, recall and F1 are those of entities, as in conlleval"
    return "tags have no prefixes (B-, I-, ..), so each word is scored, with accuracy and macro F1"


def columns_of(config: DataConfig) -> Columns:
    """Returns the columns that a configuration names."""
    return Columns(config.text, config.label, tuple(config.labels))


def check_available(config: DataConfig) -> None:
    """Checks that the files exist and that their first sentences can be read. Raises: ValueError."""
    for split in LIMITS:
        if config[split]:
            next(read_file(paths.given(config[split]), columns_of(config)), None)


def _read(config: DataConfig, split: str, columns: Columns) -> TaggedSplit:
    """Reads the sentences of a split.

    Args:
      config: the `data` part of the configuration.
      split: name of the split.
      columns: columns of words and tags.
    Raises: ValueError for a file without sentences or tags.
    """
    found = list(read_file(paths.given(config[split]), columns))
    if not found:
        raise ValueError(f"data.{split}={config[split]} has no sentences; add some, or give another file")
    bare = next((sentence for sentence in found if sentence.tags is None), None)
    if bare and (split != "test" or any(sentence.tags is not None for sentence in found)):
        which = "a test file must have all tags or none" if split == "test" else "give each word one"
        raise ValueError(f"{bare.where} has no tags; add them, or set data.label to their column ({which})")
    return TaggedSplit(
        config[split], found, np.arange(len(found), dtype=np.int32), np.zeros(len(found), bool)
    )


def _classes(train: TaggedSplit, config: DataConfig) -> tuple[str, ...]:
    """Returns the sorted tags of the training set. Raises: ValueError for a single one or too many."""
    names = sorted({tag for sentence in train.sentences for tag in sentence.tags or ()})
    if len(names) == 1:
        raise ValueError(f"{config.train}: all tags are {names[0]!r}; give sentences with another tag")
    if len(names) > MOST:
        raise ValueError(
            f"{config.train} has {len(names):,} different tags, {names[-1]!r:.40} among them; set data.label "
            "to the right column"
        )
    return tuple(names)


def _check_tags(part: TaggedSplit, split: str, labels: Sequence[str]) -> None:
    """Checks that the tags of a split are among the classes.

    Args:
      part: the sentences.
      split: name of the split.
      labels: names of the tags.
    Raises: ValueError.
    """
    for sentence in part.sentences:
        if unknown := [tag for tag in sentence.tags or () if tag not in labels]:
            raise ValueError(
                f"data.{split}: {sentence.where}: the sentence has the tag {unknown[0]!r:.40}, but the "
                f"classes are {', '.join(labels)[:200]}; fix the tag, or list all classes in data.labels"
            )


def words_of(part: TaggedSplit) -> Iterator[tuple[str, ...]]:
    """Yields the words of each sentence."""
    return (sentence.words for sentence in part.sentences)
