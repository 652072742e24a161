"""Caches encoded data and fitted tokenizers for the next start, in `.fourier_attn` of the data directory.

The data directory of custom tables is the folder of `data.train`, unless `data.dir` names another one. The
names of cached files are hashes of everything that they are made from. The files contain only arrays and
text, and end with their own hash. A damaged file is made again. A read-only data directory disables caching.
"""

import hashlib
import io
import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import tokenizers
from numpy.lib.format import read_array, write_array
from tensorflow_datasets.core import constants

from fourier_attn import atomic, paths
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.packed import PackedTokens
from fourier_attn.data.tables.user_tables import SPLITS
from fourier_attn.data.tasks import TASKS
from fourier_attn.data.text import tokenizer_file
from fourier_attn.data.tfds import prepared

FOLDER = ".fourier_attn"
MOST = 8  # largest number of files of each kind; the oldest are removed
LARGEST = 2**31  # largest size of a file in bytes
SUM = 32  # bytes of the hash at the end of a file
# Options that determine the examples, their columns, and a fitted tokenizer.
DRAWN = ("holdout", "split_seed", "train_examples", "eval_examples", "test_examples")
COLUMNS = ("text", "text_pair", "label")
FITTED = ("tokenizer", "vocab", "fit_examples")


class CachedSplit(NamedTuple):
    """Holds an encoded split.

    Args:
      rows: token ids of each example.
      labels, in_train, idx: see `fourier_attn.data.examples.Examples`.
    """

    rows: PackedTokens
    labels: np.ndarray
    in_train: np.ndarray
    idx: np.ndarray


class CachedSplits(NamedTuple):
    """Holds the encoded splits of a task.

    Args:
      parts: splits by name.
      facts: further values that JSON can represent, for example notes.
    """

    parts: dict[str, CachedSplit]
    facts: dict[str, Any]


class DataCache:
    """Reads and writes the cached files of one task.

    Args:
      folder: the data directory.
      examples: values that determine the examples and their order.
      config: the `data` part of the configuration.
      mode: permissions of the files; default rw-r--r--.
    """

    def __init__(self, folder: Path, examples: Sequence[Any], config: DataConfig, mode: int = 0o644):
        self.folder, self.mode = folder / FOLDER, mode
        self.usable = _usable(self.folder)
        self.examples = _hash(_code(), examples)
        self.fitted = _hash(self.examples, tokenizers.__version__, [config[name] for name in FITTED])
        self.length = config.length

    def restore_tokenizer(self, directory: Path) -> None:
        """Copies the cached tokenizer into a run's directory, unless it has a tokenizer already."""
        if not tokenizer_file(directory).exists():
            file = self._open(f"tokenizer-{self.fitted}")
            if file is not None:
                with file:
                    atomic.write(directory / "tokenizer.json", file.read()[:-SUM])

    def store_tokenizer(self, directory: Path) -> None:
        """Caches the tokenizer of a run's directory."""
        contents = (directory / "tokenizer.json").read_bytes()
        self._write(f"tokenizer-{self.fitted}", lambda file: file.write(contents))

    def find(self, directory: Path) -> CachedSplits | None:
        """Returns the splits encoded with the tokenizer in a run's directory; None if they are not cached."""
        if not tokenizer_file(directory).exists():
            return None
        file = self._open(self._rows(directory))
        if file is None:
            return None
        with file:
            try:
                names, facts = json.loads(file.readline())
                arrays = {name: read_array(file, allow_pickle=False) for name in names}
                return CachedSplits(_parts(arrays), facts)
            except (ValueError, KeyError, TypeError):  # another format
                return None

    def store(self, directory: Path, splits: CachedSplits) -> None:
        """Caches encoded splits, unless they are too large.

        Args:
          directory: directory of the run, which has the tokenizer.
          splits: the encoded splits.
        """
        arrays = _arrays(splits.parts)

        def fill(file: Any) -> None:
            file.write(json.dumps([[*arrays], splits.facts]).encode() + b"\n")
            for array in arrays.values():
                write_array(file, array, allow_pickle=False)

        if sum(array.nbytes for array in arrays.values()) < LARGEST:
            self._write(self._rows(directory), fill)

    def _rows(self, directory: Path) -> str:
        tokenizer = hashlib.sha256(tokenizer_file(directory).read_bytes()).hexdigest()
        return f"rows-{_hash(self.examples, tokenizer, tokenizers.__version__, self.length)}"

    def _open(self, name: str) -> BinaryIO | None:
        return _whole(self.folder / name) if self.usable else None

    def _write(self, name: str, fill: Callable[[Any], Any]) -> None:
        if not self.usable:
            return
        mine = self.folder / f"{name}-{os.getpid()}"  # several processes may write at the same time
        try:
            self.folder.mkdir(mode=0o755, exist_ok=True)
            with atomic.writing(mine, self.mode) as file:
                summed = _Summed(file)
                fill(summed)
                file.write(summed.digest.digest())
            mine.replace(self.folder / name)
            atomic.sync(self.folder)
            kind = name.partition("-")[0]
            for old in sorted(self.folder.glob(f"{kind}-*"), key=_age)[:-MOST]:
                old.unlink(missing_ok=True)
        except OSError:  # read-only or full disk: nothing is cached
            pass


