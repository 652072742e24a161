"""Reads sentences with a tag for each word, from CoNLL columns or JSON lines."""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fourier_attn.data.tables import files, formats
from fourier_attn.data.tables.columns import listed

DOCUMENT = "-DOCSTART-"  # first line of a document in CoNLL
WORDS, TAGS = ("tokens", "words"), ("tags", "ner_tags", "pos_tags", "labels")  # keys of JSON lines
JSON = (".jsonl", ".json", ".ndjson")
PREFIXED = re.compile(r"[BIESLUM]-.+")


class Sentence(NamedTuple):
    """Holds the words of a sentence and their tags.

    Args:
      where: place of its first line, for messages.
      number: number of this line, from 1.
      words: the words.
      tags: the tag of each word; None: the file has no tags.
      error: message for an invalid sentence; "": valid.
    """

    where: str
    number: int
    words: tuple[str, ...] = ()
    tags: tuple[str, ...] | None = None
    error: str = ""


class Columns(NamedTuple):
    """Names the columns of words and tags.

    Args:
      words, tags: numbers of the columns from 1, or keys of JSON objects; "": the first and the last column,
        or the first key among `WORDS` and `TAGS`.
      names: names of the tags, for files with indices.
    """

    words: str = ""
    tags: str = ""
    names: Sequence[str] = ()


def read_file(path: Path, columns: Columns) -> Iterator[Sentence]:
    """Yields the sentences of a file, plain or compressed. Raises: ValueError for an invalid sentence."""
    if not path.is_file():
        raise ValueError(
            f"{path} is not a file; give one with a word and its tag in each line, or JSON lines"
        )
    with files.unpacked(path, path, files.OWN) as file:
        yield from usable(sentences(file, str(path), columns, is_json(path)))


def is_json(path: Path) -> bool:
    """Returns whether a file's name has the ending of JSON lines."""
    return files.ending(path.with_suffix("") if files.ending(path) in formats.PACKED else path) in JSON


