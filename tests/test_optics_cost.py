"""What an engine costs: the golden table, sums and products, Amdahl, and the command that reports it all."""

import json
import math
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from conftest import ROOT, normal
from optical import made

from fourier_attn import config
from fourier_attn.optics import Engine, cost, optical_circular_correlate, optical_position_lambda, plan
from fourier_attn.optics.planner import plan_transform
from fourier_attn.optics.presets import PRESETS, preset
from fourier_attn.optics.transforms import FrameRunner
from fourier_attn.studies.workload import work

BITS = (4, 6, 8)
TABLE = cost.Converters(adc_per_point=4)


def engine(side: int = 11, detection: str = "hybrid90", bits: int = 8, **more: Any) -> Engine:
    shape = (side, side)
    return made(
        shape=shape, detection=detection, dac_bits_amp=bits, dac_bits_phase=bits, adc_bits=bits, **more
    )


def same(value: float, digits: str) -> bool:
    """Whether the value, rounded as the table has it, is what the table says."""
    return float(f"{value:.{len(digits.replace('.', '').lstrip('0'))}g}") == float(digits)


@pytest.mark.parametrize(
    ("side", "detection", "nanojoules"),
    [
        (11, "psi4", ("2.13", "5.64", "20.0")),
        (11, "hybrid90", ("0.825", "2.60", "10.0")),
        (5, "psi4", ("0.440", "1.17", "4.14")),
        (5, "hybrid90", ("0.170", "0.536", "2.07")),
        (16, "psi4", ("4.51", "11.9", "42.4")),
        (16, "hybrid90", ("1.74", "5.49", "21.2")),
    ],
)
def test_golden_energies(side: int, detection: str, nanojoules: tuple[str, ...]) -> None:
    for bits, expected in zip(BITS, nanojoules, strict=True):
        used = cost.energy(engine(side, detection, bits), 1, converters=TABLE)
        assert same(1e9 * (used.total - used.data_movement), expected)


def test_golden_lines() -> None:
    lines = {"dac": ("0.774", "3.10", "12.4"), "adc": ("0.387", "1.55", "6.20")}
    lines |= {"modulator": ("0.968",) * 3, "laser": ("0.0019", "0.030", "0.48")}
    for i, bits in enumerate(BITS):
        used = cost.energy(engine(11, "psi4", bits), 1, converters=TABLE)
        assert all(same(1e9 * getattr(used, name), row[i]) for name, row in lines.items())
        assert used.static == 0
    per_point = [
        cost.energy(engine(11, "psi4", b), 1, link=cost.LINK._replace(joule_per_byte=0)) for b in BITS
    ]
    assert [f"{1e12 * used.total / 121:.3g}" for used in per_point] == ["17.6", "46.6", "166"]


def test_golden_references() -> None:
    assert same(1e9 * cost.electronic_energy(16 * 121), "553")
    assert same(1e9 * cost.electronic_energy(8 * 121), "277")
    assert same(1e9 * cost.electronic_energy(flop=21_296), "27")
    single = cost.A100._replace(flop_per_s=19.5e12)
    assert same(1e9 * cost.electronic_energy(flop=21_296, electronics=single), "437")
    assert cost.electronic_energy(1936, 21_296) == cost.electronic_energy(1936)  # the slower of the two


def test_energies_add_up() -> None:
    e = preset("chip_11x11")
    one, two, three = (cost.energy(e, frames, static_w=2.0) for frames in (1.0, 2, 3.0))
    assert one.total == pytest.approx(sum(one._asdict().values()), rel=1e-15)
    assert tuple(a + b for a, b in zip(one, two, strict=True)) == pytest.approx(tuple(three), rel=1e-14)
    assert one.static == pytest.approx(2.0 / e.frame_rate_hz)
    # 2 x 8 bit written and 2 x 8 bit read for each of 121 points
    assert one.data_movement == pytest.approx(121 * 4 * cost.LINK.joule_per_byte)
    assert one.adc == pytest.approx(121 * 2 * 256 * 50e-15)  # two balanced pairs


@pytest.mark.parametrize("name", ["dac", "adc", "laser", "data_movement", "total"])
@pytest.mark.parametrize("detection", ["psi4", "hybrid90", "homodyne_re", "intensity"])
def test_energy_grows_with_bits(name: str, detection: str) -> None:
    values = [getattr(cost.energy(engine(bits=b, detection=detection), 1), name) for b in range(2, 13)]
    assert all(a < b for a, b in pairwise(values))


def test_phases_averages_and_slices_multiply() -> None:
    three, four = (cost.energy(engine(detection=name), 1, static_w=1.0) for name in ("psi3", "psi4"))
    for name in ("dac", "modulator", "adc", "static", "data_movement"):
        assert getattr(four, name) / getattr(three, name) == pytest.approx(4 / 3)
    assert four.laser == three.laser  # the photons of a detection are shared by its passes
    averaged = cost.energy(engine(detection="psi4", averages=5), 1, static_w=1.0)
    assert tuple(averaged) == pytest.approx(tuple(5 * joule for joule in four))
    sliced = cost.energy(engine(detection="psi4", averages=5, slices=3), 1, static_w=1.0)
    assert tuple(sliced) == pytest.approx(tuple(15 * joule for joule in four))


