"""The table of tasks, and their texts through TFDS (without TensorFlow)."""

import dataclasses
import errno
import re
import sys
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from fourier_attn.data import reviews


@dataclasses.dataclass(frozen=True)
class Task:
    """A classification task: where TFDS has its texts.

    Args:
      dataset: TFDS name.
      labels: the name of each class.
      builder: makes the TFDS builder in a data directory; None: TFDS knows it by name.
      validation: the name of that split; None: a share of train is held out.
    """

    dataset: str
    labels: tuple[str, ...]
    builder: Callable[[str | None], tfds.core.DatasetBuilder] | None = None
    validation: str | None = None


TASKS = {
    "reviews": Task("synthetic_reviews", reviews.LABELS, reviews.builder, "validation"),
    "imdb": Task("imdb_reviews", ("negative", "positive")),
}


@dataclasses.dataclass(frozen=True)
class Examples:
    """Texts and labels; `in_train` marks those whose text is also in the train split."""

    texts: list[str]
    labels: np.ndarray
    in_train: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, index: np.ndarray) -> "Examples":
        return Examples([self.texts[i] for i in index], self.labels[index], self.in_train[index])


def read(config: Any) -> dict[str, Examples]:
    """Reads train, validation and test of `config.task`; builds or downloads the data set where needed.

    Where the data set has no validation split, `holdout` of train is kept for it, drawn from
    `split_seed`. `in_train` of the test split refers to the whole of the original train split.

    Raises: ValueError for an unknown task, a holdout outside (0, 1), a data set that is missing and
      cannot be had, or one that cannot be read.
    """
    check_task(config)
    task = TASKS[config["task"]]
    builder = _prepared(task, config["dir"] or None)
    train, test = read_split(builder, "train"), read_split(builder, "test")
    seen = {_letters(text) for text in train.texts}
    test = dataclasses.replace(test, in_train=np.array([_letters(text) in seen for text in test.texts]))
    order = np.random.default_rng(config["split_seed"]).permutation(len(train))
    if task.validation:
        validation = read_split(builder, task.validation)
    else:
        held = round(config["holdout"] * len(train))
        validation, order = train.take(order[:held]), order[held:]
    if config["train_examples"]:
        order = order[: config["train_examples"]]
    return {"train": train.take(order), "validation": validation, "test": test}


def check_task(config: Any) -> None:
    """Finds what is wrong with the choice of data. Raises: ValueError."""
    if config["task"] not in TASKS:
        raise ValueError(f"data.task={config['task']!r} is unknown; choose one of {', '.join(TASKS)}")
    if not 0.0 < config["holdout"] < 1.0:
        raise ValueError(f"data.holdout={config['holdout']} must lie between 0 and 1")
    if config["train_examples"] < 0:
        raise ValueError(f"data.train_examples={config['train_examples']} must not be negative; 0 means all")


def _letters(text: str) -> str:
    """What makes two texts the same: their letters and digits, in lower case."""
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


def tfds_builder(dataset: str, data_dir: str | None) -> tfds.core.DatasetBuilder:
    """TFDS's builder of a data set it knows, for array_record files.

    Raises: ValueError where it has been prepared in another file format.
    """
    try:
        return tfds.builder(dataset, data_dir=data_dir, file_format="array_record")
    except Exception as error:  # TFDS wraps what went wrong in errors of changing kinds
        where, reason = data_dir or "the default TFDS directory", str(error).splitlines()[-1]
        raise ValueError(
            f"the data set {dataset} in {where} cannot be used ({reason}); "
            "name another directory (--config.data.dir, --data_dir or TFDS_DATA_DIR)"
        ) from error


def is_prepared(builder: tfds.core.DatasetBuilder) -> bool:
    """Whether the data set is there. Raises: ValueError for one that is half-written."""
    if not builder.is_prepared() and builder.data_path.exists():
        raise ValueError(
            f"the data set in {builder.data_path} is half-written (it has no dataset_info.json, so it "
            "cannot be read); move that folder away and prepare it again"
        )
    return builder.is_prepared()


def _prepared(task: Task, data_dir: str | None) -> tfds.core.DatasetBuilder:
    builder = task.builder(data_dir) if task.builder else tfds_builder(task.dataset, data_dir)
    if is_prepared(builder):
        return builder
    if not sys.stderr.isatty():
        tfds.disable_progress_bar()
    try:
        for url in builder.url_infos or ():  # TFDS tries for minutes before it gives up
            urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=20).close()
        download = tfds.download.DownloadConfig(force_checksums_validation=True)
        builder.download_and_prepare(download_config=download)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EROFS, errno.ENOSPC, errno.ENOTDIR) or task.builder:
            raise ValueError(
                f"the data set {task.dataset} cannot be written to {builder.data_path} ({error}); "
                "name another directory (--config.data.dir or TFDS_DATA_DIR)"
            ) from error
        raise ValueError(
            f"the data set {task.dataset} is not in {builder.data_path} and cannot be downloaded ({error}). "
            "Build it from a local copy: python -m fourier_attn.data.prepare "
            f"--dataset={task.dataset} --source=DIR"
        ) from error
    return builder


def read_split(builder: Any, split: str) -> Examples:
    try:
        expected = builder.info.splits[split].num_examples
        source = builder.as_data_source(split)
        rows = source.__getitems__(range(len(source)))
        if len(rows) != expected:
            raise ValueError(f"{len(rows)} of {expected} examples")
        texts = [row["text"].decode("utf-8") for row in rows]
        labels = np.array([row["label"] for row in rows], np.int32)
    except Exception as error:  # array_record and TFDS raise a dozen kinds for a damaged file
        raise ValueError(
            f"split {split!r} of the data set in {builder.data_path} cannot be read "
            f"({type(error).__name__}: {str(error)[:200]}); move that folder away and prepare it again"
        ) from error
    return Examples(texts, labels, np.zeros(len(texts), bool))
