"""The architecture, read from the source: who imports whom, how long a file is, what an import costs."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGE = ROOT / "fourier_attn"
FILES = sorted(PACKAGE.rglob("*.py"))
# A module imports from lower levels only, or from its own room; "a/b" is a level of its own within a room.
LEVEL = {
    **{
        "ops": 0,
        "command": 0,
        "knobs": 0,
        "provenance": 0,
        "data": 1,
        "optics": 1,
        "layers": 2,
        "model": 3,
        "config": 4,
    },
    **{"pretrained": 5, "family": 5},
    **{"train": 6, "predict": 7, "studies": 8, "main": 9},
}
COMMANDS = {"main", "command", "data/prepare", "pretrained/convert", "studies"}
ONLY_IN = {
    "flax": {"layers", "model", "pretrained"},
    "orbax": {"train/checkpoint"},
    "absl": COMMANDS,
    "ml_collections": {"config", "main", "studies"},
    "tensorflow_datasets": {"data"},
    "sklearn": {"train/scores"},
}


def level(*parts: str) -> int:
    """Of a module, given as the parts of its name: its own, or that of its room."""
    return LEVEL.get("/".join(parts[:2]), LEVEL[parts[0]])


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    place = str(path.relative_to(PACKAGE).with_suffix(""))
    here = place.split("/")
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "fourier_attn":
            there, mine = level(*parts[1:]), level(*here)
            assert there < mine or (there == mine and parts[1] == here[0]), f"{path} must not import {name}"
        if parts[0] in ONLY_IN:
            assert {place, here[0]} & ONLY_IN[parts[0]], f"{path} must not import {name}"
        assert parts[0] != "tensorflow"
        assert name != "__future__.annotations", "jaxtyping does not see shapes then"


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.py")), ids=lambda p: p.name)
def test_configs_import_the_defaults_only(path: Path) -> None:
    allowed = {"fourier_attn.config.Config", "fourier_attn.config.default", "fourier_attn.family.family"}
    assert imported(path) <= allowed


def test_jit_stands_at_the_outermost_caller() -> None:
    jitting = {str(p.relative_to(PACKAGE)) for p in FILES if "jax.jit" in p.read_text()}
    callers = ("train/step.py", "optics/engine.py", "studies/speedup.py", "studies/sweep.py")
    assert jitting == {name for name in callers if (PACKAGE / name).exists()}
    assert not [path for path in FILES if "jax.config.update" in path.read_text()]


def test_importing_changes_nothing_and_needs_no_tensorflow() -> None:
    program = (
        "import jax, sys; before = dict(jax.config.values); "
        "import fourier_attn, fourier_attn.train, fourier_attn.predict, fourier_attn.data.prepare; "
        "assert dict(jax.config.values) == before; "
        "assert 'tensorflow' not in sys.modules; print('fine')"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.stdout == "fine\n", result.stderr


def test_requirements_are_exact_versions_with_hashes() -> None:
    """And nothing else, such as an index's address; none that pyproject.toml asks for is missing."""
    digest = r"    --hash=sha256:[0-9a-f]{64}"
    pin = re.compile(rf"([a-z0-9-]+)==[\w.]+(?: ; [^/\n]+)? \\\n(?:{digest} \\\n)*{digest}\n")
    pinned = set()
    for path in (ROOT / "requirements").iterdir():
        text = path.read_text()
        assert not pin.sub("", text), path
        pinned |= set(pin.findall(text))
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = pyproject["project"]
    extras = project["optional-dependencies"]
    asked = (
        pyproject["build-system"]["requires"] + project["dependencies"] + extras["test"] + extras["notebooks"]
    )
    names = {re.match(r"[\w-]+", line)[0].replace("_", "-").lower() for line in asked}
    assert names <= pinned
