"""Reads what a compiler says about a program, and counts the matrix products of a traced one."""

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

BITS = {"pred": 8, "bf16": 16, "c64": 64, "c128": 128}  # of other types the number in their name
KINDS = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"
COLLECTIVE = re.compile(rf"= (?P<result>.*?) (?P<kind>{KINDS})(?:-start)?\(")
ARRAY = re.compile(r"\b(?P<type>pred|bf16|[a-z]+\d+)\[(?P<sizes>[\d,]*)\]")


def collectives(program: str) -> dict[str, dict[str, int]]:
    """Counts a compiled program's collectives by kind, with the bytes of their results, all and largest.

    Args:
      program: text of the program.
    """
    kinds: dict[str, dict[str, int]] = {}
    for match in COLLECTIVE.finditer(program):
        size = sum(map(_bytes, ARRAY.finditer(match["result"])))
        kind = kinds.setdefault(match["kind"], {"count": 0, "bytes": 0, "largest": 0})
        kind["count"] += 1
        kind["bytes"] += size
        kind["largest"] = max(kind["largest"], size)
    return kinds


def _bytes(array: re.Match[str]) -> int:
    sizes = [int(n) for n in array["sizes"].split(",") if n]
    bits = BITS.get(array["type"]) or int(re.sub(r"\D", "", array["type"]))
    return int(np.prod(sizes, dtype=np.int64)) * bits // 8


def products(jaxpr: Any, platform: str) -> dict[str, float]:
    """Returns the FLOPs of the matrix products and convolutions in a traced program, by dtype of the inputs.

        2 m n k      for a product of matrices (m, k) and (k, n)

    A loop counts as often as it runs if that is known, and once otherwise. A condition counts as its cheapest
    branch. Other operations, such as FFTs and kernels of Pallas, count nothing. The result is therefore a
    lower bound.

        >>> products(jax.make_jaxpr(jnp.dot)(jnp.ones((2, 3)), jnp.ones((3, 5))).jaxpr, "cpu")
        {'float32': 60.0}

    Args:
      jaxpr: the program, all devices together.
      platform: JAX's name of the platform, which chooses among branches for platforms.
    """
    total: dict[str, float] = {}
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in ("dot_general", "conv_general_dilated"):
            _add(total, {str(equation.invars[0].aval.dtype): _product(name, equation)})
        elif name == "cond":
            branches = [products(branch.jaxpr, platform) for branch in equation.params["branches"]]
            _add(total, _branch(branches, equation.params.get("branches_platforms"), platform))
        elif name != "pallas_call":
            times = _times(name, equation.params)
            for inner in _inner(equation.params):
                _add(total, products(inner, platform), times)
    return total


def _branch(branches: list[dict[str, float]], platforms: Any, platform: str) -> dict[str, float]:
    """Returns the products of the branch for a platform, else those of the cheapest branch.

    Args:
      branches: the products of each branch.
      platforms: names of the platforms of each branch, None for all others; None: not a choice of platforms.
      platform: the platform.
    """
    for branch, names in zip(branches, platforms or (), strict=False):
        if names is None or platform in names:
            return branch
    return min(branches, key=lambda branch: sum(branch.values()))


def _times(name: str, params: Any) -> int:
    """Returns how often an equation computes its inner program, on all devices together."""
    if name == "scan":
        return params["length"]
    return params["mesh"].size if name == "shard_map" else 1


def _product(name: str, equation: Any) -> float:
    left, right, result = *(v.aval.shape for v in equation.invars[:2]), equation.outvars[0].aval.shape
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        return 2.0 * math.prod(result) * math.prod(left[axis] for axis in contracted)
    features = right[equation.params["dimension_numbers"].rhs_spec[0]]
    return 2.0 * math.prod(result) * math.prod(right) / features


def _inner(params: Any) -> Iterator[Any]:
    for value in params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            part = getattr(part, "jaxpr", part)
            if hasattr(part, "eqns"):
                yield part


def _add(total: dict[str, float], more: dict[str, float], times: int = 1) -> None:
    for dtype, count in more.items():
        total[dtype] = total.get(dtype, 0.0) + times * count
