"""The table of tasks, and the texts of their splits."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from fourier_attn.data import own
from fourier_attn.data.columns import find_columns
from fourier_attn.data.sources import cifar, folders, idx, listops, reviews
from fourier_attn.data.sources.glue import GLUE
from fourier_attn.data.tfds import (
    Examples,
    Pictures,
    class_names,
    prepared,
    read_pictures,
    read_split,
    tfds_builder,
)
from fourier_attn.knobs import Knob, at_least, check, one_of, rising, share, texts

KNOBS = {
    "task": Knob("reviews", "what to learn: a key of TASKS"),
    "dir": Knob("", 'where TFDS keeps its data sets; "": TFDS\'s own default'),
    "tokenizer": Knob(
        "words",
        '"words", "whitespace", "unigram" or "bpe", lower-cased and fitted on train; "bytes"; or a file',
    ),
    "vocab": Knob(50_000, "at most so many words or pieces of words, the most frequent ones", at_least(1)),
    "fit_examples": Knob(
        0, "texts that a tokenizer is fitted on; 0: all of train", at_least(0, "all of train")
    ),
    "length": Knob(512, "tokens; longer texts are cut at the end", at_least(4)),
    "buckets": Knob((128, 192, 256, 384), "padded lengths below `length`; (): all at `length`", rising),
    "batch": Knob(32, "examples", at_least(1)),
    "holdout": Knob(0.2, "share of train kept for validation where a data set has no such split", share),
    "split_seed": Knob(0, "of that split; apart from `seed`, so that runs can share a split", at_least(0)),
    "train_examples": Knob(0, "use only the first so many of (shuffled) train; 0: all", at_least(0, "all")),
    "eval_examples": Knob(
        0, "use only the first so many of each validation split; 0: all", at_least(0, "all")
    ),
    "test_examples": Knob(0, "use only the first so many of each test split; 0: all", at_least(0, "all")),
    "flip": Knob(False, "whether training images are mirrored, left to right, in every second draw"),
    "crop": Knob(
        0,
        "pixels of black added around training images, of which a piece of the old size is cut out",
        at_least(0, "none"),
    ),
    "mix": Knob(
        "",
        'how two training images and their labels are joined: "mixup" (weighted mean), "cutmix" (a piece of '
        'one in the other); "": not at all',
        one_of("", "mixup", "cutmix"),
    ),
    "corpora": Knob(
        (), 'texts of the task "pretraining": TFDS names (name or name:split), or text files', texts
    ),
    "exclude": Knob((), "texts to keep out of these, as name:split or files", texts),
    "train": Knob(
        "", "own data: a table (.csv, .tsv, .jsonl, also packed), a folder of images by class, a TFDS split"
    ),
    "validation": Knob("", 'the same for validation; "": a share `holdout` of train'),
    "test": Knob("", 'the same for the test at the end; "": a share `holdout` of train'),
    "text": Knob("", 'the column, or the TFDS feature, with the text; "": found by its name'),
    "text_pair": Knob("", 'that with the second text; "": found by its name, or none'),
    "label": Knob("", 'that with the label; "": found by its name'),
    "labels": Knob(
        (), "the classes in the order of their numbers; (): those of train, kept by the run", texts
    ),
    "dataset": Knob("", "the name of a TFDS data set, of the task `tfds`"),
    "image_size": Knob(32, "pixels of a side to which images of `image_files` are scaled", at_least(4)),
    "mask_rate": Knob(0.15, "share of tokens that a masked language model has to find", share),
}


@dataclasses.dataclass(frozen=True)
class Task:
    """A task on texts or images: where TFDS has them, and what is asked about them.

    Args:
      dataset: TFDS name; "": the texts of `data.corpora`.
      labels: the name of each class; (): the label is a number.
      head: the head of the model that answers.
      builder: makes the TFDS builder in a data directory; None: TFDS knows it by name.
      texts: the features with the text, or with the two texts; of images ("image",).
      inputs: what a model reads, a key of `fourier_attn.model.EMBEDDINGS`.
      held: further test splits, taken out of train: name -> the first and, exclusively, the last `id` there.
      metrics: names of means, or keys of `scores.SCORES`; the first one chooses the best weights.
      validations, tests: names of splits, the main one first; without validations a share of train is held
        out.
      submissions: files in which GLUE wants the answers to `tests`.
      defaults: what the task wants otherwise than the knobs' defaults, by their full names.
    """

    dataset: str
    labels: tuple[str, ...]
    head: str = "classes"
    builder: Callable[[str | None], tfds.core.DatasetBuilder] | None = None
    texts: tuple[str, ...] = ("text",)
    inputs: str = "tokens"
    held: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    metrics: tuple[str, ...] = ("accuracy",)
    validations: tuple[str, ...] = ()
    tests: tuple[str, ...] = ("test",)
    submissions: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def _images(dataset: str, labels: tuple[str, ...], image: tuple[int, int, int], **fields: Any) -> Task:
    """A task on images: of which class is it?"""
    defaults = {
        "data.batch": 128,
        "data.holdout": 0.1,
        "data.flip": dataset != "mnist",
        "data.crop": 2 if image[2] == 1 else 4,
        "model.inputs": "patches",
        "model.image": image,
        "model.depth": 4,
        "model.mlp": 256,
        "model.activation": "gelu",
        "model.norm_position": "pre",
        "optim.learning_rate": 1e-3,
        "optim.warmup_steps": 500,
        "optim.weight_decay": 0.05,
        "train.epochs": 20,
        "train.patience": 0,
    }
    return Task(dataset, labels, texts=("image",), inputs="patches", defaults=defaults, **fields)


# Own data: what they are, only the data say.
OWN = ("files", "tfds", "image_files")
NEEDED = {"files": "FILE.csv", "tfds": "NAME", "image_files": "DIR"}
OWN_KNOBS = ("train", "validation", "test", "text", "text_pair", "label", "labels", "dataset")

TASKS = {
    "reviews": Task(
        "synthetic_reviews",
        reviews.LABELS,
        builder=reviews.builder,
        validations=("validation",),
        defaults={
            "data.length": 48,
            "data.buckets": (),
            "model.positions": 48,
            "model.depth": 3,
            "model.d": 64,
            "model.mlp": 256,
            "optim.learning_rate": 1e-3,
            "train.epochs": 3,
        },
    ),
    "imdb": Task("imdb_reviews", ("negative", "positive")),  # the articles' sizes are the knobs' defaults
    "listops": Task(
        "short_list_ops",
        listops.LABELS,
        builder=listops.builder,
        validations=("validation",),
        defaults={"data.tokenizer": "whitespace", "data.length": 512, "data.buckets": (256, 384)},
    ),
    **{
        name: Task(
            "",
            (),
            defaults={"data.tokenizer": "bpe", "data.vocab": 20_000, "data.buckets": (32, 64, 128, 256)},
        )
        for name in ("files", "tfds")
    },
    "image_files": _images("", (), (32, 32, 3)),
    "mnist": _images("mnist", idx.DIGITS, (28, 28, 1), builder=idx.builder("mnist")),
    "fashion_mnist": _images("fashion_mnist", idx.CLOTHES, (28, 28, 1), builder=idx.builder("fashion_mnist")),
    # batch 5 is held out, since not everybody has all of the test images
    "cifar10": _images(
        "cifar10",
        cifar.LABELS,
        (32, 32, 3),
        builder=cifar.builder,
        held={"batch_5": ("train_40000", "train_50000")},
    ),
    "pretraining": Task(
        "",
        ("in order", "swapped"),
        "pretraining",
        metrics=("mlm_accuracy",),
        defaults={"data.tokenizer": "bpe", "data.buckets": (), "data.holdout": 0.02},
    ),
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
            defaults={
                "data.tokenizer": "bpe",
                "data.length": 128,
                "data.buckets": (32, 64),
                "optim.warmup_steps": 200,
            },
        )
        for name, task in GLUE.items()
    },
}


def task_of(config: Any) -> Task:
    """The task of the `data` part of a configuration; of own data as far as that says it.

    Before own data are read, and of labels that are numbers, there are no names of classes.
    """
    task = TASKS[config["task"]]
    if config["task"] not in OWN:
        return task
    labels = tuple(config["labels"])
    if task.inputs == "patches":
        return dataclasses.replace(task, labels=labels)
    head, metrics = ("classes", ("accuracy",)) if labels else ("score", ("spearman", "pearson"))
    texts = tuple(filter(None, (config["text"], config["text_pair"]))) or ("text",)
    return dataclasses.replace(task, labels=labels, head=head, metrics=metrics, texts=texts)


def read(config: Any) -> dict[str, Examples]:
    """Reads the splits of `config.task`; builds or downloads the data set where needed.

    Where the data set has no validation split, `holdout` of train is kept for it, drawn from
    `split_seed`. `in_train` of the test splits refers to the whole of the original train split.

    Raises: ValueError for an unknown task, a holdout outside (0, 1), a data set that is missing and
      cannot be had, or one that cannot be read.
    """
    check_task(config)
    task = split_names(config)
    builder = prepared(task.dataset, config["dir"] or None, task.builder)
    train = read_split(builder, config["train"] or "train", task.texts, config["label"] or "label")
    seen, result = set(train.letters()), {}
    for split in task.tests:
        test = read_split(builder, split, task.texts, config["label"] or "label")
        in_train = np.array([text in seen for text in test.letters()])
        result[split] = dataclasses.replace(test, in_train=in_train).first(config["test_examples"])
    order = np.random.default_rng(config["split_seed"]).permutation(len(train))
    if not task.validations:
        held = round(config["holdout"] * len(train))
        result["validation"], order = train.take(order[:held]).first(config["eval_examples"]), order[held:]
    for split in task.validations:
        held_out = read_split(builder, split, task.texts, config["label"] or "label")
        result[split] = held_out.first(config["eval_examples"])
    return {"train": train.take(order).first(config["train_examples"]), **result}


def split_names(config: Any) -> Task:
    """The task with the names of the splits that knobs give to a TFDS data set."""
    task = task_of(config)
    if config["task"] != "tfds":
        return task
    validations = (config["validation"],) if config["validation"] else ()
    return dataclasses.replace(
        task, dataset=config["dataset"], validations=validations, tests=(config["test"],)
    )


def tfds_knobs(config: Any) -> dict[str, Any]:
    """What TFDS says of a data set: its features with texts and label, the names of classes, its splits.

    Raises: ValueError for a data set that cannot be had, or has no such features or splits.
    """
    builder = prepared(config["dataset"], config["dir"] or None)
    features: Any = builder.info.features
    columns = find_columns(config, tuple(features), f"the data set {config['dataset']}")
    splits = tuple(builder.info.splits)
    names = {split: config[split] or (split if split in splits else "") for split in own.SPLITS}
    if not names["train"] or not names["test"]:
        raise ValueError(
            f"the data set {config['dataset']} has the splits {', '.join(splits)}; name those to use, "
            "data.train and data.test"
        )
    labels = class_names(builder, columns.label)
    return columns._asdict() | names | {"labels": tuple(config["labels"]) or labels}


def look(config: Any) -> None:
    """Checks, before a run begins, that own data are there, without reading them. Raises: ValueError."""
    if config["task"] == "files":
        own.look(config)
    if config["task"] == "image_files":
        folders.classes(Path(config["train"]))
    if config["task"] == "tfds":
        tfds_builder(config["dataset"], config["dir"] or None)


def read_images(config: Any) -> tuple[dict[str, Pictures], dict[str, Any], tuple[str, ...]]:
    """Reads the splits of a task on images, as `read` does; without `in_train` for `held` splits.

    Returns: the splits; knobs that own data determine; notes on these.
    Raises: ValueError as `read`.
    """
    check_task(config)
    if config["task"] == "image_files":
        return folders.read(config)
    task = TASKS[config["task"]]
    builder = prepared(task.dataset, config["dir"] or None, task.builder)
    train = read_pictures(builder, "train")
    result = {}
    for split in task.tests:
        test = read_pictures(builder, split)
        result[split] = test.seen_in(train).first(config["test_examples"])
    for name, (first, last) in task.held.items():
        held = (first <= train.ids) & (train.ids < last)
        result[name] = train.take(np.flatnonzero(held)).first(config["test_examples"])
        train = train.take(np.flatnonzero(~held))
    order = np.random.default_rng(config["split_seed"]).permutation(len(train))
    count = round(config["holdout"] * len(train))
    result["validation"] = train.take(order[:count]).first(config["eval_examples"])
    return {"train": train.take(order[count:]).first(config["train_examples"]), **result}, {}, ()


def check_task(config: Any) -> None:
    """Checks the task and the range of every knob. Raises: ValueError."""
    if config["task"] not in TASKS:
        raise ValueError(f"data.task={config['task']!r} is unknown; choose one of {', '.join(TASKS)}")
    check("data.", KNOBS, config)
    own = config["task"] in OWN
    for name in OWN_KNOBS:
        if config[name] and not own:
            raise ValueError(
                f"data.{name}={config[name]!r} is for own data; choose --config=configs/NAME.py:files"
            )
    needed = "dataset" if config["task"] == "tfds" else "train"
    if own and not config[needed]:
        raise ValueError(
            f"data.task={config['task']!r} needs --config.data.{needed}={NEEDED[config['task']]}"
        )
    if len(config["labels"]) == 1 or len(set(config["labels"])) < len(config["labels"]):
        raise ValueError(f"data.labels={config['labels']!r} must hold two or more different names")
    if config["dataset"] and config["task"] != "tfds":
        raise ValueError(f"data.dataset={config['dataset']!r} is for the task 'tfds', not {config['task']!r}")
