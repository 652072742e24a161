"""Arrays of an HDF5 file, as Keras 3 writes weights: groups, and in them plain arrays.

What is read comes from strangers, and HDF5 can do much more than hold arrays: links to other files, arrays
that lie in other files, programs that unpack them. Whatever is not a group or an array of numbers in the
file itself is refused before it is read. h5py is imported where it is used (extra `keras`).
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
ENTRIES, DEPTH, AXES = 100_000, 16, 8  # of a file: groups and arrays, groups in groups; of an array
PACKED = 100  # times that gzip may shrink an array: weights shrink by a tenth, zeros by a thousand
SLACK = 2**20  # bytes that may unpack from a small file, whatever is in it


def read(path: Path) -> dict[str, np.ndarray]:
    """Returns the arrays of a file by their paths, as "layers/dense/vars/0"; attributes are not read.

    Arrays that are packed with gzip are unpacked; bfloat16 is what Keras writes as two bytes without a kind.

    Raises: ValueError without h5py, and for a file that is damaged, holds links or objects, or claims more
      bytes than it has.
    """
    h5py = library(path)
    try:
        with h5py.File(path, "r") as file:
            entries = dict(_arrays(h5py, file, "", DEPTH, iter(range(ENTRIES))))
            _check_sizes(entries, path.stat().st_size)
            return {name: _numbers(entry) for name, entry in entries.items()}
    except OSError as error:  # of the library, which has no other for a damaged file
        raise ValueError(str(error)) from error


def write(path: Path, arrays: Mapping[str, np.ndarray], layers: Mapping[str, str]) -> None:
    """Writes arrays under their paths, and each layer's name as the attribute `name` of its group `vars`.

    Args: layers: paths of layers, "layers/dense", and their names; "" is the whole model.
    """
    with library(path).File(path, "w") as file:
        for layer, name in layers.items():
            file.create_group(f"{layer}/vars".lstrip("/")).attrs["name"] = name
        for key, array in arrays.items():
            file[key] = np.ascontiguousarray(array)


def library(path: Path) -> Any:
    """Returns the module h5py. Raises: ValueError where it is not installed."""
    try:
        return importlib.import_module("h5py")  # typed as Any: it ships no types
    except ImportError as error:
        raise ValueError(f"{path} is {NEEDED}") from error


def _arrays(
    h5py: Any, group: Any, prefix: str, depth: int, budget: Iterator[int]
) -> Iterator[tuple[str, Any]]:
    """Yields the arrays below a group, none of them read."""
    if depth == 0:
        raise ValueError(f"its groups are nested more than {DEPTH} deep")
    for key in group:
        name = f"{prefix}{key}"
        if next(budget, None) is None:
            raise ValueError(f"it has more than {ENTRIES} entries")
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            raise ValueError(f"{name!r:.80} is a link to elsewhere, which is not followed")
        entry = group[key]
        if isinstance(entry, h5py.Group):
            yield from _arrays(h5py, entry, f"{name}/", depth - 1, budget)
        elif isinstance(entry, h5py.Dataset):
            _check_array(h5py, name, entry)
            yield name, entry
        else:
            raise ValueError(f"{name!r:.80} is neither a group nor an array")


def _check_array(h5py: Any, name: str, entry: Any) -> None:
    """Checks that an entry is an array of numbers in this file, whole or packed with gzip."""
    kind = entry.dtype.str[1:]
    if kind not in KINDS or entry.dtype.fields:
        raise ValueError(
            f"{name!r:.80} has dtype {entry.dtype!s:.80}; arrays are {', '.join(KINDS.values())}"
        )
    if entry.shape is None or len(entry.shape) > AXES:
        raise ValueError(f"{name!r:.80} has no shape, or more than {AXES} axes")
    if entry.is_virtual or entry.external:
        raise ValueError(f"{name!r:.80} lies in other files, which are not opened")
    plan = entry.id.get_create_plist()
    filters = {plan.get_filter(n)[0] for n in range(plan.get_nfilters())}
    if filters - {h5py.h5z.FILTER_DEFLATE}:
        raise ValueError(f"{name!r:.80} is packed in another way than with gzip; save it without")


def _check_sizes(entries: Mapping[str, Any], size: int) -> None:
    """Checks what reading would allocate against what the file holds, before anything is read.

    An array that was never written has no bytes in the file; two names of one array count twice.
    """
    unpacked = stored = 0
    for name, entry in entries.items():
        claimed, held = _bytes(entry.shape, entry), entry.id.get_storage_size()
        piece = _bytes(entry.chunks or (), entry)
        if (claimed > held and not entry.compression) or max(claimed, piece) > PACKED * size + SLACK:
            raise ValueError(f"{name!r:.80} claims {max(claimed, piece)} bytes and has {held}")
        unpacked, stored = unpacked + claimed, stored + held
    if stored > size or unpacked > PACKED * size + SLACK:
        raise ValueError(f"its arrays claim {unpacked} bytes, {stored} of them stored; the file has {size}")


def _bytes(shape: tuple[int, ...], entry: Any) -> int:
    return math.prod(shape) * entry.dtype.itemsize


def _numbers(entry: Any) -> np.ndarray:
    array = entry[()]
    kind = np.dtype(jnp.dtype(KINDS[array.dtype.str[1:]]))
    return array.view(kind) if array.dtype.kind == "V" else np.asarray(array, kind)
