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
import numpy as np
import pytest
from conftest import ROOT, normal
from optical import KEY, dft, frames_sent, made

from fourier_attn import config
from fourier_attn.optics import (
    Engine,
    components,
    cost,
    optical_circular_correlate,
    optical_position_lambda,
    plan,
)
from fourier_attn.optics.components import CORNERS
from fourier_attn.optics.frame import frame, modulator
from fourier_attn.optics.parts import MODULATOR_TYPES
from fourier_attn.optics.presets import PRESETS, preset
from fourier_attn.optics.transform_plan import PREFER, plan_transform
from fourier_attn.optics.transforms import FrameRunner
from fourier_attn.studies.engine import speedup
from fourier_attn.studies.engine.projection import Options, energy_at_corners, example_joules
from fourier_attn.studies.engine.step_timing import MODES, Taken, measure
from fourier_attn.studies.engine.workload import transforms, work


def engine(side: int = 11, detection: str = "hybrid90", bits: int = 8, **more: Any) -> Engine:
    shape = (side, side)
    return made(
        shape=shape, detection=detection, dac_bits_amp=bits, dac_bits_phase=bits, adc_bits=bits, **more
    )


def same(value: float, digits: str) -> bool:
    """Whether the value, rounded as the table has it, is what the table says."""
    return float(f"{value:.{len(digits.replace('.', '').lstrip('0'))}g}") == float(digits)


def lines(e: Engine, frames: float = 1, **changes: float) -> cost.Energy:
    """Energy with typical prices, but for some: names have "__" for the dot."""
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return cost.energy(e, frames, prices=components.prices() | named)


@pytest.mark.parametrize("detection", ["hybrid90", "psi4", "homodyne_re", "intensity", "linear3"])
def test_lines_are_their_formulas(detection: str) -> None:
    """Each line from numbers of the parts, written out here."""
    slices = 1 if detection == "intensity" else 2
    e = engine(5, detection, 6, averages=3, slices=slices, frame_rate_hz=1e8, insertion_loss_db=10.0)
    e = e.replace(responsivity=0.8).with_photons(1e4)
    p, d = components.prices(), e.detector
    points, passes, frames = 25, d.passes * 3 * e.slices, 7
    used = cost.energy(e, frames, prices=p, static_w=2.0)
    seconds = frames * passes / 1e8
    photon_w = 1e4 * 1.602176634e-19 / 0.8 * 1e8  # a photon in 0.8 A/W
    light_w = photon_w * 10.0 + (photon_w * 10.0 if d.referenced else 0.0)  # loss; lo_ratio
    bits = frames * points * (e.slices * 12 + passes * d.converters * 6)
    expected = {
        "dac": frames * e.slices * points * 2 * 64 * p["dac.level_j"],
        "modulator": frames * e.slices * points * 2 * p["electro_optic.write_j"],
        "hold": 0.0,
        "laser": seconds * points * light_w * 10 ** (p["laser.feed_loss_db"] / 10) / p["laser.wall_plug"],
        "receiver": seconds * points * d.detectors * p["photodiode.receiver_w"],
        "adc": frames * passes * points * d.converters * 64 * p["adc.level_j"],
        "static": 2.0 * seconds,
        "link": bits * p["link.bit_j"],
        "sram": 2 * bits * p["sram.bit_j"],
        "hbm": bits * p["hbm.bit_j"],
        "digital": 0.0,
    }
    assert used._asdict() == pytest.approx(expected, rel=1e-12)
    assert used.total == pytest.approx(sum(expected.values()), rel=1e-12)


def test_parts_add_up_over_frames() -> None:
    for name in ("chip_11x11", "demonstrator_5x5", "amplitude_4f"):
        one, two, three = (cost.energy(preset(name), n, static_w=2.0) for n in (1.0, 2, 3.0))
        assert one.total == pytest.approx(sum(one._asdict().values()), rel=1e-15)
        assert tuple(a + b for a, b in zip(one, two, strict=True)) == pytest.approx(tuple(three), rel=1e-14)


