"""Lists the networks that the evidence consists of: cells, each a configuration and a seed, in tiers."""

import copy
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evidence.suite import language, pretraining, skills
from evidence.suite.models import Model, models, toy, trial
from fourier_attn import config_flag
from fourier_attn.choices import check_choice
from fourier_attn.config import TASK_KEYS, Config, field_source, free_fields, mixer_name, read_engine
from fourier_attn.data.skills import SKILLS
from fourier_attn.layers.fields import GRID, POSITIONS
from fourier_attn.model import engine_fields
from fourier_attn.studies import collect
from launch import grid

TWINS = ("-exact", "-engine")  # models on engines and their exact twins, which have sizes of their own


@dataclass(frozen=True)
class Cell:
    """Describes one network to train: a model of a tier, a seed, and its expected cost.

    Args:
      model: its name in reports.
      config: file with its argument, as --config takes it.
      seed: of weights, dropout and order; `split_seed`, which validation reviews are held out.
      core_hours: an estimate, before anything was measured.
      knobs: further ones that are set.
      task: of the configuration.
      start: the cell whose weights it continues from; "": from scratch.
    """

    tier: str
    model: str
    config: str
    seed: int
    split_seed: int
    core_hours: float
    knobs: tuple[tuple[str, str], ...] = ()
    task: str = "imdb"
    start: str = ""

    @property
    def name(self) -> str:
        """Returns the name of its directory and its file; the split is named where it is not the seed's."""
        split = "" if self.split_seed == self.seed else f"-split{self.split_seed}"
        return f"{self.tier}-{self.model}-{self.seed}{split}"

    @property
    def words(self) -> tuple[str, ...]:
        """Returns the options of the training command."""
        knobs = {"seed": str(self.seed), "data.split_seed": str(self.split_seed), **dict(self.knobs)}
        return (f"--config={self.config}", *(f"--config.{name}={value}" for name, value in knobs.items()))

    def __str__(self) -> str:
        return shlex.join(("python", "-m", "fourier_attn.main", *self.words))

    def read(self) -> Config:
        """Returns its configuration as the file has it today, which the caller may change."""
        return copy.deepcopy(_read(self.config, self.knobs))

    def differing(self, knobs: Mapping[str, Any]) -> str:
        """Returns the knobs whose value in today's configuration differs from that in the run; "" for none.

        What the run fits to its images, and what the weights bring that it starts from, is ignored;
        these are to be of today's cell. What it has set and is the default today is the same; a parameter of
        engines that there was not yet had its default, or is one of `LATER`.
        """
        config = self.read()
        whole = collect.plain(config)
        for engine in engine_fields(config.model.mixer.name):
            prefix = f"model.mixer.{engine}."
            if any(key.startswith(prefix) for key in knobs):
                usual = {prefix + key: value for key, value in _usual_engine().items()}
                usual |= {prefix + key: whole[prefix + key] for key in LATER if prefix + key in whole}
                knobs = usual | dict(knobs)
        today = collect.differing(whole)
        if "init_from" in knobs:
            knobs = {**knobs, "init_from": Path(knobs["init_from"]).name}
        fitted = {key for key in knobs if field_source(config, key) in (GRID, POSITIONS)}
        keys = sorted(today.keys() | knobs.keys() - (fitted - today.keys()))
        if self.start:
            today["init_from"] = self.start
            keys = sorted({key for key in keys if not _brought(key, config)} | {"init_from"})
        now = {key: whole[key] for key in knobs.keys() & whole.keys()} | today
        unlike = [key for key in keys if knobs.get(key) != now.get(key)]
        return "; ".join(
            f"{key} {_said(knobs, key)} there, {_said(today, key)} in {self.config}" for key in unlike[:3]
        ) + (f" and {len(unlike) - 3} more" if len(unlike) > 3 else "")


# Parameters that presets name since, and on which no result of these runs depends.
LATER = ("laser.wavelength_m",)


@cache
def _usual_engine() -> dict[str, Any]:
    """Returns the default parameters of an engine."""
    return collect.plain(read_engine({}))


# What says how one is fitted; weights bring theirs.
TOKENIZER = ("data.tokenizer", "data.vocab", "data.fit_examples")


