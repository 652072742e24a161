"""The table of tasks, and the texts of their splits."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from fourier_attn.data.sources import reviews
from fourier_attn.data.sources.glue import GLUE
from fourier_attn.data.tfds import Examples, prepared, read_split


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