@pytest.mark.parametrize(("name", "pass_s"), [("chip_11x11", 1e-9), ("demonstrator_5x5", 1e-3)])
def test_calibration_takes_its_share_of_time_and_energy(name: str, pass_s: float) -> None:
    """o = C / (T / t - C), here C = 2 pixels steps passes in T = 4 C t: a third more of every line."""
    e, slower = preset(name), components.prices() | {"setting.frame_rate": 0.5}
    passes = 2 * math.prod(e.shape) * e.detector.passes
    aged = e.replace(recalibrate_s=4 * passes * pass_s)
    for prices, more in ((None, 4 / 3), (slower, 2.0)):  # in slower passes, there are but 2 C in the interval
        once = cost.energy(e, 5, prices=prices, static_w=1.0)
        used = cost.energy(aged, 5, prices=prices, static_w=1.0)
        assert tuple(used) == pytest.approx([more * joule for joule in once])
        once = cost.seconds(e, 5, prices=prices, stages=3, engines=2)
        took = cost.seconds(aged, 5, prices=prices, stages=3, engines=2)
        assert tuple(took) == pytest.approx([more * second for second in once])
    with pytest.raises(ValueError, match="and a calibration takes"):
        cost.seconds(aged, 5, prices=components.prices() | {"setting.frame_rate": 0.25})


def test_what_costs_nothing_is_nothing() -> None:
    nothing = dict.fromkeys(components.prices(), 0.0) | dict.fromkeys(cost.POSITIVE, 1.0)
    used = cost.energy(preset("chip_11x11"), 3, prices=nothing)
    assert used.total == 0
    alone = cost.energy(preset("chip_11x11"), 3, prices=nothing, static_w=1.0)
    assert alone.total == alone.static == pytest.approx(3 / 1e9)
    heat = cost.energy(engine(5, "psi4", frame_rate_hz=1e3), 1, prices=nothing | {"setting.light": 0.0})
    assert heat.hold == heat.total == 0


def test_unchanged_data_are_written_and_sent_once() -> None:
    one, four, ten = (engine(detection="psi4", averages=k) for k in (1, 4, 10))
    single = engine(detection="intensity")
    for name in ("dac", "modulator"):
        assert len({getattr(cost.energy(e, 1), name) for e in (one, four, ten, single)}) == 1
    sent = [frame(e).bits / 121 for e in (one, four, ten)]
    assert sent == [16 + 4 * 8, 16 + 16 * 8, 16 + 40 * 8]
    sliced = cost.energy(engine(detection="psi4", slices=3), 1)
    assert tuple(sliced) == pytest.approx([3 * joule for joule in cost.energy(one, 1)])


def test_heat_of_the_demonstrator() -> None:
    """25 pixels, half a pi of amplitude and one of phase in the mean, for four passes of a millisecond."""
    used = cost.energy(preset("demonstrator_5x5"), 1)
    assert used.hold == pytest.approx(25 * 1.5 * components.prices()["thermo_optic.hold_w_per_pi"] * 4e-3)
    assert 3e-3 < used.hold < 4e-3
    assert used.hold > 0.99 * used.total
    assert lines(preset("demonstrator_5x5"), thermo_optic__hold_w_per_pi=0.0).hold == 0


def test_a_pass_takes_the_time_in_which_detectors_integrate() -> None:
    """What photons are counted for is what is paid; modulators that are slower are refused."""
    for e in (engine(detection="psi4", frame_rate_hz=2e10), preset("demonstrator_5x5")):
        lit_s = e.with_photons(1e3).photons * 1.602176634e-19 / e.with_photons(1e3).current
        assert cost.seconds(e, 10).optics == pytest.approx(10 * 4 * lit_s)
    slow = components.prices() | {"electro_optic.settle_s": 1e-6}
    for e, prices in ((engine(frame_rate_hz=2e11), None), (engine(), slow)):
        for price in (cost.energy, cost.seconds):
            with pytest.raises(ValueError, match=r"allows .* s per pass, less than electro_optic.settle_s="):
                price(e, 1, prices=prices)
    faster = components.prices() | {"setting.frame_rate": 1000.0}
    assert cost.seconds(engine(), 1, prices=faster).optics == pytest.approx(8.3e-12)  # settling is the end


