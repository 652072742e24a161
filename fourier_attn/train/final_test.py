"""Evaluates a trained run on its test splits, and writes their metrics and all answers."""

from typing import Any

import numpy as np
from tqdm import tqdm

from fourier_attn import data
from fourier_attn.data.batches import Split
from fourier_attn.data.spans import SpanBatches
from fourier_attn.train import metrics, report, span_scores
from fourier_attn.train.evaluate import (
    accuracy_without,
    class_report,
    examples,
    reasons,
    summary,
    write_predictions,
)
from fourier_attn.train.training_run import Run


def evaluate_test_splits(run: Run) -> dict[str, Any]:
    """Evaluates the test splits with the best weights, and returns the metrics of the test set.

    It writes the metrics of all splits and their answers. A split whose labels are not public (-1) has
    answers, but no metrics.
    """
    epoch, results = run.step / run.per_epoch, {}
    for name, batches in {**run.splits.extra_evals, "test": run.splits.test}.items():
        tqdm.write(f"{name:<12}{examples(batches):,} examples, with the best weights ...")
        values, answers = run.evaluate(name, batches, run.state.best_params)
        results[name] = {}
        if not data.hidden(batches.labels):
            why = reasons(run.task, values, answers, batches.labels)
            results[name] = metrics.over_seeds(values) | why
        results[name]["examples"] = examples(batches)
        if name == "test" and run.splits.in_train.any() and "accuracy" in results[name]:
            results[name] |= accuracy_without(run.splits.in_train, answers, batches.labels)
        write_answers(run, name, answers, batches)
    seconds = round(run.seconds_elapsed(), 1) if run.resumed_at == 0 else None  # else unknown
    results["test"] |= {"parameters": run.parameters(), "seconds": seconds}
    for name, values in results.items():
        run.write(name, epoch, values)
        if name != "test":
            tqdm.write(summary(values, name))
    run.plot()
    return {"split": "test", "step": run.step, "epoch": epoch, **results["test"]}


def write_answers(run: Run, name: str, answers: np.ndarray, batches: Split) -> None:
    """Writes the answers of a split, a report on its classes, and GLUE's submission file.

    For language models nothing is written.

    Args:
      run: the run.
      name: name of the split.
      answers: results of `evaluate_split`.
      batches: the split.
    """
    if not (run.objective.written and run.primary):
        return
    file = "predictions.jsonl" if name == "test" else f"predictions-{name}.jsonl"
    if isinstance(batches, SpanBatches):
        span_scores.write(run.directory / file, run.config, batches, answers)
        return
    origins = run.splits.origins.get(name)
    chosen = write_predictions(run.directory / file, run.task, answers, batches, origins)
    data.write_submission(run.config.data, run.splits, name, chosen, run.directory)
    if found := class_report(run.task, chosen, batches.labels):
        report.write(run.directory, found, name)
