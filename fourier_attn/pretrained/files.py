"""Reads and writes files of weights: safetensors, msgpack and Keras's HDF5, as flat dicts of arrays.

Pickles are never opened. Files are untrusted: lengths are compared with the size of the file before anything
is allocated, and any invalid file raises a ValueError that names it.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax.numpy as jnp
import msgpack
import numpy as np
import safetensors
import safetensors.numpy
from flax import serialization, traverse_util

from fourier_attn import atomic, hub, paths
from fourier_attn.choices import check_choice
from fourier_attn.inference import classify
from fourier_attn.pretrained import hdf5, keras_hub
from fourier_attn.pretrained.recognise import PICKLES, recognise

FORMATS = ("safetensors", "msgpack", "h5")
IN_FOLDER = ("model.safetensors", keras_hub.WEIGHTS)  # files of weights in a folder; the first one counts
DTYPES = {name: jnp.dtype(name) for name in ("float32", "float16", "bfloat16")}
HEADER = 2**22  # largest header in bytes; that of a published file has less than 2**17
ENTRIES, NESTED = 100_000, 1024  # largest number of entries of a tree, and of one dict in it
AXES, BLOCK = 8, 2**20  # largest number of axes of an array; bytes that are read together
LARGEST = 2**31  # bytes of an array in msgpack; Flax splits at 2**30, and lengths of 2**32 - 1 overflow
NDARRAY = 1  # msgpack's type of arrays in Flax
CHUNKED = "__msgpack_chunked_array__"


class Contents(NamedTuple):
    """Holds the contents of a file.

    Args:
      arrays: arrays by name.
      config: the configuration in the file as JSON; None: none.
      unread: names of further entries, which were not read.
    """

    arrays: dict[str, np.ndarray]
    config: str | None
    unread: tuple[str, ...]


def find(path: str | Path) -> Path:
    """Returns the file of weights: `path` itself, or model.safetensors or model.weights.h5 in this folder.

    A folder on the hub, "hf:owner/name", is downloaded first.

    Raises: ValueError if the file does not exist, if a file of the folder has changed since it was exported,
      or if the folder has only a pickle.
    """
    path = hub.local(path)
    if path.is_dir():
        if file := inside(path):
            classify.check_sums(path, foreign=True)
            return file
        files = sorted(path.iterdir())
        if pickles := [file for file in files if file.suffix in PICKLES]:
            recognise(pickles[0])  # raises for a pickle; the file may have another format
            raise ValueError(
                f"{path} lacks model.safetensors; give the file itself, for example {pickles[0]}"
            )
        if any(file.suffix == ".stablehlo" for file in files):
            raise ValueError(
                f"{path} contains exported programs, which its classify.py runs; to load a folder, "
                "export the run with --format=huggingface"
            )
        raise ValueError(
            f"{path} lacks model.safetensors; give the file itself (join weights that are in several files)"
        )
    if not path.is_file():
        raise ValueError(f"{path} is not a file; give a file of weights, or a folder with model.safetensors")
    return path


def inside(folder: Path) -> Path | None:
    """Returns the file of weights in a folder; None: it has none."""
    return next((folder / name for name in IN_FOLDER if (folder / name).is_file()), None)


def read(path: Path) -> Contents:
    """Reads a file of weights; its first bytes determine the format.

    Raises: ValueError for a file that is damaged or has another format.
    """
    form = recognise(path)
    try:
        return {"safetensors": _safetensors, "msgpack": _msgpack, "h5": _keras}[form](path)
    except OSError:
        raise
    except Exception as error:  # a damaged file raises many types of errors
        reason = str(error)[:200] or type(error).__name__
        raise ValueError(f"{path} is damaged or not a file of weights: {reason}; get it again") from error


def _safetensors(path: Path) -> Contents:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(HEADER, path.stat().st_size - 8):
        raise ValueError(f"its header claims {length} bytes, more than {HEADER} or than the file has")
    with safetensors.safe_open(path, "np") as file:  # checks offsets, shapes and the size of the file
        names = file.offset_keys()
        if long := [name for name in names if len(file.get_slice(name).get_shape()) > AXES]:
            raise ValueError(f"{long[0]!r:.80} has more than {AXES} axes")
        arrays = {name: file.get_tensor(name) for name in names}
        return Contents(arrays, (file.metadata() or {}).get("config"), ())


def _keras(path: Path) -> Contents:
    arrays, unread = keras_hub.read(path)
    return Contents(arrays, None, unread)


def _msgpack(path: Path) -> Contents:
    with path.open("rb") as file:
        places = _places(file, path.stat().st_size)
        wanted = {"target", "config"} if "target" in places else set(places)
        values = {}
        for name in wanted & set(places):
            file.seek(places[name])
            values[name] = _unpacker(file, path.stat().st_size).unpack()
    config, tree = values.pop("config", None), values.pop("target", values)
    if not isinstance(tree, dict) or not isinstance(config, str | None):
        raise ValueError("'target' is not a tree of arrays, or 'config' not a text")
    return Contents(dict(_leaves(tree)), config, tuple(sorted(set(places) - wanted)))


def _places(file: BinaryIO, size: int) -> dict[str, int]:
    """Returns the offset of each value in the outermost dict, after parsing the whole file."""
    file.seek(0)
    unpacker, places = _unpacker(file, size), {}
    for _ in range(unpacker.read_map_header()):
        name = unpacker.unpack()
        if not isinstance(name, str) or name in places or len(places) == NESTED:
            raise ValueError(f"its entry {str(name)!r:.80} is a duplicate, not a name, or one too many")
        places[name] = unpacker.tell()
        unpacker.skip()
    if unpacker.tell() != size:
        raise ValueError(f"it has {size - unpacker.tell()} bytes after its end")
    return places


def _unpacker(file: BinaryIO, size: int) -> Any:
    """Returns an unpacker that refuses lists, counts entries, and is limited by the size of the file."""
    budget = iter(range(ENTRIES))

    def tree(pairs: list[tuple[Any, Any]]) -> Any:
        for _ in pairs or (None,):
            if next(budget, None) is None:
                raise ValueError(f"it has more than {ENTRIES} entries")
        entries = dict(pairs)
        if len(entries) != len(pairs) or not all(isinstance(k, str) and "/" not in k for k in entries):
            raise ValueError("an entry is a duplicate, or its name is not valid")
        return _joined(entries) if CHUNKED in entries else entries

    return msgpack.Unpacker(
        file,
        read_size=BLOCK,
        max_buffer_size=min(max(size, BLOCK), LARGEST),
        max_array_len=NESTED,
        max_map_len=NESTED,
        object_pairs_hook=tree,
        list_hook=_refuse,
        ext_hook=_array,
    )


def _refuse(*values: Any) -> Any:
    raise ValueError("it has entries other than dicts and arrays")


def _array(code: int, data: bytes) -> np.ndarray:
    """Reads an array as Flax writes it: [shape, name of the dtype, bytes]."""
    parts = msgpack.Unpacker(
        max_buffer_size=len(data), list_hook=_refuse, object_pairs_hook=_refuse, ext_hook=_refuse
    )
    parts.feed(data)
    if code != NDARRAY or parts.read_array_header() != 3:
        raise ValueError(f"it has an object of the unknown type {code}")
    axes = parts.read_array_header()
    if axes > AXES:
        raise ValueError(f"an array has {axes} axes; at most {AXES} are read")
    return _shaped([parts.unpack() for _ in range(axes)], parts.unpack(), parts.unpack())


def _shaped(shape: list[Any], dtype: Any, data: Any) -> np.ndarray:
    """Returns an array after checking its parts.

    Args:
      shape: its shape.
      dtype: name of its dtype, a key of `DTYPES`.
      data: its bytes.
    Raises: ValueError for parts that do not fit.
    """
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"an array has the shape {str(shape)[:80]}")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"an array has dtype {str(dtype)[:80]}; weights are {', '.join(DTYPES)}")
    count = 1
    for n in shape:
        count *= n
    if not isinstance(data, bytes) or len(data) != count * DTYPES[dtype].itemsize:
        raise ValueError(f"an array of shape {shape} and dtype {dtype} does not have its number of bytes")
    return np.frombuffer(data, DTYPES[dtype]).reshape(shape)


def _joined(entries: dict[str, Any]) -> np.ndarray:
    """Joins a large array that Flax has split: {"shape": {"0": n, ...}, "chunks": {"0": array, ...}}."""
    shape, chunks = entries.get("shape"), entries.get("chunks")
    if not isinstance(shape, dict) or not isinstance(chunks, dict) or not chunks or len(shape) > AXES:
        raise ValueError("an array in pieces lacks its shape or its pieces")
    pieces: list[Any] = [chunks.get(str(n)) for n in range(len(chunks))]
    if not all(isinstance(p, np.ndarray) and p.ndim == 1 and p.dtype == pieces[0].dtype for p in pieces):
        raise ValueError("the pieces of an array do not fit together")
    data = np.concatenate(pieces)
    return _shaped([shape.get(str(n)) for n in range(len(shape))], data.dtype.name, data.tobytes())


def _leaves(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, np.ndarray]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}/")
        elif isinstance(value, np.ndarray):
            yield prefix + name, value
        else:
            raise ValueError(f"{prefix + name!r:.80} is not an array")


def write(path: Path, arrays: Mapping[str, np.ndarray], config: str, format: str, *, torch: bool) -> None:
    """Writes a new file atomically.

    Keras's files have no configuration, and their head goes to task.weights.h5 next to the file.

    Args:
      path: the new file.
      arrays: arrays by name.
      config: the configuration as JSON.
      format: one of `FORMATS`.
      torch: whether safetensors' metadata say that names and shapes are those of PyTorch.
    Raises: ValueError for an unknown format or ending, an existing file, and a folder that cannot be made.
    """
    check_choice("format", format, FORMATS)
    ending = keras_hub.SUFFIX if format == "h5" else f".{format}"
    if not path.name.endswith(ending):
        raise ValueError(f"{path} does not have the ending of {format}; end it with {ending}")
    if format == "h5":
        _write_keras(path, arrays)
        return
    with _written(path) as temporary:
        if format == "safetensors":
            metadata = {"config": config, **({"format": "pt"} if torch else {})}
            safetensors.numpy.save_file(
                {k: np.ascontiguousarray(v) for k, v in arrays.items()}, temporary, metadata
            )
        else:
            tree = traverse_util.unflatten_dict(dict(arrays), sep="/")
            temporary.write_bytes(serialization.msgpack_serialize({"target": tree, "config": config}))


def _write_keras(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes the one or two files of a Keras model, the head first, because the backbone is usable alone."""
    parts = keras_hub.parts(path, arrays)
    for file in parts:
        absent(file)
    for file, (held, layers) in parts.items():
        with _written(file) as temporary:
            hdf5.write(temporary, held, layers)


def absent(path: Path) -> None:
    """Checks that `path` is new. Raises: ValueError."""
    paths.check_new(path, "give a new file, or move the existing one")


@contextmanager
def _written(path: Path) -> Iterator[Path]:
    absent(path)
    try:
        atomic.make_folder(path.parent)
    except OSError as error:
        raise ValueError(f"{path} cannot be written ({error.strerror}); give another file") from error
    with tempfile.TemporaryDirectory(prefix=".", suffix=".tmp", dir=path.parent) as folder:
        temporary = Path(folder) / path.name
        yield temporary
        atomic.sync(temporary)
        absent(path)
        temporary.rename(path)
        atomic.sync(path.parent)
