"""Many inputs judged by a trained run: JSON lines in, JSON lines out, in the same order, a few at a time."""

import contextlib
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from fourier_attn.data.sources import files
from fourier_attn.predict import Predictor, check_text

CHUNK = 2048  # lines that are judged at a time
WARN = 0.2  # share of unknown tokens from which an answer means little


def judge(directory: str | Path, source: str, target: str, skip_bad: bool = False) -> str:
    """Judges every line of `source`, an object with `text` (and `text_pair`), or `image`; says what was done.

    Each line of `target` is an answer of `Predictor` with the number of the line it answers.

    Args:
      source, target: files; "-" is standard input and output. Of a file, nothing is left after an error.
      skip_bad: leave out lines that cannot be judged, with a note each, instead of ending.
    Raises: ValueError that names the line, and for a run that cannot be used.
    """
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


def _judged(predictor: Predictor, chunk: list[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    values = [value for _, value in chunk]
    if predictor.tokenizer is None:
        return predictor([value["image"] for value in values])
    pairs = [value["text_pair"] for value in values] if "text_pair" in values[0] else None
    return predictor([value["text"] for value in values], pairs)


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
    wanted = ("image",) if predictor.tokenizer is None else ("text", "text_pair")[: len(predictor.task.texts)]
    if not isinstance(value, dict) or any(name not in value for name in wanted):
        raise ValueError(f"{text[:40]!r} is no object with {' and '.join(wanted)}")
    if predictor.tokenizer is None:
        predictor.image(value["image"])
        return {"image": value["image"]}
    for name in wanted:
        check_text(name, value[name])
    return {name: value[name] for name in wanted}


@contextlib.contextmanager
def _opened(source: str) -> Iterator[Any]:
    if source == "-":
        yield sys.stdin.buffer
        return
    path = Path(source)
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
    path = Path(target)
    part = path.with_name(f"{path.name}.part")
    try:
        file = part.open("w", encoding="utf-8")
    except OSError as error:
        raise ValueError(f"--output={target} cannot be written ({error.strerror}); name another") from error
    try:
        with file:
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
