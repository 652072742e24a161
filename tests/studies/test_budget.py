"""The budget study: its command, its file and figure, runs and measured devices, and published figures."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, run_here

from evidence.pages.field_units import PUBLISHED, SURVEY, link, published, stages, units
from evidence.pages.markdown import Results
from fourier_attn import config
from fourier_attn.config import fit_grid
from fourier_attn.optics import budget, components, plan, preset
from fourier_attn.optics.components import CORNERS
from fourier_attn.studies.engine import budget as study
from fourier_attn.studies.engine import budget_figure
from fourier_attn.studies.engine.projection import example_joules
from fourier_attn.train.rundir import config_file

ENGINES = (
    "chip_11x11",
    "demonstrator_5x5",
    "amplitude_4f",
    "chip_11x11_4bit",
    "shot_limited",
    "joint_transform",
)


@pytest.fixture(scope="module")
def document() -> dict:
    library = components.library()
    rows = [study.row(name, preset(name), library) for name in ENGINES]
    origin = {"command": "x", "commit": "0", "hardware": None, "versions": {}, "date": "2026-01-01"}
    return origin | {"rows": rows}


@pytest.mark.slow
def test_budget_is_a_command(tmp_path: Path) -> None:
    """It writes what `optics.budget` returns, draws it, and overwrites nothing."""
    device = tmp_path / "device.npz"
    k = np.arange(9)
    np.savez(device, transfer=0.9 * np.exp(-2j * np.pi * np.outer(k, k) / 9) / 3)
    words = (f"--engine=chip_11x11:{device},chip_11x11_4bit", f"--out={tmp_path / 'new'}", "--level=0.5")
    code, out, err = run_here(study, *words)
    assert code == 0, err
    assert "lens and static errors" in out
    assert "bound by: link" in out
    assert (tmp_path / "new.png").stat().st_size > 10_000
    first, second = json.loads((tmp_path / "new.json").read_text())["rows"]
    for row, name in ((first, f"chip_11x11:{device}"), (second, "chip_11x11_4bit")):
        for corner in CORNERS:
            found = budget(preset(name), components.prices(corner), 0.5)
            assert row[corner] == json.loads(json.dumps(study.as_plain(found)))
    gains = {name: gain for name, gain, _ in first["low"]["link"]}
    assert gains["lens and static errors"] == pytest.approx(20 * math.log10(0.9), abs=1e-3)
    code, _, err = run_here(study, *words)
    assert code == 2
    assert "new.json exists and is not overwritten" in err


def test_a_run_is_counted_by_its_plan(tmp_path: Path) -> None:
    """Frames, light and joules of an example: a batch of 8 of two layers, divided by 8."""
    c = config.default(engine="chip_11x11")
    c.data.task, c.data.batch, c.data.length, c.data.buckets = "reviews", 8, 33, ()
    c.model.positions, c.model.d, c.model.depth = 33, 11, 2
    for name in ("run", "exact"):
        (tmp_path / name).mkdir()
    config_file.save(tmp_path / "run", c)
    code, out, err = run_here(study, f"--workdir={tmp_path / 'run'}", f"--out={tmp_path / 'run' / 'b'}")
    assert code == 0, err
    engine, example = json.loads((tmp_path / "run" / "b.json").read_text())["rows"]
    assert engine["engine"] == "the run's engine"
    planned = plan("fourier_mix", (8, 33, 11), preset("chip_11x11"), prefer=c.model.mixer.prefer)
    assert example["frames"] == pytest.approx(2 * planned.frames / 8)
    light = engine["typical"]["signal_photons"] * engine["typical"]["macs"]  # of a frame
    assert example["signal_photons"] == pytest.approx(example["frames"] * light)
    assert example["seconds"] == pytest.approx(example["frames"] * engine["typical"]["period_s"])
    assert example["joules"] == pytest.approx(example_joules(c, study.Options()))
    assert "an example of the run" in out
    c.model.mixer.engine = None
    config_file.save(tmp_path / "exact", c)
    code, _, err = run_here(study, f"--workdir={tmp_path / 'exact'}")
    assert (code, "was trained without an engine; add --engine=chip_11x11" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engine=ideal",), "ideal: detection='field' is not a detector"),
        (("--engine=chip",), "preset='chip' is unknown"),
        (("--engine=chip_11x11,chip_11x11",), "--engine=chip_11x11 is named twice"),
        (("--level=2",), "level=2.0 must be above 0 and at most 1"),
        (("--components=none.toml",), "none.toml cannot be read as TOML"),
    ],
)
def test_bad_input_ends_with_code_2(words: tuple[str, ...], message: str) -> None:
    code, _, err = run_here(study, *words)
    assert (code, message in err) == (2, True), err


def test_components_of_a_file_count(tmp_path: Path) -> None:
    """A link of one's own: a chip whose light sets the rate."""
    own = tmp_path / "own.toml"
    lines = ("[link.bytes_per_s]", "typical = 1e12", 'marks = "measured"', 'source = "our bench, 2026-05-01"')
    own.write_text("\n".join(lines))
    code, out, err = run_here(study, f"--components={own}")
    assert code == 0, err
    assert "ns, bound by: light" in out
    c = config.default(engine="chip_11x11")
    c.data.task, c.data.length, c.data.buckets, c.model.positions, c.model.d = "reviews", 11, (), 11, 11
    aged = preset("chip_11x11").replace(phase_drift_rms=0.1, recalibrate_s=7.26e-7)  # 242 of 726 passes probe
    library = components.library(own)
    for engine, share in ((preset("chip_11x11"), 1.0), (aged, 1.5)):
        found = study.example("x", engine, fit_grid(c), library, 1.0)
        assert found["seconds"] == pytest.approx(found["frames"] * share * 1e-9)  # of the light
        light = budget(engine, level=1.0)
        assert found["signal_photons"] == pytest.approx(found["macs"] * light.signal_photons)


