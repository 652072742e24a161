"""The architecture, read from the source: who imports whom, which library where, what an import costs."""

import ast
import functools
import graphlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from conftest import ROOT

PACKAGE = ROOT / "fourier_attn"
SOURCES = sorted(set(ROOT.glob("[!.]*/**/*.py")) - set(ROOT.glob("build/**/*.py")))
# What a room imports lies below it: in one of these rooms, or below those.
RIGHT_BELOW = {
    "tests": ("benchmarks", "evidence", "main", "standalone"),
    "evidence": ("studies", "launch", "benchmarks"),
    "launch": ("train", "config_flag"),
    "benchmarks": ("configs", "studies"),
    "configs": ("family",),
    "export": ("inference",),
    "main": ("studies", "run_config"),
    "run_config": ("train",),
    "standalone": ("model", "command"),
    "studies": ("inference", "config_flag"),
    "inference": ("train", "classify"),
    "train": ("pretrained", "provenance", "style"),
    "pretrained": ("config", "classify"),
    "classify": (),
    "config_flag": ("config", "command"),
    "family": ("config",),
    "config": ("model", "data", "hub"),
    "model": ("layers", "knobs", "plugins"),
    "layers": ("optics",),
    "optics": ("ops", "paths", "columns", "style"),
    "data": ("classify", "command", "knobs", "atomic", "extras", "plugins", "paths"),
    "ops": ("choices", "lazy"),
    "command": ("allocator", "causes", "paths", "plugins"),
    "allocator": (),
    "causes": (),
    "knobs": ("choices",),
    "choices": (),
    "lazy": (),
    "columns": (),
    "plugins": ("paths",),
    "docs": ("evidence", "standalone"),
    "provenance": ("atomic",),
    "style": ("atomic",),
    "atomic": (),
    "extras": (),
    "hub": ("extras", "paths"),
    "paths": (),
}
COMMANDS = {
    "main",
    "run_config",
    "command",
    "config_flag",
    "inference/export",
    "data/prepare",
    "pretrained/convert",
    "studies",
}
ONLY_IN = {
    "flax": {"layers", "model", "pretrained", "studies/engine/laboratory"},  # whose network is not a model
    "orbax": {"train/rundir/checkpoint"},
    "absl": COMMANDS,
    "ml_collections": {"config", "config_flag"},
    "tensorflow": set(),
    "tensorflow_datasets": {"data"},
    "sklearn": {"train/scores", "studies/engine/laboratory"},  # which reads its images
}
PHYSICS = {"jax", "jaxtyping", "numpy", "scipy", "fourier_attn"}
PLOTS = {"fourier_attn.optics.programs.report": {"matplotlib"}}  # imported where a figure is asked for
PEERS = {"torch", "transformers", "aihwkit"}


