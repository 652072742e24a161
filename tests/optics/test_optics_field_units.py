"""Link budget, photons and joules per multiply-accumulate, TOPS and time: by hand, and in the emulator."""

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from optical import KEY, decibel, dft, made, snr

from fourier_attn.optics import Budget, Engine, budget, components, preset
from fourier_attn.optics.field_units import photons_per_mac
from fourier_attn.optics.frame import frame
from fourier_attn.optics.link_budget import link_budget, written_level
from fourier_attn.optics.parts import Modulator
from fourier_attn.optics.pipeline import pipeline
from fourier_attn.optics.presets import PRESETS

Q, H, C = 1.602176634e-19, 6.62607015e-34, 299_792_458.0  # SI, exact
LIT = {"power_w": 3e-6, "wavelength_m": 1.55e-6, "frame_rate_hz": 1e9}


def measured() -> Engine:
    """The chip with a device that lets 72 % of the light through, and a drive table that reaches 0.9."""
    rng = np.random.default_rng(5)
    matrix = np.linalg.qr(rng.normal(size=(16, 16)) + 1j * rng.normal(size=(16, 16)))[0]
    gains = np.sqrt(np.linspace(0.52, 0.92, 16))[:, None]
    like = preset("chip_11x11").replace(shape=(4, 4), insertion_loss_db=3.0, saturation_w=None)
    return Engine.from_measured(gains * matrix, np.linspace(0.0, 0.9, 512) + 0j, like=like)


def by_hand(e: Engine, passed: float, level: float) -> dict[str, float]:
    """All numbers of an engine like the chip from its parameters and typical prices, written out here."""
    p, n = components.prices(), math.prod(e.shape)
    eta = 10 ** (-e.device.insertion_loss_db / 10)
    electrons = e.receiver.responsivity * e.laser.power_w * eta / (Q * 1e9)
    reference_w = e.laser.power_w * eta * 10  # lo_ratio, on a path without loss
    laser_w = n * (e.laser.power_w + reference_w) * 10 ** (6 / 10)
    bits = n * (2 * 8 + 2 * 8)
    lines = {
        "dac": 2 * n * 2**8 * p["dac.level_j"],
        "modulator": 2 * n * p["electro_optic.write_j"],
        "laser": laser_w * 1e-9 / 0.1,
        "receiver": 4 * n * p["photodiode.receiver_w"] * 1e-9,
        "adc": 2 * n * 2**8 * p["adc.level_j"],
    }
    moved = bits * (p["link.bit_j"] + 2 * p["sram.bit_j"] + p["hbm.bit_j"])
    areas = 2 * (p["electro_optic.area_m2"] + p["dac.area_m2"] + p["adc.area_m2"])
    area = n * (areas + 4 * (p["photodiode.area_m2"] + p["amplifier.area_m2"])) + p["laser.area_m2"]
    period = bits / 8 / p["link.bytes_per_s"]  # of the link, for which light and receivers are on
    always_on = sum(lines.values()) + moved + (lines["laser"] + lines["receiver"]) * (period / 1e-9 - 1)
    signal = electrons * level * passed
    macs = n**2
    return {
        "macs": macs,
        "operations_per_mac": 8,
        "fft_operations": 5 * n * math.log2(n),
        "signal_photons": signal * n / macs,
        "reference_photons": 10 * electrons * n / macs,
        "photons_per_product": signal / n / 4,
        "signal_j": signal / n * H * C / 1.55e-6,
        "detected_j": (signal + 10 * electrons) / n * H * C / 1.55e-6,
        "laser_j": laser_w * 1e-9 / macs,
        "wall_plug_j": lines["laser"] / macs,
        "electrical_j": (sum(lines.values()) + moved) / macs,
        "processor_j": sum(lines.values()) / macs,
        "peak_tops": 8 * macs / 1e-9 / 1e12,
        "sustained_tops": 8 * macs / period / 1e12,
        "always_on_j": always_on,
        "always_on_tops_per_w": 8 * macs / always_on / 1e12,
        "watts": always_on / period,
        "tops_per_w": 8 * macs / (sum(lines.values()) + moved) / 1e12,
        "processor_tops_per_w": 8 * macs / sum(lines.values()) / 1e12,
        "tops_per_mm2": 8 * macs / 1e-9 / 1e12 / (1e6 * area),
    }


def same(found: Budget, expected: dict[str, float], rel: float) -> None:
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, rel=rel), name


