"""Stores the results of finished cells, one JSON file with a hash each, so that no cell is trained twice."""

import base64
import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evidence.suite import cells, start_weights, statistics
from evidence.suite.cells import Cell
from fourier_attn import atomic, provenance
from fourier_attn.studies import collect
from fourier_attn.studies.intervals import band
from fourier_attn.train.rundir import config_file
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.rundir.workdir import SELF_PRETRAINED

Finding = dict[str, Any]
HOUR = 3600.0
NAMES = {"mean_iou": "mean IoU", "mlm_accuracy": "accuracy on masked tokens"}  # metrics in words
# Keys of every cell's file. Newer files have more keys, which are read with `get`.
FACTS = (
    *("cell", "tier", "model", "config", "task", "metric", "mixer", "knobs", "seed", "split_seed"),
    *("parameters", "seconds", "test", "validation", "epochs", "right"),
    *("processes", "counted", "cpu_seconds", "peak_memory_mib"),
    *("command", "commit", "hardware", "versions", "date", "allowed_drift", "fingerprints"),
)
RUN_OWN = ("step", "data_wait")  # entries of a line of metrics that describe the run, not the network


def finished_cell(cell: Cell, directory: Path) -> Finding:
    """Returns the results of a finished run, as they are written to its cell's file.

    Returns: among others `epochs`, the metrics of train and validation after each; `test`; `right`, whether
      the answer to each test example is right, packed, or None if labels are not public, the metric is not an
      accuracy, or an example asks for several answers; `weights`, a digest of those that the run began with,
      or None if it had none, or did not note it; `curve`, only for pre-training, the training loss between
      lines of the metrics; `self_pretrained`, only after self-pretraining, the masked model's metrics on
      test, such as its perplexity; `cpu_seconds` and `peak_memory_mib` of all the processes
      that worked on it, as far as they noted them (`counted` of `processes`).
    Raises: ValueError for a run that is not finished, or was made with other seeds or knobs.
    """
    row, lines = collect.row(directory), read_lines(directory)
    if (row["seed"], row["split_seed"]) != (cell.seed, cell.split_seed):
        raise ValueError(f"{directory} has other seeds than {cell.name}; move it away")
    if unlike := cell.differing(row["knobs"]):
        raise ValueError(f"{directory} was trained with other options ({unlike}); move it away")
    if start := row["knobs"].get("init_from"):  # a path means nothing on another machine
        row["knobs"] = row["knobs"] | {"init_from": Path(start).name}
    facts = config_file.record(directory)
    epochs: dict[int, dict[str, Any]] = {}
    for line in lines:
        if line["split"] in ("train", "validation") and line["epoch"] == int(line["epoch"]):
            values = {name: value for name, value in line.items() if name not in (*RUN_OWN, "split", "epoch")}
            epochs.setdefault(int(line["epoch"]), {})[line["split"]] = values
    known = row["metric"] == "accuracy" and "accuracy" in row["test"] and one_answer(directory)
    return {
        "cell": cell.name,
        "tier": cell.tier,
        "model": cell.model,
        **{key: row[key] for key in ("config", "task", "metric", "mixer", "knobs", "seed", "split_seed")},
        **{key: row[key] for key in ("parameters", "seconds", "test", "extra_evals", "validation")},
        "epochs": [{"epoch": epoch, **values} for epoch, values in sorted(epochs.items())],
        "right": pack(answered_right(directory)) if known else None,
        **({"curve": curve(lines)} if cell.tier == "pretrain" else {}),
        **({"self_pretrained": masked_test(directory)} if "train.self_pretrain" in row["knobs"] else {}),
        "weights": start_weights.noted(directory) if cell.start else None,
        **usage(directory),
        **{key: row[key] for key in ("command", "commit", "hardware", "versions", "date", "allowed_drift")},
        "fingerprints": facts["fingerprints"],
    }


def curve(lines: Sequence[Mapping[str, Any]], name: str = "mlm_loss") -> list[tuple[int, float]]:
    """Returns the mean loss between each two training lines of a run, with the step at its end.

    A line has the mean m over the n steps since its epoch began. The mean since the line before, with m' and
    n', is (n m - n' m') / (n - n').

    Args:
      lines: lines of the metrics.
      name: the loss.
    """
    points, begin, before, mean = [], 0, 0, 0.0
    for line in (line for line in lines if line["split"] == "train"):
        n = line["step"] - begin
        if n > before:  # a resumed run can repeat a line
            points.append((line["step"], round((n * line[name] - before * mean) / (n - before), 4)))
            before, mean = n, line[name]
        if line["epoch"] == int(line["epoch"]):  # the next line has means over the next epoch
            begin, before, mean = line["step"], 0, 0.0
    return points


