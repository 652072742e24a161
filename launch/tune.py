"""Tunes several models with equal effort.

    python -m launch.tune --config=fnet:imdb --config=attention:imdb --trials=8 -- OPTIONS

This is a random search. All models get the same number of trials and the same draws of learning rate, weight
decay and dropout. The validation score selects the best trial. Finished trials are skipped.
"""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from absl import flags

from fourier_attn import atomic, command, paths
from fourier_attn.columns import aligned
from launch import program, sweep

FILE = "tuning.json"
SPACE = {  # flag: option, default range, whether the logarithm is uniform
    "learning_rate": ("optim.learning_rate", "1e-4,3e-3", True),
    "weight_decay": ("optim.weight_decay", "1e-3,1e-1", True),
    "dropout": ("model.dropout", "0,0.3", False),
}


@dataclass(frozen=True)
class Range:
    """The range of an option: $low <= value <= high$.

    Args:
      low: smallest value.
      high: largest value.
      log: whether the logarithm of the value is uniform, instead of the value.
    """

    low: float
    high: float
    log: bool

    def at(self, u: float) -> str:
        """Returns the value at the share u of the range: $low + u (high - low)$, or $low (high / low)^u$."""
        if self.low == self.high:
            return f"{self.low:.4g}"
        value = self.low * (self.high / self.low) ** u if self.log else self.low + u * (self.high - self.low)
        return f"{value:.4g}"


def define_flags() -> None:
    sweep.define_run_flags("runs/tune")
    flags.adopt_module_key_flags(sweep)
    flags.DEFINE_multi_string("config", [], "a model to tune; repeat the flag for each further model")
    flags.DEFINE_integer("trials", 8, "number of trials per model")
    flags.DEFINE_integer(
        "seed", 0, "seed of the draws; for the seed of the runs, give --config.seed after --"
    )
    for name, (knob, values, log) in SPACE.items():
        scale = "log-uniform" if log else "uniform"
        flags.DEFINE_string(name, values, f"LOW,HIGH: {scale} range of {knob}; empty: not tuned")


def main(*words: str) -> int:
    """Returns the exit code: 0 if all trials are done, 1 if one failed, 128 + n after signal n."""
    options = flags.FLAGS
    with sweep.on_cpu():
        from launch import grid
    if options.module != program.TRAINING:
        raise ValueError(f"--module={options.module} has no validation score; leave it out")
    if program.option(words, "config") is not None:
        raise ValueError("--config after -- is for one model only; give each one before --")
    space = {knob: range_of(name, options[name].value or "", log) for name, (knob, _, log) in SPACE.items()}
    for name, (knob, _, _) in SPACE.items():
        if space[knob] and program.option(words, f"config.{knob}") is not None:
            raise ValueError(
                f"--config.{knob} after -- is also tuned; leave it out, or pass --{name}= to leave it untuned"
            )
    points = draws({knob: found for knob, found in space.items() if found}, options.trials, options.seed)
    names = model_names(options.config)
    directory = paths.given(options.directory)
    runs, configs, models = [], [], []
    for model, config in names.items():
        given = (f"--config={config}", *words)
        configs += grid.check(given, points, options.module)
        for index, point in enumerate(points):
            place = directory / model / f"{index:03d}"
            whole = (*given, *grid.words(point), f"--workdir={place}")
            runs.append(sweep.Run(program.program(whole), point))
            models.append(model)
    print(f"draws       {options.trials} for each of {len(names)} models, --seed={options.seed}")

    def report() -> bool:
        found = best_trials(models, runs)
        facts = {"seed": options.seed, "trials": options.trials, "models": names}
        facts["space"] = {knob: asdict(given) for knob, given in space.items() if given}
        atomic.make_folder(directory)
        atomic.write(directory / FILE, json.dumps(facts | {"best": found}, indent=2) + "\n")
        print(f"{table(found)}\nThe table is in {directory / FILE}")
        return all(row["done"] == row["trials"] for row in found)

    return sweep.run_all(runs, configs, directory / "*", report)


