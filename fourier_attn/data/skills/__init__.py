"""Generates synthetic tasks that each test one skill, with new sequences for every training batch."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fourier_attn.data.skills.questions import BLANK as BLANK
from fourier_attn.data.skills.questions import IGNORED as IGNORED
from fourier_attn.data.skills.questions import MARK as MARK
from fourier_attn.data.skills.questions import Knobs as Knobs
from fourier_attn.data.skills.questions import Questions as Questions
from fourier_attn.data.skills.questions import answered
from fourier_attn.data.skills.questions import gathered as gathered
from fourier_attn.data.skills.recall import fuzzy_recall, memorise, noisy_recall, recall
from fourier_attn.data.skills.sequences import compress, induction, selective_copy, sort


class Skill(NamedTuple):
    """Describes a synthetic task.

    Args:
      sample: the generator, (rng, batch, knobs) -> questions.
      asked: returns the largest number of answers in a sequence.
      chance: returns the accuracy of random guesses among all possible answers.
      vocab, length: return the smallest valid values of these options.
      uses: names of its options, without vocabulary and length.
    """

    sample: Callable[[np.random.Generator, int, Knobs], Questions]
    asked: Callable[[Knobs], int]
    chance: Callable[[Knobs], float]
    vocab: Callable[[Knobs], int]
    length: Callable[[Knobs], int]
    uses: tuple[str, ...] = ("causal",)


def _one_value(knobs: Knobs) -> float:
    """Returns the probability of one of the values V/2 ... V - 1."""
    return 1 / (knobs.vocab - knobs.vocab // 2)


def _noisy_length(knobs: Knobs) -> int:
    """Returns the shortest sequence whose part without noise has room for pairs and questions."""
    steps = max(math.ceil(2 * knobs.pairs / (1 - knobs.noise)) - 2, 2 * knobs.pairs)
    while steps - round(knobs.noise * steps) < 2 * knobs.pairs:
        steps += 1
    return 2 * steps


def _fuzzy_vocab(knobs: Knobs) -> int:
    """Returns the smallest vocabulary with twice as many keys of 1 to `longest` tokens as pairs."""
    keys = 1
    while sum(keys**n for n in range(1, knobs.longest + 1)) < 2 * knobs.pairs:
        keys += 1
    return 2 * (keys + 1)


SKILLS = {
    "recall": Skill(
        recall,
        asked=lambda k: k.pairs,
        chance=_one_value,
        vocab=lambda k: 2 * (k.pairs + 1),
        length=lambda k: 4 * k.pairs,
        uses=("pairs", "power", "causal"),
    ),
    "fuzzy_recall": Skill(
        fuzzy_recall,
        asked=lambda k: k.pairs * k.longest,
        chance=_one_value,
        vocab=_fuzzy_vocab,
        length=lambda k: 4 * k.pairs * k.longest,
        uses=("pairs", "longest", "causal"),
    ),
    "noisy_recall": Skill(
        noisy_recall,
        asked=lambda k: k.pairs,
        chance=lambda k: _one_value(k._replace(vocab=k.vocab // 2)),
        vocab=lambda k: 4 * (k.pairs + 1),
        length=_noisy_length,
        uses=("pairs", "power", "noise", "causal"),
    ),
    "selective_copy": Skill(
        selective_copy,
        asked=lambda k: k.copied,
        chance=lambda k: 1 / (k.vocab - 2),
        vocab=lambda k: 4,
        length=lambda k: 2 * k.copied,
        uses=("copied", "causal"),
    ),
    "compress": Skill(
        compress,
        asked=lambda k: k.length,
        chance=lambda k: 1 / (k.vocab - 1),
        vocab=lambda k: 3,
        length=lambda k: 4,
        uses=(),
    ),
    "memorise": Skill(
        memorise,
        asked=lambda k: k.length // 2,
        chance=_one_value,
        vocab=lambda k: 4,
        length=lambda k: 4,
        uses=(),
    ),
    "induction": Skill(
        induction,
        asked=lambda k: 1,
        chance=lambda k: 1 / (k.vocab - 2),
        vocab=lambda k: 4,
        length=lambda k: 4,
        uses=(),
    ),
    "sort": Skill(
        sort,
        asked=lambda k: k.length // 2,
        chance=lambda k: 1 / (k.vocab - 2),
        vocab=lambda k: 4,
        length=lambda k: 4,
    ),
}
OPTIONS = Knobs._fields[2:]  # options that only these tasks have


def knobs_of(config: Any) -> Knobs:
    """Returns the options of a task in the `data` part of a configuration."""
    return Knobs(**{name: config[name] for name in Knobs._fields})


def check(name: str, knobs: Knobs) -> None:
    """Checks that a task's options fit each other. Raises: ValueError."""
    skill = SKILLS[name]
    for knob in ("vocab", "length"):
        value, least = getattr(knobs, knob), getattr(skill, knob)(knobs)
        if value < least:
            given = [f"data.{each}={getattr(knobs, each)}" for each in skill.uses if each != "causal"]
            more = f" with {', '.join(given)}" if given else ""
            raise ValueError(f"data.{knob}={value} must be at least {least} for task {name!r}{more}")


def sample(name: str, rng: np.random.Generator, batch: int, knobs: Knobs) -> Questions:
    """Generates sequences of a task; with `knobs.causal` each answer is the next token.

    Args:
      name: a key of `SKILLS`.
      rng: generator of random numbers.
      batch: number of sequences.
      knobs: options of the task.
    """
    questions = SKILLS[name].sample(rng, batch, knobs)
    return answered(questions) if knobs.causal else questions
