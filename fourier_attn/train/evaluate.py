"""Evaluates a split: computes and formats its metrics, and writes the answers to a file."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fourier_attn import atomic
from fourier_attn.config import Config
from fourier_attn.data import Origin, Task
from fourier_attn.data.batches import IGNORED, Batch, Split
from fourier_attn.data.spans import SpanBatches
from fourier_attn.train import entity_scores, label_scores, metrics, span_scores
from fourier_attn.train.distributed.sharding import to_host
from fourier_attn.train.label_scores import LABEL_SCORES
from fourier_attn.train.progress import Progress
from fourier_attn.train.rundir.metrics_log import strict_json
from fourier_attn.train.scores import SCORES, per_class, why_undefined

# exp(nats per token) and exp(nats per word of the text), which does not depend on the tokenizer
PERPLEXITIES = {"perplexity": "loss", "word_perplexity": "word_loss"}
AHEAD = 3  # number of batches that may be dispatched to the devices


def evaluate_split(
    eval_step: Callable[..., Any],
    params: Any,
    batches: Split,
    poll: Callable[[], None] = lambda: None,
    title: str = "",
    put: Callable[[Batch], Any] = lambda batch: batch,
    say: Callable[[str], None] | None = None,
) -> tuple[metrics.Sums, np.ndarray]:
    """Evaluates all batches of a split.

    Args:
      eval_step: (params, batch) -> (sums, answers), see `fourier_attn.train.step.make_eval_step`.
      params: parameters of the network.
      batches: the split.
      poll: called before each batch; default: nothing.
      title: title of the progress bar; default none.
      put: moves a batch onto the devices; default: leaves it as it is.
      say: prints one line per minute if no terminal shows the bar; default None: no lines.
    Returns: sums over all examples, and the answers (.., n, c) or (.., n) in the order of the data set.
    """
    total, parts = None, []
    with Progress(title, len(batches), batches.batch, unit="batch", say=say) as progress:
        for i in range(len(batches)):
            poll()
            batch = batches[i]
            summed, answers = eval_step(params, put(batch))
            total = summed if total is None else metrics.add(total, summed)
            parts.append((batch["index"], batch["weight"] > 0, answers))
            jax.block_until_ready(parts[-AHEAD:][0][2])  # otherwise the bar would run ahead of the devices
            progress.show(i + 1)
    total, parts = to_host((total, parts))
    axis = next(iter(total.values())).ndim - 1  # 1 with several seeds
    real = np.concatenate([index[kept] for index, kept, _ in parts])
    answers = np.concatenate([np.compress(kept, rows, axis) for _, kept, rows in parts], axis)
    return total, np.take(answers, np.argsort(real), axis)


def compute_metrics(
    task: Task, total: metrics.Sums, answers: np.ndarray, labels: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns all metrics of a split, each with one value per seed.

    Args:
      task: names the metrics.
      total: sums over all examples, see `evaluate_split`.
      answers: class probabilities (.., n, c), (.., n, t, c) or scores (.., n); several seeds have a leading
        axis.
      labels: (n,), (n, t) or (n, c) as the task has them.
    """
    result = metrics.each(total)
    if not set(entity_scores.NAMES).isdisjoint(task.metrics):
        rows = answers.argmax(axis=-1).reshape(-1, *labels.shape)
        found = [entity_scores.scored(row, labels, task.labels) for row in rows]
        result |= {name: np.array([each[name] for each in found]) for name in entity_scores.NAMES}
    for name in task.metrics:
        if name in PERPLEXITIES:
            result[name] = np.exp(result[PERPLEXITIES[name]])
        elif name not in result:
            rows, known = labelled(task, answers, labels)
            score = (LABEL_SCORES if task.multi_label else SCORES)[name]
            result[name] = np.array([score(row, known) if known.size else np.nan for row in rows])
    return result


