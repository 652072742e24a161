import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from optical import KEY, decibel, dft, exact, made, snr

from fourier_attn.optics import Engine, presets
from fourier_attn.optics.engine_spec import ELECTRON_C, every_parameter
from fourier_attn.optics.parts import Device, Laser
from fourier_attn.optics.presets import PRESETS, build, check_variants, preset, scaled

LEVELS = {  # dB over white real numbers, as measured: errors may change, but not silently
    "demonstrator_5x5": 20.3,
    "chip_11x11": 25.2,
    "chip_11x11_4bit": 16.1,
    "shot_limited": 21.0,
    "hostile": 1.9,
}
CORRELATORS = ("amplitude_4f", "joint_transform")


def level(engine: Engine) -> float:
    x = normal(100, *engine.shape)
    return snr(dft(x, engine, KEY), exact(x))


@pytest.mark.slow
def test_drives_that_know_the_leak_leave_little_of_it() -> None:
    """0.5 dB at most, where it takes 4 and 5 dB from modulators that are not compensated."""
    for name, lost in (("chip_11x11", 5.2), ("demonstrator_5x5", 3.5)):
        engine = preset(name)
        without = level(engine.replace(extinction_db=None))
        assert without - level(engine) < 0.5
        assert abs(level(engine) - level(engine.replace(compensated=False)) - lost) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", LEVELS)
def test_every_preset_transforms(name: str) -> None:
    assert abs(level(preset(name)) - LEVELS[name]) < 0.5


def light(engine: Engine) -> float:
    """dB of unit intensity over the noise of light and electronics, from the watts on.

    A detector that is lit with P has, in electrons, the variance n P + i^2 B / (q f)^2 + I_dark / (q f) + r^2
    for n electrons of unit intensity; the field is (first - second) / (4 s R) of pairs that have s of the
    light each, and the sum over M steps of y exp(i th) / (M R).
    """
    receiver, f = engine.receiver, engine.frame_rate_hz
    eta = 10 ** (-(engine.device.insertion_loss_db or 0) / 10)
    n = receiver.responsivity * eta * engine.laser.power_w / (ELECTRON_C * f)
    share = (engine.device.fill_factor or 1) ** 2  # of n, in the zero order
    electrons = ((receiver.tia_noise or 0) / ELECTRON_C) ** 2 / f
    electrons += (receiver.dark_current or 0) / (ELECTRON_C * f) + (receiver.read_noise_e or 0) ** 2
    if receiver.detection == "intensity":
        return decibel(n**2 / (n + electrons))
    lit = n * (share + receiver.lo_ratio)
    if receiver.detection == "psi4":
        return decibel(4 * receiver.lo_ratio * n**2 / (lit + electrons))
    pair = 2 * (lit / 4 + electrons)  # hybrid90: four detectors, two pairs
    return decibel(share * n**2 * receiver.lo_ratio / (2 * pair))


@pytest.mark.parametrize("name", [*LEVELS, *CORRELATORS])
def test_every_preset_survives_its_own_electronics(name: str) -> None:
    """The ratio that it states is that of its watts, and of a pass with light and electronics alone."""
    engine = preset(name)
    assert abs(light(engine) - PRESETS[name].light_db) < 0.06
    assert light(engine) > 15
    laser, receiver = Laser(power_w=engine.laser.power_w), engine.receiver
    receiver = dataclasses.replace(receiver, adc_bits=None, cmrr_db=None)
    loss = Device(insertion_loss_db=engine.device.insertion_loss_db, fill_factor=engine.device.fill_factor)
    bare = Engine((1, 1), device=loss, laser=laser, receiver=receiver, frame_rate_hz=engine.frame_rate_hz)
    y = np.asarray(dft(jnp.ones((20_000, 1, 1)), bare, KEY))
    assert abs(-20 * np.log10(np.std(y)) - light(engine)) < 0.15  # 20,000 numbers: 0.04 dB
    assert abs(np.mean(y) - 1) < 5 * np.std(y) / 140


@pytest.mark.parametrize("name", PRESETS)
def test_no_aperture_fills_the_detectors_of_a_preset(name: str) -> None:
    """All pixels on put N1 N2 times unit intensity into the zero order, in phase with the reference.

    Correlators have the brightest detector that test_optics_correlators finds.
    """
    engine = preset(name)
    photons, detector = engine.photons, engine.detector
    if photons is None or not engine.capacities:
        return
    reference = engine.receiver.lo_ratio if detector.referenced else 0.0
    brightest = PRESETS[name].brightest or math.prod(engine.shape)
    assert (PRESETS[name].brightest is not None) == (name in CORRELATORS)
    zero_order = (math.sqrt(brightest) + math.sqrt(reference)) ** 2
    assert photons * zero_order / detector.detectors < min(engine.capacities)


def test_the_demonstrator_is_no_place_for_the_chips_amplifier() -> None:
    receiver = preset("chip_11x11").receiver
    engine = preset("demonstrator_5x5").replace(receiver=receiver)
    assert level(engine) < light(engine) < -20