def test_every_number_of_the_chip_is_that_by_hand() -> None:
    """The emulator says how much its static errors let through; even amplitudes have 1 / 3 of the light."""
    chip = preset("chip_11x11")
    static = Engine(device=dataclasses.replace(chip.device, insertion_loss_db=None))
    lit = np.asarray(dft(jnp.eye(121, dtype=jnp.complex64).reshape(121, 11, 11), static))
    expected = by_hand(chip, np.sum(np.abs(lit) ** 2) / 121, 1 / 3)
    found = budget(chip)
    same(found, expected, rel=1e-3)  # 4,096 amplitudes of 8 bits are not quite even
    # round numbers of an arithmetic that was made before this program
    assert budget(chip, level=1.0).signal_photons == pytest.approx(816, rel=0.01)
    assert found.electrical_j == pytest.approx(4.2e-12, rel=0.02)
    assert found.tops_per_w == pytest.approx(1.9, rel=0.02)


def test_every_number_of_a_measured_device_is_that_by_hand() -> None:
    """Its matrix and its drive table say how much light arrives."""
    device = measured()
    passed = np.sum(np.abs(np.asarray(device.device.transfer)) ** 2) / 16
    assert passed == pytest.approx(0.72)
    same(budget(device), by_hand(device, passed, 0.9**2 / 3), rel=2e-3)
    gains = {row.name: row.gain_db for row in budget(device).link.rows}
    assert gains["lens and static errors"] == pytest.approx(10 * math.log10(0.72), abs=1e-4)
    assert gains["levels, leak and drive"] == pytest.approx(20 * math.log10(0.9), abs=1e-2)


@pytest.mark.parametrize("name", [*(name for name in PRESETS if name != "ideal"), "measured"])
def test_rows_in_db_are_the_product(name: str) -> None:
    """The laser's power times all gains is the power of a detector's electrons, q n f / R for one of them."""
    e = measured() if name == "measured" else preset(name)
    link = budget(e).link
    first, *_, last = link.rows
    assert first.dbm == pytest.approx(10 * math.log10(1e3 * link.laser_w))
    assert last.dbm == pytest.approx(first.dbm + sum(row.gain_db for row in link.rows))
    photons_w = link.signal_e / e.detector.detectors * H * C / e.laser.wavelength_m * e.frame_rate_hz
    assert 1e-3 * 10 ** (last.dbm / 10) == pytest.approx(photons_w, rel=1e-6)
    signal_w = frame(e).signal_w
    splits = sum(row.gain_db for row in link.rows[:4])
    assert 1e-3 * 10 ** ((first.dbm + splits) / 10) == pytest.approx(signal_w)  # written with 1


def numbers(encode: str, batch: int = 300) -> np.ndarray:
    """Amplitudes spread evenly over [0, 1], one of them 1, with phases or signs."""
    rng = np.random.default_rng(1)
    size = rng.uniform(0, 1, (batch, 11, 11))
    size[:, 3, 4] = 1
    if encode == "signed":
        return size * rng.choice([-1.0, 1.0], size.shape)
    return size * np.exp(2j * np.pi * rng.uniform(size=size.shape))


NOISES: dict[str, dict[str, Any]] = {
    "shot": {},
    "thermal": {"load_ohm": 2e3, "tia_noise": 3e-12, "bandwidth_hz": 6e8},
    "dark": {"dark_current": 3e-5},
    "read": {"read_noise_e": 400.0},
    "laser": {"rin_db_hz": -118.0},
    "converter": {"adc_bits": 6},
}
FLICKER = {**NOISES["thermal"], "flicker_corner_hz": 3e7, "flicker_lowest_hz": 1e3}
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "flicker": ("thermal", FLICKER),
    "averaged flicker": ("thermal", {**FLICKER, "averages": 8}),
    "flicker of the laser": ("laser", {"rin_db_hz": -120.0, "rin_corner_hz": 3e8, "flicker_lowest_hz": 1e7}),
    "jitter": ("converter", {"jitter_s": 6e-11}),
    "noise of converters": ("converter", {"adc_bits": 7, "adc_noise_lsb": 0.6}),
    "bends of converters": ("converter", {"adc_bits": 7, "adc_dnl_lsb": 0.9}),
}


