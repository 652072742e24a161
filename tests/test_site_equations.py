"""Equations in plain text become MathML, and nothing else does: docs/extensions/mathematics.py."""

import importlib
import sys

import pytest
from conftest import ROOT


def test_equations_become_latex(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("latex2mathml")
    monkeypatch.syspath_prepend(ROOT / "docs" / "extensions")
    mathematics = importlib.import_module("mathematics")
    sys.modules.pop("mathematics")
    assert mathematics.to_latex("y[i] = x_j / sqrt(k)") == r"{y}_{i} = \frac{{x}_{j}}{\sqrt{k}}"
    assert mathematics.lines_of("y = F x      a remark") == [("y = F x", "a remark")]
    for text in ("python -m this --a=b", "CPU   rfft", "y = (x"):
        assert mathematics.lines_of(text) is None, text
