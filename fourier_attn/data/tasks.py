"""The table of tasks, and their texts through TFDS (without TensorFlow)."""

import dataclasses
import errno
import sys
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from fourier_attn.data import reviews
from fourier_attn.data.files import letters
from fourier_attn.data.glue import GLUE


@dataclasses.dataclass(frozen=True)
class Task:
    """A task on texts: where TFDS has them, and what is asked about them.

    Args:
      dataset: TFDS name; "": the texts of `data.corpora`.
      labels: the name of each class; (): the label is a number.
      head: the head of the model that answers.
      builder: makes the TFDS builder in a data directory; None: TFDS knows it by name.
      texts: the features with the text, or with the two texts.
      metrics: names of means, or keys of `scores.SCORES`; the first one chooses the best weights.
      validations, tests: names of splits, the main one first; without validations a share of train is held
        out.
      submissions: files in which GLUE wants the answers to `tests`.
    """

    dataset: str
    labels: tuple[str, ...]
    head: str = "classes"
    builder: Callable[[str | None], tfds.core.DatasetBuilder] | None = None
    texts: tuple[str, ...] = ("text",)
    metrics: tuple[str, ...] = ("accuracy",)
    validations: tuple[str, ...] = ()
    tests: tuple[str, ...] = ("test",)
    submissions: tuple[str, ...] = ()


TASKS = {
    "reviews": Task(
        "synthetic_reviews", reviews.LABELS, builder=reviews.builder, validations=("validation",)
    ),
    "imdb": Task("imdb_reviews", ("negative", "positive")),
    "pretraining": Task("", ("in order", "swapped"), "pretraining", metrics=("mlm_accuracy",)),
    **{
        name.removeprefix("glue/"): Task(
            name,
            task.labels,
            "classes" if task.labels else "score",
            texts=task.texts,
            metrics=task.metrics,
            validations=task.validations,
            tests=task.tests,
            submissions=task.submissions,
        )
        for name, task in GLUE.items()
    },
}


@dataclasses.dataclass(frozen=True)
class Examples:
    """Texts, with a second one each where there are pairs, and labels.

    `in_train` marks those whose text is also in the train split; `idx` is GLUE's number of each example.
    """

    texts: list[str]
    seconds: list[str] | None
    labels: np.ndarray
    in_train: np.ndarray
    idx: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, index: np.ndarray) -> "Examples":
        seconds = None if self.seconds is None else [self.seconds[i] for i in index]
        texts, rest = [self.texts[i] for i in index], (self.labels, self.in_train, self.idx)
        return Examples(texts, seconds, *(column[index] for column in rest))

    def letters(self) -> list[str]:
        """What makes two examples the same."""
        seconds = self.seconds or [""] * len(self)
        return [letters(f"{a} | {b}") for a, b in zip(self.texts, seconds, strict=True)]


def read(config: Any) -> dict[str, Examples]:
    """Reads the splits of `config.task`; builds or downloads the data set where needed.

    Where the data set has no validation split, `holdout` of train is kept for it, drawn from
    `split_seed`. `in_train` of the test splits refers to the whole of the original train split.

    Raises: ValueError for an unknown task, a holdout outside (0, 1), a data set that is missing and
      cannot be had, or one that cannot be read.
    """
    check_task(config)
    task = TASKS[config["task"]]
    builder = prepared(task.dataset, config["dir"] or None, task.builder)
    train = read_split(builder, "train", task.texts)
    seen, result = set(train.letters()), {}
    for split in task.tests:
        test = read_split(builder, split, task.texts)
        in_train = np.array([text in seen for text in test.letters()])
        result[split] = dataclasses.replace(test, in_train=in_train)
    order = np.random.default_rng(config["split_seed"]).permutation(len(train))
    if not task.validations:
        held = round(config["holdout"] * len(train))
        result["validation"], order = train.take(order[:held]), order[held:]
    if config["train_examples"]:
        order = order[: config["train_examples"]]
    validations = {split: read_split(builder, split, task.texts) for split in task.validations}
    return {"train": train.take(order), **validations, **result}


def check_task(config: Any) -> None:
    """Finds what is wrong with the choice of data. Raises: ValueError."""
    if config["task"] not in TASKS:
        raise ValueError(f"data.task={config['task']!r} is unknown; choose one of {', '.join(TASKS)}")
    if not 0.0 < config["holdout"] < 1.0:
        raise ValueError(f"data.holdout={config['holdout']} must lie between 0 and 1")
    if config["train_examples"] < 0:
        raise ValueError(f"data.train_examples={config['train_examples']} must not be negative; 0 means all")


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


def prepared(
    dataset: str,
    data_dir: str | None,
    make: Callable[[str | None], tfds.core.DatasetBuilder] | None = None,
) -> tfds.core.DatasetBuilder:
    """TFDS's builder of a data set that is there; downloads it with its checksums enforced if it is not.

    Raises: ValueError where it cannot be had or cannot be written.
    """
    builder = make(data_dir) if make else tfds_builder(dataset, data_dir)
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
        if error.errno in (errno.EACCES, errno.EROFS, errno.ENOSPC, errno.ENOTDIR) or make:
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


def read_split(builder: Any, split: str, texts: tuple[str, ...] = ("text",)) -> Examples:
    """The examples of a split; labels are -1 where the data set has none.

    Raises: ValueError for a split that is not there or cannot be read.
    """
    if split not in builder.info.splits:
        raise ValueError(
            f"the data set in {builder.data_path} has no split {split!r}; it has "
            f"{', '.join(builder.info.splits)}"
        )
    if missing := set(texts) - set(builder.info.features):
        raise ValueError(
            f"the data set in {builder.data_path} has no feature {', '.join(sorted(missing))}; it has "
            f"{', '.join(builder.info.features)}: name a data set with texts there"
        )
    try:
        expected = builder.info.splits[split].num_examples
        source = builder.as_data_source(split)
        rows = source.__getitems__(range(len(source)))
        if len(rows) != expected:
            raise ValueError(f"{len(rows)} of {expected} examples")
        columns = [[row[name].decode("utf-8") for row in rows] for name in texts]
        labels = np.array([row.get("label", -1) for row in rows])
        idx = np.array([row.get("idx", i) for i, row in enumerate(rows)])
    except Exception as error:  # array_record and TFDS raise a dozen kinds for a damaged file
        raise ValueError(
            f"split {split!r} of the data set in {builder.data_path} cannot be read "
            f"({type(error).__name__}: {str(error)[:200]}); move that folder away and prepare it again"
        ) from error
    seconds = columns[1] if len(columns) > 1 else None
    return Examples(columns[0], seconds, labels, np.zeros(len(rows), bool), idx)