@pytest.mark.parametrize("kind", MODULATOR_TYPES)
def test_a_kind_has_a_price_at_the_rate_that_it_publishes(kind: str) -> None:
    """At every corner; what is slower than typical takes the pass and no more."""
    way = {"encode": "amplitude", "detection": "intensity"} if MODULATOR_TYPES[kind].binary else {}
    e = engine(5, kind=kind, frame_rate_hz=MODULATOR_TYPES[kind].speed_hz, **way)
    e = e.replace(dac_bits_amp=1) if MODULATOR_TYPES[kind].binary else e
    used = energy_at_corners(e, {"frames": 1}, Options())
    assert 0 < used["low"]["total"] <= used["typical"]["total"] <= used["high"]["total"]
    high = cost.seconds(e, 1, prices=components.prices("high")).optics
    assert high == pytest.approx(1 / MODULATOR_TYPES[kind].speed_hz)
    slow = components.CornerPrices(components.prices() | {f"{kind}.settle_s": 1.0}, components.prices())
    assert cost.seconds(e, 1, prices=slow).optics == pytest.approx(1 / MODULATOR_TYPES[kind].speed_hz)


def test_levels_of_mirrors_are_patterns() -> None:
    """b bit take 2^b - 1 patterns of one bit, each written to every mirror by the panel's electronics."""
    e, p = preset("amplitude_4f").replace(power_w=1e-12), components.prices()
    one, eight = (cost.energy(e.replace(dac_bits_amp=b, frame_rate_hz=4e3), 1) for b in (1, 8))
    assert one.modulator == pytest.approx(1e6 * p["micromirror.write_j"])
    assert eight.modulator == pytest.approx(255 * one.modulator)
    assert one.dac == eight.dac == 0
    took = [cost.seconds(e.replace(dac_bits_amp=b, frame_rate_hz=4e3), 1).optics for b in (1, 3, 8)]
    assert took == pytest.approx([1 / 4e3, 1 / 4e3, 255 * p["micromirror.settle_s"]])
    unnamed = e.replace(kind=None, dac_bits_amp=8)
    rates = (32_552 / 255 * 0.99, 32_552 / 255 * 1.01)
    kinds = [modulator(unnamed.replace(frame_rate_hz=rate)) for rate in rates]
    assert kinds == ["micromirror", "thermo_optic"]
    fast = engine(encode="amplitude", detection="intensity")  # at a rate that no mirrors follow
    assert frame(fast).modulator == "electro_optic"


def test_an_amplifier_that_is_heard_is_paid() -> None:
    """Behind each detector, or each pair: its power halves, and its noise falls by 3 dB."""
    e = engine(1).replace(power_w=1e-6, tia_noise=1e-11, adc_bits=None)
    x = jnp.ones((10_000, 1, 1))
    spread = [np.std(dft(x, e.replace(amplifiers=each), KEY)) for each in ("detector", "pair")]
    assert abs(20 * math.log10(spread[0] / spread[1]) - 3.01) < 0.2
    each, pair = (cost.energy(e.replace(adc_bits=8, amplifiers=of), 1) for of in ("detector", "pair"))
    assert each.receiver == pytest.approx(2 * pair.receiver)
    assert each.receiver == pytest.approx(4 * 1e-9 * components.prices()["photodiode.receiver_w"])