@cache
def _read(config: str, knobs: tuple[tuple[str, str], ...]) -> Config:
    file, colon, argument = config.partition(":")
    path = f"{config_flag.configs() / Path(file).name}{colon}{argument}"
    return grid.read((f"--config={path}", *(f"--config.{name}={value}" for name, value in knobs)))


def _said(knobs: Mapping[str, Any], key: str) -> str:
    return repr(knobs[key]) if key in knobs else "as by default"


def _brought(key: str, config: Config) -> bool:
    """Says whether weights bring a knob: architecture, but not how it is computed, and tokenizer."""
    part, *others = key.split(".")
    mixer = mixer_name(config, key)
    own = free_fields(mixer) if mixer else TASK_KEYS
    return key in TOKENIZER or (part == "model" and not set(others) & set(own))


# Images: one recipe, that of the task, for as many epochs as two CPU cores can pay for.
IMAGE_KNOBS = {
    "fashion_mnist": (("train.epochs", "5"), ("data.crop", "0")),
    "cifar10": (("train.epochs", "10"),),
}
IMAGES = {
    "identity": ("mixer.py:identity-{task}", 0.2),
    "fourier": ("fnet_vit.py:{task}-all", 0.25),
    "token_conv": ("mixer.py:token_conv-{task}", 0.3),
    "global_filter": ("mixer.py:global_filter-{task}", 0.3),
    "lambda-3": ("lambda_vit.py:{task}-3", 0.3),
    "lambda-7": ("lambda_vit.py:{task}-7", 0.35),
    "hybrid": ("fnet_vit.py:{task}-hybrid", 0.35),
    "attention": ("vit.py:{task}", 0.45),
}
ZOOLOGY = (("data.vocab", "8192"), ("data.pairs", "4"))
MODELS: dict[str, tuple[Model, ...]] = {
    "toy": (toy("identity", "configs/mixer.py:identity"), toy("fnet", "configs/fnet.py")),
    "settings": (
        *(trial("fnet", 0.11, rate, p) for rate in ("5e-4", "1e-3") for p in ("0.2", "0.3")),
        *(trial("lambda", 0.15, rate, "0.3") for rate in ("5e-4", "1e-3")),
    ),
    "1": (
        *models(
            "imdb_small",
            {"identity": 0.10, "fnet": 0.11, "random": 0.11, "linear": 0.13, "lambda": 0.15},
            seeds=5,
        ),
        *models(
            "imdb_small",
            {
                "circular-3x3-exact": 0.01,
                "lambda-exact": 0.03,
                "fnet-exact": 0.14,
                "circular-3x3-engine": 0.26,
                "circular-8x8": 0.34,
                "circular-16x4": 0.34,
                "circular-1d": 0.34,
                "hybrid": 0.34,
                "fnet-engine": 0.35,
                "lambda-engine": 0.37,
                "circular-3x3": 0.41,
                "attention": 0.56,
            },
        ),
    ),
    "2": (
        *models("imdb_articles", {"fnet": 1.3, "lambda": 1.5}),
        *models("imdb_articles", {"circular-1d": 6.2, "attention": 6.0}),
        *models("imdb_articles", {"circular-11x11": 5.1, "circular-16x8": 5.9, "circular-3x3": 7.0}, seeds=1),
    ),
    "listing": tuple(  # the articles' own recipe
        Model(name, 3.0, f"configs/imdb_articles.py:{name}-listing", 1) for name in ("lambda", "fnet")
    ),
    # Networks of tier 1, self-pretrained for four epochs before four epochs of the task.
    "self_pretrained": models(
        "imdb_small",
        {"identity": 0.22, "fnet": 0.24, "lambda": 0.32, "circular-1d": 0.7, "attention": 1.1},
        knobs=(("train.self_pretrain", "4"),),
    ),
    "sst2": models(
        "sst2_small",
        {"identity": 0.05, "fnet": 0.06, "lambda": 0.08, "circular-1d": 0.2, "attention": 0.2},
        task="sst2",
    ),
    # Pre-training: trials of learning rates, the networks that GLUE starts from, and its tasks.
    "stability": pretraining.stability(),
    "pretrain": pretraining.pretrained(),
    "glue": pretraining.glue(),
    "bytes": models(
        "imdb_bytes", {"fnet": 3.0, "linear": 3.7, "lambda": 4.0, "long_conv": 4.0, "attention": 8.0}, seeds=1
    ),
    "listops": models(
        "listops",
        {"identity": 0.3, "fnet": 0.35, "linear": 0.45, "lambda": 0.5, "circular-1d": 1.5, "attention": 1.5},
        task="listops",
    ),
    # Networks of tier listops, self-pretrained for four epochs before four epochs of the task.
    "self_pretrained_listops": models(
        "listops",
        {"identity": 0.32, "fnet": 0.32, "lambda": 0.5, "circular-1d": 1.5, "attention": 1.5},
        task="listops",
        knobs=(("train.self_pretrain", "4"),),
    ),
    **{
        task: tuple(
            Model(name, core_hours, f"configs/{file.format(task=task)}", knobs=knobs, task=task)
            for name, (file, core_hours) in IMAGES.items()
        )
        for task, knobs in IMAGE_KNOBS.items()
    },
    "shapes": tuple(
        Model(name, 0.1, f"configs/shapes.py:{name}", task=task)
        for name, task in {
            "answers": "shapes",
            "separate": "shapes",
            "segmentation": "shapes_patches",
        }.items()
    ),
    # Recall at Zoology's smallest size. The skills: trials, then seeds, then recall of fewer and more pairs.
    "recall": tuple(
        Model(name, core_hours, f"configs/skills.py:{name}-recall", knobs=ZOOLOGY, task="recall")
        for name, core_hours in {"identity": 0.03, "conv_attention": 0.05}.items()
    ),
    "skill_rates": skills.trials(dict.fromkeys(SKILLS, skills.NETWORKS)),
    "hybrid_rates": skills.trials(dict.fromkeys(skills.HYBRID_TASKS, skills.HYBRIDS)),
    "higher_rates": skills.trials(skills.AT_HIGHEST, (skills.HIGHER,)),
    "higher": skills.chosen(
        {task: dict.fromkeys(names, skills.HIGHER) for task, names in skills.BETTER.items()}
    ),
    "skills": skills.chosen(),
    "hybrids": skills.chosen(skills.HYBRID_RATES),
    "recall_equal": skills.equal(),
    "recall_pairs": skills.harder(),
    "lm_rates": language.trials(),
    "lm_equal": language.chosen(),
    "pixels": models(
        "pixels", {"fnet": 0.35, "lambda": 0.55, "long_conv": 0.55, "attention": 1.5}, seeds=1, task="pixels"
    ),
}
# Seeds and splits that vary apart from each other, of one model, to separate their shares of the variance.
APART: Mapping[str, tuple[str, tuple[tuple[int, int], ...]]] = {
    "1": ("fnet", ((0, 1), (0, 2), (1, 0), (2, 0)))
}