def test_light_follows_photons_loss_and_reference() -> None:
    def light(e: Engine, **changes: float) -> float:
        return cost.energy(e, 1, laser=cost.LASER._replace(**changes)).laser

    need = 10 ** ((6.02 * 8 + 1.76) / 10)
    assert light(engine(), photons=2 * need) == pytest.approx(2 * light(engine()))
    assert light(engine(insertion_loss_db=25.0)) == pytest.approx(10 * light(engine()))
    assert light(engine(lo_ratio=10.0), reference_loss_db=15.0) == pytest.approx(11 * light(engine()))
    direct = engine(detection="intensity")
    assert light(direct, reference_loss_db=15.0) == light(direct)  # there is no reference


def test_real_modulators_have_one_converter() -> None:
    signed = cost.energy(engine(encode="signed"), 1)
    assert signed.dac * 2 == cost.energy(engine(), 1).dac
    assert cost.energy(engine(encode="phase").replace(dac_bits_amp=None), 1).dac == signed.dac


def test_seconds_are_passes_turnarounds_and_transfer() -> None:
    took = cost.seconds(engine(frame_rate_hz=1e6), 300, engines=3, stages=4, transfer_bytes=64e9)
    assert tuple(took) == pytest.approx((1e-4, 4e-6, 2.0))
    assert took.total == pytest.approx(2.000104)


@pytest.mark.parametrize(
    ("sizes", "side"),
    [
        ((11, 11), 11),
        ((25, 5), 5),
        ((7,), 5),
        ((48, 64), 5),
        ((64, 64), 8),
        ((4, 6), 4),
        ((1, 9), 3),
        ((5,), 5),
    ],
)
def test_stages_are_the_lots_that_are_sent(sizes: tuple[int, ...], side: int) -> None:
    run = FrameRunner(Engine(shape=(side, side)), None)
    planned = plan_transform(sizes, run.engine)
    jax.eval_shape(lambda x: run.dft(x, planned), jax.ShapeDtypeStruct((2, *sizes), jnp.complex64))
    assert planned.stages == run.lots
    assert planned.frames(2) == run.frames


AMDAHL = {0.30: (1.370, 1.4225, 1.428, 1.4286), 0.40: (1.563, 1.656, 1.666, 1.667)}


def test_speedup_is_amdahls() -> None:
    for fraction, row in AMDAHL.items():
        for acceleration, expected in zip((10, 100, 1000, math.inf), row, strict=True):
            assert cost.speedup(fraction, acceleration) == pytest.approx(expected, abs=6e-4)
    assert round(cost.speedup(0.3, 100, 0.05), 2) == 1.33
    assert cost.speedup(0.3, 100, 0.3 * (1 - 1 / 100)) == pytest.approx(1)  # break-even
    assert cost.speedup(0, 1000) == cost.speedup(1.0, 1) == 1
    assert cost.speedup(1, 7) == pytest.approx(7)
    assert cost.speedup(1, math.inf) == math.inf
    assert cost.speedup(0.3, 10, 0.5) < 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cost.speedup(1.5, 10), "fraction=1.5 must be at least 0 and at most 1"),
        (lambda: cost.speedup(0.5, 0), "acceleration=0 must be positive"),
        (lambda: cost.speedup(0.5, math.nan), "acceleration=nan must be positive"),
        (lambda: cost.speedup(0.5, 2, -0.1), "overhead=-0.1 must be at least 0"),
        (lambda: cost.energy(engine(), -1), "frames=-1 must be at least 0"),
        (lambda: cost.energy(engine(), 1, static_w=-1.0), "static_w=-1.0 must be at least 0"),
        (
            lambda: cost.energy(engine(), 1, laser=cost.Laser(wall_plug=1.5)),
            "wall_plug=1.5 must be positive and",
        ),
        (
            lambda: cost.energy(engine().replace(dac_bits_amp=None), 1),
            "dac_bits_amp=None is an ideal converter",
        ),
        (lambda: cost.energy(engine().replace(adc_bits=None), 1), "replace(adc_bits=8)"),
        (lambda: cost.energy(engine(detection="field"), 1), "detection='field' is no detector"),
        (lambda: cost.seconds(engine(), 1, engines=0), "engines=0 must be at least 1"),
        (lambda: cost.seconds(engine(), -1), "passes=-1 must be at least 0"),
        (lambda: cost.electronic_energy(-1), "moved_bytes=-1 must be at least 0"),
    ],
)
def test_what_cannot_be_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.slow
def test_counted_passes_are_those_that_the_layers_execute() -> None:
    b, t, d, e = 2, 13, 6, Engine(shape=(5, 5))
    fields = config.default("circular").model.mixer.to_dict() | {
        "heads": 2,
        "shape": (3, 2),
        "kernel": (2, 1),
    }
    _, passes = optical_circular_correlate(
        normal(b, t, d), normal(6, 2, 1), e, shape=(3, 2), boundary="circular", report=True
    )
    assert work(fields, b, t, d).plan(e).passes == passes
    fields = config.default("lambda").model.mixer.to_dict() | {"heads": 2, "k": 4, "u": 2, "context": 3}
    query, value = normal(b, t, 2, 4), normal(b, t, 3, 2)
    for change, taps in (({}, 3), ({"context": 0, "length": t}, 2 * t - 1)):  # also more taps than positions
        _, passes = optical_position_lambda(query, value, normal(taps, 4, 2), e, report=True)
        assert work(fields | change, b, t, d).plan(e).passes == passes
    with pytest.raises(ValueError, match="no optical form"):
        work(fields | {"causal": True}, b, t, d).plan(e)
    assert work({"name": "identity"}, b, t, d) is None


