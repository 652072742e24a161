"""Defines the tasks: where each one's data are from, and what they ask of a model."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow_datasets as tfds

from fourier_attn import plugins
from fourier_attn.choices import check_choice
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.sources import cifar, idx, listops, pathfinder, reviews, shapes
from fourier_attn.data.sources.glue import GLUE
from fourier_attn.data.tables.sentences import marks_entities


@dataclasses.dataclass(frozen=True)
class Task:
    """Describes a task on texts or images: where TFDS has them, and what is asked about them.

    Args:
      dataset: TFDS name; "": the data are not from TFDS, or `data` names them.
      labels: the name of each class; (): the label is a number.
      head: the head of the model that answers.
      builder: makes the TFDS builder in a data directory; None: TFDS knows it by name.
      texts: the features with the text, or with the two texts; of images ("image",).
      label: the feature with the class, of images; of head "tokens" with those of the patches.
      question: the feature with what is asked about an image; "": nothing is.
      corpora: whether the texts are the documents of `data.corpora`, cut into windows.
      skill: whether sequences are drawn by the generator of the task's name in `data.skills.SKILLS`.
      inputs: what a model reads, a key of `fourier_attn.model.EMBEDDINGS`.
      held: further test splits, taken out of train: name -> the first and, exclusively, the last `id` there.
      metrics: names of means, or keys of `scores.SCORES` or `evaluate.PERPLEXITIES`; the first one chooses
        the best weights unless `train.monitor` names another.
      validations, tests: names of splits, the main one first; without validations a share of train is held
        out.
      submissions: files in which GLUE wants the answers to `tests`.
      defaults: values of knobs that differ from the knobs' own defaults, by their full names.
    """

    dataset: str
    labels: tuple[str, ...]
    head: str = "classes"
    builder: Callable[[str | None], tfds.core.DatasetBuilder] | None = None
    texts: tuple[str, ...] = ("text",)
    label: str = "label"
    question: str = ""
    corpora: bool = False
    skill: bool = False
    inputs: str = "tokens"
    held: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    metrics: tuple[str, ...] = ("accuracy",)
    validations: tuple[str, ...] = ()
    tests: tuple[str, ...] = ("test",)
    submissions: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def images(self) -> bool:
        """Returns whether the task is about images, as patches or as the values of their pixels."""
        return self.texts == ("image",)

    @property
    def tagged(self) -> bool:
        """Returns whether each word of a text has a class."""
        return self.head == "tokens" and not (self.images or self.skill)

    @property
    def multi_label(self) -> bool:
        """Returns whether an example has any number of classes: labels are 0 or 1 of each class (n, c)."""
        return self.head == "labels"

    @property
    def fitted(self) -> bool:
        """Returns whether a run of the task has a tokenizer."""
        return bool(self.question) or not (self.images or self.skill)


def _images(dataset: str, labels: tuple[str, ...], image: tuple[int, int, int], **fields: Any) -> Task:
    """Returns a task that asks for the class of an image.

    Trains for as many epochs as two CPU cores can pay for, some 7 to 30 minutes of one.
    """
    grey = image[2] == 1
    defaults = {
        "data.batch": 64,
        "data.holdout": 0.1,
        "data.flip": dataset != "mnist",
        "data.crop": 0 if grey else 4,
        "model.inputs": "patches",
        "model.image": image,
        "model.positions_kind": "sinusoidal",  # known from the first step
        "model.depth": 4,
        "model.mlp": 256,
        "model.activation": "gelu",
        "model.norm_position": "pre",
        "optim.learning_rate": 2e-3,
        "optim.warmup_steps": 200,
        "optim.weight_decay": 0.05,
        "train.epochs": 5 if grey else 10,
        "train.patience": 0,
    }
    return Task(dataset, labels, texts=("image",), inputs="patches", defaults=defaults, **fields)


def _shapes(labels: tuple[str, ...], epochs: int, **fields: Any) -> Task:
    """Returns a task on the synthetic shapes."""
    defaults = {
        "data.length": 8,
        "data.buckets": (),
        "data.batch": 128,
        "data.flip": "question" in fields,
        "model.inputs": "patches",
        "model.image": (shapes.SIZE, shapes.SIZE, 3),
        "model.patch": shapes.CELL,
        "model.depth": 2,
        "model.d": 64,
        "model.mlp": 128,
        "model.activation": "gelu",
        "model.norm_position": "pre",
        "optim.learning_rate": 1e-3,
        "train.epochs": epochs,
        "train.patience": 0,
    }
    more = {"builder": shapes.builder, "validations": ("validation",), "defaults": defaults}
    return Task("synthetic_shapes", labels, texts=("image",), inputs="patches", **more, **fields)


def _skill(length: int, vocab: int, head: str = "tokens", **options: Any) -> Task:
    """Returns a synthetic task: sequences of `length` tokens, each one of `vocab`.

    What each asks, with its source and the accuracy of chance: `fourier_attn.data.skills`.
    """
    defaults = {
        "data.length": length,
        "data.buckets": (),
        "data.vocab": vocab,
        "data.batch": 64,
        **{f"data.{name}": value for name, value in options.items()},
        "model.positions": length,
        "model.depth": 2,
        "model.d": 64,
        "model.mlp": 128,
        "model.norm_position": "pre",
        "optim.learning_rate": 2e-3,
        "train.epochs": 8,
        "train.patience": 0,
    }
    return Task("", (), head, skill=True, validations=("validation",), defaults=defaults)


CORPORA = {"data.tokenizer": "bpe", "data.buckets": (), "data.holdout": 0.02}
# what two CPU cores can pay for
LANGUAGE = {
    "data.vocab": 8_000,
    "data.length": 128,
    "data.batch": 16,
    "model.positions": 128,
    "model.depth": 2,
    "model.activation": "gelu",
    "model.norm_position": "pre",
    "optim.learning_rate": 1e-3,
    "optim.warmup_steps": 200,
}

# Of tags that mark entities, and of others; the accuracy is that of the tags of words.
ENTITY_METRICS = ("entity_f1", "entity_precision", "entity_recall", "accuracy")
WORD_METRICS = ("accuracy", "macro_f1")
MULTI_LABEL_METRICS = ("micro_f1", "macro_f1", "subset_accuracy")

# Custom data, which alone say what they are.
OWN = ("files", "tfds", "image_files", "tags", "squad")
FILES = ("files", "image_files", "tags", "squad")  # those of them whose splits are files or folders

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
            defaults={
                "data.tokenizer": "bpe",
                "data.vocab": 20_000,
                "data.fit_examples": 1_000_000,  # a trainer holds all different words of these
                "data.buckets": (32, 64, 128, 256),
            },
        )
        for name in ("files", "tfds")
    },
    "tags": Task(
        "",
        (),
        "tokens",
        metrics=ENTITY_METRICS,
        defaults={
            "data.tokenizer": "bpe",
            "data.vocab": 20_000,
            "data.length": 128,
            "data.buckets": (32, 64),
        },
    ),
    "squad": Task(
        "",
        (),
        "spans",
        texts=("question", "context"),
        metrics=("answer_f1", "exact_match"),
        defaults={
            "data.tokenizer": "bpe",
            "data.vocab": 20_000,
            "data.length": 384,
            "data.buckets": (192,),
            "data.batch": 16,
            "model.types": 2,
        },
    ),
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
    # Long Range Arena's: grey values one after the other
    "pixels": Task(
        "cifar10",
        cifar.LABELS,
        builder=cifar.builder,
        texts=("image",),
        held={"batch_5": ("train_40000", "train_50000")},
        defaults={
            "data.length": 1024,
            "data.buckets": (),
            "data.holdout": 0.1,
            "model.positions": 1024,
            "model.depth": 4,
            "train.patience": 0,
        },
    ),
    # Long Range Arena's form, and the same images as patches
    "pathfinder": Task(
        "pathfinder",
        pathfinder.LABELS,
        builder=pathfinder.builder,
        texts=("image",),
        validations=("validation",),
        defaults={
            "data.length": pathfinder.SIZE**2,
            "data.buckets": (),
            "model.positions": pathfinder.SIZE**2,
            "model.depth": 4,
            "train.patience": 0,
        },
    ),
    "pathfinder_patches": _images(
        "pathfinder",
        pathfinder.LABELS,
        (pathfinder.SIZE, pathfinder.SIZE, 1),
        builder=pathfinder.builder,
        validations=("validation",),
    ),
    "shapes": _shapes(shapes.ANSWERS, 20, head="question", question="question"),
    "shapes_patches": _shapes(
        shapes.LABELS, 5, head="tokens", label="patches", metrics=("mean_iou", "accuracy")
    ),
    "recall": _skill(64, 256, pairs=8),
    "fuzzy_recall": _skill(64, 32),
    "noisy_recall": _skill(64, 64, pairs=8),
    "selective_copy": _skill(64, 16, copied=8),
    "compress": _skill(32, 16, "autoencoder"),
    "memorise": _skill(32, 256),
    "induction": _skill(64, 16),
    "sort": _skill(32, 16),
    "pretraining": Task(
        "",
        ("in order", "swapped"),
        "pretraining",
        corpora=True,
        metrics=("mlm_accuracy",),
        defaults=CORPORA,
    ),
    "lm": Task(
        "",
        (),
        "lm",
        corpora=True,
        metrics=("perplexity", "word_perplexity", "accuracy"),
        defaults={**CORPORA, **LANGUAGE},
    ),
    "mlm": Task(
        "", (), "mlm", corpora=True, metrics=("perplexity", "accuracy"), defaults={**CORPORA, **LANGUAGE}
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

BUILT_IN = frozenset(TASKS)


def task_of(config: DataConfig) -> Task:
    """Returns the task of the `data` part of a configuration; of custom data as far as that describes it.

    Names of classes are missing before custom data are read, and for labels that are numbers.
    """
    task = TASKS[config.task]
    if config.masked:
        metrics = ("perplexity", "accuracy")
        return dataclasses.replace(task, labels=(), head="mlm", metrics=metrics, submissions=())
    if task.skill:  # each token may be an answer
        return dataclasses.replace(task, labels=tuple(map(str, range(config.vocab))))
    if config.task not in OWN:
        return task
    labels = tuple(config.labels)
    if task.head == "spans":
        return task
    if task.tagged:
        metrics = ENTITY_METRICS if marks_entities(labels) or not labels else WORD_METRICS
        return dataclasses.replace(task, labels=labels, metrics=metrics)
    if task.inputs == "patches":
        return dataclasses.replace(task, labels=labels)
    head, metrics = (
        ("classes", ("accuracy",)) if labels else ("score", ("spearman", "pearson", "mae", "rmse"))
    )
    if config.multi_label:
        head, metrics = "labels", MULTI_LABEL_METRICS
    texts = tuple(filter(None, (config.text, config.text_pair))) or ("text",)
    return dataclasses.replace(task, labels=labels, head=head, metrics=metrics, texts=texts)


def source(config: DataConfig) -> str:
    """Returns what the data are read from, in words."""
    task = TASKS[config.task]
    if task.skill:
        return "drawn for every batch"
    return task.dataset or config.dataset or config.train or ", ".join(config.corpora)


def register_task(name: str, task: Task) -> None:
    """Adds a custom task to `TASKS`.

    Called by a configuration file, or by another module. An installed package names the task among its entry
    points instead, in the group "fourier_attn.tasks".

    Raises: ValueError for a name that a task of this package has, and for what is no `Task`.
    """
    _add_task(name, task)
    plugins.note("tasks", name)


def _add_task(name: str, task: Any) -> None:
    if not isinstance(task, Task):
        raise ValueError(f"the task {name!r} is {task!r}; give a fourier_attn.data.Task")
    if name in BUILT_IN:
        raise ValueError(f"there is a task {name!r} already; choose another name")
    TASKS[name] = task


def find_task(name: str) -> None:
    """Checks that a task is in `TASKS` or in an installed package. Raises: ValueError."""
    if name not in TASKS and (task := plugins.entry("tasks", name)) is not None:
        _add_task(name, task)
    check_choice("data.task", name, TASKS)
