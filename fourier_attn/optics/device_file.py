"""Reads the file of a measured device."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np


def read_device(path: Path) -> tuple[Any, Any, dict[str, Any]]:
    """Reads the arrays `transfer` and `drive_table` (None if absent) of a file, and its parameters.

    Args:
      path: the file, .npz or .npy.
    Raises: ValueError for a file that cannot be read.
    """
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded, None, {}
            arrays = {name: loaded[name] for name in loaded.files}
            if "transfer" not in arrays:
                raise ValueError(f"has the arrays {', '.join(arrays) or 'none'}, and no `transfer`")
            transfer, table = arrays.pop("transfer"), arrays.pop("drive_table", None)
            values = {name: value.tolist() for name, value in arrays.items()}
            return transfer, table, {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, ValueError) as error:
        raise ValueError(f"{path} is not a readable measured device ({error})") from error


def complex_array(name: str, values: Any) -> np.ndarray:
    """Returns numbers in double precision. Raises: ValueError."""
    try:
        return np.asarray(values).astype(np.complex128)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers ({error})") from error