def masked_test(directory: Path) -> dict[str, Any]:
    """Returns the metrics on test of the masked model that a run with self-pretraining starts from."""
    tests = [line for line in read_lines(directory / SELF_PRETRAINED) if line["split"] == "test"]
    return collect.measured(tests[-1])


def score(finding: Finding) -> float:
    """Returns the metric on test, or if its labels are not public, on validation after the last epoch.

    It is NaN for a failure: a correlation of answers that are all the same number.
    """
    test, metric = finding["test"], finding["metric"]
    return number(test[metric] if metric in test else finding["validation"][-1])


def number(value: float | None) -> float:
    """Converts a metric from a file, where null is an undefined score, to a float: NaN for a failure."""
    return math.nan if value is None else value


def best(finding: Finding) -> float:
    """Returns the best score on validation; NaN if none is defined."""
    return max(without_failures(finding["validation"]), default=math.nan)


def without_failures(values: Sequence[float | int | None]) -> list[float]:
    """Returns the values that are numbers: those that are known, and of scores those that are defined."""
    return [float(value) for value in values if value is not None and not math.isnan(value)]


def scored(finding: Finding) -> str:
    """Returns the name of what `score` returns, such as "test accuracy"."""
    split = "test" if finding["metric"] in finding["test"] else "validation"
    return f"{split} {NAMES.get(finding['metric'], finding['metric'])}"


def interval(findings: Sequence[Finding]) -> tuple[float, float]:
    """Returns the 95 % interval of a model's score over seeds, and over examples if single answers are known.

    It is NaN for one seed, which does not inform about others, and if a seed has failed.
    """
    scores = [score(finding) for finding in findings]
    if len(findings) == 1 or np.isnan(scores).any():
        return math.nan, math.nan
    if findings[0]["right"]:
        return statistics.mean_interval(np.array([unpack(finding["right"]) for finding in findings]))
    mean, half = band(scores)
    return max(0.0, mean - half), min(1.0, mean + half)


def validation(findings: Sequence[Finding]) -> tuple[list[float], list[list[float]]]:
    """Returns the epochs that all seeds have, and the validation metric of every seed after each."""
    length = min(len(finding["validation"]) for finding in findings)
    epochs = [float(entry["epoch"]) for entry in findings[0]["epochs"][:length]]
    return epochs, [[number(finding["validation"][epoch]) for finding in findings] for epoch in range(length)]


def validation_examples(finding: Finding) -> int:
    """Returns how many examples its validation has."""
    return int(finding["fingerprints"]["data"]["validation"].split()[0])


def one_answer(directory: Path) -> bool:
    """Returns whether each test example has one label, not one for each token."""
    with (directory / "predictions.jsonl").open() as lines:
        return not isinstance(json.loads(next(lines))["label"], list)


def answered_right(directory: Path) -> np.ndarray:
    """Returns whether each answer is right (bool, n), in the order of the data set."""
    lines = (directory / "predictions.jsonl").read_text().splitlines()
    return np.array([line["label"] == line["prediction"] for line in map(json.loads, lines)])


def usage(directory: Path) -> dict[str, Any]:
    """Sums the time and memory of a run's processes from the files that their launcher wrote."""
    folder = directory.with_name(f"{directory.name}.launch")
    taken = [json.loads(path.read_text()) for path in sorted(folder.glob("*_usage.json"))]
    return {
        "processes": len(list(folder.glob("*_lock"))),
        "counted": len(taken),
        "cpu_seconds": round(sum(each["cpu_seconds"] for each in taken), 1) if taken else None,
        "peak_memory_mib": round(max(each["peak_memory_mib"] for each in taken)) if taken else None,
    }


def on_accelerator(finding: Finding) -> bool:
    """Returns whether a cell was trained on a GPU or TPU."""
    return bool((finding["hardware"] or {}).get("accelerator"))


def core_hours(finding: Finding) -> float | None:
    """Returns the core-hours of a cell.

    It is None if an accelerator trained the cell, or if a process was killed before it could note its time.
    """
    unknown = not finding["cpu_seconds"] or finding["counted"] < finding["processes"]
    if unknown or on_accelerator(finding):
        return None
    return finding["cpu_seconds"] / HOUR


def least_core_hours(findings: Sequence[Finding]) -> float | None:
    """Returns the core-hours of the fastest seed.

    The same training takes several times as many CPU seconds on a machine with other work, or on another
    machine of its kind: a mean would compare days, not models.
    """
    return min((hours for finding in findings if (hours := core_hours(finding))), default=None)


def examples_per_s(findings: Sequence[Finding]) -> float | None:
    """Returns the speed of the fastest epoch of training on a CPU; None for cells of accelerators alone."""
    on_cpu = [finding for finding in findings if not on_accelerator(finding)]
    speeds = (entry["train"].get("examples_per_s") for finding in on_cpu for entry in finding["epochs"])
    return max((speed for speed in speeds if speed), default=None)


