"""Generated pages of options and flags, and the API reference: docs/extensions/{reference,api}_pages.py."""

import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT

from fourier_attn.config.describe import every_option

EXTENSIONS = ROOT / "docs" / "extensions"


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(EXTENSIONS)
    yield importlib.import_module("api_pages")
    for name in ("api_pages", "reference_pages"):
        sys.modules.pop(name)


def test_every_option_has_a_description_and_an_entry(pages: ModuleType) -> None:
    text = pages.reference_pages.options_page()
    count = 0
    for title, section in every_option():
        for option in section:
            assert option.text, f"{title}: {option.name} has no description"
            assert f"{option.name}` " in text, option.name
            count += 1
    entries = re.findall(r"^`--config\.\S+` .+, default `.*\n: .+\.$", text, flags=re.M)
    assert len(entries) == count > 150
    meanings = re.findall(r"^: (.+)$", text.partition("## Recipes")[0], flags=re.M)
    assert not [meaning for meaning in meanings if "; " in meaning], "a semicolon ends a sentence"
    assert '`--config.data.mix` str, default `\'\'`, one of "", "mixup" or "cutmix"' in text
    anchors = re.findall(r'id="(.*?)"', text)
    assert len(anchors) == len(set(anchors)) == count


@pytest.mark.slow
def test_every_flag_of_every_command_has_an_entry() -> None:
    """In a process of its own: flags of all commands cannot be defined together."""
    program = (
        "import json, reference_pages as r; "
        "flags = {name: [[f.name, f.help] for f in flags] for name, (_, flags) in r.commands().items()}; "
        "print(json.dumps([flags, r.flags_page()]))"
    )
    path = f"{ROOT}:{EXTENSIONS}"
    out = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    commands, text = json.loads(out.stdout)
    assert len(commands) > 20
    for name, found in commands.items():
        assert f"# {name}\n" in text, name
        for flag, meaning in found:
            assert meaning, f"{name} --{flag} has no help"
            anchor = re.sub(r"[^a-z0-9]+", "-", f"{name}---{flag}".lower())
            assert text.count(f'id="{anchor}"') == 1, anchor
    for modes in ("all modes", "--mode=train", "--mode=predict or --mode=eval"):
        assert f"### Flags of {modes}\n" in text


def test_every_package_with_public_names_has_a_page(
    pages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "fourier_attn").symlink_to(ROOT / "fourier_attn")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    for name in ("flags_page", "options_page"):
        monkeypatch.setattr(pages.reference_pages, name, lambda: "")
    pages.write_reference(None)
    written = {path.stem: path.read_text() for path in (tmp_path / "docs" / "api").iterdir()}
    packages = [
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "fourier_attn").rglob("__init__.py")
        if "\n__all__ = " in path.read_text()
    ]
    assert len(packages) == len(pages.ROOMS)
    for package in packages:
        page = written[package.removeprefix("fourier_attn").strip(".") or "package"]
        face = importlib.import_module(package)
        names = {
            name for name in face.__all__ if inspect.isroutine(face.__dict__.get(name, getattr(face, name)))
        }
        names |= {name for name in face.__all__ if inspect.isclass(getattr(face, name))}
        assert set(re.findall(r"^\.\. auto(?:class|function):: (\S+)", page, flags=re.M)) == {
            f"{package}.{name}" for name in names if (package, name) != ("fourier_attn.config", "describe")
        }
        for name in names:
            row = re.search(
                rf"^\| {{py:obj}}`{name} <{package}\.\S*{name}>` \| .+ \|$", written["index"], flags=re.M
            )
            assert row, f"{package}.{name} is not in the index"
    assert written["fourier_attn.ops.chirp"].startswith("---\norphan: true\n---\n\n# ops.chirp\n")
    assert "[ops.chirp](fourier_attn.ops.chirp.md): " in written["internal"]
    assert "[config.fit](fourier_attn.config.fit.md): " in written["internal"]
