"""Reads the sentences of a prediction: CoNLL columns, JSON lines, or one text in each line."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from fourier_attn import paths
from fourier_attn.data.tables import files, formats
from fourier_attn.data.tables.inputs import STDIN, Input, opened
from fourier_attn.data.tables.sentences import DOCUMENT, Columns, Sentence, is_json, sentences

ENDS = (".conll", ".iob", ".iob2", ".bio", ".bioes", ".tsv")  # endings of files with columns


def read_sentences(source: str | Path, columns: Columns, tags: Collection[str]) -> Iterator[Input]:
    """Yields sentences from a file, a pipe or standard input ("-").

    JSON lines begin with {, or have such an ending. A file with columns has one of the endings `ENDS`, or a
    tag at the end of its first line. Any other source has one sentence in each line.

    Args:
      source: name of the source.
      columns: columns of words and tags.
      tags: the known tags.
    Raises: ValueError for a source that cannot be read further; an invalid sentence has an `error`.
    """
    name = "standard input" if str(source) in STDIN else str(source)
    path = Path(name) if str(source) in STDIN else paths.given(source)
    with opened(str(source), path) as file:
        begin = file.peek(formats.BATCH).decode("utf-8", "replace")
        if is_json(path) or begin.lstrip().startswith("{"):
            read = sentences(file, name, _for(columns, objects=True), objects=True)
        elif _in_columns(path, begin, tags):
            read = sentences(file, name, _for(columns, objects=False), objects=False)
        else:
            read = _texts(file, name)
        for each in read:
            values: dict[str, Any] = {"text": list(each.words)}
            if each.tags is not None:
                values["label"] = list(each.tags)
            yield Input(each.number, each.where, values, each.error)


def _for(columns: Columns, objects: bool) -> Columns:
    """Returns the columns that fit the format: keys for JSON lines (`objects`), otherwise numbers."""
    words, tags = (name if name.isdecimal() != objects else "" for name in columns[:2])
    return Columns(words, tags, columns.names)


def _in_columns(path: Path, begin: str, tags: Collection[str]) -> bool:
    """Returns whether a source has columns, from its `path`, its `begin` and the known `tags`."""
    bare = path.with_suffix("") if files.ending(path) in formats.PACKED else path
    lines = [line for line in begin.splitlines() if line.strip() and not line.startswith(DOCUMENT)]
    first = next(iter(lines), "").split()
    return files.ending(bare) in ENDS or (len(first) > 1 and first[-1] in tags)


def _texts(file: Any, name: str) -> Iterator[Sentence]:
    """Yields the sentence in each line, split into words at white space."""
    for number, line, error in files.checked_lines(file, name):
        if error or line.strip():
            yield Sentence(f"{name}, line {number}", number, tuple(line.split()), error=error)
