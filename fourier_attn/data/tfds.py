"""Data sets through TFDS, without TensorFlow: what is there, or is downloaded with its checksums enforced."""

import contextlib
import dataclasses
import errno
import io
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image
from tensorflow_datasets.core import constants

from fourier_attn import atomic, paths
from fourier_attn.data import lock
from fourier_attn.data.descriptions import check_descriptions
from fourier_attn.data.tables.columns import Columns
from fourier_attn.data.tables.files import letters


@dataclasses.dataclass(frozen=True)
class Examples:
    """Texts, with a second one each where there are pairs, and labels.

    `in_train` marks those whose text is also in the train split; `idx` is GLUE's number of each example.
    """

    texts: list[str]
    text_pairs: list[str] | None
    labels: np.ndarray
    in_train: np.ndarray
    idx: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, index: np.ndarray) -> "Examples":
        text_pairs = None if self.text_pairs is None else [self.text_pairs[i] for i in index]
        texts, rest = [self.texts[i] for i in index], (self.labels, self.in_train, self.idx)
        return Examples(texts, text_pairs, *(column[index] for column in rest))

    def first(self, count: int) -> "Examples":
        """The first so many, or all for 0."""
        return self.take(np.arange(len(self))[:count]) if count else self

    def letters(self) -> list[str]:
        """What makes two examples the same."""
        text_pairs = self.text_pairs or [""] * len(self)
        return [letters(f"{a} | {b}") for a, b in zip(self.texts, text_pairs, strict=True)]


@dataclasses.dataclass(frozen=True)
class Pictures:
    """Images (n, rows, cols, channels) of bytes, their classes (n) or those of their patches (n, t).

    `ids` are TFDS's names of them, `in_train` marks those that are also in the train split, pixel by pixel,
    and `questions` are what is asked about each, "" where nothing is.
    """

    images: np.ndarray
    labels: np.ndarray
    ids: np.ndarray
    in_train: np.ndarray
    questions: np.ndarray

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: np.ndarray) -> "Pictures":
        columns = (getattr(self, field.name) for field in dataclasses.fields(self))
        return Pictures(*(column[index] for column in columns))

    def first(self, count: int) -> "Pictures":
        """The first so many, or all for 0."""
        return self.take(np.arange(len(self))[:count]) if count else self

    def seen_in(self, train: "Pictures") -> "Pictures":
        seen = {image.tobytes() for image in train.images}
        return dataclasses.replace(self, in_train=np.array([i.tobytes() in seen for i in self.images], bool))


def tfds_builder(dataset: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
    """TFDS's builder of a data set it knows, for array_record files.

    Raises: ValueError where it has been prepared in another file format, or its description names code.
    """
    where = folder(data_dir)
    check_descriptions(dataset, where)
    try:
        return tfds.builder(dataset, data_dir=where, file_format="array_record")
    except Exception as error:  # TFDS wraps what went wrong in errors of changing kinds
        reason = str(error).splitlines()[-1]
        raise ValueError(
            f"the data set {dataset} in {where or 'the default TFDS directory'} cannot be used ({reason}); "
            "name another directory (--config.data.dir, --data_dir or TFDS_DATA_DIR)"
        ) from error


def folder(data_dir: str | None) -> str | None:
    """Returns where data sets are kept, None for TFDS's own place, once it is checked. Raises: ValueError."""
    where = paths.folder(data_dir or constants.DATA_DIR, "data.dir" if data_dir else "TFDS_DATA_DIR")
    return str(where) if data_dir else None


def is_prepared(builder: tfds.core.DatasetBuilder) -> bool:
    """Whether the data set is there. Raises: ValueError for one that is half-written."""
    if not builder.is_prepared() and builder.data_path.exists():
        raise ValueError(
            f"the data set in {builder.data_path} is half-written (it has no dataset_info.json, so it "
            "cannot be read); move that folder away and prepare it again"
        )
    return builder.is_prepared()


def prepared(
    dataset: str,
    data_dir: str | None,
    make: Callable[[str | None], tfds.core.DatasetBuilder] | None = None,
) -> tfds.core.DatasetBuilder:
    """TFDS's builder of a data set that is there; downloads it with its checksums enforced if it is not.

    Raises: ValueError where it cannot be had or cannot be written.
    """
    where = folder(data_dir)

    def found() -> tfds.core.DatasetBuilder:
        if make:
            check_descriptions(dataset, where)
        return make(where) if make else tfds_builder(dataset, data_dir)

    builder = found()
    if is_prepared(builder):
        return builder
    try:
        with lock.alone(place(data_dir), dataset):
            builder = found()  # as another process may have prepared it in the meantime
            if not is_prepared(builder):
                _prepare(builder)
    except OSError as error:
        local = not builder.url_infos  # nothing was to be downloaded
        if error.errno in (errno.EACCES, errno.EROFS, errno.ENOSPC, errno.ENOTDIR) or local:
            raise ValueError(
                f"the data set {dataset} cannot be written to {builder.data_path} ({error}); "
                "name another directory (--config.data.dir or TFDS_DATA_DIR)"
            ) from error
        raise ValueError(
            f"the data set {dataset} is not in {builder.data_path} and cannot be downloaded ({error}). "
            "Build it from a local copy: python -m fourier_attn.data.prepare "
            f"--dataset={dataset} --source=DIR"
        ) from error
    return builder


def place(data_dir: str | None) -> Path:
    """Returns the data directory, which is TFDS's own for None."""
    return Path(folder(data_dir) or constants.DATA_DIR).expanduser()


def _prepare(builder: tfds.core.DatasetBuilder) -> None:
    if not sys.stderr.isatty():
        tfds.disable_progress_bar()
    for url in builder.url_infos or ():  # TFDS tries for minutes before it gives up
        urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=20).close()
    download = tfds.download.DownloadConfig(force_checksums_validation=True)
    # TFDS announces a download of unknown size even of what is made here.
    quiet = contextlib.nullcontext() if builder.url_infos else contextlib.redirect_stdout(io.StringIO())
    with quiet:
        builder.download_and_prepare(download_config=download)
    atomic.sync_tree(Path(builder.data_path))