def cells(*tiers: str, only: Iterable[str] = ()) -> list[Cell]:
    """Returns the cells of tiers in order: tier by tier, seed by seed, the cheapest first.

    Args:
      only: names of models; none: all.
    Raises: ValueError for a name that is unknown.
    """
    for tier in tiers or ("",):
        check_choice("tier", tier, MODELS)
    known, chosen = dict.fromkeys(model.name for tier in tiers for model in MODELS[tier]), list(only)
    if unknown := [name for name in chosen if name not in known]:
        raise ValueError(
            f"only={unknown[0]!r} is not a model of tier {', '.join(tiers)}; it has {', '.join(known)}"
        )
    return [cell for tier in tiers for cell in _ordered(tier) if not chosen or cell.model in chosen]


def folder(tier: str) -> str:
    """Returns the folder of a tier's cells: its task, or the tier itself if that has several tasks."""
    tasks = {model.task for model in MODELS[tier]}
    return tier if len(tasks) > 1 else tasks.pop()


def _ordered(tier: str) -> list[Cell]:
    return sorted(_every(tier), key=lambda cell: (cell.seed != cell.split_seed, cell.seed, cell.core_hours))


def _every(tier: str) -> Iterator[Cell]:
    for model in MODELS[tier]:
        pairs = [(seed, seed) for seed in range(model.first, model.first + model.seeds)]
        name, apart = APART.get(tier, ("", ()))
        for seed, split in (*pairs, *(apart if model.name == name else ())):
            facts = (model.core_hours, model.knobs, model.task, model.start)
            yield Cell(tier, model.name, model.config, seed, split, *facts)


EVERY: Mapping[str, Cell] = {cell.name: cell for tier in MODELS for cell in _every(tier)}