def test_a_second_bank_is_written_held_and_sent() -> None:
    """Counted for the frames that it multiplies, as executed."""
    e = preset("demonstrator_5x5").replace(slices=2)
    x, w = (4, 25), (3, 5, 5)
    plain, bank = (
        plan("circular_correlate", x, e, kernel=w, shape=(5, 5), multiply=m) for m in ("digital", "modulator")
    )
    assert (plain.factors, bank.factors, bank.frames) == (0, 6, 8)
    assert plain.digital_flops - bank.digital_flops == pytest.approx(6 * 25 * 6)  # the products
    one, two = cost.energy(e, **plain.load()), cost.energy(e, **bank.load())
    assert two.dac == pytest.approx(one.dac * (8 * 2 + 6) / (8 * 2))  # held for both slices
    assert two.hold == pytest.approx(one.hold * (8 + 6) / 8)
    sent = 25 * 6 * 16 * components.prices()["link.bit_j"]
    assert two.link == pytest.approx(one.link + sent)
    assert cost.seconds(e, **bank.load()).transfer > cost.seconds(e, **plain.load()).transfer
    with pytest.raises(ValueError, match="multiply='modulator' needs frames of the aperture"):
        plan("circular_correlate", (4, 49), e, kernel=(1, 7, 7), shape=(7, 7), multiply="modulator")
    with pytest.raises(ValueError, match="factors=2 must be at least 0 and at most 1"):
        cost.energy(e, 1, factors=2)


def test_fine_converters_cost_four_times_as_much_a_bit() -> None:
    """Twice a bit where levels are few; thermal noise is the limit above 15 bit."""
    p = components.prices()
    for kind in ("adc", "dac"):
        low, high = (cost.conversion_j(kind, b + 1, p) / cost.conversion_j(kind, b, p) for b in (8, 17))
        assert (low, high) == (2, 4)
        assert cost.conversion_j(kind, 8, p) == 256 * p[f"{kind}.level_j"]
    assert cost.conversion_j("adc", 15, p) == pytest.approx(2**15 * p["adc.level_j"], rel=0.05)


def test_digital_remainders_cost_time_and_energy() -> None:
    """The last points cross memory once at the reference's prices, as its own transform does."""
    e, p = preset("chip_11x11"), components.prices()
    planned = plan("dft", (1067, 1067), e.replace(max_remainder=97))
    assert planned.digital_bytes == 16 * 1067**2
    product = 5 * 1067**2 * 2 * math.log2(97) + 2 * 6 * 1067**2
    assert planned.digital_flops == pytest.approx(product)
    used, took = cost.energy(e, **planned.load()), cost.seconds(e, **planned.load())
    assert used.digital == pytest.approx(cost.electronic_energy(16 * 1067**2))
    assert took.digital == pytest.approx(16 * 1067**2 / p["gpu.bytes_per_s"])
    assert used.total > used.digital
    assert plan("dft", (11, 11), e).load(3) == {
        "frames": 3,
        "factors": 0,
        "lots": 3,
        "digital_flops": 0,
        "digital_bytes": 0,
    }


def test_undoing_rows_crosses_memory_and_a_cylindrical_lens_has_none() -> None:
    """Two stages of rows of 11, whose other axis the spherical lens transforms, too."""
    e, x = preset("chip_11x11"), (55, 121)
    spherical, cylindrical = (plan("dft", x, e.replace(lens=lens), axes=(-1,)) for lens in ("2d", "1d"))
    points = math.prod(x)
    assert spherical.digital_bytes == 2 * 16 * points
    assert spherical.digital_flops == pytest.approx(points * (6 + 2 * 5 * math.log2(11)))
    assert cylindrical.digital_bytes == 0
    assert cylindrical.digital_flops == points * 6
    assert plan("dft", (55, 242), e, axes=(-1,)).digital_bytes == 2 * 16 * 55 * 242  # with the remainder


def test_a_plan_is_of_pythons_numbers() -> None:
    e = preset("chip_11x11")
    sizes = tuple(np.array([4, 22]))
    for found in (
        plan("dft", sizes, e),
        plan("circular_correlate", sizes, e, kernel=tuple(np.array([2, 3]))),
    ):
        assert {type(value) for value in found} <= {int, float, str}


