"""Pages that are made from the code and from results: docs/extensions/pages.py."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs" / "extensions")
    yield importlib.import_module("pages")
    sys.modules.pop("pages")


def test_pages_of_rooms_begin_with_their_titles(
    pages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "fourier_attn").symlink_to(ROOT / "fourier_attn")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    pages.write_reference(None)
    for room, title in pages.ROOMS.items():
        text = (tmp_path / "docs" / "api" / f"{room or 'package'}.md").read_text()
        assert text.startswith(f"# {title}\n"), room
        package = importlib.import_module(f"fourier_attn.{room}".rstrip("."))
        exported = {name for name in getattr(package, "__all__", ()) if callable(getattr(package, name))}
        assert {row.split()[0] for row in text.split("{py:obj}`")[1:]} == exported, room
    assert (tmp_path / "docs" / "api" / "fourier_attn.ops.chirp.md").read_text().startswith("# ops.chirp\n")
