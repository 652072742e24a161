"""Many inputs judged by a trained run: JSON lines in, JSON lines out, in the same order, a few at a time."""

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from fourier_attn import atomic, paths
from fourier_attn.data.sources import files
from fourier_attn.predict import Predictor, check_text

CHUNK = 2048  # lines that are judged at a time
WARN = 0.2  # share of unknown tokens from which an answer means little


def judge(directory: str | Path, source: str, target: str, skip_bad: bool = False) -> str:
    """Judges every line of `source`, an object with what the task is about; says what was done.

    These are `text`, of pairs also `text_pair`; or `image`, of questions about images also `text`.

    Each line of `target` is an answer of `Predictor` with the number of the line it answers.

    Args:
      source, target: files; "-" is standard input and output. Of a file, nothing is left after an error.
      skip_bad: leave out lines that cannot be judged, with a note each, instead of ending.
    Raises: ValueError that names the line, and for a run that cannot be used.
    """
    if "-" not in (source, target) and _same(paths.given(source), paths.given(target)):
        raise ValueError(f"--output={target} is the file of --input, which it would replace; name another")
    predictor = Predictor.load(directory)
    counts = {"judged": 0, "skipped": 0, "unknown": 0}
    with _opened(source) as lines, _written(target) as out:
        items = _items(lines, "standard input" if source == "-" else source, predictor, skip_bad, counts)
        while chunk := list(islice(items, CHUNK)):
            for (number, _), answer in zip(chunk, _judged(predictor, chunk), strict=True):
                counts["unknown"] += answer.get("unknown", 0.0) > WARN
                out.write(json.dumps({"line": number, **answer}, ensure_ascii=False) + "\n")
            out.flush()
            counts["judged"] += len(chunk)
        if not counts["judged"]:
            raise ValueError(f"--input={source} has no line that can be judged; write some")
    skipped = f", {counts['skipped']:,} skipped" if counts["skipped"] else ""
    said = f"{counts['judged']:,} judged{skipped}"
    if not counts["unknown"]:
        return said
    return f"{said}; in {counts['unknown']:,} over {WARN:.0%} of the tokens are unknown"


def _same(a: Path, b: Path) -> bool:
    return a.exists() and b.exists() and a.samefile(b)


def _judged(predictor: Predictor, chunk: list[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    values = [value for _, value in chunk]
    inputs, *seconds = [[value[name] for value in values] for name in _names(predictor)]
    return predictor(inputs, *seconds)


def _names(predictor: Predictor) -> tuple[str, ...]:
    """What a line has to have, in the order in which `Predictor` is given it."""
    if predictor.task.images:
        return ("image", "text") if predictor.task.question else ("image",)
    return ("text", "text_pair")[: len(predictor.task.texts)]


def _items(
    lines: Any, name: str, predictor: Predictor, skip_bad: bool, counts: dict[str, int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number of each line and what it asks. Raises: ValueError that names the line."""
    number = 0
    try:
        while line := lines.readline(files.TEXT + 1):
            number += 1
            try:
                item = _item(line, predictor)
            except (ValueError, RecursionError) as error:
                while len(line) > files.TEXT and not line.endswith(b"\n"):
                    line = lines.readline(files.TEXT + 1)  # the rest of a line too long
                if not skip_bad:
                    raise ValueError(
                        f"{name}, line {number}: {error}; mend that line, or leave bad ones out: --skip_bad"
                    ) from error
                counts["skipped"] += 1
                print(f"note: {name}, line {number} is skipped: {error}", file=sys.stderr)
                continue
            if item is not None:
                yield number, item
    except files.DAMAGED as error:
        raise ValueError(f"{name} cannot be read beyond line {number} ({error}); get it again") from error


def _item(line: bytes, predictor: Predictor) -> dict[str, Any] | None:
    """What a line asks; None for an empty one. Raises: ValueError."""
    if len(line) > files.TEXT:
        raise ValueError(f"it has more than {files.TEXT:,} bytes")
    text = line.decode("utf-8-sig").strip()
    if not text:
        return None
    value = json.loads(text)
    if isinstance(value, str):
        value = {"text": value}
    wanted = _names(predictor)
    if not isinstance(value, dict) or any(name not in value for name in wanted):
        raise ValueError(f"{text[:40]!r} is no object with {' and '.join(wanted)}")
    if predictor.task.images:
        predictor.image(value["image"])
    else:
        for name in wanted:
            check_text(name, value[name])
    if predictor.task.question:
        predictor.questions([value["text"]])
    if predictor.task.head == "pretraining":
        [row] = predictor.text_batches([value["text"]]).rows
        predictor.check_mask(row, "its text")
    return {name: value[name] for name in wanted}


@contextlib.contextmanager
def _opened(source: str) -> Iterator[Any]:
    if source == "-":
        yield sys.stdin.buffer
        return
    path = paths.given(source)
    if not path.exists():
        raise ValueError(f"--input={source} does not exist; name a file of JSON lines, or - for stdin")
    with files.unpacked(path, path, files.OWN) as lines:
        yield lines


@contextlib.contextmanager
def _written(target: str) -> Iterator[TextIO]:
    """Standard output; or a file that is there once it is whole."""
    if target == "-":
        yield sys.stdout
        return
    path = paths.given(target)
    if path.exists() and not path.is_file():
        raise ValueError(f"--output={target} is no file; name one, or - for standard output")
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(atomic.writing(path))
        except OSError as error:
            raise ValueError(
                f"--output={target} cannot be written ({error.strerror}); name another"
            ) from error
        text = io.TextIOWrapper(file, encoding="utf-8")
        yield text
        text.detach()