def test_a_report_is_of_its_own_network_only(tmp_path: Path) -> None:
    """Of 128 features is not of 12."""
    file = tmp_path / "report.json"
    taken = dict.fromkeys(Taken._fields, 1.0)
    rows = [{"part": "measured", "mode": mode, **taken} for mode in MODES]
    document = {
        "setting": "fnet, d = 128; load 1",
        "rows": rows,
        "date": "2026-11-22",
        "batch": 1,
        "rounds": 3,
    }
    file.write_text(json.dumps(document))
    assert speedup.earlier(file, "fnet, d = 128")[0].startswith("fnet, d = 128; load 1; times of")
    with pytest.raises(ValueError, match="is a report on fnet, d = 128; load 1; this is fnet, d = 12"):
        speedup.earlier(file, "fnet, d = 12")


def test_a_camera_has_its_converters() -> None:
    """Each pixel of a balanced pair is read, as each has its own read noise and area."""
    e = preset("demonstrator_5x5")
    used, pixel_j = cost.energy(e, 1), components.prices()["camera.pixel_j"]
    assert used.adc == 0
    assert used.receiver == pytest.approx(4 * 25 * pixel_j)  # four passes
    for detection, pixels in (("hybrid90", 4), ("homodyne_re", 2), ("psi3", 3)):
        read = cost.energy(e.replace(detection=detection), 1)
        assert (read.receiver, read.adc) == (pytest.approx(pixels * 25 * pixel_j), 0)


CASES = ["demonstrator_5x5", "chip_11x11", "chip_11x11_4bit", "amplitude_4f", "hostile"]


@pytest.mark.parametrize("name", CASES)
def test_low_is_low_and_high_is_high(name: str) -> None:
    """Every line of energy and of time."""
    used = [cost.energy(preset(name), 1, prices=components.prices(c), static_w=1.0) for c in CORNERS]
    took = [cost.seconds(preset(name), 1, prices=components.prices(c), stages=1) for c in CORNERS]
    for low, typical, high in (*zip(*used, strict=True), *zip(*took, strict=True)):
        assert low <= typical <= high
    assert used[0].total < used[1].total < used[2].total
    gpu = [cost.electronic_energy(1e6, 1e6, components.prices(c)) for c in CORNERS]
    assert gpu == sorted(gpu)


LIMITS = ("electro_optic.settle_s", "converter.thermal_j")  # which the chip does not reach
MOVED = {
    "dac.level_j": {"dac"},
    "adc.level_j": {"adc"},
    "electro_optic.write_j": {"modulator"},
    "electro_optic.hold_w_per_pi": {"hold"},
    "laser.wall_plug": {"laser"},
    "laser.feed_loss_db": {"laser"},
    "setting.light": {"laser"},
    "photodiode.receiver_w": {"receiver"},
    "link.bit_j": {"link"},
    "sram.bit_j": {"sram"},
    "hbm.bit_j": {"hbm"},
    "setting.frame_rate": {"laser", "receiver", "static", "optics"},
    "link.bytes_per_s": {"transfer"},
    "link.turnaround_s": {"turnaround"},
}


@pytest.mark.parametrize("name", [name for name in components.library() if name not in LIMITS])
def test_a_component_changes_its_line_only(name: str) -> None:
    e, typical = preset("chip_11x11"), components.prices()
    other = typical | {name: 0.5 if name == "laser.wall_plug" else 3 * typical[name] + 1e-8}
    before, after = (
        {
            **cost.energy(e, 2, prices=p, static_w=1.0)._asdict(),
            **cost.seconds(e, 2, prices=p, stages=1)._asdict(),
        }
        for p in (typical, other)
    )
    changed = {line for line in before if before[line] != after[line]}
    assert changed == MOVED.get(name, set())


@pytest.mark.parametrize("name", ["dac", "adc", "laser", "link", "sram", "hbm", "total"])
@pytest.mark.parametrize("detection", ["psi4", "hybrid90", "homodyne_re", "intensity"])
def test_energy_grows_with_bits(name: str, detection: str) -> None:
    values = [getattr(cost.energy(engine(bits=b, detection=detection), 1), name) for b in range(2, 13)]
    assert all(a < b for a, b in pairwise(values))


