"""Pages of the mixers: docs/extensions/mixer_pages.py."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from conftest import ROOT


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs" / "extensions")
    yield importlib.import_module("mixer_pages")
    sys.modules.pop("mixer_pages")
    sys.modules.pop("pages", None)


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
