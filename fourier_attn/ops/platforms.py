"""Chooses computations by the platform that a program is compiled for."""

from collections.abc import Callable
from functools import partial

import jax
from jaxtyping import Array

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def cpu_or_other(cpu: str, other: str) -> Callable[[str], str]:
    """Returns a function that chooses one form for CPUs and another form for all other platforms.

        >>> cpu_or_other("table", "plain")("tpu")
        'plain'

    Args:
      cpu: form on CPUs.
      other: form on all other platforms.
    """
    return lambda platform: cpu if platform == "cpu" else other


def by_platform(
    choose: Callable[[str], str], compute: Callable[..., Array], *arguments: Array | None
) -> Array:
    """Computes compute(choose(platform), *arguments) for the platform of the surrounding program.

    A program for one platform contains its choice alone, one for several (`jax.export`) those of all. A
    platform that is not among `PLATFORMS` gets the choice for CPUs. Where all choose alike nothing is asked.

    Args:
      choose: returns the choice for the name of a platform.
      compute: computes the result for a choice and the arguments.
      arguments: arrays, or None.
    """
    choices = {platform: choose(platform) for platform in PLATFORMS}
    branches = {choice: partial(compute, choice) for choice in choices.values()}
    default = branches[choices["cpu"]]
    others = {platform: branches[choice] for platform, choice in choices.items()}
    others = {platform: branch for platform, branch in others.items() if branch is not default}
    if not others:
        return default(*arguments)
    return jax.lax.platform_dependent(*arguments, default=default, **others)