def test_light_follows_photons_loss_and_reference() -> None:
    def light(e: Engine) -> float:
        return cost.energy(e, 1).laser

    need = 10 ** ((6.02 * 8 + 1.76) / 10)
    direct = engine(detection="intensity")
    steps = engine(detection="psi4", lo_ratio=1e-12)
    assert light(steps) == pytest.approx(light(direct))  # all passes share what shot noise asks for
    assert light(steps.with_photons(need)) == pytest.approx(4 * light(direct))
    assert light(direct.with_photons(2 * need)) == pytest.approx(2 * light(direct))
    assert light(direct.replace(insertion_loss_db=10.0)) == pytest.approx(10 * light(direct))
    assert light(engine(lo_ratio=10.0)) == pytest.approx(11 * light(direct))  # the reference loses nothing
    assert light(direct.replace(lo_ratio=99.0)) == light(direct)  # there is none


def test_real_modulators_have_one_converter() -> None:
    signed = cost.energy(engine(encode="signed"), 1)
    assert signed.dac * 2 == cost.energy(engine(), 1).dac
    assert cost.energy(engine(encode="phase").replace(dac_bits_amp=None), 1).dac == signed.dac


def test_references_of_the_gpu() -> None:
    prices = components.prices()
    assert same(1e9 * cost.electronic_energy(16 * 121), "553")
    assert same(1e9 * cost.electronic_energy(8 * 121), "277")
    assert same(1e9 * cost.electronic_energy(flop=21_296), "27")
    single = prices | {"gpu.flop_per_s": 19.5e12}
    assert same(1e9 * cost.electronic_energy(flop=21_296, prices=single), "437")
    assert cost.electronic_energy(1936, 21_296) == cost.electronic_energy(1936)  # the slower of the two


def test_seconds_are_passes_turnarounds_and_transfer() -> None:
    took = cost.seconds(engine(frame_rate_hz=1e6), 300, engines=3, stages=4)
    transfer = 300 * 121 * 32 / 8 / 31.5e9  # two numbers of 8 bit each way
    assert tuple(took) == pytest.approx((1e-4, 4e-6, transfer, 0.0))
    assert took.total == pytest.approx(1.04e-4 + transfer)


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
@pytest.mark.parametrize("prefer", PREFER)
def test_stages_are_the_lots_that_are_sent(sizes: tuple[int, ...], side: int, prefer: str) -> None:
    run = FrameRunner(Engine(shape=(side, side)), None)
    planned = plan_transform(sizes, run.engine, prefer=prefer)
    with frames_sent() as frames:
        jax.eval_shape(lambda x: run.dft(x, planned), jax.ShapeDtypeStruct((2, *sizes), jnp.complex64))
    assert (planned.stages, planned.frames(2)) == (len(frames), sum(frames))


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
            lambda: cost.energy(engine(), 1, prices=components.prices() | {"laser.wall_plug": 1.5}),
            "wall_plug=1.5 must be positive and",
        ),
        (
            lambda: cost.energy(engine().replace(dac_bits_amp=None), 1),
            "dac_bits_amp=None is an ideal converter",
        ),
        (lambda: cost.energy(engine().replace(adc_bits=None), 1), "replace(adc_bits=8)"),
        (
            lambda: cost.energy(Engine().replace(dac_bits_amp=8, dac_bits_phase=8), 1),
            "detection='field' is not a detector, so has no energy",
        ),
        (
            lambda: cost.energy(engine(), 1, prices={"link.bit_j": 1e-12}),
            "prices lack adc.area_m2,",
        ),
        (
            lambda: cost.seconds(engine(), 1, prices=components.prices() | {"link.bit": 1.0}),
            "prices: component=link.bit is unknown",
        ),
        (lambda: cost.seconds(engine(), 1, engines=0), "engines=0 must be at least 1"),
        (lambda: cost.seconds(engine(), -1), "frames=-1 must be at least 0"),
        (lambda: cost.electronic_energy(-1), "moved_bytes=-1 must be at least 0"),
    ],
)
def test_what_cannot_be_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_the_plan_that_a_mixer_prefers_is_counted() -> None:
    fields, e = config.default("fourier").model.mixer.to_dict(), Engine(shape=(11, 11))
    for prefer, passes in (("error", 15_972), ("passes", 6_272)):
        assert work(fields | {"prefer": prefer}, 2, 256, 64).plan(e).passes == passes


