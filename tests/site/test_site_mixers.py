"""Pages of the mixers: docs/mixers and docs/extensions/mixer_pages.py."""

import importlib
import re
import sys
from collections.abc import Iterator
from types import ModuleType

import jax
import jax.numpy as jnp
import pytest
from conftest import ROOT

from fourier_attn.model import MIXERS
from fourier_attn.optics import plan, preset

FOLDER = ROOT / "docs" / "mixers"
ORDER = ["Equation", "Matrix", "Example", "Cost and accuracy", "Padding", "Sources", "Reference"]

mixers = pytest.mark.parametrize("name", MIXERS)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs" / "extensions")
    yield importlib.import_module("mixer_pages")
    sys.modules.pop("mixer_pages")
    sys.modules.pop("api_pages", None)


def test_every_mixer_has_a_page_in_the_contents() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} == MIXERS.keys()
    contents = (ROOT / "docs" / "mixers.md").read_text().partition("{toctree}")[2].split()
    assert {line for line in contents if line.startswith("mixers/")} == {f"mixers/{name}" for name in MIXERS}


@mixers
def test_a_page_has_all_parts_in_order(name: str) -> None:
    text = (FOLDER / f"{name}.md").read_text()
    heads = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert [head for head in heads if head != "Optical engine"] == ORDER
    assert ("Optical engine" in heads) == ("engine" in MIXERS[name].__dataclass_fields__)
    marks = re.findall(r"^<!-- mixer: (\w+) -->$", text, flags=re.MULTILINE)
    assert marks == ["equation", "matrix", "measurements", "padding", "sources", "reference"]


@mixers
def test_a_page_begins_with_at_most_three_sentences(name: str) -> None:
    """They say what the mixer is and when to use it."""
    text = (FOLDER / f"{name}.md").read_text().partition("## Equation")[0].split("\n", 1)[1]
    sentences = re.findall(r"\S[^.]*?\.(?=\s|$)", re.sub(r"\]\([^)]*\)", "]", text))
    assert 1 < len(sentences) <= 3, sentences
    assert any(re.search(r"\b[Uu]se\b", sentence) for sentence in sentences)


def test_the_cost_of_light_is_that_of_the_plan(pages: ModuleType) -> None:
    """One sequence of 512 tokens of 128 features takes as many passes as its plan has."""
    planned = plan("fourier_mix", (1, 512, 128), preset("chip_11x11"))
    assert f"| passes of light for one sequence | {planned.passes:,} | `chip_11x11`" in pages.measurements(
        "fourier"
    )
    assert "passes of light" not in pages.measurements("attention")


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize(
    "name", [name if name == "identity" else pytest.param(name, marks=pytest.mark.slow) for name in MIXERS]
)
def test_the_example_of_a_page_runs(name: str) -> None:
    [example] = re.findall(r"^```python\n(.*?)^```$", (FOLDER / f"{name}.md").read_text(), re.M | re.S)
    assert len(example.splitlines()) <= 10
    space: dict = {}
    exec(example, space)
    assert type(space["layer"]) is MIXERS[name]
    assert space["y"].shape == (2, 100, 128)


@mixers
def test_a_table_has_costs_and_results_but_no_open_runs(pages: ModuleType, name: str) -> None:
    text = pages.measurements(name)
    layer = MIXERS[name]()
    params = jax.eval_shape(layer.init, jax.random.key(0), jnp.zeros((1, 8, 128)))
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    assert f"| parameters of one layer | {count:,} |" in text
    assert "not yet run" not in text
    small = name in ("attention", "circular", "lambda", "fourier", "linear", "random", "identity")
    assert ("test accuracy on IMDb" in text) == small
    assert not re.search(r"-engine`|-exact`|hybrid", text)


def test_a_table_is_made_from_the_cells(pages: ModuleType) -> None:
    findings = pages.published(ROOT, "1")["fnet"]
    mean = 100 * sum(finding["test"]["accuracy"] for finding in findings) / len(findings)
    [line] = [line for line in pages.measurements("fourier").splitlines() if "on IMDb" in line]
    value = re.fullmatch(r"\| .* \| ([\d.]+), ([\d.]+) to ([\d.]+) \((\d+)\) \| .*`fnet` \|", line)
    assert value[1] == f"{mean:.2f}"
    assert float(value[2]) < float(value[1]) < float(value[3])
    assert int(value[4]) == len(findings)


def test_a_page_is_filled_from_the_docstring_and_offers_the_file(pages: ModuleType) -> None:
    text = pages.filled(
        "token_conv", "<!-- mixer: equation -->\n<!-- mixer: padding -->\n<!-- mixer: reference -->"
    )
    assert text.startswith("    y[i] = sum_{k = -N .. N} w[N + k] x[i - k]")
    assert "\nPadded tokens are set to zero first" in text
    assert "</build/mixers/token_conv_mixer.py>" in text
    assert (ROOT / "build" / "mixers" / "token_conv_mixer.py").read_text().startswith('"""Convolves')
    with pytest.raises(KeyError):
        pages.filled("token_conv", "<!-- mixer: nothing -->")