def measure(
    config: Config, task: Task, total: metrics.Sums, answers: np.ndarray, batches: Split
) -> dict[str, np.ndarray]:
    """Returns all metrics of a split, each with one value per seed.

    Args:
      config: configuration of the run.
      task: names the metrics.
      total, answers: results of `evaluate_split`.
      batches: the split. Answers to questions are scored with their contexts, all others with the labels.
    """
    if isinstance(batches, SpanBatches):
        return metrics.each(total) | span_scores.measure(config, batches, answers)
    return compute_metrics(task, total, answers, batches.labels)


def examples(batches: Split) -> int:
    """Returns the number of examples; a question counts once, even if its context has several windows."""
    return len(batches.asked) if isinstance(batches, SpanBatches) else len(batches.labels)


def choose(task: Task, answers: np.ndarray) -> np.ndarray:
    """Returns the predictions of a task from its answers.

    Class probabilities (.., c) become the likeliest class (..), or 0 or 1 of each class (.., c) with several
    labels. Scores (..) are returned unchanged.
    """
    if task.multi_label:
        return label_scores.chosen(answers)
    return answers.argmax(axis=-1) if task.labels else answers


def labelled(task: Task, answers: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the predictions (seeds, n) or (seeds, n, c), and the labels (n,) or (n, c), of labelled places.

    Args:
      task: the task.
      answers: see `compute_metrics`.
      labels: the labels; negative classes mean no label and are left out.
    """
    rows = choose(task, answers).reshape(-1, *labels.shape)
    known = labels >= 0 if task.labels else np.ones(labels.shape, bool)
    known = known.all(axis=-1) if task.multi_label else known
    return rows[:, known], labels[known]


def reasons(
    task: Task, values: dict[str, np.ndarray], answers: np.ndarray, labels: np.ndarray
) -> dict[str, dict[str, str]]:
    """Returns {"undefined": {name: reason}} for the undefined metrics; {} if all are defined.

    Args:
      task: the task.
      values: metrics by name, each with one value per seed; NaN: undefined.
      answers, labels: see `compute_metrics`.
    """
    undefined = {}
    for name, each in values.items():
        failed = np.flatnonzero(np.isnan(each))
        seeds = f", in {len(failed)} of {len(each)} seeds" if len(each) > 1 else ""
        if name in entity_scores.NAMES and len(failed):
            undefined[name] = entity_scores.WHY[name] + seeds
        if task.multi_label and len(failed):
            undefined[name] = (label_scores.NONE if len(labels) else "there are no examples") + seeds
        elif name in SCORES and len(failed):
            rows, known = labelled(task, answers, labels)
            why = (known.size and why_undefined(name, rows[failed[0]], known)) or "there are no examples"
            undefined[name] = why + seeds
    return {"undefined": undefined} if undefined else {}


def accuracy_without(in_train: np.ndarray, answers: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Returns the accuracy on test examples that are not in the training set, and the number of the others.

    If all examples are in the training set, the result has no accuracy.

    Args:
      in_train: whether each test example is in the training set (bool, n).
      answers: class probabilities (.., n, c).
      labels: (n,).
    """
    if in_train.all():
        return {"in_train": int(in_train.sum())}
    right = (answers.argmax(-1) == labels)[..., ~in_train]
    accuracy = {"accuracy_without_in_train": np.atleast_1d(right.mean(-1))}
    return {"in_train": int(in_train.sum()), **metrics.over_seeds(accuracy)}


def show(values: dict[str, Any], name: str) -> str:
    """Formats a metric: accuracies in percent, with the deviation over several seeds.

    For an undefined metric it returns the reason.
    """
    if why := values.get("undefined", {}).get(name):
        return f"undefined ({why})"
    scale, form, unit = (100, ".2f", " %") if "accuracy" in name else (1, ".4f", "")
    known = [values[key] for key in (name, f"{name}_std") if key in values]
    # a file has null for NaN
    shown = (f"{scale * (math.nan if value is None else value):{form}}" for value in known)
    return f"{' +- '.join(shown)}{unit}"


def summary(result: dict[str, Any], split: str = "test") -> str:
    """Returns one line with the metrics `result` of a split."""
    if "loss" not in result and "mlm_loss" not in result:
        return f"{split}: {result['examples']} examples without labels; the answers are in the directory"
    names = (*PERPLEXITIES, *entity_scores.NAMES, *span_scores.NAMES, *SCORES, *LABEL_SCORES)
    names = dict.fromkeys((*names, "mlm_accuracy", "mlm_loss", "sop_accuracy"))
    shown = [name for name in names if name in result]
    line = f"{split} " + ", ".join(f"{name.replace('_', ' ')} {show(result, name)}" for name in shown)
    if "in_train" in result and "accuracy_without_in_train" not in result:
        line += " (all are also in train)"
    elif "in_train" in result:
        rest = show(result, "accuracy_without_in_train")
        line += f" ({rest} without the {result['in_train']} examples that are also in train)"
    return line


def chosen_of_all(task: Task, answers: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Returns the predictions, in the shape of the labels, from the mean probabilities over seeds.

    Args:
      task: the task.
      answers, labels: see `compute_metrics`.
    """
    mean = over_networks(task, answers, labels)
    return choose(task, mean) if task.labels else mean.round(6)


def over_networks(task: Task, answers: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Returns the mean over seeds of probabilities or scores.

    Args:
      task: the task.
      answers, labels: see `compute_metrics`.
    """
    classes = answers.shape[-1:] if task.labels and not task.multi_label else ()
    return answers.reshape(-1, *labels.shape, *classes).mean(axis=0)


def class_report(task: Task, chosen: np.ndarray, labels: np.ndarray) -> dict[str, Any] | None:
    """Returns the scores of each class, see `per_class`; None for numbers and without public labels.

    With several labels per example the scores are those of `label_scores.per_label`.

    Args:
      task: the task.
      chosen: predictions in the shape of the labels, see `chosen_of_all`.
      labels: the labels; negative: not public.
    """
    known = labels >= 0
    if not task.labels or not known.any():
        return None
    if task.multi_label:
        return label_scores.per_label(chosen, labels, task.labels)
    return per_class(chosen[known], labels[known], task.labels)


def write_predictions(
    path: Path, task: Task, answers: np.ndarray, batches: Split, origins: Sequence[Origin] | None = None
) -> np.ndarray:
    """Writes one JSON line per example: its index in the split, label, prediction and probability.

    If tokens or words have classes, label and prediction are lists over all places with a label. If examples
    have several labels, they are lists of class indices, and the line has the probabilities of all classes.
    With several seeds predictions are made from the mean probabilities.

    Args:
      path: the file.
      task: the task.
      answers: see `compute_metrics`.
      batches: the split.
      origins: file and row of each example of a custom dataset; default None: not written.
    Returns: the predictions.
    """
    mean = over_networks(task, answers, batches.labels)
    chosen = chosen_of_all(task, answers, batches.labels)
    with atomic.writing(path) as file:
        for index, label in enumerate(batches.labels):
            asked = label != IGNORED if label.ndim else ()
            label, answer = label[asked], chosen[index][asked]
            line = {"index": index, "label": label.tolist(), "prediction": answer.tolist()}
            if task.multi_label:
                numbers = [np.flatnonzero(each).tolist() for each in (label, answer)]
                line |= {"label": numbers[0] if label.min() >= 0 else -1, "prediction": numbers[1]}
                line["probabilities"] = mean[index].astype(np.float64).round(6).tolist()
            elif task.labels and chosen.ndim == 1:
                line["probability"] = round(float(mean[index, chosen[index]]), 6)
            if origins is not None:
                line |= {key: value for key, value in origins[index]._asdict().items() if value is not None}
            file.write(f"{strict_json(line)}\n".encode())
    return chosen