def range_of(flag: str, text: str, log: bool) -> Range | None:
    """Returns the range for LOW,HIGH; None for an empty text.

    Args:
      flag: name of the flag, for messages.
      text: its value.
      log: whether the logarithm is uniform.
    Raises: ValueError.
    """
    if not text:
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError as error:
        raise ValueError(f"--{flag}={text} is not a range; give LOW,HIGH or nothing") from error
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"--{flag}={text} must have finite numbers, the smaller one first")
    if low < 0 or (log and low == 0 and high > 0):
        raise ValueError(f"--{flag}={text} must begin {'above' if log else 'at or above'} 0")
    return Range(low, high, log)


def draws(space: dict[str, Range], trials: int, seed: int) -> list[dict[str, str]]:
    """Returns the options of each trial.

    Trial i and option k get the number u_ik of one generator, row by row. Additional trials therefore do not
    change the first ones, and a change of one range does not change the draws of the other options.

    Args:
      space: option -> range.
      trials: number of trials, at least 1.
      seed: of the generator, at least 0.
    Raises: ValueError.
    """
    if trials < 1:
        raise ValueError(f"--trials={trials} must be at least 1")
    if seed < 0:
        raise ValueError(f"--seed={seed} must be at least 0")
    if not space:
        raise ValueError("every range is empty, so all trials would be equal; give one, as --dropout=0,0.3")
    uniform = np.random.default_rng(seed).random((trials, len(SPACE)))
    columns = [knob for knob, _, _ in SPACE.values()]
    return [{knob: space[knob].at(row[columns.index(knob)]) for knob in space} for row in uniform]


def model_names(configs: Sequence[str]) -> dict[str, str]:
    """Returns a dict from the names of the models' directories to their configurations.

    Raises: ValueError.
    """
    if not configs:
        raise ValueError("no --config is given; give --config=FILE once for each model")
    with sweep.on_cpu():
        from launch import grid
    names = {}
    for config in configs:
        name = grid.config_label(config)
        if name in names:
            raise ValueError(f"--config={config} has the name {name}, as another has; leave one out")
        names[name] = config
    return names


def best_trials(models: Sequence[str], runs: Sequence[sweep.Run]) -> list[dict[str, Any]]:
    """Returns the best trial of each model by validation score, with the test score of that trial only."""
    from launch import results

    found = []
    for model in dict.fromkeys(models):
        own = [run for name, run in zip(models, runs, strict=True) if name == model]
        rows = [results.row(run.program.workdir, run.point, run.code, run.error) for run in own]
        done = [row for row in rows if row.state == "done" and results.scored(row)]
        best = results.ordered(done)[0] if done else None
        facts: dict[str, Any] = {"model": model, "trials": len(rows), "done": len(done)}
        facts["failed"] = {row.run: row.error or "see its output" for row in rows if row.state == "failed"}
        facts["best"] = best.run if best else None
        if best:
            facts |= {"metric": best.metric, "knobs": best.values}
            facts |= {"validation": best.validation, "test": best.test}
        facts["validations"] = {row.run: row.validation for row in rows}
        found.append(facts)
    return found


def table(found: Sequence[dict[str, Any]]) -> str:
    """Returns a text table of the best trial of each model, with the reason for each failure."""
    from launch.results import show

    knobs = list(dict.fromkeys(knob for row in found for knob in row.get("knobs", ())))
    metric = next((row["metric"] for row in found if "metric" in row), "metric")
    cells = [["model", "best trial", "done", *knobs, f"validation {metric}", f"test {metric}"]]
    for row in found:
        values = [row.get("knobs", {}).get(knob, "-") for knob in knobs]
        scores = [show(row.get(name)) for name in ("validation", "test")]
        cells.append(
            [row["model"], row["best"] or "-", f"{row['done']} of {row['trials']}", *values, *scores]
        )
    failed = [f"failed: {row['model']}/{run}: {why}" for row in found for run, why in row["failed"].items()]
    return "\n".join((*aligned(cells), *failed))


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main, arguments=True))
