"""Collects finished runs as rows of a file of results.

    python -m fourier_attn.studies.collect --out=results/studies/imdb.json runs/*

The command writes one row for each run, with everything that its result depends on: configuration, seeds,
commit, hardware and versions. It replaces rows of the same runs and keeps all others.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from absl import flags

from fourier_attn import command, paths, provenance
from fourier_attn.config import default
from fourier_attn.data import lock
from fourier_attn.knobs import Part
from fourier_attn.layers.fields import LENGTHS, named
from fourier_attn.model import find_mixer
from fourier_attn.studies import runs
from fourier_attn.train.monitor import metric_of
from fourier_attn.train.rundir import config_file
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.summary import finished

USUAL = ("train", "validation", "test")  # splits
APART = ("seed", "data.split_seed", "model.mixer.name")  # columns of their own


def row(directory: Path) -> dict[str, Any]:
    """Returns the row of a finished run; values that its files do not contain are None.

    Returns:
      `knobs` are those that differ from the defaults of its mixer and task; `validation` has the metric that
      chose the best weights, after each epoch; `extra_evals` the metrics of further splits, by name.

    Raises: ValueError for a directory that holds no run, or an unfinished one.
    """
    flat = plain(config_file.load(directory))
    if finished(directory) is None:
        raise ValueError(
            f"{directory} is not finished; resume it with fourier_attn.main --workdir, or leave it out"
        )
    lines = read_lines(directory)  # after the check, as an active run may add the last ones meanwhile
    test, task = dict(lines[-1]), flat["data.task"]
    facts = config_file.record(directory)
    line = facts.get("command")
    metric = metric_of(config_file.load(directory))
    return {
        "run": directory.name,
        "config": config_name(line),
        "task": task,
        "mixer": flat["model.mixer.name"],
        "knobs": {
            name: provenance.portable(value) if isinstance(value, str) else value
            for name, value in differing(flat).items()
        },
        "seed": flat["seed"],
        "split_seed": flat["data.split_seed"],
        "metric": metric,
        "epochs": test.pop("epoch"),
        "seconds": test.pop("seconds", None),
        "parameters": test.pop("parameters", None),
        "test": measured(test),
        "extra_evals": {entry["split"]: measured(entry) for entry in lines if entry["split"] not in USUAL},
        "validation": [entry[metric] for entry in lines if entry["split"] == "validation"],
        "command": line,
        "commit": facts.get("commit"),
        "hardware": facts.get("hardware"),
        "versions": facts.get("versions"),
        "date": facts.get("date"),
        "allowed_drift": facts.get("allowed_drift", []),
    }


def measured(line: dict[str, Any]) -> dict[str, Any]:
    """Returns the metrics of a line of metrics.jsonl."""
    return {name: value for name, value in line.items() if name not in ("split", "step", "epoch")}


def config_name(line: str | None) -> str | None:
    """Returns the configuration file of a command line, with its argument, like configs/fnet.py:imdb."""
    match = re.search(r"--config[= ](\S+)", line or "")
    if not match:
        return None
    file, colon, argument = match[1].partition(":")
    return f"configs/{Path(file).stem}.py{colon}{argument}"


def differing(flat: dict[str, Any]) -> dict[str, Any]:
    """Returns the options that differ from the defaults of the mixer and the task; runs set the rest."""
    mixer = flat["model.mixer.name"]
    usual = plain(default(mixer, flat["data.task"]))
    fitted = {f"model.mixer.{name}" for name in named(find_mixer(mixer), LENGTHS)}
    parts = tuple(f"{name}." for name in usual)  # an engine is None, or has parameters of its own
    known = {name for name in flat if name in usual or name.startswith(parts)}
    return {
        name: flat[name]
        for name in sorted(known - {*APART, *config_file.FREE_KEYS, *fitted})
        if name not in usual or flat[name] != usual[name]
    }


def plain(config: Part) -> dict[str, Any]:
    """Returns each option with its value as JSON stores it."""
    return config_file.flat(json.loads(json.dumps(config.to_dict())))


def rows(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a file of results; [] if it does not exist."""
    return json.loads(path.read_text())["rows"] if path.exists() else []


def merge(path: Path, new: list[dict[str, Any]]) -> None:
    """Writes the rows `new` to the file of results `path`, where they replace rows of the same runs."""

    def run(entry: dict[str, Any]) -> tuple[str, ...]:
        return tuple(json.dumps(entry.get(key)) for key in ("run", "config", "knobs", "seed", "split_seed"))

    with lock.alone(path.parent, path.name):  # another process may add rows at the same time
        merged = {run(entry): entry for entry in [*rows(path), *new]}
        provenance.write(path, {"rows": list(merged.values())})


def define_flags() -> None:
    flags.DEFINE_string("out", None, "JSON file to add the rows to, for example results/studies/imdb.json")


def main(*directories: str) -> None:
    if flags.FLAGS.out is None or not directories:
        raise ValueError(
            "--out and directories are needed, like --out=results/studies/imdb.json runs/fnet-imdb-0"
        )
    runs_asked = [paths.given(name).resolve() for name in dict.fromkeys(directories)]
    named = zip(runs_asked, runs.labels(runs_asked), strict=True)
    new: list[dict[str, Any]] = [row(directory) | {"run": name} for directory, name in named]
    merge(paths.given(flags.FLAGS.out), new)
    for entry in new:
        print(f"{entry['run']}: test {entry['metric']} {entry['test'].get(entry['metric'])}")
    print(f"written to {flags.FLAGS.out}")


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main, arguments=True))
