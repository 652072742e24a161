"""Accuracy over age and over photons: when devices are looked at, bands, and the commands themselves."""

import json
import math
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import run_here, shrink

from evidence.pages.engine_accuracy import over_ages, over_photons
from evidence.pages.markdown import Results
from fourier_attn import config, train
from fourier_attn.studies.engine import drift, photons
from fourier_attn.studies.intervals import band


def test_devices_stand_all_over_the_interval_before_their_age() -> None:
    """Before the first calibration at their age itself: there both curves are one."""
    moments = np.array([drift.moment(3600.0, 600.0, (i + 0.5) / 10) for i in range(10)])
    assert np.all((moments > 3000) & (moments < 3600))
    np.testing.assert_allclose(np.diff(moments), 60)
    assert drift.moment(599.0, 600.0, 0.5) == 599
    assert drift.moment(1e6, math.inf, 0.5) == 1e6


def test_a_band_holds_the_mean_in_95_of_100_cases() -> None:
    draws = np.random.default_rng(0).normal(3, 2, (4000, 10))
    inside = [abs(mean - 3) < half for mean, half in map(band, draws.tolist())]
    assert np.mean(inside) == pytest.approx(0.95, abs=5 * math.sqrt(0.95 * 0.05 / 4000))


@pytest.fixture(scope="module")
def optical_run(few_reviews: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("runs") / "optical"
    c: config.Config = shrink(config.default(engine="chip_11x11"), few_reviews)
    c.train.epochs = 1
    with jax.numpy_dtype_promotion("standard"):
        train.run(c, where)
    return where


@pytest.mark.slow
def test_drift_is_a_command(optical_run: Path) -> None:
    words = [f"--workdir={optical_run}", "--devices=2", "--examples=16"]
    times = ["--ages=0,3600", "--intervals=60"]
    code, out, err = run_here(drift, *words, *times)
    assert code == 0, err
    assert "every 60 s" in out
    document = json.loads((optical_run / "drift.json").read_text())
    assert (optical_run / "drift.png").exists()
    rows = document["rows"][1:]
    assert len(rows) == 2 * 2 * 2
    assert [row["accuracy"] for row in rows[:2]] == [row["accuracy"] for row in rows[4:6]]  # age 0
    assert document["costs"][0] == {"interval_s": None, "passes_for_each_of_work": 0.0}
    assert document["costs"][1]["passes_for_each_of_work"] == pytest.approx(32 / 60e9)  # 2 x 16 probes
    code, _, err = run_here(drift, *words, "--intervals=1e-8", "--out=more")
    assert code == 2
    assert "calibration takes 32" in err
    code, _, err = run_here(drift, *words, "--ages=-1", "--out=more")
    assert code == 2
    assert "--ages=[-1.0] must be seconds" in err


@pytest.mark.slow
def test_photons_are_a_command(optical_run: Path) -> None:
    words = [f"--workdir={optical_run}", "--devices=2", "--examples=16"]
    code, out, err = run_here(photons, *words, "--photons=0.1,1e4")
    assert code == 0, err
    assert re.search(r"10000 photons, \S+ per MAC", out)
    document = json.loads((optical_run / "photons.json").read_text())
    rows, (network,) = document["rows"], document["networks"]
    assert network["run"] == optical_run.name
    assert all(re.fullmatch(r"[0-9a-f]{16}", network[part]) for part in ("weights", "config"))
    assert [row.get("photons") for row in rows] == [None, 0.1, 0.1, 1e4, 1e4]
    assert (optical_run / "photons.png").exists()
    code, _, err = run_here(photons, *words, "--photons=0", "--out=more")
    assert code == 2
    assert "--photons=[0.0] must be positive" in err


def test_tables_have_a_column_for_each_age_and_number_of_photons(tmp_path: Path) -> None:
    first = {"run": "a", "accuracy": 0.9}
    aged = [
        first | {"interval_s": interval, "age_s": age, "accuracy": accuracy + 0.01 * device}
        for interval in (None, 60.0)
        for age, accuracy in ((0.0, 0.8), (600.0, 0.7))
        for device in (0, 2)
    ]
    dim = [
        first | {"photons": n, "photons_per_mac": n / 363, "accuracy": 0.5 + n / 1000}
        for n in (1.0, 100.0)
        for _ in range(2)
    ]
    costs = [{"interval_s": interval, "passes_for_each_of_work": 0.5} for interval in (None, 60.0)]
    facts = {"command": "c", "commit": "0" * 40, "hardware": None, "versions": None, "date": None}
    setting = {"dataset": "films", "examples": 7, "phase_drift_rms": 0.5, "gain_drift_rms": 0.1}
    setting |= {"drift_time_s": 60.0}
    aging = {"rows": [first, *aged], "costs": costs, "setting": setting}
    (tmp_path / "results").mkdir()
    for name, more in (("aged", aging), ("dim", {"rows": [first, *dim]})):
        (tmp_path / "results" / f"{name}.json").write_text(json.dumps(facts | more))
    table = over_ages(Results(tmp_path), "aged")
    half = 12.71  # t_{.975, 1}, and s / sqrt(2) is 1 %
    assert "after 0 s | after 600 s | calibration passes per working pass |" in table
    assert f"| every 60 s | 81.00 ± {half} | 71.00 ± {half} | 0.5 |" in table
    assert "films, 7 examples; drift of 0.5 rad, gain 0.1, correlated over 60 s" in table
    table = over_photons(Results(tmp_path), "dim")
    assert "| a | 50.10 ± 0.00 | 60.00 ± 0.00 | 90.00 |" in table
    assert "| photons per MAC, signal | 0.00275 | 0.275 |  |" in table
    assert "not yet run" in over_ages(Results(tmp_path), "none") + over_photons(Results(tmp_path), "none")
