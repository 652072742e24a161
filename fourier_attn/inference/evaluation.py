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
    """Returns the data of the run in `directory`, read with its own tokenizer.

    Raises: ValueError if the tokenizer or the data set cannot be used.
    """
    if data_dir is not None:
        config = with_values(config, {"data.dir": data_dir})
    if data.task_of(config.data).fitted:
        load_tokenizer(tokenizer_file(directory))  # without it, another one would be fitted
    return data.load(config.data, directory=directory)


def evaluate(
    directory: str | Path,
    data_dir: str | None = None,
    places: Mapping[str, Any] = MappingProxyType({}),
    allow_drift: bool = False,
    devices: Mapping[str, str] = MappingProxyType({}),
    output: str | Path | None = None,
) -> dict[str, dict[str, Any]]:
    """Returns metrics of the run's best weights on validation and test, without writing into its directory.

    A test split whose labels are not public is left out. The rows must be those that the run was made with,
    or it could be evaluated on its training examples; but `places` may name another test.

    Args:
      data_dir: directory of TFDS's data sets; None: the one of the training.
      places: new values of the knobs `PLACES`, or names of corpora; "": unchanged.
      allow_drift: whether to evaluate on other rows nevertheless.
      devices: files of measured devices that have moved since the training, by their knobs.
      output: folder for the reports on the classes, see `fourier_attn.train.report`; None: none is written.
    Raises: ValueError if the run or its data set cannot be used.
    """
    directory = paths.given(directory).resolve()
    if folder.is_export(directory) and not is_run(directory):
        raise ValueError(
            f"workdir={directory} is an exported folder without a data set; to score a labelled table, use "
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
    """Makes the folder that gets a report on classes. Raises: ValueError."""
    if output is None:
        return None
    path = paths.given(output)
    if task.head not in CLASSES and not task.multi_label:
        raise ValueError(f"--output={output} gets the report on classes, which this task lacks; leave it out")
    if path.exists() and not path.is_dir():
        raise ValueError(f"--output={output} is a file; name a folder for the report")
    atomic.make_folder(path)
    return path


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # standard output has the metrics alone


def _check_rows(directory: Path, splits: data.Splits, before: str, now: str, allow_drift: bool) -> None:
    """Checks that a run is evaluated on the rows that it was made with; prints a note if it is not.

    Args:
      before, now: the file that data.test names; a new one need not have the old rows, which were a share of
        train if data.test was empty.
    Raises: ValueError.
    """
    changes = fingerprints.data_changes(directory, splits.fingerprints())
    if now != before:
        named = {"data.test", "data.files.test", *([] if before else ["data.train"])}
        if named & changes.keys():
            print(f"note: test is {now}, not what the run was made with", file=sys.stderr)
        changes = {name: change for name, change in changes.items() if name not in named}
    listed = ", ".join(f"{name} {change}" for name, change in changes.items())
    if changes and not allow_drift:
        raise ValueError(
            f"workdir={directory} was made with other data ({listed}), so that it may have been trained on "
            "what it would be evaluated on; restore them, name their place, as --config.data.train=FILE, or "
            "evaluate nevertheless with --allow_drift=data"
        )
    if changes:
        print(f"note: other data than the run was made with ({listed})", file=sys.stderr)