def usable(read: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yields sentences. Raises: ValueError at the first invalid one."""
    for sentence in read:
        if sentence.error:
            raise ValueError(f"{sentence.where} {sentence.error}")
        yield sentence


def sentences(file: Any, name: str, columns: Columns, objects: bool) -> Iterator[Sentence]:
    """Returns an iterator over the sentences of an open file.

    Args:
      file: the open file.
      name: its name, for messages.
      columns: columns of words and tags.
      objects: whether the file has JSON lines; otherwise it has CoNLL columns.
    """
    lines = files.checked_lines(file, name)
    return _objects(lines, name, columns) if objects else _columns(lines, name, columns)


def _columns(lines: Iterable[tuple[int, str, str]], name: str, columns: Columns) -> Iterator[Sentence]:
    """Yields sentences from lines with one word each; an empty line ends a sentence.

    Args:
      lines: number, text and error of each line; all lines must have the same number of columns.
      name: name of the file, for messages.
      columns: columns of words and tags.
    """
    width, word, tag = 0, 0, 0

    def has_word(line: tuple[int, str, str]) -> bool:
        return bool(line[2]) or (bool(line[1].strip()) and not line[1].startswith(DOCUMENT))

    for kept, group in itertools.groupby(lines, key=has_word):
        rows = list(group)
        if not kept:
            continue
        where, cells, error = f"{name}, line {rows[0][0]}", list[list[str]](), ""
        for number, line, unread in rows:
            cells.append(line.strip("\r\n").split("\t") if "\t" in line else line.split())
            if not width:
                width = len(cells[0])
                word, tag = (_column(name, width, *knob) for knob in _knobs(columns, width))
            if unread or len(cells[-1]) != width:
                where = f"{name}, line {number}"
                error = unread or (
                    f"has {len(cells[-1])} columns instead of the {width} of the first line; give each word "
                    "one tag, and separate columns by spaces or one tab"
                )
                break
        read = Sentence(where, rows[0][0], error=error)
        if not error:
            tags = None if tag == word else tuple(row[tag].strip() for row in cells)
            read = read._replace(words=tuple(row[word].strip() for row in cells), tags=tags)
        yield read if error else _checked(read)


def _knobs(columns: Columns, width: int) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("data.text", columns.words or "1"), ("data.label", columns.tags or str(width))


def _column(name: str, width: int, knob: str, value: str) -> int:
    """Returns the index of a column from 0.

    Args:
      name: name of the file, for messages.
      width: number of columns.
      knob, value: name and value of the option.
    Raises: ValueError for an invalid number.
    """
    if not value.isdecimal() or not 0 < int(value) <= width:
        raise ValueError(
            f"{name} has {width} columns, but not {knob}={value!r}; give a number from 1 to {width}"
        )
    return int(value) - 1


def _objects(lines: Iterable[tuple[int, str, str]], name: str, columns: Columns) -> Iterator[Sentence]:
    """Yields sentences from lines with a JSON object each, with a list of words and a list of tags.

    Args:
      lines: number, text and error of each line.
      name: name of the file, for messages.
      columns: keys of words and tags.
    """
    for number, line, unread in lines:
        if not unread and not line.strip():
            continue
        read = Sentence(f"{name}, line {number}", number, error=unread)
        try:
            read = read if unread else _checked(_of_object(read, json.loads(line), columns))
        except (ValueError, RecursionError) as error:
            read = read._replace(error=f"is not a JSON object ({error}); fix that line")
        yield read


def _of_object(read: Sentence, values: Any, columns: Columns) -> Sentence:
    """Returns a sentence with the words and tags of a JSON object, or with an error.

    Args:
      read: the sentence without words.
      values: the JSON object.
      columns: keys of words and tags.
    """
    if not isinstance(values, dict):
        return read._replace(error=f"must be a JSON object, not {values!s:.40}; fix that line")
    words = columns.words or next((key for key in WORDS if key in values), WORDS[0])
    tags = columns.tags or next((key for key in TAGS if key in values), TAGS[0])
    if words not in values:
        return read._replace(
            error=f"has no {words!r}, but {listed(values)}; set data.text to the key of words"
        )
    found = {key: values.get(key) for key in (words, tags)}
    for key, value in found.items():
        if value is not None and not isinstance(value, list):
            return read._replace(error=f"has {key}={value!r:.40}, not a list; fix that line")
    named = None if found[tags] is None else [_name(tag, columns.names) for tag in found[tags] or ()]
    if named is not None and not all(isinstance(tag, str) for tag in named):
        return read._replace(
            error=f"has {tags}={found[tags]!r:.40}, not names of tags; write names, or list the names of all "
            "indices in data.labels"
        )
    if not all(isinstance(word, str) for word in found[words] or ()):
        return read._replace(error=f"has {words}={found[words]!r:.40}, not a list of strings; fix that line")
    if named is not None and len(named) != len(found[words] or ()):
        return read._replace(
            error=f"has {len(named)} {tags} for {len(found[words] or ())} {words}; give each word one tag"
        )
    return read._replace(
        words=tuple(found[words] or ()), tags=None if named is None else tuple(tag.strip() for tag in named)
    )


def _name(tag: Any, names: Sequence[str]) -> Any:
    known = isinstance(tag, int) and not isinstance(tag, bool) and 0 <= tag < len(names)
    return names[tag] if known else tag


def _checked(read: Sentence) -> Sentence:
    """Returns a sentence, with an error if it has no words, a missing tag, or invalid characters."""
    if read.error:
        return read
    if not any(word.strip() for word in read.words):
        return read._replace(error="has no words; remove it")
    if "" in (read.tags or ()):
        return read._replace(
            error=f"has no tag for the word {read.words[(read.tags or ()).index('')]!r}; add it"
        )
    text = " ".join((*read.words, *(read.tags or ())))
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        return read._replace(error="contains an unpaired surrogate, which is not valid UTF-8; fix it")
    return read


def marks_entities(tags: Iterable[str]) -> bool:
    """Returns whether tags mark entities: all but O have a prefix (of IOB1, IOB2, BIOES ..) and a type."""
    others = [tag for tag in tags if tag != "O"]
    return bool(others) and all(map(PREFIXED.fullmatch, others))
