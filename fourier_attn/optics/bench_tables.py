"""Reads tables of numbers: columns of a CSV file with a header, and arrays of NumPy's files."""

import csv
import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

SEPARATORS = (",", ";", "\t")
COMMENT = "#"


def in_order(columns: Mapping[str, np.ndarray], names: Sequence[str], path: Path) -> list[np.ndarray]:
    """Returns columns by name.

    Args:
      columns: of a table.
      names: of the columns, in the order of the result.
      path: of the table, in messages.
    Raises: ValueError for a column that is missing.
    """
    if missing := [name for name in names if name not in columns]:
        raise ValueError(f"{path} has no column {missing[0]}; number pixels from 0, row by row, without gaps")
    return [columns[name] for name in names]


def read_columns(path: Path) -> dict[str, np.ndarray]:
    """Reads a CSV file with a header. Raises: ValueError with line and column of what is not a number.

    Commas, semicolons or tabs separate numbers. Lines that begin with # are comments. The header may
    begin with #, as `numpy.savetxt` writes it.
    """
    try:
        lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        header, *rows = _cells(lines) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a readable CSV file ({error})") from error
    header = [name.strip() for name in header]
    if not rows:
        raise ValueError(f"{path} has no rows below its header; give one row per shot, frame or drive")
    if twice := [name for name in header if header.count(name) > 1]:
        raise ValueError(f"{path} has the column {twice[0]!r} twice; give each column one name")
    for place, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise ValueError(
                f"{path}: row {place} has {len(row)} columns, and the header has {len(header)}; separate "
                "numbers by commas, semicolons or tabs, and write one row per line"
            )
    values = np.array([[_number(cell) for cell in row] for row in rows])
    if bad := np.argwhere(~np.isfinite(values)).tolist():
        row, column = bad[0]
        name, cell = header[column], rows[row][column].strip()
        raise ValueError(
            f"{path}: {name} is {cell!r} in row {row + 1}, which is not a finite number; {_cure(name, cell)}"
        )
    return dict(zip(header, values.T, strict=True))


def _cells(lines: Sequence[str]) -> list[list[str]]:
    """Returns the cells of the header and of each row."""
    rows = [line for line in lines if not line.startswith(COMMENT)]
    comments = [line.lstrip(COMMENT) for line in lines if line.startswith(COMMENT)]
    if comments and rows and not math.isnan(_number(re.split(r"[,;\t]", rows[0])[0])):
        rows = [comments[-1], *rows]
    if not rows:
        return []
    separator = max(SEPARATORS, key=rows[0].count)
    return list(csv.reader(rows, delimiter=separator))


def _cure(name: str, cell: str) -> str:
    """Returns what to do about a cell of a column that is not a number."""
    if re.fullmatch(r"[-+]?\d*,\d+(e[-+]?\d+)?", cell, re.IGNORECASE):
        return "write decimals with a point"
    try:
        if complex(cell.strip("()").replace("i", "j")).imag:
            return f"write its real and imaginary part into the columns {name}_re and {name}_im"
    except ValueError:
        pass
    return "remove the row, or record it again"


def _number(cell: str) -> float:
    """Returns the number in a cell; NaN for a cell without one."""
    try:
        return float(cell)
    except ValueError:
        return math.nan


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Reads the arrays of an .npz file, or that of an .npy file under the name `array`."""
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            arrays = loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded}
    except (OSError, EOFError, zipfile.BadZipFile, ValueError) as error:
        raise ValueError(f"{path} is not a readable file of arrays ({error})") from error
    arrays = {"array": arrays} if isinstance(arrays, np.ndarray) else arrays
    for name, array in arrays.items():
        if array.dtype.kind not in "uifc":
            raise ValueError(f"{path}: {name} has the type {array.dtype}; save numbers")
    return arrays
