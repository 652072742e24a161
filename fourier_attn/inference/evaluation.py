"""Evaluates a trained run on its validation and test splits."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fourier_attn import atomic, data, paths
from fourier_attn.config import Config, with_values
from fourier_attn.data.text import load_tokenizer, tokenizer_file
from fourier_attn.pretrained import folder
from fourier_attn.train import metrics, report
from fourier_attn.train.evaluate import chosen_of_all, class_report, evaluate_split, measure, reasons
from fourier_attn.train.init_from import is_run, restore
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.monitor import CLASSES, monitored
from fourier_attn.train.rundir import fingerprints
from fourier_attn.train.step import make_eval_step

PLACES = ("dir", "train", "validation", "test")  # options of `data` that may differ from the trained run's


def load_splits(config: Config, directory: Path, data_dir: str | None = None) -> data.Splits:
    """Reads the data of a run with its own tokenizer.

    Args:
      config: configuration of the run.
      directory: directory of the run, which has its tokenizer.
      data_dir: directory of TFDS's data sets; default None: `data.dir`.
    Raises: ValueError if the tokenizer or the data set cannot be used.
    """
    if data_dir is not None:
        config = with_values(config, {"data.dir": data_dir})
    if data.task_of(config.data).fitted:
        load_tokenizer(tokenizer_file(directory))  # raises if it is missing; otherwise a new one is fitted
    return data.load(config.data, directory=directory)


def evaluate(
    directory: str | Path,
    data_dir: str | None = None,
    places: Mapping[str, Any] = MappingProxyType({}),
    allow_drift: bool = False,
    devices: Mapping[str, str] = MappingProxyType({}),
    output: str | Path | None = None,
) -> dict[str, dict[str, Any]]:
    """Returns the metrics of a run's best weights on its validation and test splits.

        evaluate("runs/fnet-imdb")["test"]["accuracy"]

    Test splits without public labels are skipped. The rows must be those that the run was trained with, since
    other rows could include its training examples. `places` may name another test set, however. The
    directory of the run is not changed.

    Args:
      directory: directory of the run.
      data_dir: directory of TFDS's data sets; default None: that of the training.
      places: new values of the options `PLACES` of `data`, or of corpora; "": unchanged.
      allow_drift: whether to evaluate although the rows differ; default False.
      devices: files of measured devices that replace those of the training, by option.
      output: folder for the reports on classes, see `fourier_attn.train.report`; default None: no report.
    Returns: for each split its metrics by name; for a run with several seeds means and deviations.
    Raises: ValueError if the run or its data set cannot be used.
    """
    directory = paths.given(directory).resolve()
    if folder.is_export(directory) and not is_run(directory):
        raise ValueError(
            f"workdir={directory} is an exported folder, which has no data set; score a labelled table with "
            "--mode=predict --input=FILE.csv"
        )
    config, network, params = restore(directory, devices)
    test = config.data.test
    config = with_values(config, {f"data.{name}": place for name, place in places.items() if place})
    data.check(config.data)
    splits = load_splits(config, directory, data_dir)
    task = monitored(data.task_of(config.data), config.train.monitor)
    _check_rows(directory, splits, test, config.data.test, allow_drift)
    reports = report_folder(output, task)
    eval_step = make_eval_step(network, OBJECTIVES[task.head], config.train.seeds)
    results = {}
    for name, batches in splits.evals.items():
        if not data.hidden(batches.labels):
            total, answers = evaluate_split(eval_step, params, batches, title=name, say=_say)
            values = measure(config, task, total, answers, batches)
            results[name] = metrics.over_seeds(values) | reasons(task, values, answers, batches.labels)
            if reports:
                chosen = chosen_of_all(task, answers, batches.labels)
                report.write(reports, class_report(task, chosen, batches.labels) or {}, name)
    return results


def report_folder(output: str | Path | None, task: data.Task) -> Path | None:
    """Makes the folder for a report on classes; returns None without `output`. Raises: ValueError."""
    if output is None:
        return None
    path = paths.given(output)
    if task.head not in CLASSES and not task.multi_label:
        raise ValueError(
            f"--output={output} is for a report on classes, but this task has none; leave it out"
        )
    if path.exists() and not path.is_dir():
        raise ValueError(f"--output={output} is a file; name a folder for the report")
    if is_run(path):
        raise ValueError(
            f"--output={output} is the directory of a run, whose own report would be overwritten; name "
            "another folder"
        )
    atomic.make_folder(path)
    return path


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # standard output has the metrics alone


def _check_rows(directory: Path, splits: data.Splits, before: str, now: str, allow_drift: bool) -> None:
    """Checks that a run is evaluated on the rows that it was trained with; prints a note about other rows.

    A new test file may have other rows. If data.test was empty, the old test rows were part of data.train.

    Args:
      directory: directory of the run, which has its fingerprints.
      splits: the data that were read now.
      before, now: values of data.test in the run and in this evaluation.
      allow_drift: whether other rows are allowed.
    Raises: ValueError.
    """
    changes = fingerprints.data_changes(directory, splits.fingerprints())
    if now != before:
        named = {"data.test", "data.files.test", *([] if before else ["data.train"])}
        if named & changes.keys():
            print(f"note: the test set is {now}, not that of the run", file=sys.stderr)
        changes = {name: change for name, change in changes.items() if name not in named}
    listed = ", ".join(f"{name} {change}" for name, change in changes.items())
    if changes and not allow_drift:
        raise ValueError(
            f"workdir={directory} was trained with other data ({listed}), which may contain rows of this "
            "evaluation; restore the data, give their new path (--config.data.train=FILE), or allow the "
            "change with --allow_drift=data"
        )
    if changes:
        print(f"note: the data differ from those of the training ({listed})", file=sys.stderr)
