"""Figures: one style, names that can be read, and pictures in results that their files give."""

import io
import math
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
from readable import faults

from evidence.pages import figures, speedups
from evidence.report import figures as report_figures
from fourier_attn import style
from fourier_attn.studies.engine import robustness_sweep

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


def faulty(kind: str) -> Figure:
    figure = style.figure(2.0, 1.5)
    axes = figure.subplots()
    if kind == "outside the canvas":
        axes.set_ylabel("a name that is longer than the figure is high " * 2)
    elif kind == "on each other":
        axes.text(0.5, 0.5, "one")
        axes.text(0.51, 0.5, "another")
    else:
        axes.errorbar([0], [0], xerr=[[5], [1]])
        axes.set_xlim(-2, 2)
    return figure


@pytest.mark.parametrize("kind", ["outside the canvas", "on each other", "beyond the axes"])
def test_faults_of_figures_are_seen(kind: str) -> None:
    assert any(found.startswith(kind) for found in faults(faulty(kind)))


def test_an_interval_beyond_the_axes_ends_in_an_arrow() -> None:
    figure = style.figure(2.0, 2.0)
    axes = figure.subplots()
    style.interval(axes, 0.5, -3.0, 0.7, 0, (0.0, 1.0), style.BLUE)
    style.interval(axes, 0.5, math.nan, math.nan, 1, (0.0, 1.0), style.BLUE)
    axes.set_xlim(0, 1)
    assert not faults(figure)
    arrows = [line for line in axes.lines if line.get_marker() in ("<", ">")]
    assert [(line.get_xdata()[0], line.get_marker()) for line in arrows] == [(0.0, "<")]


def test_points_of_speed_are_hollow_where_rounds_disagree() -> None:
    row = {"what": "a / b", "pass": "forward", "times_faster": 2.0, "lowest": 1.5, "highest": 3.0}
    rows = [
        row,
        row | {"lowest": 0.9, "pass": "forward + backward"},
        row | {"what": "c / d"},
        {"what": "value"},
    ]
    (axes,) = speedups.plot([{"rows": rows}]).axes
    points = [line for line in axes.lines if line.get_marker() in "os"]
    filled = [line.get_markerfacecolor() != "none" for line in points]
    assert filled == [True, False, True]
    assert [line.get_xdata()[0] for line in points] == [2.0] * 3
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a / b", "c / d"]


def test_curves_have_a_thin_line_for_each_seed() -> None:
    figure = style.figure()
    axes = figure.subplots()
    report_figures.plot_seeds(axes, [1, 2], [[0.5, 0.6, 0.7], [0.7, 0.8, 0.9]], style.BLUE, "o", "a (3)")
    *thin, thick = axes.lines
    assert [line.get_ydata().tolist() for line in thin] == [[50, 70], [60, 80], [70, 90]]
    np.testing.assert_allclose(thick.get_ydata(), [60, 80])
    assert not axes.collections
    report_figures.plot_seeds(axes, [1, 2], [[0.5], [0.7]], style.BLUE, "o", "b (1)")
    assert len(axes.lines) == 5  # one seed is its own mean


# of each kind one that was wrong; all of them: the slow test
@pytest.mark.parametrize(
    "name",
    [
        *("evidence/imdb/pairs-2", "evidence/sst2/costs-sst2", "studies/pareto-fnet"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in PICTURES),
    ],
)
def test_everything_in_a_figure_can_be_read(name: str) -> None:
    assert not faults(PICTURES[name]())


def test_what_is_noise_is_not_coloured() -> None:
    rows = [{"run": "a", "split": "test", "accuracy": 0.8, "examples": 1600}]
    rows += [rows[0] | {"bits": 4, "noise": 1.0, "device": i, "accuracy": 0.8 + i / 1000} for i in (0, 1)]
    document = {"rows": rows}
    assert robustness_sweep.standard_error(document) == pytest.approx(1.0)
    for row in rows:
        del row["examples"]
    assert robustness_sweep.standard_error(document) is None
    assert robustness_sweep.standard_error(
        document | {"command": "python x --examples=400"}
    ) == pytest.approx(2.0)
    assert robustness_sweep.wide([80.0, 80.1], 4.0) == pytest.approx((78.05, 82.05))
    assert robustness_sweep.wide([70.0, 80.0], 4.0) == (70.0, 80.0)


