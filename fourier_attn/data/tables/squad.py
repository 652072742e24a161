"""Reads questions about contexts from JSON in the form of SQuAD 1.1 and 2.0."""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fourier_attn import paths
from fourier_attn.data.examples import Selection, hold_out
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.tables import files
from fourier_attn.data.tables.columns import LIMITS
from fourier_attn.data.tables.files import letters


class Question(NamedTuple):
    """Holds a question about a context.

    Args:
      where: its place, for messages.
      name: its `id`.
      question: text of the question.
      context: text of the context.
      answers: text and first character of each correct answer; (): none.
      known: whether the file has the correct answers; default True.
    """

    where: str
    name: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...]
    known: bool = True

    def texts(self) -> list[str]:
        """Returns the texts of the correct answers; [""] if the context has none."""
        return [text for text, _ in self.answers] or [""]


@dataclasses.dataclass(frozen=True)
class Contexts(Selection):
    """Holds the questions of a split by context.

    Args:
      groups: the questions of each context.
      in_train: whether each context is also in the training set (bool, n).
    """

    groups: Sequence[Sequence[Question]]
    in_train: np.ndarray

    def __len__(self) -> int:
        return len(self.groups)

    def take(self, index: np.ndarray) -> "Contexts":
        """Returns the contexts with the indices `index` (m,), in this order."""
        return Contexts([self.groups[i] for i in index], self.in_train[index])


class Questions(NamedTuple):
    """Holds questions.

    Args:
      parts: questions of the training, validation and test sets.
      notes: lines for the user.
    """

    parts: Mapping[str, Sequence[Question]]
    notes: tuple[str, ...]


def read(config: DataConfig) -> Questions:
    """Reads the files `train`, `validation` and `test`; missing splits are held out by context.

    Raises: ValueError that names file, place, value and cure.
    """
    parts: dict[str, Contexts] = {}
    for split in LIMITS:
        if config[split]:
            groups: dict[str, list[Question]] = {}
            for question in read_file(paths.given(config[split])):
                groups.setdefault(question.context, []).append(question)
            if not groups:
                raise ValueError(f"data.{split}={config[split]} has no questions; give another file")
            parts[split] = Contexts(list(groups.values()), np.zeros(len(groups), bool))
    parts = hold_out(parts, tuple(LIMITS), config, ("contexts", "files"))
    seen = {letters(group[0].context) for group in parts["train"].groups}
    notes = list[str]()
    for split in ("validation", "test"):
        contexts = [letters(group[0].context) for group in parts[split].groups]
        if count := sum(context in seen for context in contexts):
            notes.append(f"{split}: {count:,} of {len(contexts):,} contexts are also in train")
    flat = {
        split: [question for group in parts[split].groups for question in group][: config[knob] or None]
        for split, knob in LIMITS.items()
    }
    return Questions(flat, tuple(notes))


def read_file(path: Path, answered: bool = True) -> Iterator[Question]:
    """Yields the questions of a file, plain or compressed.

    Args:
      path: the file.
      answered: whether each question must have answers or `is_impossible`; default True.
    Raises: ValueError that names the place, the value and the cure.
    """
    if not path.is_file():
        raise ValueError(f"{path} is not a file; give JSON in SQuAD's form")
    with files.unpacked(path, path, files.OWN) as file:
        try:
            document = json.load(file)
        except (ValueError, RecursionError, *files.DAMAGED) as error:
            raise ValueError(
                f"{path} is not JSON ({str(error)[:200]}); give a file in SQuAD's form"
            ) from error
    for i, article in enumerate(_list(document, "data", str(path))):
        for j, paragraph in enumerate(_list(article, "paragraphs", f"{path}, data[{i}]")):
            place = f"{path}, data[{i}].paragraphs[{j}]"
            context = _text(paragraph, "context", place)
            for k, values in enumerate(_list(paragraph, "qas", place)):
                yield _question(values, context, f"{place}.qas[{k}]", answered)


def _list(values: Any, key: str, place: str) -> list[Any]:
    """Returns the list `values[key]`. Raises: ValueError, which names the `place`, without such a list."""
    found = values.get(key) if isinstance(values, dict) else None
    if not isinstance(found, list):
        raise ValueError(f"{place} has no list {key!r}; give a file in SQuAD's form")
    return found


def _text(values: Any, key: str, place: str) -> str:
    """Returns the text `values[key]`. Raises: ValueError, which names the `place`, without such a text."""
    found = values.get(key) if isinstance(values, dict) else None
    if not isinstance(found, str) or not found.strip():
        raise ValueError(f"{place} has {key}={found!r:.40}, not a text; give a text")
    if not found.isascii() and any("\ud800" <= letter <= "\udfff" for letter in found):
        raise ValueError(f"{place}: its {key} contains an unpaired surrogate; fix it")
    return found


def _question(values: Any, context: str, place: str, answered: bool) -> Question:
    """Returns a question from its JSON object.

    Args:
      values: the JSON object.
      context: text of the context.
      place: place of the question, for messages.
      answered: whether it must have answers.
    Raises: ValueError for an invalid question.
    """
    text = _text(values, "question", place)
    name = str(values.get("id", place.rpartition(", ")[2]))
    if values.get("is_impossible") is True:
        return Question(place, name, text, context, ())
    given = values.get("answers") or []
    if not isinstance(given, list) or (answered and not given):
        raise ValueError(f"{place} has answers={given!r:.40}; give a list of answers, or is_impossible=true")
    return Question(
        place, name, text, context, tuple(_answer(each, context, place) for each in given), bool(given)
    )


def _answer(values: Any, context: str, place: str) -> tuple[str, int]:
    """Returns text and first character of an answer from its JSON object `values`.

    Raises: ValueError, which names the `place`, for an answer that is not in the `context`.
    """
    text, start = _text(values, "text", place), values.get("answer_start")
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise ValueError(f"{place} has answer_start={start!r:.40}, not an integer from 0; fix it")
    if context[start : start + len(text)] != text:
        found = context.find(text)
        cure = f"set it to {found}" if found >= 0 else "fix the answer, which is not in the context"
        raise ValueError(
            f"{place} has answer_start={start} for the answer {text!r:.40}, but its context has "
            f"{context[start : start + len(text)]!r:.40} there; {cure}"
        )
    return text, start


def check_available(config: DataConfig) -> None:
    """Checks that the files exist and that their first question is valid. Raises: ValueError."""
    for split in LIMITS:
        if config[split]:
            next(read_file(paths.given(config[split])), None)
