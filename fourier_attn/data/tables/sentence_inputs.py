"""The sentences of a prediction: CoNLL columns, JSON lines, or a text in each line."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from fourier_attn import paths
from fourier_attn.data.tables import files, formats
from fourier_attn.data.tables.inputs import STDIN, Input, opened
from fourier_attn.data.tables.sentences import DOCUMENT, Columns, Sentence, is_json, sentences

ENDS = (".conll", ".iob", ".iob2", ".bio", ".bioes", ".tsv")  # of files in columns


def read_sentences(source: str | Path, columns: Columns, tags: Collection[str]) -> Iterator[Input]:
    """Reads sentences from a file, a pipe or standard input ("-"), a few at a time.

    JSON lines begin with { or have such a name. Columns have one of the names `ENDS`, or a tag at the end of
    the first line with several columns. Anything else is one sentence in each line.

    Args:
      tags: the known ones.
    Raises: ValueError for a source that cannot be read on; a sentence that is bad has an `error`.
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
    """Returns the columns as far as they suit the format: keys for JSON lines, else numbers."""
    words, tags = (name if name.isdecimal() != objects else "" for name in columns[:2])
    return Columns(words, tags, columns.names)


def _in_columns(path: Path, begin: str, tags: Collection[str]) -> bool:
    bare = path.with_suffix("") if files.ending(path) in formats.PACKED else path
    lines = [line for line in begin.splitlines() if line.strip() and not line.startswith(DOCUMENT)]
    first = next(iter(lines), "").split()
    return files.ending(bare) in ENDS or (len(first) > 1 and first[-1] in tags)


def _texts(file: Any, name: str) -> Iterator[Sentence]:
    """Reads a sentence in each line, whose words have white space between them."""
    for number, line, error in files.checked_lines(file, name):
        if error or line.strip():
            yield Sentence(f"{name}, line {number}", number, tuple(line.split()), error=error)
