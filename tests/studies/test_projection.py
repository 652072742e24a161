"""What a network would take on an engine: sensitivities, their figure, and the tables of it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from evidence.pages import projected
from evidence.pages.markdown import Results
from fourier_attn.optics import Engine, Plan, components, cost, plan
from fourier_attn.optics.components import CORNERS
from fourier_attn.optics.frame import frame
from fourier_attn.optics.presets import preset
from fourier_attn.studies.engine import tornado
from fourier_attn.studies.engine.projection import (
    ANSWERS,
    Case,
    Options,
    energy_at_corners,
    project,
    sensitivity,
)
from fourier_attn.studies.engine.step_timing import Taken

TAKEN = {
    "inference": Taken(step=2e-3, explicit=2e-3, no_mixer=1e-3, transform=5e-4, after=1e-5),
    "training": Taken(step=6e-3, explicit=6e-3, no_mixer=4e-3, transform=1e-3, after=2e-5),
}


def case(name: str = "chip_11x11", **changes: Any) -> Case:
    e: Engine = preset(name)
    planned: Plan = plan("fourier_mix", (3, e.shape[0] ** 2, e.shape[1]), e)
    return Case(e, planned, depth=2, batch=3, taken=TAKEN, options=Options(**changes))


def test_speedup_is_what_is_left_and_what_is_added() -> None:
    """The step without its transforms, and the optics in their place; twice as many in training."""
    here = case(engines=5)
    for mode, layers in (("inference", 2), ("training", 4)):
        took = here.times(mode, components.prices())
        spent = cost.seconds(
            here.engine, **here.plan.load(layers), engines=5, stages=layers * here.plan.stages
        )
        step = TAKEN[mode].step - TAKEN[mode].transform + spent.total + TAKEN[mode].after
        assert took["total"] == pytest.approx(spent.total + TAKEN[mode].after)
        assert took["speedup"] == pytest.approx(TAKEN[mode].step / step)


def test_ranges_are_in_order() -> None:
    result = project(case(static_w=1.0))
    for mode in TAKEN:
        low, typical, high = (result[mode][corner] for corner in CORNERS)
        assert low["total"] < typical["total"] < high["total"]
        assert low["speedup"] > typical["speedup"] > high["speedup"]
    for line in result["energy_j"]["typical"]:
        low, typical, high = (result["energy_j"][corner][line] for corner in CORNERS)
        assert low <= typical <= high


def test_sensitivities_are_of_one_component_each() -> None:
    here, typical = case(), components.prices()
    rows = {row["component"]: row for row in sensitivity(here)}
    assert {"link.bit_j", "link.bytes_per_s", "hbm.bit_j", "setting.frame_rate"} <= rows.keys()
    assert not any(name.startswith(("cpu.", "thermo_optic.", "camera.")) for name in rows)
    low, high = rows["link.bit_j"]["answers"]
    bits = 2 * here.plan.frames * frame(here.engine).bits / 3
    part = components.library()["link.bit_j"]
    assert high["joules"] - low["joules"] == pytest.approx(bits * (part.high - part.low))
    assert high["seconds"] == low["seconds"] == rows["link.bit_j"]["typical_answers"]["seconds"]
    for row in rows.values():
        assert row["typical_answers"] == here.answers(typical)


def test_a_digital_remainder_is_paid() -> None:
    """22 = 2 x 11 points: what is left to the digital side crosses memory, here and on the reference."""
    whole, longer = (case()._replace(plan=plan("fourier_mix", (3, t, 11), case().engine)) for t in (11, 22))
    assert whole.energy(components.prices()).digital == 0
    assert longer.energy(components.prices()).digital == cost.electronic_energy(2 * 2 * 22 * 11 * 16)
    moved = {row["component"] for row in sensitivity(longer)}
    assert {"gpu.power_w", "gpu.bytes_per_s"} <= moved


def test_the_heater_is_an_assumption_of_the_demonstrator() -> None:
    rows = {row["component"] for row in sensitivity(case("demonstrator_5x5"))}
    assert "thermo_optic.hold_w_per_pi" in rows
    assert "photodiode.receiver_w" not in rows


def test_the_widest_bar_is_on_top() -> None:
    rows = sensitivity(case())
    for answer in ANSWERS:
        widths = []
        for row in tornado.widest(rows, answer):
            values = [end[answer] for end in row["answers"]]
            widths.append(max(values) / min(values))
        assert widths == sorted(widths, reverse=True)
    assert tornado.widest(rows, "joules")[0]["component"] == "link.bit_j"


def test_the_figure_has_its_panels() -> None:
    names = ("chip_11x11", "demonstrator_5x5")
    rows = [
        row | {"part": "sensitivity", "preset": name} for name in names for row in sensitivity(case(name))
    ]
    figure = tornado.plot({"rows": rows, "setting": "a toy"})
    titles = [axes.get_title("left").split(", typically")[0] for axes in figure.axes]
    assert titles == [f"{name}: {tornado.TITLES[answer]}" for name in names for answer in ANSWERS]
    first = figure.axes[0]
    assert first.get_yticklabels()[0].get_text() == "link.bit_j  5e-13 to 3.57e-11 J"


def test_nothing_to_draw_is_said() -> None:
    answers = dict.fromkeys(ANSWERS, 1.0)
    row = {"part": "sensitivity", "preset": "none", "typical_answers": answers, "answers": [answers, answers]}
    figure = tornado.plot({"rows": [row], "setting": "a toy"})
    assert {text.get_text() for axes in figure.axes for text in axes.texts} == {"nothing moves it"}


@pytest.mark.parametrize(
    ("value", "text"), [(1.2345e-3, "1.23 mJ"), (5e-13, "0.5 pJ"), (495.1, "495 J"), (0.0, "0")]
)
def test_numbers_have_prefixes(value: float, text: str) -> None:
    assert tornado.number(value, "J") == text


def document(where: Path) -> None:
    here = case()
    origin = {"command": "python -m study", "commit": None, "hardware": None, "versions": None, "date": None}
    rows = [
        {"part": "preset", "preset": "chip_11x11", **project(here)},
        {"part": "preset", "preset": "amplitude_4f", "no_plan": "it loses the phase"},
        {"part": "preset", "preset": "ideal", **{**project(here), "no_energy": "no detector"}},
        {"part": "frame", "preset": "chip_11x11", "points": 121}
        | {"energy_j": energy_at_corners(here.engine, {"frames": 1}, here.options)},
        {"part": "electronics", "name": "A100", "what": "arithmetic", "joules": dict.fromkeys(CORNERS, 2e-3)},
    ]
    del rows[2]["energy_j"]
    (where / "results").mkdir()
    (where / "results" / "toy.json").write_text(json.dumps({**origin, "batch": 3, "rows": rows}))


def test_tables_of_projections(tmp_path: Path) -> None:
    document(tmp_path)
    lines = projected.speedup(Results(tmp_path), "toy").splitlines()[2:6]
    split = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    cells = {first: rest for first, *rest in split}
    assert cells["amplitude_4f"][0] == "no plan"
    assert cells["ideal"][-1] == "no converters"
    assert cells["none: A100, arithmetic"][-1] == "2"
    joules = {corner: 1e3 * at["total"] / 3 for corner, at in project(case())["energy_j"].items()}
    found = [float(number) for number in re.findall(r"[\d.e-]+", cells["chip_11x11"][-1])]
    assert found == pytest.approx([joules["typical"], joules["low"], joules["high"]], rel=0.05)


def test_table_of_frames(tmp_path: Path) -> None:
    document(tmp_path)
    head, *lines = projected.frames(Results(tmp_path), "toy").splitlines()
    [row] = [line for line in lines if line.startswith("| link, pJ per point |")]
    cells = dict(zip(head.split("|"), row.split("|"), strict=True))
    used = cost.energy(preset("chip_11x11"), 1)
    assert float(cells[" chip_11x11 "]) == pytest.approx(1e12 * used.link / 121, rel=0.05)
    assert "not yet run" in projected.frames(Results(tmp_path), "other")


def test_table_of_components(tmp_path: Path) -> None:
    text = projected.parts(Results(tmp_path))
    for name, part in components.library().items():
        line = next(line for line in text.splitlines() if f"`{name}`" in line)
        assert f"{part.typical:g} ({part.marks[1]})" in line
        assert part.source in line
