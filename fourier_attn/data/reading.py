"""Reads the splits of a task, texts or images, from their source."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from fourier_attn import paths
from fourier_attn.data.checks import check_task
from fourier_attn.data.examples import Examples, Pictures, hold_out
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.tables import image_folders, squad, tagged, user_tables
from fourier_attn.data.tables.columns import find_columns
from fourier_attn.data.tasks import TASKS, Task, task_of
from fourier_attn.data.tfds import prepared, tfds_builder
from fourier_attn.data.tfds_splits import check_texts, class_names, read_pictures, read_split

Part = TypeVar("Part", Examples, Pictures)


def read(config: DataConfig) -> dict[str, Examples]:
    """Reads the splits of `data.task`, and builds or downloads the data set if necessary.

    If the data set has no validation split, the share `data.holdout` of the training set is held out, drawn
    from `data.split_seed`. `in_train` of the test splits refers to the whole original training set.

    Raises: ValueError for an unknown task, a holdout outside (0, 1), and a data set that is missing or cannot
      be read.
    """
    check_task(config)
    task = split_names(config)
    builder = prepared(task.dataset, config.dir or None, task.builder)

    def split_of(role: str) -> Examples:
        return read_split(builder, _name(config, role), task.texts, config.label or "label")

    train = split_of("train")
    _check_labels(config, "train", train)
    tests = {split: split_of(split).seen_in(train) for split in task.tests}
    validations = {split: split_of(split) for split in task.validations}
    parts = _chosen({"train": train, **tests, **validations}, task, config)
    for split in validations:
        _check_labels(config, split, parts[split])
    return parts


def _chosen(parts: Mapping[str, Part], task: Task, config: DataConfig) -> dict[str, Part]:
    """Holds out a missing validation split, and limits the number of examples.

    Args:
      parts: the splits that were read.
      task: the task.
      config: the `data` part of the configuration.
    """
    wanted = () if task.validations else ("validation",)
    parts = hold_out(parts, wanted, config, ("examples", "splits"))
    limits = {"train": config.train_examples}
    limits |= dict.fromkeys((*task.tests, *task.held), config.test_examples)
    return {split: part.limit(limits.get(split, config.eval_examples)) for split, part in parts.items()}


def _name(config: DataConfig, role: str) -> str:
    """Returns the name of a split in the data set; options may set it for train, validation and test."""
    return (config[role] if role in user_tables.SPLITS else "") or role


def _check_labels(config: DataConfig, split: str, examples: Examples) -> None:
    """Checks that the examples of a split have valid labels.

    Args:
      config: the `data` part of the configuration.
      split: name of the split.
      examples: its examples.
    Raises: ValueError.
    """
    task, labels = task_of(config), examples.labels
    wrong = (labels < 0) | (labels >= len(task.labels)) if task.labels else ~np.isfinite(labels)
    if count := int(wrong.sum()):
        raise ValueError(
            f"data.{split}={_name(config, split)}: {count:,} of {len(labels):,} examples have no valid "
            f"label ({labels[wrong][0]}); give another split"
        )


def split_names(config: DataConfig) -> Task:
    """Returns the task with its splits; for the task `tfds`, the options name the data set and its splits."""
    task = task_of(config)
    if config.task != "tfds":
        return task
    validations = ("validation",) if config.validation else ()
    return dataclasses.replace(task, dataset=config.dataset, validations=validations)


def tfds_knobs(config: DataConfig) -> dict[str, Any]:
    """Returns options from the description of a TFDS data set: features, names of classes, splits.

    Raises: ValueError for a data set that is missing, or lacks these features or splits.
    """
    builder = prepared(config.dataset, config.dir or None)
    features: Any = builder.info.features
    columns = find_columns(config, tuple(features), f"the data set {config.dataset}")
    splits = tuple(builder.info.splits)
    names = {split: config[split] or (split if split in splits else "") for split in user_tables.SPLITS}
    if not config.validation and names["validation"] in (names["train"], names["test"]):
        names["validation"] = ""
    if not names["train"] or not names["test"]:
        raise ValueError(
            f"the data set {config.dataset} has the splits {', '.join(splits)}; set data.train and data.test "
            "to two of them"
        )
    named = [name for name in names.values() if name]
    if len(set(named)) < len(named):
        raise ValueError(
            f"data.train, data.validation and data.test are {', '.join(named)}; give different splits, or "
            "leave data.validation empty to hold out a share of train"
        )
    check_texts(builder, columns)
    labels = class_names(builder, columns.label)
    return columns._asdict() | names | {"labels": tuple(config.labels) or labels}


def check_available(config: DataConfig) -> None:
    """Checks that custom data exist, without reading them. Raises: ValueError."""
    if config.task == "files":
        user_tables.check_available(config)
    if config.task == "squad":
        squad.check_available(config)
    if config.task == "tags":
        tagged.check_available(config)
    if config.task == "image_files":
        image_folders.classes(paths.given(config.train))
    if config.task == "tfds":
        tfds_builder(config.dataset, config.dir or None)


def read_images(config: DataConfig) -> tuple[dict[str, Pictures], dict[str, Any], tuple[str, ...]]:
    """Reads the splits of a task on images, see `read`; `held` splits have no `in_train`.

    Returns: the splits; options that a custom dataset determines; and notes about it.
    Raises: ValueError as `read`.
    """
    check_task(config)
    if config.task == "image_files":
        return image_folders.read(config)
    task = TASKS[config.task]
    builder = prepared(task.dataset, config.dir or None, task.builder)

    def split_of(split: str) -> Pictures:
        return read_pictures(builder, split, task.label, task.question)

    train = split_of("train")
    tests = {split: split_of(split).seen_in(train) for split in task.tests}
    for name, (first, last) in task.held.items():
        inside = (first <= train.ids) & (train.ids < last)
        tests[name], train = train.take(np.flatnonzero(inside)), train.take(np.flatnonzero(~inside))
    validations = {split: split_of(split) for split in task.validations}
    return _chosen({"train": train, **tests, **validations}, task, config), {}, ()
