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


def test_rows_belong_to_mixers(pages: ModuleType) -> None:
    rows = {
        "| `fnet` | 84.36 (1) |": "fourier",
        "| fnet | 2 blocks, batch 32 |": "fourier",
        "| `circular-8x8` | 84.44 (1) |": "circular",
        "| `configs/circular.py:reviews-3x3` | not yet run |": "circular",
        "| `configs/fnet.py` | not yet run |": "fourier",
        "| lambda, k = 4 | 3 |": "lambda",
        "| linear | 2 |": "linear",
        "| fnet / bert | 12 layers |": None,
        "| bert | 12 layers |": None,
    }
    assert {row: pages.mixer_of(row) for row in rows} == rows


def test_every_mixer_of_the_study_has_its_accuracy(pages: ModuleType) -> None:
    for name in sorted(set(pages.models().values())):
        assert "From [evidence](../evidence.md), table evidence:" in pages.measured(name), name
