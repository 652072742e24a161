"""Reads and writes arrays in HDF5 files, in the form in which Keras 3 writes weights.

Files are untrusted, and HDF5 can also contain links to other files, arrays in other files, and filters that
run code. Entries that are not groups or plain arrays of numbers are refused before anything is read. h5py is
imported only when it is used (extra `keras`).
"""

import importlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from fourier_attn import extras

NEEDED = f"an HDF5 file, which needs the package h5py; {extras.install('keras')}"
KINDS = {"f2": "float16", "f4": "float32", "V2": "bfloat16", "f8": "float64", "i4": "int32", "i8": "int64"}
ENTRIES, DEPTH, AXES = 100_000, 16, 8  # largest number of entries, of nested groups, of axes of an array
PACKED = 100  # largest ratio of gzip: weights shrink by a tenth, zeros to a thousandth
SLACK = 2**20  # bytes that a small file may always decompress to


def read(path: Path) -> dict[str, np.ndarray]:
    """Returns the arrays of a file by their paths, for example "layers/dense/vars/0", without attributes.

    Arrays that are compressed with gzip are decompressed. Two bytes without a type are Keras's bfloat16.

    Raises: ValueError without h5py, and for a file that is damaged, contains links or objects, or claims more
      bytes than it has.
    """
    h5py = library(path)
    try:
        with h5py.File(path, "r") as file:
            entries = dict(_arrays(h5py, file, "", DEPTH, iter(range(ENTRIES))))
            _check_sizes(entries, path.stat().st_size)
            return {name: _numbers(entry) for name, entry in entries.items()}
    except OSError as error:  # the library raises it for a damaged file
        raise ValueError(str(error)) from error


def write(path: Path, arrays: Mapping[str, np.ndarray], layers: Mapping[str, str]) -> None:
    """Writes arrays, and each layer's name as the attribute `name` of its group `vars`.

    Args:
      path: the file.
      arrays: arrays by path.
      layers: names of layers by path, for example "layers/dense"; "" is the whole model.
    """
    with library(path).File(path, "w") as file:
        for layer, name in layers.items():
            file.create_group(f"{layer}/vars".lstrip("/")).attrs["name"] = name
        for key, array in arrays.items():
            file[key] = np.ascontiguousarray(array)


def library(path: Path) -> Any:
    """Returns the module h5py. Raises: ValueError, which names `path`, if it is not installed."""
    try:
        return importlib.import_module("h5py")  # typed as Any, because it has no type annotations
    except ImportError as error:
        raise ValueError(f"{path} is {NEEDED}") from error


def _arrays(
    h5py: Any, group: Any, prefix: str, depth: int, budget: Iterator[int]
) -> Iterator[tuple[str, Any]]:
    """Yields names and entries of the arrays in a group, without reading them.

    Args:
      h5py: the module.
      group: the group.
      prefix: path of the group with a slash at its end; "" for the file.
      depth: number of further levels that are allowed.
      budget: yields once for each entry that is allowed.
    Raises: ValueError for links, objects, and too many entries or levels.
    """
    if depth == 0:
        raise ValueError(f"its groups are nested more than {DEPTH} deep")
    for key in group:
        name = f"{prefix}{key}"
        if next(budget, None) is None:
            raise ValueError(f"it has more than {ENTRIES} entries")
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            raise ValueError(f"{name!r:.80} is a link, which is not followed")
        entry = group[key]
        if isinstance(entry, h5py.Group):
            yield from _arrays(h5py, entry, f"{name}/", depth - 1, budget)
        elif isinstance(entry, h5py.Dataset):
            _check_array(h5py, name, entry)
            yield name, entry
        else:
            raise ValueError(f"{name!r:.80} is neither a group nor an array")


def _check_array(h5py: Any, name: str, entry: Any) -> None:
    """Checks that an entry is an array of numbers in this file, plain or compressed with gzip.

    Args:
      h5py: the module.
      name: path of the entry.
      entry: the entry.
    Raises: ValueError.
    """
    kind = entry.dtype.str[1:]
    if kind not in KINDS or entry.dtype.fields:
        raise ValueError(
            f"{name!r:.80} has dtype {entry.dtype!s:.80}; arrays are {', '.join(KINDS.values())}"
        )
    if entry.shape is None or len(entry.shape) > AXES:
        raise ValueError(f"{name!r:.80} has no shape, or more than {AXES} axes")
    if entry.is_virtual or entry.external:
        raise ValueError(f"{name!r:.80} is stored in other files, which are not opened")
    plan = entry.id.get_create_plist()
    filters = {plan.get_filter(n)[0] for n in range(plan.get_nfilters())}
    if filters - {h5py.h5z.FILTER_DEFLATE}:
        raise ValueError(f"{name!r:.80} is not compressed with gzip; save it without compression")


def _check_sizes(entries: Mapping[str, Any], size: int) -> None:
    """Checks, before anything is read, that arrays do not claim more bytes than the file has.

    An array that was never written has no bytes in the file, and two names of one array count twice.

    Raises: ValueError.
    """
    unpacked = stored = 0
    for name, entry in entries.items():
        claimed, held = _bytes(entry.shape, entry), entry.id.get_storage_size()
        piece = _bytes(entry.chunks or (), entry)
        if (claimed > held and not entry.compression) or max(claimed, piece) > PACKED * size + SLACK:
            raise ValueError(f"{name!r:.80} claims {max(claimed, piece)} bytes, but has {held}")
        unpacked, stored = unpacked + claimed, stored + held
    if stored > size or unpacked > PACKED * size + SLACK:
        raise ValueError(f"its arrays claim {unpacked} bytes, {stored} of them stored; the file has {size}")


def _bytes(shape: tuple[int, ...], entry: Any) -> int:
    return math.prod(shape) * entry.dtype.itemsize


def _numbers(entry: Any) -> np.ndarray:
    array = entry[()]
    kind = np.dtype(jnp.dtype(KINDS[array.dtype.str[1:]]))
    return array.view(kind) if array.dtype.kind == "V" else np.asarray(array, kind)