def peak_memory(findings: Sequence[Finding]) -> float | None:
    """Returns the mean peak memory of cells trained on a CPU, in MiB; None if there are none."""
    peaks = [finding["peak_memory_mib"] for finding in findings if not on_accelerator(finding)]
    known = [peak for peak in peaks if peak]
    return float(np.mean(known)) if known else None


def pack(bits: np.ndarray) -> dict[str, Any]:
    """Packs booleans as base64 text, eight per byte."""
    return {"examples": len(bits), "bits": base64.b64encode(np.packbits(bits).tobytes()).decode()}


def unpack(packed: Mapping[str, Any]) -> np.ndarray:
    """Returns the booleans that `pack` packed."""
    octets = np.frombuffer(base64.b64decode(packed["bits"]), np.uint8)
    return np.unpackbits(octets, count=packed["examples"]).astype(bool)


def digest(document: Mapping[str, Any]) -> str:
    """Returns the hash of a file's contents without the hash itself."""
    rest = {key: value for key, value in document.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


class Ledger:
    """Reads and writes the files of finished cells below a directory.

    Files that are half-written, edited by hand, or not of a cell of the suite, are left out and named in
    `aside`.

    Args:
      by_task: whether the directory has a folder for each task, with a folder `cells` each; else it has one
        folder `cells`.
    """

    def __init__(self, directory: Path, by_task: bool = False):
        self.directory, self.by_task = directory, by_task
        self.findings: dict[str, Finding] = {}
        self.aside: dict[Path, str] = {}
        for path in sorted(directory.glob("*/cells/*.json" if by_task else "cells/*.json")):
            try:
                finding = read(path)
            except ValueError as error:
                self.aside[path] = str(error)
                continue
            self.findings[finding["cell"]] = finding

    def path(self, cell: str) -> Path:
        """Returns the path of a cell's file."""
        task = cells.folder(cells.EVERY[cell].tier) if self.by_task else ""
        return self.directory / task / "cells" / f"{cell}.json"

    def unlike(self) -> dict[str, str]:
        """Returns the cells whose configuration has changed since they were trained, and the changes."""
        known = self.findings.items()
        changes = ((name, cells.EVERY[name].differing(finding["knobs"])) for name, finding in known)
        return {name: change for name, change in changes if change}

    def grouped(self, tier: str) -> dict[str, list[Finding]]:
        """Returns the findings of a tier whose seeds vary together, by model, in the order of the suite."""
        groups = {model.name: [] for model in cells.MODELS[tier]}
        for cell in cells.cells(tier):
            if cell.seed == cell.split_seed and cell.name in self.findings:
                groups[cell.model].append(self.findings[cell.name])
        return {model: findings for model, findings in groups.items() if findings}

    def put_aside(self) -> list[str]:
        """Renames unusable files so that their cells can be trained; returns a line for each."""
        said = []
        for path, why in self.aside.items():
            names = (path.with_name(f"{path.name}.aside{i or ''}") for i in itertools.count())
            kept = next(name for name in names if not name.exists())
            path.replace(kept)
            atomic.sync(path.parent)
            said.append(f"{path} {why}; it is now {kept.name}")
        self.aside = {}
        return said

    def write(self, finding: Finding) -> Path:
        """Writes a finding to its cell's file. Raises: ValueError if the file has another finding."""
        path, finding = self.path(finding["cell"]), json.loads(json.dumps(finding))
        if path.exists() and read(path)["sha256"] != digest(finding):
            raise ValueError(f"{path} belongs to another run; move one of them away")
        provenance.write(path, finding | {"sha256": digest(finding)})
        self.findings[finding["cell"]] = finding
        return path


def published(root: Path, tier: str) -> dict[str, list[Finding]]:
    """Returns the findings of a tier, by model, that are in results/evidence below `root`."""
    return Ledger(root / "results" / "evidence" / cells.folder(tier)).grouped(tier)


def read(path: Path) -> Finding:
    """Reads a cell's file. Raises: ValueError that says what is wrong with it."""
    try:
        finding = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot be read ({error})") from error
    if not isinstance(finding, dict):
        raise ValueError("is not a file of a finished cell")
    if lacking := [key for key in FACTS if key not in finding]:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        raise ValueError(f"is not a file of a finished cell (it lacks {', '.join(lacking[:3])}{more})")
    if finding.get("sha256") != digest(finding):
        raise ValueError("was changed after it was written (its hash is another)")
    if finding["cell"] != path.stem:
        raise ValueError(f"belongs to the cell {finding['cell']}")
    if finding["cell"] not in cells.EVERY:
        raise ValueError("does not belong to a cell of the suite")
    return finding