def test_cameras_read_powers() -> None:
    assert {*LEVELS, *CORRELATORS, "ideal"} == set(PRESETS)
    engine = preset("amplitude_4f")
    well = engine.receiver.well_depth_e
    engine = engine.replace(shape=(8, 8)).with_photons(well / 64)  # which all mirrors fill
    x = (normal(20, 8, 8) > 0.5).astype(jnp.float32)  # mirrors are on or off
    y = dft(x, engine, KEY)
    power = np.abs(np.fft.fft2(np.asarray(x), norm="ortho")) ** 2
    assert y.shape == (20, 8, 8)
    largest = power.max(axis=(1, 2), keepdims=True)
    assert np.max(np.abs(y - power) / largest) < 0.05
    with pytest.raises(
        ValueError, match="frame_rate_hz=40000 is above the 32552 Hz that modulators of kind="
    ):
        engine.replace(frame_rate_hz=4e4)


@pytest.mark.parametrize("name", PRESETS)
def test_every_parameter_has_a_provenance(name: str) -> None:
    entry = PRESETS[name]
    origin = entry.provenance()
    assert set(origin) == {name for _, name, _, value in every_parameter(entry.engine) if value is not None}
    assert set(origin.values()) <= {"published", "derived", "assumed"}
    assert all(origin[n] == "published" for n in entry.published)
    noise = [n for n in origin if n.endswith(("_rms", "_noise", "_noise_e"))]
    assert all(origin[n] == "assumed" for n in noise)  # nobody has published one
    lines = entry.table().splitlines()
    assert len(lines) == len(origin)
    units = {line.split()[0]: line.split()[-2] for line in lines}
    assert (units["frame_rate_hz"], units["temperature"], units["responsivity"]) == ("Hz", "K", "A/W")
    assert [line.split()[0] for line in lines] == list(origin)
    assert all(line.endswith(tuple(origin.values())) for line in lines)


def test_tables_are_printed_and_name_no_company(capsys: pytest.CaptureFixture) -> None:
    presets.main()
    printed = capsys.readouterr().out
    for name, entry in PRESETS.items():
        head = f"{name}: {entry.what}\nlight and electronics: {entry.light_db:g} dB of unit intensity"
        assert f"{head}\n{entry.table()}\n" in printed
    assert "amplitude_4f: a 4f correlator: binary mirrors" in printed
    for company in ("optalysys", "lightmatter", "lightelligence", "luminous"):
        assert company not in printed.lower()


def test_a_measured_device_is_one_and_keeps_its_errors() -> None:
    """Neither seeds nor factors change them; bits they do not touch."""
    measured = Engine.from_measured(np.eye(16), like=made(shape=(4, 4), detection="hybrid90", photons=1e3))
    assert scaled(measured, 6, 1.0, 0).receiver.adc_bits == 6
    for noise, device in ((0.0, 0), (4.0, 0), (1.0, 1)):
        with pytest.raises(ValueError, match="the errors of a measured device; use devices=1 and noise=1"):
            scaled(measured, 6, noise, device)
    with pytest.raises(ValueError, match="devices=3, noise=0,1: no seed and no factor changes"):
        check_variants(measured, 3, [0.0, 1.0])
    check_variants(made(static_phase_rms=0.1), 3, [0.0, 1.0])


def test_shot_limited() -> None:
    """SNR = N / (1 + P / R^2) photons of the signal for a largest pixel of 1."""
    engine = preset("shot_limited").replace(shape=(6, 6)).with_photons(1e4)
    x = normal(500, 6, 6)
    size = np.abs(x).max(axis=(1, 2))
    power = np.mean(np.asarray(x) ** 2, axis=(1, 2)) / size**2  # of each aperture, in units of its largest
    noise = size**2 * (power + engine.receiver.lo_ratio) / engine.receiver.lo_ratio / 1e4
    expected = 10 * np.log10(np.mean(np.asarray(x) ** 2) / np.mean(noise))
    assert abs(level(engine) - expected) < 1.0  # 100 other apertures
    assert preset("shot_limited").photons == pytest.approx(1e3, rel=1e-12)
    assert engine.photons == pytest.approx(1e4, rel=1e-12)


def test_engines_from_configurations() -> None:
    assert build(None) is None
    assert build("chip_11x11") == preset("chip_11x11")
    values = {"adc_range": "0.5", "dac_range": "auto", "adc_bits": 8, "detection": "psi3"}
    found = build({"shape": [4, 5], **values})
    assert found == made(shape=(4, 5), adc_range=0.5, adc_bits=8, detection="psi3")
    with pytest.raises(ValueError, match="preset='chip' is unknown; choose one of ideal, demonstrator_5x5"):
        build("chip")
    with pytest.raises(ValueError, match="an engine has no bits"):
        build({"bits": 8})
