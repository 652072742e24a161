"""Measures functions side by side, so that the machine's other work slows all of them alike."""

import time
from collections.abc import Callable
from typing import Any

import jax


def interleave(
    sides: dict[Any, Callable[[], Any]],
    rounds: int = 15,
    calls: int = 1,
    *,
    budget_s: float = 0.0,
    refill: bool = False,
) -> dict[Any, list[float]]:
    """Returns the seconds per call of each side in every round, side after side, after a warm-up of each.

    Args:
      sides: the functions, by name.
      rounds, budget_s: the minimum number of rounds, and the minimum total time in seconds.
      calls: number of calls per side and round. If there are several, a side must not return an array that
        its next call donates.
      refill: whether an untimed call first refills the caches, which the other sides have emptied.
    """
    for side in sides.values():
        jax.block_until_ready(side())
    seconds = {name: [] for name in sides}
    done, began = 0, time.perf_counter()
    while done < rounds or time.perf_counter() - began < budget_s:
        done += 1
        for name, side in sides.items():
            if refill:
                jax.block_until_ready(side())
            begin = time.perf_counter()
            jax.block_until_ready([side() for _ in range(calls)])
            seconds[name].append((time.perf_counter() - begin) / calls)
    return seconds
