"""Finds TFDS data sets without TensorFlow, or downloads them with enforced checksums."""

import contextlib
import errno
import io
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import tensorflow_datasets as tfds
from tensorflow_datasets.core import constants

from fourier_attn import atomic, paths
from fourier_attn.data import lock
from fourier_attn.data.descriptions import check_descriptions


def tfds_builder(dataset: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
    """Returns TFDS's builder of a data set, for array_record files.

    Raises: ValueError for a data set that TFDS does not know, that was prepared in another file format, or
      whose description names code.
    """
    where = folder(data_dir)
    check_descriptions(dataset, where)
    try:
        return tfds.builder(dataset, data_dir=where, file_format="array_record")
    except Exception as error:  # TFDS wraps errors in exceptions of changing types
        reason = str(error).splitlines()[-1]
        raise ValueError(
            f"the data set {dataset} in {where or 'the default TFDS directory'} cannot be used ({reason}); "
            "give another directory (--config.data.dir, --data_dir or TFDS_DATA_DIR)"
        ) from error


def folder(data_dir: str | None) -> str | None:
    """Returns the checked directory of data sets; None for TFDS's default. Raises: ValueError."""
    where = paths.folder(data_dir or constants.DATA_DIR, "data.dir" if data_dir else "TFDS_DATA_DIR")
    return str(where) if data_dir else None


def existing(make: Callable[[], tfds.core.DatasetBuilder]) -> tfds.core.DatasetBuilder | None:
    """Returns the builder of a prepared data set; None if the data set does not exist.

    Another process may finish the data set at any moment of this check, by renaming a complete folder.

    Args:
      make: returns a new builder. A builder reads the description of its data set only once, when it is made.
    Raises: ValueError for an incomplete data set.
    """
    builder = make()
    was_there = builder.data_path.exists()  # first, so that a folder that comes later is not "incomplete"
    if builder.is_prepared():
        return make()  # the first builder may have been made before the description existed
    if was_there:
        raise ValueError(
            f"the data set in {builder.data_path} is incomplete and cannot be read (dataset_info.json is "
            "missing); move this folder and prepare the data set again"
        )
    return None


def prepared(
    dataset: str,
    data_dir: str | None,
    make: Callable[[str | None], tfds.core.DatasetBuilder] | None = None,
) -> tfds.core.DatasetBuilder:
    """Returns the builder of a data set, after downloading it with enforced checksums if it does not exist.

    Args:
      dataset: TFDS name.
      data_dir: directory of TFDS's data sets; None: TFDS's default.
      make: returns the builder for a data directory; default None: TFDS knows the data set by name.
    Raises: ValueError if it cannot be downloaded or written.
    """
    where = folder(data_dir)

    def make_builder() -> tfds.core.DatasetBuilder:
        if make:
            check_descriptions(dataset, where)
        return make(where) if make else tfds_builder(dataset, data_dir)

    if found := existing(make_builder):
        return found
    builder = make_builder()
    try:
        with lock.alone(place(data_dir), dataset):
            if found := existing(make_builder):  # another process has prepared it in the meantime
                return found
            _prepare(builder)
    except OSError as error:
        local = not builder.url_infos  # nothing has to be downloaded
        if error.errno in (errno.EACCES, errno.EROFS, errno.ENOSPC, errno.ENOTDIR, errno.ENOENT) or local:
            raise ValueError(
                f"the data set {dataset} cannot be written to {builder.data_path} ({error}); "
                "give another directory (--config.data.dir or TFDS_DATA_DIR)"
            ) from error
        raise ValueError(
            f"the data set {dataset} is not in {builder.data_path} and cannot be downloaded ({error}). "
            "Build it from a local copy: python -m fourier_attn.data.prepare "
            f"--dataset={dataset} --source=DIR"
        ) from error
    return builder


def place(data_dir: str | None) -> Path:
    """Returns the data directory; for None it is TFDS's default."""
    return Path(folder(data_dir) or constants.DATA_DIR).expanduser()


def _prepare(builder: tfds.core.DatasetBuilder) -> None:
    if not sys.stderr.isatty():
        tfds.disable_progress_bar()
    for url in builder.url_infos or ():  # TFDS tries for minutes before it gives up
        urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=20).close()
    download = tfds.download.DownloadConfig(force_checksums_validation=True)
    # TFDS announces a download of unknown size even for data that are generated here.
    quiet = contextlib.nullcontext() if builder.url_infos else contextlib.redirect_stdout(io.StringIO())
    with quiet:
        builder.download_and_prepare(download_config=download)
    atomic.sync_tree(Path(builder.data_path))