def test_blocks_and_tokens_are_those_of_the_network() -> None:
    """Of a layout only the blocks with the mixer count, and of images their patches."""
    c = config.default("circular", engine="demonstrator_5x5", others=("attention",))
    whole = example_joules(c, Options())
    c.update_from_flattened_dict({"model.depth": 4, "model.layout": ("circular",) + 3 * ("attention",)})
    alone = example_joules(c, Options())
    c.update_from_flattened_dict({"model.depth": 1, "model.layout": ()})
    assert alone == example_joules(c, Options()) != whole
    images = config.default("circular", "mnist", engine="demonstrator_5x5")
    images.model.depth, c.data.length, c.model.d = 1, 49, images.model.d
    assert example_joules(images, Options()) == example_joules(c, Options())


@pytest.mark.usefixtures("standard_promotion")
def test_a_step_of_a_hybrid_and_of_images_is_measured() -> None:
    c = config.default("fourier", others=("attention",))
    small = {"data.batch": 2, "data.length": 6, "model.positions": 6, "model.d": 8, "model.mlp": 8}
    c.update_from_flattened_dict(
        small | {"model.depth": 2, "model.layout": ("fourier", "attention"), "model.vocab": 9}
    )
    images = config.fit_grid(config.default("fourier", "mnist"))
    images.update_from_flattened_dict({"data.batch": 2, "model.d": 8, "model.mlp": 8, "model.depth": 1})
    for each, arrays in ((c, [(2, 6, 8)]), (images, [(2, 49, 8)])):
        job = transforms(each, 2)
        assert job is not None
        assert job.arrays == arrays
        taken = measure(each, job, 0.0, components.library()).taken
        assert all(took.no_mixer > 0 and took.step > 0 for took in taken.values())


@pytest.mark.slow
def test_counted_passes_are_those_that_the_layers_execute() -> None:
    b, t, d, e = 2, 13, 6, Engine(shape=(5, 5))
    fields = config.default("circular").model.mixer.to_dict() | {
        "heads": 2,
        "shape": (3, 2),
        "kernel": (2, 1),
    }
    with frames_sent() as frames:
        optical_circular_correlate(normal(b, t, d), normal(6, 2, 1), e, shape=(3, 2), boundary="circular")
    assert work(fields, b, t, d).plan(e).frames == sum(frames)
    fields = config.default("lambda").model.mixer.to_dict() | {"heads": 2, "k": 4, "u": 2, "context": 3}
    query, value = normal(b, t, 2, 4), normal(b, t, 3, 2)
    for change, taps in (({}, 3), ({"context": 0, "length": t}, 2 * t - 1)):  # also more taps than positions
        with frames_sent() as frames:
            optical_position_lambda(query, value, normal(taps, 4, 2), e)
        assert work(fields | change, b, t, d).plan(e).frames == sum(frames)
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
        "fourier_attn.studies.engine.speedup",
    ]
    done = subprocess.run(
        [*program, *options], cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    return done.returncode, done.stdout, done.stderr


def toy_report(file: str, where: Path, *options: str) -> tuple[dict[str, Any], str]:
    toy = [f"--config.{key}={value}" for key, value in TOY.items()]
    options = (*toy, f"--out={where / 'report'}", "--seconds=0", "--config.model.vocab=50", *options)
    code, out, err = command(f"--config=configs/{file}", *options)
    assert (code, err) == (0, "")
    return json.loads((where / "report.json").read_text()), out


def part(document: dict[str, Any], name: str, key: str = "preset") -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in document["rows"] if row["part"] == name}