def read_pictures(builder: Any, split: str, label: str = "label", question: str = "") -> Pictures:
    """The images of a split, in TFDS's order.

    Args:
      label, question: the features with them; without a name there are no questions.
    Raises: ValueError for a split that is not there or cannot be read.
    """
    check_split(builder, split, ("image", label, *([question] if question else [])), "images")
    shape = builder.info.features["image"].shape
    try:
        decoders = {"image": tfds.decode.SkipDecoding()}  # which would be TensorFlow's, or slow
        source = builder.as_data_source(split, decoders=decoders)
        rows = source.__getitems__(range(len(source)))
        if len(rows) != builder.info.splits[split].num_examples:
            raise ValueError(f"{len(rows)} of {builder.info.splits[split].num_examples} examples")
        images = np.empty((len(rows), *shape), np.uint8)
        for i, row in enumerate(rows):
            images[i] = _decoded(row["image"], shape)
        labels = np.array([row[label] for row in rows])
        labels = labels.reshape(len(rows), -1) if labels.ndim > 1 else labels
        questions = np.array([row[question].decode() if question else "" for row in rows])
        ids = np.array([row["id"].decode() if "id" in row else str(i) for i, row in enumerate(rows)])
    except Exception as error:  # array_record, TFDS and Pillow raise a dozen kinds for a damaged file
        raise ValueError(_unreadable(builder, split, error)) from error
    return Pictures(images, labels, ids, np.zeros(len(rows), bool), questions)


def _decoded(contents: bytes, shape: tuple[int, ...]) -> np.ndarray:
    with Image.open(io.BytesIO(contents), formats=("PNG",)) as image:
        if image.size != (shape[1], shape[0]):
            raise ValueError(f"an image of {image.size[1]} x {image.size[0]} pixels")
        return np.asarray(image).reshape(shape)


def _unreadable(builder: Any, split: str, error: Exception) -> str:
    return (
        f"split {split!r} of the data set in {builder.data_path} cannot be read "
        f"({type(error).__name__}: {str(error)[:200]}); move that folder away and prepare it again"
    )


def check_split(builder: Any, split: str, features: tuple[str, ...], kind: str) -> None:
    """Raises: ValueError for a split, or features, that are not there."""
    if split not in builder.info.splits:
        raise ValueError(
            f"the data set in {builder.data_path} has no split {split!r}; it has "
            f"{', '.join(builder.info.splits)}: name one of these, or move that folder away and prepare it "
            "again"
        )
    if missing := set(features) - set(builder.info.features):
        raise ValueError(
            f"the data set in {builder.data_path} has no feature {', '.join(sorted(missing))}; it has "
            f"{', '.join(builder.info.features)}: name a data set with {kind} there"
        )


def check_texts(builder: Any, columns: Columns) -> None:
    """Raises: ValueError for features that were named as texts and hold something else."""
    features = builder.info.features
    texts = [name for name, feature in features.items() if _is_text(feature)]
    for knob in ("text", "text_pair"):
        name = getattr(columns, knob)
        if name and name not in texts:
            raise ValueError(
                f"data.{knob}={name}: this feature of the data set in {builder.data_path} is "
                f"{features[name]!r:.80}, not a text; name one of {', '.join(texts) or 'another data set'}"
            )


def _is_text(feature: Any) -> bool:
    """Whether a feature is one string, declared as `Text` or as `np.str_`."""
    one = isinstance(feature, tfds.features.Tensor) and feature.shape == ()
    return one and feature.np_dtype == np.object_


def class_names(builder: Any, feature: str) -> tuple[str, ...]:
    """The classes of a feature; () of one that is a number with a fraction. Raises: ValueError for others."""
    found = builder.info.features[feature]
    if isinstance(found, tfds.features.ClassLabel):
        return tuple(found.names)
    if np.issubdtype(found.np_dtype, np.floating):
        return ()
    raise ValueError(
        f"the feature {feature} of the data set in {builder.data_path} is {found}, neither a class nor a "
        "number with a fraction; name another one, data.label"
    )


def read_split(
    builder: Any, split: str, texts: tuple[str, ...] = ("text",), label: str = "label"
) -> Examples:
    """The examples of a split; labels are -1 where the data set has none.

    Raises: ValueError for a split that is not there or cannot be read.
    """
    check_split(builder, split, texts, "texts")
    try:
        expected = builder.info.splits[split].num_examples
        source = builder.as_data_source(split)
        rows = source.__getitems__(range(len(source)))
        if len(rows) != expected:
            raise ValueError(f"{len(rows)} of {expected} examples")
        columns = [[row[name].decode("utf-8") for row in rows] for name in texts]
        labels = np.array([row.get(label, -1) for row in rows])
        if labels.dtype.kind == "f" and np.isnan(labels).all():
            labels = np.full(len(rows), -1.0)  # not public
        idx = np.array([row.get("idx", i) for i, row in enumerate(rows)])
    except Exception as error:  # array_record and TFDS raise a dozen kinds for a damaged file
        raise ValueError(_unreadable(builder, split, error)) from error
    text_pairs = columns[1] if len(columns) > 1 else None
    return Examples(columns[0], text_pairs, labels, np.zeros(len(rows), bool), idx)
