"""Figures: one style, names that can be read, and pictures in results that their files give."""

import io
import re
from collections.abc import Callable
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from conftest import ROOT, run_here
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from fourier_attn import style
from fourier_attn.studies import figures

# by which ml_collections reads a configuration, of which joules are told
pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")

PICTURES = dict(figures.pictures(ROOT))


@style.styled()
def curves(count: int) -> Figure:
    """Curves that all end near the same place, and names beside them."""
    figure = style.figure(height=2.0)
    axes = figure.subplots()
    for i in range(count):
        axes.plot([0, 1, 2], [i, 0, 1 + 0.01 * i], label=f"curve {i}")
    axes.errorbar([0, 1], [0, 3], [0.1, 0.1], label="bars")
    axes.axhline(2, label="level")
    style.label_ends(axes)
    return figure


def test_names_stand_beside_their_curves_and_never_on_each_other() -> None:
    figure = curves(5)
    (axes,) = figure.axes
    figure.draw_without_rendering()
    boxes = {text.get_text(): Text.get_window_extent(text) for text in axes.texts}
    assert list(boxes) == [*(f"curve {i}" for i in range(5)), "level", "bars"]
    order = sorted(boxes.values(), key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 + 1 for low, high in pairwise(order))
    for name, value in (("level", 2), ("bars", 3)):
        middle = (boxes[name].y0 + boxes[name].y1) / 2
        assert middle == pytest.approx(axes.transData.transform((0, value))[1], abs=2)
    assert all(axes.bbox.x1 < box.x0 and box.x1 <= figure.bbox.x1 for box in boxes.values())
    assert axes.get_legend() is None


def test_names_that_do_not_fit_are_in_a_legend() -> None:
    (axes,) = curves(30).axes
    assert not axes.texts
    assert len(axes.get_legend().get_texts()) == 32


def test_places_are_apart_and_no_farther_from_where_they_belong_than_need_be() -> None:
    np.testing.assert_allclose(style.apart([0.9, 0.1, 0.5], 0.1), [0.9, 0.1, 0.5])
    np.testing.assert_allclose(style.apart([0.5, 0.5], 0.1), [0.45, 0.55])
    np.testing.assert_allclose(style.apart([1.2, 1.1, 0.0], 0.2), [0.9, 0.7, 0.1])
    rng = np.random.default_rng(0)
    for _ in range(50):
        wanted = rng.uniform(size=6)
        places = np.sort(style.apart(wanted.tolist(), 0.12))
        assert np.diff(places).min() > 0.12 - 1e-9
        assert 0.06 - 1e-9 <= places[0] <= places[-1] <= 0.94 + 1e-9


@pytest.mark.parametrize("colour", [*style.COLOURS, style.GREY])
def test_type_can_be_read(colour: str) -> None:
    assert 1.05 / (style.luminance(np.array(to_rgb(style.ink(colour)))) + 0.05) >= 4.5


def test_the_same_figure_gives_the_same_bytes_and_changes_no_settings() -> None:
    before = dict(matplotlib.rcParams)
    first, second = style.png(curves(2)), style.png(curves(2))
    assert first == second
    assert dict(matplotlib.rcParams) == before
    with Image.open(io.BytesIO(first)) as picture:
        assert picture.mode == "P"
        assert picture.width == style.PAGE * style.DPI
        assert set(picture.info) <= {"dpi"}


def test_every_picture_has_its_file() -> None:
    """Those in results, and those that pages name."""
    there = {path.relative_to(ROOT / "results") for path in (ROOT / "results").rglob("*.png")}
    assert {path.with_suffix("").as_posix() for path in there} == set(PICTURES)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")]
    named = {name for page in pages for name in re.findall(r"results/([\w/-]+)\.png", page.read_text())}
    assert named <= set(PICTURES)


def test_a_picture_is_what_its_file_says() -> None:
    """All of them: --check, below. Other versions of matplotlib may set type a pixel aside."""
    drawn = Image.open(io.BytesIO(style.png(PICTURES["photons-reviews"]()))).convert("RGB")
    with Image.open(ROOT / "results" / "photons-reviews.png") as kept:
        assert kept.size == drawn.size
        apart = np.abs(np.asarray(kept.convert("RGB"), float) - np.asarray(drawn, float)).max(axis=-1)
    assert np.mean(apart > 50) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("change", "code"), [(None, 0), ("drift-reviews", 1)])
def test_the_command_sees_what_is_out_of_date(
    change: str | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = figures.FIGURES["photons-reviews"]
    changed: dict[str, Callable] = {change: lambda _: curves(2)} if change else {}
    monkeypatch.setattr(figures, "FIGURES", {"photons-reviews": draw, **figures.FIGURES, **changed})
    found, _, error = run_here(figures, f"--root={ROOT}", "--check")
    assert found == code, error
    assert (change or "") in error


def test_a_file_that_is_missing_is_named() -> None:
    code, _, error = run_here(figures, "--root=/nowhere")
    assert code == 2
    assert "has no results" in error