def module(path: Path) -> str:
    """Its full name; tests import each other by the last part alone."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path): path for path in SOURCES}


def room(name: str) -> str:
    """Of the module of that full name: a part of the package, or another folder."""
    if name == "fourier_attn.inference.classify":  # a copy of it runs without the package
        return "classify"
    parts = name.split(".")
    return parts[1] if parts[0] == "fourier_attn" and len(parts) > 1 else parts[0]


@functools.cache
def below(name: str) -> set[str]:
    """All rooms below a room."""
    return set(RIGHT_BELOW[name]).union(*(below(lower) for lower in RIGHT_BELOW[name]))


def imports(nodes: list[ast.stmt] | ast.AST) -> set[str]:
    """Full names of what a piece of a program imports, in functions, too; or its given statements."""
    names = set()
    for node in nodes if isinstance(nodes, list) else ast.walk(nodes):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"from {'.' * node.level}{node.module}: write the full name"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@functools.cache
def imports_of(name: str) -> set[str]:
    """Full names of what a module imports; read when a test asks, not while tests are collected."""
    return imports(ast.parse(MODULES[name].read_text()))


@functools.cache
def modules_of(name: str) -> set[str]:
    """Modules of this repository that a module imports."""
    found = set()
    for full in imports_of(name):
        local = f"tests.{full}" if f"tests.{full.split('.')[0]}" in MODULES else full
        found |= {local if local in MODULES else local.rpartition(".")[0]} & MODULES.keys()
    return found - {name}


def test_imports_point_down() -> None:
    new = {room(name) for name in MODULES} - {"fourier_attn"} - RIGHT_BELOW.keys()
    assert not new, f"say in RIGHT_BELOW what lies below {new}"
    for name in MODULES.keys() - {"fourier_attn"}:
        allowed = {room(name), "fourier_attn"} | below(room(name))
        for other in modules_of(name):
            assert room(other) in allowed, f"{name} must not import {other}"


def test_no_module_imports_itself_by_a_detour() -> None:
    """Nor from inside a function."""
    graph = {name: modules_of(name) for name in MODULES}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(MODULES)


def test_libraries_stay_in_their_rooms() -> None:
    for name, path in MODULES.items():
        place = path.relative_to(PACKAGE).with_suffix("").as_posix() if PACKAGE in path.parents else None
        for full in imports_of(name):
            library = full.split(".")[0]
            assert full != "__future__.annotations", f"{name}: jaxtyping does not see shapes then"
            if place and library in ONLY_IN:
                assert {place, room(name)} & ONLY_IN[library], f"{name} must not import {full}"
            if room(name) == "optics" and library not in sys.stdlib_module_names:
                allowed = PHYSICS | PLOTS.get(name, set())
                assert library in allowed, f"{name} must not import {full}"
            if place:
                assert library not in PEERS, f"{name} must not import {full}"


def test_private_names_of_jax_are_used_in_one_file() -> None:
    rooms = {"fourier_attn", "configs", "evidence", "launch", "benchmarks"}
    users = {
        name
        for name, path in MODULES.items()
        if name.split(".")[0] in rooms and "jax._src" in path.read_text()
    }
    assert users == {"fourier_attn.train.distributed.coordinator"}


def test_peers_are_imported_where_they_run() -> None:
    """At the head of peer_torch only, which is imported inside a function, in the process of its side."""
    for path in ROOT.glob("benchmarks/*.py"):
        if path.name != "peer_torch.py":
            heads = imports(ast.parse(path.read_text()).body)
            assert not {name.split(".")[0] for name in heads} & PEERS, path.name
            assert not [name for name in heads if "peer_torch" in name.split(".")], path.name


def test_configs_import_the_defaults_only() -> None:
    names = ("choices.check_choice", "config.Config", "config.default", "config.fit_length", "family.family")
    allowed = {f"fourier_attn.{name}" for name in names}
    for name in MODULES:
        if room(name) == "configs":
            assert imports_of(name) <= allowed, name


def test_jit_stands_at_the_outermost_caller() -> None:
    paths = [*PACKAGE.rglob("*.py"), *ROOT.glob("launch/*.py")]
    files = {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}
    studies = [
        f"studies/{name}"
        for name in (
            "engine/evaluator",
            "engine/laboratory",
            "engine/plans",
            "engine/programs",
            "engine/step_timing",
            "inside/matrices",
        )
    ]
    names = (
        "train/step",
        "optics/correlator_light",
        "optics/engine",
        "optics/programs/calibrate",
        "optics/programs/errors",
        "inference/export",
        "inference/generate",
        *studies,
    )
    callers = {f"fourier_attn/{name}.py" for name in names}
    assert {name for name, text in files.items() if "jax.jit" in text} == callers
    assert {name for name, text in files.items() if "jax.config.update" in text} == {"fourier_attn/main.py"}


def test_importing_changes_nothing_and_needs_no_other_framework_or_tracker() -> None:
    """Every module of the repository in one process; those of peers run where the peers are.

    tensorboardX imports torch, so only a run that logs to it imports it.
    """
    rooms = {"fourier_attn", "configs", "evidence", "launch", "benchmarks"}
    names = [name for name in MODULES if name.split(".")[0] in rooms and ".peer_" not in name]
    assert rooms == {name.split(".")[0] for name in names}
    program = (
        f"import importlib, jax, sys; before = dict(jax.config.values)\n"
        f"for name in {names}: importlib.import_module(name)\n"
        "assert dict(jax.config.values) == before\n"
        "print(sys.modules.keys() & {'tensorflow', 'torch', 'tensorboardX', 'wandb'})"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.stdout == "set()\n", result.stderr


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
    asked = pyproject["build-system"]["requires"] + project["dependencies"]
    asked += [name for extra in ("test", "notebooks", "launch") for name in extras[extra]]
    names = {re.match(r"[\w-]+", line)[0].replace("_", "-").lower() for line in asked}
    assert names - {"fourier-attn"} <= pinned  # itself, with other extras