def of_tfds(config: DataConfig) -> DataCache:
    """Returns the cache of texts that TFDS reads."""
    task = TASKS[config.task]
    builder = prepared(task.dataset or config.dataset, config.dir or None, task.builder)
    depth = len(builder.info.full_name.split("/"))
    place = Path(builder.data_path)
    files = sorted(path for path in place.iterdir() if path.is_file())
    there = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    knobs = [config[name] for name in ("task", *DRAWN, "dataset", *SPLITS, *COLUMNS, "labels")]
    return DataCache(place.parents[depth - 1], [str(place), there, knobs], config)


def of_tables(config: DataConfig, files: Mapping[str, str]) -> DataCache:
    """Returns the cache of custom tables; only the user can read it, because texts may be private."""
    knobs = [config[name] for name in (*DRAWN, *COLUMNS, "multi_label")]
    return DataCache(root(config), [files, knobs], config, mode=0o600)


def root(config: DataConfig) -> Path:
    """Returns the data directory for the `data` part of a configuration."""
    if config.dir:
        return paths.given(config.dir)
    if config.task == "files":
        return paths.given(config.train).absolute().parent
    return Path(constants.DATA_DIR).expanduser()


def _usable(folder: Path) -> bool:
    """Returns whether a cache folder is missing, or as trustworthy as the data directory.

    A link is not followed. The owner must be this user, root, or the owner of the data directory.
    """
    try:
        here, above = folder.lstat(), folder.parent.stat()
    except OSError:
        return True
    known = here.st_uid in (0, os.geteuid(), above.st_uid)
    foreign = here.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_IWOTH
    return stat.S_ISDIR(here.st_mode) and known and not foreign


def _age(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # another process has removed it
        return 0


def _hash(*values: Any) -> str:
    text = json.dumps(values, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _code() -> str:
    """Returns a hash of the source code that reads and encodes."""
    digest, room = hashlib.sha256(), Path(__file__).parent
    for path in sorted(room.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _whole(path: Path) -> BinaryIO | None:
    """Returns an open cached file; None if it does not exist or is damaged."""
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    except OSError:
        return None
    status, digest = os.fstat(file.fileno()), hashlib.sha256()
    left = status.st_size - SUM
    if not stat.S_ISREG(status.st_mode) or not 0 <= left <= LARGEST:
        file.close()
        return None
    while left and (piece := file.read(min(left, 2**20))):
        digest.update(piece)
        left -= len(piece)
    if file.read() != digest.digest():
        file.close()
        return None
    file.seek(0)
    return file


class _Summed(io.RawIOBase):
    """Writes to a file, and computes a hash of its contents.

    Args:
      file: the file.
    """

    def __init__(self, file: BinaryIO):
        self.file, self.digest = file, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        """Writes the bytes `piece`."""
        self.digest.update(piece)
        return self.file.write(piece)


def _arrays(parts: Mapping[str, CachedSplit]) -> dict[str, np.ndarray]:
    arrays = {}
    for name, part in parts.items():
        arrays |= {f"{name}/tokens": part.rows.tokens, f"{name}/lengths": part.rows.lengths}
        arrays |= {f"{name}/{column}": getattr(part, column) for column in CachedSplit._fields[1:]}
    return arrays


def _parts(arrays: Mapping[str, np.ndarray]) -> dict[str, CachedSplit]:
    parts = {}
    for name in dict.fromkeys(key.partition("/")[0] for key in arrays):
        rows = PackedTokens(arrays[f"{name}/tokens"], arrays[f"{name}/lengths"])
        parts[name] = CachedSplit(rows, *(arrays[f"{name}/{column}"] for column in CachedSplit._fields[1:]))
    return parts
