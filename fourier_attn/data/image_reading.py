"""Reads an untrusted image file, within limits, at the size of a network's input."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from fourier_attn.data.tables import files

FORMATS = ("PNG", "JPEG", "BMP", "PPM", "WEBP")
REFUSED = ("GIF", "TIFF")  # recognised, but not read
PIXELS = 2**26  # largest number of pixels of a file; a photograph has up to 2**25
COLOURS = {1: "L", 3: "RGB"}  # Pillow's mode for each number of channels
PLAIN = {"P": "RGB", "1": "L"}  # modes to which palettes and black-and-white images are converted


def read_image(path: Path, image: tuple[int, ...]) -> np.ndarray:
    """Reads an image file, and returns it rotated by its EXIF data and scaled to the shape `image`, uint8.

    A grey image gets three equal channels if the network takes colours.

    Args:
      path: the file.
      image: rows, columns and channels of the result.
    Raises: ValueError for a file that is not an image, is truncated or too large, and for other channels.
    """
    try:
        with files.open_regular(path, path) as file:
            return _scaled(_read(file), image)
    except ValueError as error:
        raise ValueError(f"image={path} cannot be used: {error}") from error


def may_be_image(path: Path) -> bool:
    """Returns False for a file that does not begin like an image; `read_image` reports other errors."""
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        with files.open_regular(path, path) as file:
            try:
                Image.open(file, formats=(*FORMATS, *REFUSED))
            except UnidentifiedImageError:
                return False
    return True


def _read(file: BinaryIO) -> Image.Image:
    """Returns the decoded image, rotated by its EXIF data. Raises: ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # PIXELS is the limit here
        with _pillow_errors():
            opened = Image.open(file, formats=FORMATS)
        if opened.width * opened.height > PIXELS:
            raise ValueError(
                f"it has {opened.width} x {opened.height} pixels, more than {PIXELS:,}; scale it down first"
            )
        with _pillow_errors():
            opened.load()
            return ImageOps.exif_transpose(opened)


@contextlib.contextmanager
def _pillow_errors() -> Iterator[None]:
    """Turns any error of Pillow into a ValueError."""
    try:
        yield
    except Image.DecompressionBombError as error:
        raise ValueError(f"{error}; scale it down first") from error
    except UnidentifiedImageError as error:
        raise ValueError(f"it is not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} file") from error
    except Exception as error:  # Pillow raises many types of errors for a damaged file
        raise ValueError(
            f"{str(error)[:200] or type(error).__name__}; "
            f"give a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} file"
        ) from error


def _scaled(opened: Image.Image, image: tuple[int, ...]) -> np.ndarray:
    rows, cols, channels = image
    if channels not in COLOURS:
        raise ValueError(f"the network takes images with {channels} channels, not files; give arrays")
    if "transparency" in opened.info:
        raise ValueError("it is transparent; convert it first")
    plain = opened.convert(PLAIN[opened.mode]) if opened.mode in PLAIN else opened
    if plain.mode not in COLOURS.values() or (plain.mode == "RGB" and channels == 1):
        raise ValueError(
            f"its mode is {plain.mode}, but the network takes {COLOURS[channels]}; convert it first"
        )
    plain = plain.convert(COLOURS[channels])
    scaled = plain if plain.size == (cols, rows) else plain.resize((cols, rows), Image.Resampling.BICUBIC)
    return np.asarray(scaled).reshape(image)
