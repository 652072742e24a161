"""Chooses the metric that decides which weights are best (`train.monitor`)."""

import dataclasses
from collections.abc import Iterable

from fourier_attn.choices import check_choice, choose
from fourier_attn.config import Config
from fourier_attn.data import TASKS, Task
from fourier_attn.data.tasks import OWN, task_of
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.scores import CLASS_SCORES, NUMBER_SCORES

LOWER = frozenset(  # metrics that are better if lower
    ("loss", "mlm_loss", "sop_loss", "word_loss", "mae", "rmse", "perplexity", "word_perplexity")
)
CLASSES = ("classes", "question", "tokens", "autoencoder")  # heads whose answers are classes


def sign(metric: str | None) -> int:
    """Returns -1 for a metric that is better if lower, else 1."""
    return -1 if metric in LOWER else 1


def best(points: Iterable[tuple[float, float]], metric: str) -> tuple[float, float]:
    """Returns the first point (epoch, value) with the best value of a metric."""
    return max(points, key=lambda point: sign(metric) * point[1])


def available(task: Task) -> tuple[str, ...]:
    """Returns the names of all metrics of a task, beginning with those that a run prints."""
    scores = CLASS_SCORES if task.head in CLASSES else NUMBER_SCORES if task.head == "score" else ()
    left_out = {"f1"} if len(task.labels) > 2 else set()  # f1 is defined for two classes
    left_out |= {"mean_iou"} if task.head not in ("tokens", "autoencoder") else set()
    names = (*task.metrics, *OBJECTIVES[task.head].names, *(n for n in scores if n not in left_out))
    return tuple(dict.fromkeys(names))


def monitored(task: Task, monitor: str) -> Task:
    """Returns the task with the metric `train.monitor` as its first one, which chooses the best weights.

    Raises: ValueError that names the metrics of the task.
    """
    if not monitor:
        return task
    if monitor not in (names := available(task)):
        raise ValueError(
            f"train.monitor={monitor!r} is not a metric of this task; "
            f"{choose('one of', [monitor], names)}, or '' for {task.metrics[0]}"
        )
    return dataclasses.replace(task, metrics=tuple(dict.fromkeys((monitor, *task.metrics))))


def metric_of(config: Config) -> str:
    """Returns the name of the metric that chooses the best weights of a run."""
    return config.train.monitor or task_of(config.data).metrics[0]


def check(config: Config) -> None:
    """Checks `train.monitor` before the data are read.

    The metrics of custom tables depend on their labels, so that these are checked again later.

    Raises: ValueError.
    """
    task, monitor = task_of(config.data), config.train.monitor
    if config.data.task not in OWN or task.multi_label:
        monitored(task, monitor)
    elif monitor:
        check_choice("train.monitor", monitor, _of_own_data(TASKS[config.data.task]))


def _of_own_data(task: Task) -> tuple[str, ...]:
    """Returns the possible metrics of a custom dataset; labels of tables may be classes or numbers."""
    kinds = [task]
    if task.head == "classes":
        kinds.append(dataclasses.replace(task, head="score", metrics=NUMBER_SCORES))
    return tuple(dict.fromkeys(name for kind in kinds for name in available(kind)))
