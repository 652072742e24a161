"""Nothing is imported because a file of a run or of data names it."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT, run_here

from fourier_attn import plugins


def found(name: str) -> bool:
    importlib.invalidate_caches()
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_a_command_imports_nothing_from_where_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from the working directory, a folder above it, or the checkout, however they got on the path."""
    place = tmp_path / "runs" / "stranger"
    place.mkdir(parents=True)
    (place / "evil.py").touch()
    (tmp_path / "jax_plugins").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), str(ROOT), *sys.path])
    before = list(sys.path)
    assert found("runs.stranger.evil")
    for name in ("runs.stranger", "runs"):
        sys.modules.pop(name, None)
    with plugins.installed_only():
        assert not found("runs.stranger.evil")
        assert not found("tests.conftest")
        assert found("fourier_attn.studies.drift")
        assert found("tensorflow_datasets")
        with plugins.with_neighbours():
            assert found("runs.stranger.evil")
        for name in ("runs.stranger", "runs"):
            sys.modules.pop(name, None)
        assert not found("runs.stranger.evil")
    assert sys.path == before


def test_commands_run_without_it() -> None:
    seen = []
    program: Any = SimpleNamespace(__name__="program", main=lambda: seen.append(list(sys.path)))
    assert run_here(program)[0] == 0
    assert not {"", str(ROOT)} & set(seen[0])
