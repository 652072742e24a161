"""The optics room imports JAX, NumPy, SciPy and the pure functions below it, and has no circle."""

import ast
from pathlib import Path

import pytest
from conftest import ROOT

ROOM = ROOT / "fourier_attn" / "optics"
OUTSIDE = {"jax", "jaxtyping", "numpy", "scipy"}
STANDARD = {"collections", "contextlib", "dataclasses", "functools", "math", "sys", "typing"}
MODULES = {path.stem: path for path in ROOM.glob("*.py") if path.stem != "__init__"}


def imported(path: Path) -> set[str]:
    """Full names, those that functions import, too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def neighbours(name: str) -> set[str]:
    """Modules of the room that a module imports."""
    found = set()
    for full in imported(MODULES[name]):
        if full.startswith("fourier_attn.optics."):
            assert full.split(".")[2] in MODULES, f"{name}: import {full} from the module that owns it"
            found.add(full.split(".")[2])
    return found


@pytest.mark.parametrize("name", MODULES)
def test_it_is_physics_only(name: str) -> None:
    for full in imported(MODULES[name]):
        if full.startswith("fourier_attn."):
            assert full.split(".")[1] in ("ops", "optics")
        else:
            assert full.split(".")[0] in OUTSIDE | STANDARD


def test_it_has_no_circle() -> None:
    left = {name: neighbours(name) for name in MODULES}
    while left:
        free = [name for name, needs in left.items() if not needs & left.keys()]
        assert free, f"these import each other: {sorted(left)}"
        for name in free:
            del left[name]
