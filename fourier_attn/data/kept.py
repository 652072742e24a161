"""What has been read and encoded once, kept for the next start: in `.fourier_attn` of the data directory.

Files are named by fingerprints of all that they are made from, hold arrays and text only, and end with their
own hash. One that is not whole is made again; a data directory that cannot be written to is left as it is.
"""

import contextlib
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers
from tensorflow_datasets.core import constants

from fourier_attn import atomic
from fourier_attn.data.tasks import TASKS
from fourier_attn.data.text import tokenizer_file
from fourier_attn.data.tfds import prepared

FOLDER = ".fourier_attn"
MOST = 8  # files of each kind; the oldest are removed
LARGEST = 2**31  # bytes of one
# Knobs of the data that examples depend on, in their order, and those of a tokenizer that is fitted.
READ = (
    *("task", "holdout", "split_seed", "train_examples", "eval_examples", "test_examples"),
    *("dataset", "text", "text_pair", "label", "labels"),
)
FITTED = ("tokenizer", "vocab", "fit_examples")


class Part(NamedTuple):
    """A split: token ids of each example, and the columns of `tfds.Examples`."""

    rows: list[np.ndarray]
    labels: np.ndarray
    in_train: np.ndarray
    idx: np.ndarray


class Kept:
    """The kept files of one task in its data directory, with the configuration's `data` part."""

    def __init__(self, config: Any):
        task = TASKS[config["task"]]
        builder = prepared(task.dataset or config["dataset"], config["dir"] or None, task.builder)
        depth = len(builder.info.full_name.split("/"))
        place = Path(builder.data_path)
        self.folder = place.parents[depth - 1] / FOLDER
        files = sorted(path for path in place.iterdir() if path.is_file())
        there = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        self.examples = _hash(_code(), str(place), there, [config[name] for name in READ])
        self.fitted = _hash(self.examples, tokenizers.__version__, [config[name] for name in FITTED])
        self.length = config["length"]

    def give_tokenizer(self, directory: Path) -> None:
        """Writes the tokenizer that was fitted to these examples into a run's directory that has none."""
        if not tokenizer_file(directory).exists():
            contents = _read(self.folder / f"tokenizer-{self.fitted}")
            if contents is not None:
                atomic.write(directory / "tokenizer.json", contents)

    def keep_tokenizer(self, directory: Path) -> None:
        self._write(f"tokenizer-{self.fitted}", (directory / "tokenizer.json").read_bytes())

    def parts(self, directory: Path) -> dict[str, Part] | None:
        """The splits as the tokenizer in a run's directory encodes them; None if they are not there."""
        contents = _read(self.folder / self._rows(directory))
        try:
            return None if contents is None else _unpacked(contents)
        except (ValueError, KeyError, TypeError, zipfile.BadZipFile):  # of another form
            return None

    def keep_parts(self, directory: Path, parts: Mapping[str, Part]) -> None:
        self._write(self._rows(directory), _packed(parts))

    def _rows(self, directory: Path) -> str:
        tokenizer = hashlib.sha256(tokenizer_file(directory).read_bytes()).hexdigest()
        return f"rows-{_hash(self.examples, tokenizer, tokenizers.__version__, self.length)}"

    def _write(self, name: str, contents: bytes) -> None:
        if len(contents) > LARGEST:
            return
        mine = self.folder / f"{name}-{os.getpid()}"  # several processes may write at once
        try:
            self.folder.mkdir(exist_ok=True)
            atomic.write(mine, contents + hashlib.sha256(contents).digest())
            mine.replace(self.folder / name)
            kind = name.partition("-")[0]
            for old in sorted(self.folder.glob(f"{kind}-*"), key=_age)[:-MOST]:
                old.unlink(missing_ok=True)
        except OSError:  # read only, or full: there is nothing to be kept then
            with contextlib.suppress(OSError):
                mine.with_name(f"{mine.name}.tmp").unlink(missing_ok=True)


def root(config: Any) -> Path:
    """The data directory of a configuration's `data` part."""
    return Path(config["dir"] or constants.DATA_DIR).expanduser()


def _age(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # another process has removed it
        return 0


def _hash(*values: Any) -> str:
    text = json.dumps(values, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _code() -> str:
    """Of the source that reads and encodes."""
    digest, room = hashlib.sha256(), Path(__file__).parent
    for path in sorted(room.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _read(path: Path) -> bytes | None:
    """The contents of a kept file that is whole."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            contents = file.read(LARGEST + 33)
    except OSError:
        return None
    contents, digest = contents[:-32], contents[-32:]
    return contents if hashlib.sha256(contents).digest() == digest else None


def _packed(parts: Mapping[str, Part]) -> bytes:
    arrays: dict[str, Any] = {}
    for name, part in parts.items():
        ids = np.concatenate(part.rows)
        small = ids.min() >= 0 and ids.max() < 2**16
        arrays[f"{name}/ids"] = ids.astype(np.uint16 if small else np.int32)
        arrays[f"{name}/lengths"] = np.array([len(row) for row in part.rows], np.int32)
        arrays |= {f"{name}/{column}": getattr(part, column) for column in Part._fields[1:]}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def _unpacked(contents: bytes) -> dict[str, Part]:
    with np.load(io.BytesIO(contents), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    parts = {}
    for name in dict.fromkeys(key.partition("/")[0] for key in arrays):
        ids, lengths = arrays[f"{name}/ids"].astype(np.int32), arrays[f"{name}/lengths"]
        rows = np.split(ids, np.cumsum(lengths)[:-1])
        parts[name] = Part(rows, *(arrays[f"{name}/{column}"] for column in Part._fields[1:]))
    return parts