@pytest.mark.parametrize(
    ("detection", "encode", "noise"),
    [
        *(("hybrid90", "complex", noise) for noise in (*NOISES, *MORE)),
        *(("psi4", "complex", noise) for noise in ("flicker", "flicker of the laser", "jitter")),
        ("linear3", "complex", "jitter"),
        ("homodyne_re", "signed", "thermal"),
        ("psi3", "complex", "read"),
        ("psi4", "complex", "laser"),
        ("linear3", "complex", "laser"),
        ("psi5", "signed", "converter"),
    ],
)
def test_signal_over_noise_is_that_of_the_emulator(detection: str, encode: str, noise: str) -> None:
    """Shot noise and another one, in 300 apertures; a pixel of 1 in each adds 0.02 dB to the signal."""
    noise, effects = MORE.get(noise, (noise, NOISES.get(noise, {})))
    e = made(shape=(11, 11), encode=encode, detection=detection, **LIT, **effects)
    x = numbers(encode)
    y = np.asarray(dft(jnp.asarray(x, jnp.complex64 if encode == "complex" else jnp.float32), e, KEY))
    exact = np.fft.fft2(x, norm="ortho")
    ratios = link_budget(e, components.prices()).snr_db
    found = snr(y, exact.real if detection == "homodyne_re" else exact)
    assert found == pytest.approx(ratios["all"], abs=0.35)
    noises = {name: 10 ** (-value / 10) for name, value in ratios.items() if name != "all"}
    assert -decibel(sum(noises.values())) == pytest.approx(ratios["all"])
    assert noise == "shot" or noises[noise] > noises["shot"] / 2  # the other noise shows


@pytest.mark.parametrize("detection", ["intensity", "amplitude"])
def test_powers_have_the_noise_of_a_pixel_at_the_mean(detection: str) -> None:
    """One pixel, of which all light arrives: n, and var(sqrt(n)) = 1 / 4."""
    e = made(shape=(1, 1), encode="amplitude", detection=detection, **LIT, read_noise_e=20.0)
    n = e.photons
    y = np.asarray(dft(jnp.ones((20_000, 1, 1)), e, KEY))
    expected = decibel(n**2 / (n + 400)) if detection == "intensity" else decibel(4 * n**2 / (n + 400))
    pixel = e.replace(encode="phase")  # writes 1 everywhere
    assert link_budget(pixel, components.prices()).snr_db["all"] == pytest.approx(expected)
    assert -20 * np.log10(np.std(y)) == pytest.approx(expected, abs=0.15)


def test_a_full_well_is_the_range_of_the_converter() -> None:
    """The zero frequency of an image overfills its pixel: 255 steps are a well, 2 unit intensities here."""
    e = made(shape=(20, 20), encode="amplitude", detection="intensity", **LIT, adc_bits=8)
    e = e.replace(well_depth_e=2 * e.photons)
    s = 1 / 3 - 1 / 4  # without the zero frequency, the square of the mean
    found = link_budget(e, components.prices()).snr_db["converter"]
    assert found == pytest.approx(decibel(s**2 / ((2 / 255) ** 2 / 12)), abs=0.02)


def test_fewer_passes_and_averages_count() -> None:
    """Averages multiply time, energy and photons, and divide noise but that of the levels."""
    once, often = budget(preset("chip_11x11")), budget(preset("chip_11x11").replace(averages=4))
    assert often.signal_photons == pytest.approx(4 * once.signal_photons)
    assert often.peak_tops == pytest.approx(once.peak_tops / 4)
    assert often.link.snr_db["thermal"] == pytest.approx(once.link.snr_db["thermal"] + 10 * math.log10(4))
    assert often.link.snr_db["converter"] == pytest.approx(once.link.snr_db["converter"])
    assert often.wall_plug_j == pytest.approx(4 * once.wall_plug_j)


@pytest.mark.parametrize(
    ("encode", "bits", "expected"),
    [
        ("amplitude", 1, 1 / 2),  # mirrors, on or off
        ("complex", None, 1 / 3),
        ("complex", 3, (2 * 7 + 1) / (6 * 7)),  # of eight even levels, the outer ones half as often
        ("signed", None, 1 / 3),
        ("phase", None, 1.0),
    ],
)
def test_mean_levels(encode: str, bits: int | None, expected: float) -> None:
    """Mean of a^2, of the levels that numbers are rounded to; a leak adds delta^2 (1 - a^2)."""
    e = Engine(modulator=Modulator(encode=encode, dac_bits_amp=None if encode == "phase" else bits))
    found = written_level(e)
    if bits == 3:  # round(7 a) is 0 and 7 half as often as the others
        expected = float(np.mean((np.round(7 * np.linspace(0, 1, 100_001)) / 7) ** 2))
    assert found.written == pytest.approx(expected, rel=2e-3)
    assert found.coherent == pytest.approx(1 / 4 if encode == "amplitude" else 0, abs=2e-3)
    leaky = written_level(e.replace(extinction_db=20.0))
    assert leaky.written == pytest.approx(found.written + 0.01 * (1 - found.written), rel=2e-3)
    if encode != "phase":
        assert written_level(e, 0.2).wanted == pytest.approx(0.2, rel=2e-3)