def test_published_figures_are_in_our_range_or_have_a_reason(document: dict) -> None:
    engines = {row["engine"]: row for row in document["rows"]}
    for one in PUBLISHED:
        assert one.inside(engines) == (not one.reason), one.quantity
    # 0.66 photons of 2.5e-19 J are green; 50 zJ are 0.39 photons at 1.55 um
    assert 510e-9 < 0.66 * 6.62607015e-34 * 299_792_458 / 2.5e-19 < 540e-9
    assert pytest.approx(0.39, abs=0.01) == 50e-21 / (6.62607015e-34 * 299_792_458 / 1.55e-6)


def test_converters_are_as_in_the_survey() -> None:
    """Eight bits are between the quartiles of 18 converters, 3.1 to 31 pJ; four are below all 11."""
    (eight,) = (one for one in PUBLISHED if "7 to 8 effective bits" in one.quantity)
    (four,) = (one for one in PUBLISHED if "3.5 to 4.5 effective bits" in one.quantity)
    assert eight.source == four.source == SURVEY
    assert 3.14 < eight.ours({})["typical"] < 31.25
    assert four.ours({})["high"] < four.value
    areas = components.library()["adc.area_m2"]
    assert (areas.low, areas.typical, areas.high) == (2850e-12, 67_500e-12, 430_000e-12)


def test_the_figure_names_every_part(document: dict) -> None:
    figure = budget_figure.plot(document)
    assert len(figure.axes) == 9  # of three engines
    light, noise, time = figure.axes[:3]
    labels = [label.get_text() for label in light.get_yticklabels()]
    assert labels[0] == "laser, signal and reference"
    assert "insertion loss -15.0" in labels
    assert [label.get_text() for label in noise.get_yticklabels()][-1] == "all 32.5"
    assert "turnaround 1 µs" in [label.get_text() for label in time.get_yticklabels()]
    assert "bound by: link" in time.get_title("right")


def test_tables_have_a_row_for_each_unit(document: dict, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "b.json").write_text(json.dumps(document))
    results = Results(tmp_path)
    text = units(results, "b")
    for _, words in study.UNITS.values():
        assert f"| {words} |" in text
    assert "| electrical fJ per MAC, all | 4,250 (789 to 14,400) |" in text
    assert "| no converters |" in text
    assert published(results, "b").count("in our range") == sum(not one.reason for one in PUBLISHED)
    assert "| insertion loss | -15.0 | -22.8 |" in link(results, "b", "chip_11x11")
    assert "| turnaround | none | 1,000 | 0 |" in stages(results, "b", "chip_11x11")
    assert "not yet run" in units(results, "absent")


def test_results_hold_what_the_page_shows() -> None:
    names = {row["engine"] for row in Results(ROOT).document("studies/budget")["rows"]}
    assert set(ENGINES) <= names
