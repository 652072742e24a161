"""Nothing is imported because a file of a run or of data names it."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from absl import flags
from conftest import ROOT, run_here

from fourier_attn import config_flag, plugins


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
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), str(ROOT), *sys.path])
    before = list(sys.path)
    assert found("runs.stranger.evil")
    for name in ("runs.stranger", "runs"):
        sys.modules.pop(name, None)
    with plugins.installed_only():
        assert not found("runs.stranger.evil")
        assert not found("tests.conftest")
        assert found("fourier_attn.studies.engine.drift")
        assert found("tensorflow_datasets")
        with plugins.with_neighbours(tmp_path / "configs"):
            assert found("runs.stranger.evil")
        for name in ("runs.stranger", "runs"):
            sys.modules.pop(name, None)
        assert not found("runs.stranger.evil")
    assert sys.path == before


def test_what_the_user_names_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of one's own, imported when they are called: PYTHONPATH names their folder."""
    (tmp_path / "here").mkdir()
    (tmp_path / "helpers.py").touch()
    (tmp_path / "here" / "stranger.py").touch()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "here"), str(tmp_path), *sys.path])
    for named in (f"{tmp_path}:", f":{tmp_path}", ".."):
        monkeypatch.setenv("PYTHONPATH", named)
        monkeypatch.setattr(sys, "path", [*sys.path, str(Path(named.strip(":")).absolute())])
        with plugins.installed_only():
            assert found("helpers")
            assert not found("stranger")


def test_a_configuration_is_read_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It imports the whole library; only the user's own file may import its neighbours."""
    seen = []
    program: Any = SimpleNamespace(
        __name__="program",
        define_flags=lambda: config_flag.define_flag("a configuration"),
        main=lambda: seen.append(flags.FLAGS.config.data.corpora),
    )
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    for folder in ("configs", "own"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "probe.py").write_text(
            "import sys\nfrom fourier_attn.config import default\n"
            "def get_config():\n    c = default()\n    c.data.corpora = tuple(sys.path)\n    return c\n"
        )
    monkeypatch.setattr(config_flag, "configs", lambda: tmp_path / "configs")
    for config, neighbours in (("probe", False), (f"{tmp_path}/own/probe.py", True)):
        for words in ([f"--config={config}"], ["--config", config]):
            assert run_here(program, *words)[::2] == (0, "")
            assert (str(ROOT) in seen[-1]) == neighbours


def test_commands_run_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    seen = []
    program: Any = SimpleNamespace(__name__="program", main=lambda: seen.append(list(sys.path)))
    assert run_here(program)[0] == 0
    assert not {"", str(ROOT)} & set(seen[0])