@pytest.mark.slow
def test_report_says_what_plan_and_cost_say(tmp_path: Path) -> None:
    result, out = toy_report("fnet.py", tmp_path, "--static_w=2", "--engines=4")
    found = part(result, "preset")
    assert set(found) == set(PRESETS)
    assert "no plan: detection='intensity' loses the phase" in out
    times = part(result, "measured", "mode")
    for name, row in found.items():
        e = preset(name)
        if name in ("amplitude_4f", "joint_transform"):
            assert set(row) == {"part", "preset", "no_plan"}
            continue
        layer = plan("fourier_mix", (3, 6, 4), e)
        assert row["passes_per_example"] == pytest.approx(2 * layer.passes / 3)
        for corner in CORNERS:
            prices = components.prices(corner)
            for mode, layers in (("inference", 2), ("training", 4)):
                took, measured = row[mode][corner], times[mode]
                expected = cost.seconds(
                    e, **layer.load(layers), prices=prices, engines=4, stages=layers * layer.stages
                )
                assert [took[key] for key in expected._asdict()] == pytest.approx(list(expected))
                share = min(measured["transform"] / measured["step"], 1)
                gain = share * measured["step"] / expected.optics
                overhead = (expected.total - expected.optics) / measured["step"]
                assert took["speedup"] == pytest.approx(cost.speedup(share, gain, overhead))
            if e.receiver.adc_bits is None:
                assert "no_energy" in row
            else:
                joules = cost.energy(e, **layer.load(2), prices=prices, static_w=2.0)
                assert row["energy_j"][corner] == pytest.approx({**joules._asdict(), "total": joules.total})
    # one real number in and one out, four bytes each, in each layer
    gpu = part(result, "electronics", "name")["A100"]["joules"]
    assert gpu["typical"] == pytest.approx(cost.electronic_energy(2 * 6 * 4 * 8))
    cpu = part(result, "electronics", "name")["processor"]
    assert cpu["joules"]["low"] <= cpu["joules"]["typical"] <= cpu["joules"]["high"]
    moved = [row for row in result["rows"] if row["part"] == "sensitivity"]
    assert {row["preset"] for row in moved} == {"chip_11x11", "demonstrator_5x5"}
    assert {"link.bit_j", "setting.frame_rate"} <= {row["component"] for row in moved}
    assert (tmp_path / "report.png").exists()


@pytest.mark.slow
def test_report_measures_against_the_network_as_configured(tmp_path: Path) -> None:
    options = ("--config.model.mixer.shape=(2,2)", "--config.model.mixer.heads=2", "--tornado=")
    result, _ = toy_report("circular.py:reviews-11x11", tmp_path, *options)
    row = part(result, "preset")["chip_11x11"]["inference"]["typical"]
    took = part(result, "measured", "mode")["inference"]
    left = took["explicit"] - min(took["transform"], took["explicit"])
    optics = sum(row[key] for key in ("optics", "turnaround", "transfer", "digital"))
    assert row["speedup"] == pytest.approx(took["step"] / (left + optics))


@pytest.mark.slow
def test_report_without_a_transform(tmp_path: Path) -> None:
    result, out = toy_report("mixer.py:identity", tmp_path)
    assert "the speed-up is 1" in out
    assert not part(result, "preset")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--components=nowhere.toml", "nowhere.toml cannot be read as TOML"),
        ("--tornado=jtc", "--tornado=jtc is unknown; choose from ideal"),
        ("--tornado=ideal", "detection='field' is not a detector"),
    ],
)
def test_what_the_command_cannot_use(option: str, message: str) -> None:
    toy = [f"--config.{key}={value}" for key, value in TOY.items()]
    code, _, err = command("--config=configs/fnet.py", *toy, "--seconds=0", "--config.model.vocab=50", option)
    assert code == 2
    assert message in err
