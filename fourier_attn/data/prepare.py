"""Builds a TFDS data set from a local copy: python -m fourier_attn.data.prepare --dataset=NAME --source=PATH.

The result is the data set that TFDS would build from the same files (name, version, features, splits, order
of the examples). `tfds.data_source(NAME)` therefore reads it on a machine without network.
"""

import contextlib
import functools
import io
import sys
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds
from absl import flags

from fourier_attn import atomic, command, paths
from fourier_attn.data import lock
from fourier_attn.data.sources import cifar, glue, idx, imdb, wikitext
from fourier_attn.data.tfds import existing, place, tfds_builder

READERS = {
    "imdb_reviews": imdb.splits,
    "mnist": idx.splits,
    "fashion_mnist": idx.splits,
    "cifar10": cifar.splits,
    "wikitext2": wikitext.splits,  # not one of TFDS's own
    **dict.fromkeys(glue.GLUE, glue.splits),
}


def prepare(dataset: str, source: str | Path, data_dir: str | None = None) -> tfds.core.DatasetBuilder:
    """Builds a data set from a local copy; an existing data set is not changed.

    Args:
      dataset: a key of `READERS`.
      source: the folder or archive with the copy.
      data_dir: directory of TFDS's data sets; default None: TFDS's default.
    Raises: ValueError for a source that is missing, damaged or in another format, has rows without label or
      text in UTF-8, or contains links, devices or texts that are too long. Nothing is written then.
    """
    source = _existing(source, dataset)
    make = functools.partial(tfds_builder, dataset, data_dir)
    found = existing(make)
    if not found:
        with lock.alone(place(data_dir), dataset):
            found = existing(make)
            if not found:
                builder = make()
                _build(builder, dataset, source)
                return builder
    print(f"{dataset} is already in {found.data_path}; move that folder away to build it again")
    return found


def _build(builder: Any, dataset: str, source: Path) -> None:
    """Builds a data set with TFDS.

    Args:
      builder: TFDS's builder.
      dataset: a key of `READERS`.
      source: the folder or archive with the copy.
    """
    if not sys.stderr.isatty():
        tfds.disable_progress_bar()
    # Read everything before anything is written.
    splits = {name: list(examples) for name, examples in READERS[dataset](builder, source).items()}
    builder._split_generators = lambda dl_manager: splits  # makes TFDS's builder read the local copy
    with contextlib.redirect_stdout(io.StringIO()):  # TFDS announces a download of unknown size
        builder.download_and_prepare()
    atomic.sync_tree(Path(builder.data_path))
    counts = ", ".join(f"{split.num_examples:,} {name}" for name, split in builder.info.splits.items())
    print(f"{dataset} is in {builder.data_path}: {counts}")


def _existing(source: str | Path, dataset: str) -> Path:
    if not paths.given(source).exists():
        raise ValueError(f"source={source} does not exist; give the folder or the archive of {dataset}")
    return paths.given(source)


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_enum(
        "dataset", None, [*READERS, "glue"], "name in TFDS; glue prepares every task that --source has"
    )
    flags.DEFINE_string(
        "source", None, "local copy of the data set: a folder or an archive, see docs/data.md"
    )
    flags.DEFINE_string("data_dir", None, "directory of the TFDS data sets; default: that of TFDS")


def main() -> None:
    """Builds the data sets that the flags name. Raises: ValueError."""
    given = flags.FLAGS
    if not given.dataset or not given.source:
        raise ValueError(
            "--dataset and --source are required, for example --dataset=imdb_reviews --source=aclImdb"
        )
    source = _existing(given.source, given.dataset)
    for dataset in glue.available(source) if given.dataset == "glue" else [given.dataset]:
        prepare(dataset, source, given.data_dir)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