@pytest.mark.parametrize(
    ("changes", "operations", "fft"),
    [
        ({}, 8, 5.0),
        ({"encode": "signed"}, 4, 2.5),
        ({"encode": "signed", "detection": "homodyne_re"}, 2, 1.25),
        ({"detection": "psi3"}, 8, 5.0),
    ],
)
def test_operations_are_those_of_complex_or_real_products(
    changes: dict[str, Any], operations: int, fft: float
) -> None:
    e = made(**{"shape": (3, 5), "detection": "hybrid90", **LIT} | changes)
    found, rows = budget(e), budget(e.replace(lens="1d"))
    assert (found.macs, rows.macs) == (15**2, 3 * 5**2)
    assert found.operations_per_mac == rows.operations_per_mac == operations
    assert found.fft_operations == pytest.approx(fft * 15 * math.log2(15))
    assert rows.fft_operations == pytest.approx(fft * 15 * math.log2(5))
    assert found.energy is None
    assert found.tops_per_w is None
    assert "dac_bits_amp=None is an ideal converter" in found.no_energy


def test_photons_per_mac_fall_as_one_over_the_length() -> None:
    """At the same signal over shot noise, sums of d products need 1 / d of the photons (Anderson et al.)."""
    found = [budget(preset("shot_limited").replace(shape=(n, n))) for n in (4, 8, 16, 32)]
    ratios = [one.link.snr_db["shot"] for one in found]
    assert max(ratios) == pytest.approx(min(ratios))
    lengths = [n * n for n in (4, 8, 16, 32)]
    light = [one.signal_photons * d for one, d in zip(found, lengths, strict=True)]
    assert light == pytest.approx([light[0]] * 4)
    # the law of direct detection, photons of a sum = signal over noise, but for the reference's own noise
    assert 10 ** (ratios[0] / 10) == pytest.approx(light[0] / (1 + 1 / 30), rel=1e-3)


def test_stages_add_up_to_the_latency_and_the_busiest_part_bounds_the_rate() -> None:
    """psi4 writes once and reads four times; prices are written out here."""
    e = preset("chip_11x11").replace(detection="psi4", saturation_w=None, cmrr_db=None)
    p = components.prices()
    found = pipeline(e, p)
    sent, received = 121 * 16 / 8 / p["link.bytes_per_s"], 4 * 121 * 8 / 8 / p["link.bytes_per_s"]
    latency = sent + 1e-9 + 4e-9 + p["lens.path_m"] / C + 1e-9 + received + 1e-6
    assert found.latency_s == pytest.approx(latency)
    assert found.busy_s == pytest.approx(
        {
            "link": sent + received,
            "writing converters": p["dac.sample_s"],
            "light": 4e-9,
            "reading converters": 4 * p["adc.sample_s"],
        }
    )
    assert found.bound == "link"
    assert found.period_s == pytest.approx(sent + received)
    assert found.frames_in_flight == pytest.approx(latency / (sent + received))
    for price, value, part in (
        ("link.bytes_per_s", 1e15, "light"),
        ("dac.sample_s", 1e-6, "writing converters"),
        ("adc.sample_s", 1e-6, "reading converters"),
    ):
        assert pipeline(e, p | {price: value}).bound == part
    demonstrator = pipeline(preset("demonstrator_5x5"), p)
    assert (demonstrator.bound, demonstrator.period_s) == ("light", pytest.approx(4e-3))
    mirrors = [stage.part for stage in pipeline(preset("amplitude_4f"), p).stages]
    assert "writing converters" not in mirrors
    assert "camera" in mirrors


def test_slow_converters_bound_what_is_claimed_without_link() -> None:
    """Converters of 10 ns after passes of 1 ns: a tenth of the operations, and of those per area."""
    chip, p = preset("chip_11x11"), components.prices()
    fast, slow = budget(chip, p), budget(chip, p | {"adc.sample_s": 1e-8})
    assert slow.peak_tops == pytest.approx(fast.peak_tops / 10)
    assert slow.tops_per_mm2 == pytest.approx(fast.tops_per_mm2 / 10)
    assert slow.tops_per_w == fast.tops_per_w


