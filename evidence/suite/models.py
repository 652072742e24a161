"""Describes the models of a tier: networks that differ from each other in more than their seed."""

from collections.abc import Mapping
from dataclasses import dataclass

TRIAL_SEED = 100  # seed and split of trials, which no other cell has


@dataclass(frozen=True)
class Model:
    """Describes cells that differ in seeds alone. Args: see `cells.Cell`; `core_hours` are those of a seed,
    `first` is the first of its seeds."""

    name: str
    core_hours: float
    config: str
    seeds: int = 3
    knobs: tuple[tuple[str, str], ...] = ()
    task: str = "imdb"
    start: str = ""
    first: int = 0


def models(
    file: str,
    core_hours: Mapping[str, float],
    seeds: int = 3,
    task: str = "imdb",
    knobs: tuple[tuple[str, str], ...] = (),
) -> tuple[Model, ...]:
    """Returns the models of a configuration file, named by its arguments.

    Args:
      file: name of the file in configs/, without ".py".
      core_hours: expected core-hours of one seed, by model.
      seeds: number of seeds.
      task: the task of the models.
      knobs: options of the models, pairs of name and value.
    """
    return tuple(
        Model(name, hours, f"configs/{file}.py:{name}", seeds, knobs, task)
        for name, hours in core_hours.items()
    )


def trial(name: str, core_hours: float, rate: str, dropout: str) -> Model:
    """Returns a hyperparameter trial, which is scored on validation and reads one review of the test set.

    Args:
      name: the model in configs/imdb_small.py.
      core_hours: expected core-hours.
      rate: learning rate, as text.
      dropout: rate of all kinds of dropout, as text.
    """
    rates = ("dropout", "mixer_dropout", "token_dropout")
    knobs = (
        ("optim.learning_rate", rate),
        *((f"model.{knob}", dropout) for knob in rates),
        ("data.test_examples", "1"),
    )
    return Model(
        f"{name}-rate-{rate}-dropout-{dropout}",
        core_hours,
        f"configs/imdb_small.py:{name}",
        1,
        knobs,
        first=TRIAL_SEED,
    )


def toy(name: str, config: str) -> Model:
    """Returns a rehearsal on synthetic reviews, which is not a result."""
    knobs = {"data.train_examples": "640", "data.eval_examples": "200", "data.test_examples": "200"}
    knobs |= {"model.depth": "1", "train.epochs": "2"}
    return Model(name, 0.005, config, 2, tuple(knobs.items()), "reviews")