def test_every_picture_has_its_file() -> None:
    """Those in results, and those that pages name."""
    there = {path.relative_to(ROOT / "results") for path in (ROOT / "results").rglob("*.png")}
    assert {path.with_suffix("").as_posix() for path in there} == set(PICTURES)
    globs = ("README.md", "docs/*.md", "docs/optics/*.md", "notebooks/*.ipynb")
    pages = [page for glob in globs for page in ROOT.glob(glob)]
    named = {name for page in pages for name in re.findall(r"results/([\w/-]+)\.png", page.read_text())}
    assert named <= set(PICTURES)


def test_a_picture_is_what_its_file_says() -> None:
    """All of them: --check, below. Other versions of matplotlib may set type a pixel aside."""
    drawn = Image.open(io.BytesIO(style.png(PICTURES["studies/photons-reviews"]()))).convert("RGB")
    with Image.open(ROOT / "results" / "studies" / "photons-reviews.png") as kept:
        assert kept.size == drawn.size
        apart = np.abs(np.asarray(kept.convert("RGB"), float) - np.asarray(drawn, float)).max(axis=-1)
    assert np.mean(apart > 50) < 0.01


FEW = ("studies/photons-reviews", "studies/drift-reviews", "studies/joules")


@pytest.mark.parametrize(("change", "code"), [(None, 0), ("studies/drift-reviews", 1)])
def test_the_command_sees_what_is_out_of_date(
    change: str | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a few figures; `make test` calls it with all."""
    few = {name: PICTURES[name] for name in FEW}
    changed: dict[str, Callable] = {change: lambda: curves(2)} if change else {}
    monkeypatch.setattr(figures, "pictures", lambda _: (few | changed).items())
    found, _, error = run_here(figures, f"--root={ROOT}", "--check")
    assert found == code, error
    assert (change or "") in error


def test_figures_are_the_same_up_to_rounding() -> None:
    def picture(width: int = 6, change: int = 0) -> bytes:
        pixels = np.full((4, width, 3), 200, np.uint8)
        pixels[1, 0] += np.uint8(change)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        return file.getvalue()

    assert figures.same(picture(), picture(change=8))
    assert not figures.same(picture(), picture(change=9))
    assert not figures.same(picture(), picture(width=1))


def test_a_file_that_is_missing_is_named() -> None:
    code, _, error = run_here(figures, "--root=/nowhere")
    assert code == 2
    assert "has no results" in error


@pytest.mark.parametrize("scores", [(0.0, 100.0), (99.8, 100.0), (0.0, 0.1)])
def test_a_mark_at_the_end_of_a_scale_is_whole(scores: tuple[float, float]) -> None:
    ends = report_figures.limits(scores)
    with style.styled():
        figure = style.figure(width=style.COLUMN)
        axes = figure.subplots()
        axes.plot(scores, [0, 1], "o")
        axes.set_xlim(*ends)
        figure.draw_without_rendering()
        radius = matplotlib.rcParams["lines.markersize"] / 2 / 72 * figure.dpi
    places = axes.transData.transform([(score, 0) for score in scores])[:, 0]
    assert axes.bbox.x0 + radius < min(places) < max(places) < axes.bbox.x1 - radius
    assert report_figures.limits([50.0, 60.0]) == pytest.approx((48.5, 61.5))


def test_unknown_core_hours_are_named() -> None:
    """In tier 2, the process of circular-1d was killed, and three networks were trained on a GPU."""
    figure = PICTURES["evidence/imdb/costs-2"]()
    hours = next(axes for axes in figure.axes if axes.get_xlabel().startswith("core-hours"))
    assert [text.get_text().strip() for text in hours.texts] == ["unknown"] * 4