def test_watts_times_seconds_are_joules() -> None:
    """What is always on takes its power for the whole period: by hand, lines of a frame over its passes."""
    for name, on in (("chip_11x11", ("laser", "receiver")), ("demonstrator_5x5", ("laser", "hold"))):
        for changes in ({}, {"wavelengths": 3}, {"averages": 2}):
            found = budget(preset(name).replace(**changes))
            lines, period = found.energy, found.pipeline.period_s
            assert lines is not None
            powers = sum(getattr(lines, line) for line in on) / found.optical_s
            rest = lines.total - sum(getattr(lines, line) for line in on)
            channels = found.pipeline.channels
            assert found.watts == pytest.approx(channels * (powers + rest / period)), name
            always_on, gated = found.always_on_tops_per_w, found.tops_per_w
            assert always_on is not None
            assert gated is not None
            assert found.watts == pytest.approx(found.sustained_tops / always_on), name
            assert always_on <= gated


def test_a_pair_shares_an_amplifier_and_no_photodiode() -> None:
    chip, p = preset("chip_11x11"), components.prices()
    each, pair = (budget(chip.replace(amplifiers=of)).area for of in ("detector", "pair"))
    assert each.receivers - pair.receivers == pytest.approx(121 * 2 * p["amplifier.area_m2"])
    camera = budget(preset("demonstrator_5x5").replace(detection="hybrid90", cmrr_db=None)).area
    assert camera.receivers == pytest.approx(25 * 4 * p["camera.area_m2"])


def test_photons_per_mac_need_no_wavelength() -> None:
    chip = preset("chip_11x11").replace(averages=2, fill_factor=0.6)
    found = budget(chip, level=0.5)
    expected = pytest.approx((found.signal_photons, found.reference_photons))
    assert photons_per_mac(chip.replace(wavelength_m=None), 0.5) == expected
    with pytest.raises(ValueError, match="power_w=None is unlimited light"):
        photons_per_mac(made(detection="hybrid90"))


def test_recalibration_takes_its_share() -> None:
    chip = preset("chip_11x11")
    often = budget(chip.replace(phase_drift_rms=0.1, recalibrate_s=7.26e-7))  # 242 of them probe, 484 work
    assert often.more_passes == pytest.approx(0.5)
    assert often.peak_tops == pytest.approx(budget(chip).peak_tops / 1.5)
    once = budget(chip).tops_per_w
    assert once is not None
    assert often.tops_per_w == pytest.approx(once / 1.5)


def test_channels_multiply_all_but_the_link() -> None:
    """Two wavelengths in three apertures: six frames at once, with six times the parts, light and bits."""
    chip, p = preset("chip_11x11"), components.prices()
    one, six = budget(chip), budget(chip.replace(wavelengths=2, apertures=3))
    assert six.peak_tops == pytest.approx(6 * one.peak_tops)
    assert six.sustained_tops == pytest.approx(one.sustained_tops)  # the link bounds both
    assert six.link.laser_w == pytest.approx(6 * one.link.laser_w)
    assert six.area.total - 2 * p["laser.area_m2"] == pytest.approx(6 * (one.area.total - p["laser.area_m2"]))
    for name in ("signal_photons", "laser_j", "wall_plug_j", "electrical_j", "tops_per_w"):
        assert getattr(six, name) == pytest.approx(getattr(one, name)), name
    assert six.energy is not None
    assert six.wall_plug_j * six.macs == pytest.approx(six.energy.laser)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"detection": "field", "power_w": None}, {}, "detection='field' is not a detector, so no light"),
        ({"power_w": None}, {}, "power_w=None is unlimited light, which has no budget; give power_w"),
        ({"wavelength_m": None}, {}, "wavelength_m=None leaves the energy of a photon open; give one"),
        (
            {"source_pixels": 1.0},
            {},
            "make light partially coherent, which has no link budget; set them None",
        ),
        ({}, {"level": 0.0}, "level=0.0 must be above 0 and at most 1"),
        ({}, {"level": 1.5}, "level=1.5 must be above 0 and at most 1"),
        ({}, {"level": math.nan}, "level=nan must be above 0 and at most 1"),
        ({"frame_rate_hz": 2e11}, {}, "lower frame_rate_hz, or give faster modulators"),
        ({}, {"prices": components.prices() | {"setting.light": 2.0}}, "setting.light=2 must be 1 here"),
        ({}, {"prices": components.prices() | {"laser.feed_loss_db": -3.0}}, "feed_loss_db=-3.0 must be at"),
        ({}, {"prices": components.prices() | {"laser.wall_plug": 0.0}}, "wall_plug=0.0 must be positive"),
        ({}, {"prices": {"laser.wall_plug": 0.1}}, "prices lack adc.area_m2,"),
    ],
)
def test_bad_input_is_named(changes: dict[str, Any], options: dict[str, Any], message: str) -> None:
    e = made(**{"shape": (3, 3), "detection": "hybrid90", **LIT} | changes)
    with pytest.raises(ValueError, match=message):
        budget(e, **options)