TOY = {
    "data.batch": 3,
    "data.length": 6,
    "model.positions": 6,
    "model.depth": 2,
    "model.d": 4,
    "model.mlp": 8,
}


def command(*options: str) -> tuple[int, str, str]:
    """Exit code, output and errors of the command; warnings are errors there, too."""
    program = [
        sys.executable,
        "-W",
        "error::DeprecationWarning:fourier_attn",
        "-m",
        "fourier_attn.studies.speedup",
    ]
    done = subprocess.run(
        [*program, *options], cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    return done.returncode, done.stdout, done.stderr


def toy_report(file: str, where: Path, *options: str) -> tuple[dict[str, Any], str]:
    toy = [f"--config.{key}={value}" for key, value in TOY.items()]
    options = (*toy, f"--json={where / 'report.json'}", "--seconds=0", "--config.model.vocab=50", *options)
    code, out, err = command(f"--config=configs/{file}", *options)
    assert (code, err) == (0, "")
    return json.loads((where / "report.json").read_text()), out


@pytest.mark.slow
def test_report_says_what_plan_and_cost_say(tmp_path: Path) -> None:
    result, out = toy_report("fnet.py", tmp_path, "--static_w=2", "--engines=4")
    assert set(result["presets"]) == set(PRESETS)
    assert "amplitude_4f" in out
    assert "no plan: detection='intensity' loses the phase" in out
    for name, row in result["presets"].items():
        e = preset(name)
        if name == "amplitude_4f":
            assert set(row) == {"no_plan"}
            continue
        layer = plan("fourier_mix", (3, 6, 4), e)
        assert row["passes_per_example"] == pytest.approx(2 * layer.passes / 3)
        for mode, times in (("inference", 2), ("training", 4)):
            took, measured = row[mode], result["measured_s"][mode]
            moved = cost.link_bytes(e, times * layer.frames)
            stages = times * layer.stages
            expected = cost.seconds(e, times * layer.passes, engines=4, stages=stages, transfer_bytes=moved)
            assert [took[key] for key in expected._asdict()] == pytest.approx(list(expected))
            share = min(measured["transform"] / measured["step"], 1)
            gain = share * measured["step"] / expected.optics
            overhead = (expected.turnaround + expected.transfer) / measured["step"]
            assert took["speedup"] == pytest.approx(cost.speedup(share, gain, overhead))
        if e.receiver.adc_bits is None:
            assert "no_energy" in row
        else:
            joules = cost.energy(e, 2 * layer.frames, static_w=2.0)
            assert row["energy_j"]["dac"] == pytest.approx(joules.dac)
            assert row["energy_j"]["static"] == pytest.approx(joules.static)
            assert row["energy_j"]["total"] == pytest.approx(sum(list(row["energy_j"].values())[:-1]))
    # one real number in and one out, four bytes each, in each layer
    assert result["a100_j"] == pytest.approx(cost.electronic_energy(2 * 3 * 6 * 4 * 8))


@pytest.mark.slow
def test_report_measures_against_the_network_as_configured(tmp_path: Path) -> None:
    options = ("--config.model.mixer.shape=(2,2)", "--config.model.mixer.heads=2")
    result, _ = toy_report("circular.py:reviews-11x11", tmp_path, *options)
    row, took = result["presets"]["chip_11x11"]["inference"], result["measured_s"]["inference"]
    left = took["explicit"] - min(took["transform"], took["explicit"])
    optics = sum(row[key] for key in ("optics", "turnaround", "transfer", "digital"))
    assert row["speedup"] == pytest.approx(took["step"] / (left + optics))


@pytest.mark.slow
def test_report_without_a_transform(tmp_path: Path) -> None:
    result, out = toy_report("identity.py", tmp_path)
    assert "the speed-up is 1" in out
    assert "presets" not in result
