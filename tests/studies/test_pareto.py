"""Energy against accuracy: what no other engine beats, how sure an accuracy is, and the search end to end."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import run_here, shrink

from fourier_attn import config, train
from fourier_attn.optics import presets
from fourier_attn.studies import intervals
from fourier_attn.studies.engine import frontier, pareto
from fourier_attn.studies.engine.evaluator import EngineEvaluator
from fourier_attn.studies.engine.step_timing import Measured


def test_the_front_is_what_no_other_point_beats() -> None:
    draw = np.random.default_rng(0)
    for _ in range(20):
        points = [(float(x), float(y)) for x, y in draw.integers(0, 6, (12, 2))]
        beaten = [
            any(a <= cost and b >= gain and (a, b) != (cost, gain) for a, b in points)
            for cost, gain in points
        ]
        expected = {point for point, lost in zip(points, beaten, strict=True) if not lost}
        found = frontier.front(points)
        assert [points[i] for i in found] == sorted(expected)
        assert len(set(found)) == len(found)


def test_the_second_front_follows_where_the_first_is_short() -> None:
    rows = [
        {"joules": {"typical": cost}, "validation_accuracy": gain}
        for cost, gain in ((1.0, 0.5), (2.0, 0.9), (3.0, 0.8), (4.0, 0.4))
    ]
    assert frontier.nearest(rows, 2) == rows[:2]
    assert frontier.nearest(rows, 3) == rows[:3]
    assert frontier.nearest(rows, 9) == rows
    assert frontier.nearest(rows, 1) == [rows[1]]  # the most accurate of the first


@pytest.mark.parametrize(("share", "examples"), [(0.5, 50), (0.85, 100), (0.97, 200)])
def test_an_interval_covers_the_share_in_95_of_100_draws(share: float, examples: int) -> None:
    counts = np.random.default_rng(1).binomial(examples, share, 4000)
    ends = np.array([intervals.wilson_interval(count / examples, examples) for count in counts])
    covered = np.mean((ends[:, 0] <= share) & (share <= ends[:, 1]))
    assert covered == pytest.approx(0.95, abs=0.025)  # discrete: it cannot be met to the point


def test_an_interval_stays_within_0_and_1() -> None:
    assert intervals.wilson_interval(1.0, 10)[1] <= 1
    assert intervals.wilson_interval(0.0, 10)[0] >= 0


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("--bits=eight", "--bits=eight is not a number"),
        ("--bits=25", r"--bits=[25] must lie from 2 to 24"),
        ("--slices=0", "--slices=[0] must lie from 1 to 64"),
        ("--power=0", "--power=[0.0] must be positive"),
        ("--prefer=speed", "--prefer=speed is unknown; choose from error, passes"),
        ("--out=pareto", "--workdir is needed"),
    ],
)
def test_what_cannot_be_searched_is_named(option: str, error: str) -> None:
    code, _, said = run_here(pareto, option)
    assert code == 2
    assert error in said


@pytest.mark.parametrize(("length", "pixels", "kept"), [(256, 8, ["error"]), (64, 11, ["error", "passes"])])
def test_plans_that_are_the_same_are_searched_once(length: int, pixels: int, kept: list[str]) -> None:
    """4 x 8^2 tokens of 8^2 features need no chirp on 8 x 8 pixels; 64 of 64 do on 11 x 11."""
    judge = object.__new__(EngineEvaluator)  # without a run: plans need its configuration alone
    judge.config = config.default("fourier")
    judge.config.update_from_flattened_dict(
        {"data.length": length, "model.d": 64, "model.mixer.padding": "zero"}
    )
    choices = [pareto.Choice(prefer, 6, 1, 1, 1.0) for prefer in ("error", "passes")]
    base = presets.preset("chip_11x11").replace(shape=(pixels, pixels))
    assert [choice.prefer for choice in pareto.distinct(judge, base, choices)] == kept


def test_what_cannot_be_measured_is_said_before_the_search(
    toy_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pareto, "measure", lambda *given: Measured({}, 3, None))
    monkeypatch.setattr(pareto, "search", pytest.fail)
    code, _, said = run_here(pareto, f"--workdir={toy_run}", "--search_examples=16", "--examples=16")
    assert code == 2
    assert "JAX_PLATFORMS=cpu" in said


@pytest.mark.slow
def test_a_search_from_end_to_end(few_reviews: str, tmp_path: Path) -> None:
    with jax.numpy_dtype_promotion("standard"):
        c = shrink(config.default("fourier", engine="chip_11x11"), few_reviews)
        c.model.mixer.engine.shape, c.train.epochs = (8, 8), 1
        train.run(c, tmp_path / "run")
    words = [
        f"--workdir={tmp_path / 'run'}",
        *("--bits=6,8", "--slices=1", "--averages=1", "--power=0.1,1", "--prefer=passes"),
        *("--search_examples=16", "--examples=16", "--keep=2", "--devices=2", "--seconds=0"),
    ]
    code, out, error = run_here(pareto, *words)
    assert code == 0, error
    assert "written to" in out
    rows = json.loads((tmp_path / "run" / "pareto.json").read_text())["rows"]
    searched, judged = frontier.part(rows, "searched"), frontier.part(rows, "judged")
    assert len(searched) == 4
    assert len(judged) == 2
    for row in searched + judged + frontier.part(rows, "electronic"):
        assert 0 < row["joules"]["low"] <= row["joules"]["typical"] <= row["joules"]["high"]
    assert all(len(row["devices"]) == 2 for row in judged)
    dim, bright = (row for row in searched if row["bits"] == 8)
    assert bright["photons"] == pytest.approx(10 * dim["photons"])
    assert bright["joules"]["typical"] > dim["joules"]["typical"]
    assert (tmp_path / "run" / "pareto.png").stat().st_size > 10_000
    code, _, error = run_here(pareto, *words)
    assert code == 2
    assert "exists and is not overwritten" in error


def test_no_override_of_the_network_is_ignored() -> None:
    words = ("--measured=old.json", "--config=fnet:imdb", "--config.model.d=None")
    code, _, said = run_here(pareto, *words)
    assert code == 2
    assert "model.d=None: this option cannot be None" in said


def test_joules_of_an_earlier_result_are_computed_again(tmp_path: Path) -> None:
    """Of the network and the engine that the result says; accuracies stay."""
    network, base = config.default("fourier"), presets.preset("chip_11x11").replace(shape=(8, 8))
    sizes = {"data.length": 64, "data.buckets": (), "model.positions": 64, "model.d": 64, "data.batch": 2}
    network.update_from_flattened_dict(sizes)
    choice = pareto.Choice("error", 6, 1, 1, 1.0)
    row = {"part": "judged", **choice._asdict(), **pareto.spent(network, base, choice, pareto.Options())}
    joules, row["joules"], row["accuracy"] = row["joules"], {"typical": 1.0}, 0.5
    file = tmp_path / "old.json"
    file.write_text(json.dumps({"setting": "toy", "date": "2026-11-22T", "commit": "old", "rows": [row]}))
    found = pareto.again(file, network, base, pareto.Options())
    assert found["rows"] == [row | {"joules": joules}]
    processor = {"part": "electronic", "power": ""}
    light = row["photons"] / 3 / 64  # of numbers that are spread evenly, per MAC of 64 pixels
    assert row["photons_per_mac"] == pytest.approx(light, rel=0.03)
    assert f"{row['photons_per_mac']:.3g} photons per MAC" in frontier.table(
        [*found["rows"], {"part": "exact", "accuracy": 0.5, "examples": 9}, found["rows"][0] | processor]
    )
    assert found["setting"] == "toy; joules of engines computed again, all else of 2026-11-22"
    assert found["measured"]["commit"] == "old"
    network.model.d = 128
    with pytest.raises(ValueError, match="is not a result of this network and engine"):
        pareto.again(file, network, base, pareto.Options())
