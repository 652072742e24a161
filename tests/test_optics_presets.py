import dataclasses
import runpy

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal
from optical import KEY, dft, exact, snr

from fourier_attn.optics import Engine, presets
from fourier_attn.optics.presets import PRESETS, build, preset, shot_limited

LEVELS = {  # dB over white real numbers, as measured: errors may change, but not silently
    "demonstrator_5x5": 16.5,
    "chip_11x11": 20.0,
    "chip_11x11_4bit": 15.7,
    "shot_limited": 21.0,
    "hostile": 1.1,
}


def level(engine: Engine) -> float:
    x = normal(100, *engine.shape)
    return snr(dft(x, engine, KEY), exact(x))


@pytest.mark.slow
def test_most_of_the_error_is_light_that_leaks() -> None:
    for name, expected in (("chip_11x11", 25.6), ("demonstrator_5x5", 20.6)):
        assert abs(level(preset(name).replace(extinction_db=None)) - expected) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", LEVELS)
def test_every_preset_transforms(name: str) -> None:
    assert abs(level(preset(name)) - LEVELS[name]) < 0.5


def test_cameras_read_powers() -> None:
    assert {*LEVELS, "ideal", "amplitude_4f"} == set(PRESETS)
    x = jnp.abs(normal(20, 8, 8))
    y = dft(x, preset("amplitude_4f").replace(shape=(8, 8)), KEY)
    power = np.abs(np.fft.fft2(np.asarray(x), norm="ortho")) ** 2
    assert y.shape == (20, 8, 8)
    largest = power.max(axis=(1, 2), keepdims=True)
    assert np.max(np.abs(y - power) / largest) < 0.05  # noise of the bright middle and 8 bits


@pytest.mark.parametrize("name", PRESETS)
def test_every_parameter_has_a_provenance(name: str) -> None:
    entry = PRESETS[name]
    origin = entry.provenance()
    assert set(origin) == {n for n, value in dataclasses.asdict(entry.engine).items() if value is not None}
    assert set(origin.values()) <= {"published", "derived", "assumed"}
    assert all(origin[n] == "published" for n in entry.published)
    noise = [n for n in origin if n.endswith(("_rms", "_bits", "_bits_amp", "_bits_phase", "_noise"))]
    assert all(origin[n] == "assumed" for n in noise)  # nobody has published one
    lines = entry.table().splitlines()
    assert len(lines) == len(origin)
    units = {line.split()[0]: line.split()[-2] for line in lines}
    assert (units["frame_rate_hz"], units["temperature"], units["responsivity"]) == ("Hz", "K", "A/W")
    assert [line.split()[0] for line in lines] == list(origin)
    assert all(line.endswith(tuple(origin.values())) for line in lines)


def test_tables_are_printed_and_name_no_company(capsys: pytest.CaptureFixture) -> None:
    runpy.run_path(presets.__file__, run_name="__main__")
    printed = capsys.readouterr().out
    for name, entry in PRESETS.items():
        assert f"{name}\n{entry.table()}\n" in printed
    for company in ("optalysys", "lightmatter", "lightelligence", "luminous"):
        assert company not in printed.lower()


def test_shot_limited() -> None:
    """SNR = N / (1 + P / R^2) photons of the signal for a largest pixel of 1."""
    engine = shot_limited(6, 1e4)
    x = normal(500, 6, 6)
    size = np.abs(x).max(axis=(1, 2))
    power = np.mean(np.asarray(x) ** 2, axis=(1, 2)) / size**2  # of each aperture, in units of its largest
    noise = size**2 * (power + engine.lo_ratio) / engine.lo_ratio / 1e4
    expected = 10 * np.log10(np.mean(np.asarray(x) ** 2) / np.mean(noise))
    assert abs(level(engine) - expected) < 1.0  # 100 other apertures
    assert engine.replace(shape=(6, 6), photons_fs=1e3, detection="hybrid90") == shot_limited(6, 1e3)


def test_engines_from_configurations() -> None:
    assert build(None) is None
    assert build("chip_11x11") == preset("chip_11x11")
    values = {"adc_range": "0.5", "dac_range": "auto", "adc_bits": 8, "detection": "psi3"}
    found = build({"shape": [4, 5], **values})
    assert found == Engine(shape=(4, 5), adc_range=0.5, adc_bits=8, detection="psi3")
    with pytest.raises(ValueError, match="preset='chip' is unknown; choose one of ideal, demonstrator_5x5"):
        build("chip")
    with pytest.raises(ValueError, match="an engine has no bits"):
        build({"bits": 8})
