"""The error budget of passes and of call sites, against the emulation that it does not know."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import run_here
from optical import KEY, decibel, dft, exact, waves

from evidence.pages.markdown import Results
from evidence.pages.programs import predictions_table
from fourier_attn.optics import Engine, error_budget, predicted_errors, preset, site_errors
from fourier_attn.studies.engine import predictions, programs

CHIP = preset("chip_11x11")
LIGHT = {"detection": "hybrid90", "power_w": 5e-4, "insertion_loss_db": 15.0}


@pytest.fixture(autouse=True)
def relaxed() -> Iterator[None]:
    """Allows what programs of others do: they promote ranks and dtypes."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def few(seed: int) -> np.ndarray:
    """A few bright pixels before many dark ones and zeros, as spectra have them."""
    sizes = np.exp(-np.random.default_rng(seed).permuted(np.tile(np.arange(121.0), (60, 1)), axis=1))
    x = np.asarray(waves(60, 11, 11, seed=seed)) * sizes.reshape(60, 11, 11)
    return np.where(np.abs(x) > 1e-12, x, 0)


DATA = {
    "normal": np.asarray(waves(60, 11, 11)),
    "real": np.asarray(waves(60, 11, 11).real),
    "few bright": few(0),
    "half dark": np.asarray(waves(60, 11, 11)) * (np.arange(11) < 6),
}
ENGINES = {
    "chip": CHIP.replace(dc_block=False),
    "4 bit": preset("chip_11x11_4bit").replace(dc_block=False),
    "leak, not compensated": CHIP.replace(dc_block=False, compensated=False),
    "amplitudes": Engine(shape=(11, 11)).replace(dac_bits_amp=6),
    "phases": Engine(shape=(11, 11)).replace(dac_bits_phase=6),
    "drive": Engine(shape=(11, 11)).replace(drive_noise_rms=0.01),
    "crosstalk": Engine(shape=(11, 11)).replace(crosstalk_db=-30.0),
    "receiver": Engine(shape=(11, 11)).replace(**LIGHT, tia_noise=1e-11, cmrr_db=20.0, adc_bits=7),
    "camera": Engine(shape=(11, 11)).replace(**LIGHT, read_noise_e=3e3, dark_current=1e-7),
    "laser": Engine(shape=(11, 11)).replace(detection="hybrid90", rin_db_hz=-120.0),
}


def error_power(y: Any, x: np.ndarray) -> float:
    return float(np.mean(np.abs(np.asarray(y) - exact(x)) ** 2))


@pytest.mark.parametrize("name", ENGINES)
def test_the_budget_is_the_error_of_a_pass(name: str) -> None:
    """Within 0.8 dB: a pattern of 121 pixels knows its power to 0.4, here the mean of four devices.

    The phases of real numbers lie on levels, which the budget does not know. This matters if the leak does
    not move them further than a step.
    """
    engine = ENGINES[name]
    for what in DATA.keys() - ({"real"} if name in ("4 bit", "phases") else set()):
        x = DATA[what]
        powers = [
            error_power(dft(jnp.asarray(x), engine.replace(seed=seed), jax.random.key(seed)), x)
            for seed in range(4)
        ]
        found = sum(float(np.mean(power)) for power in error_budget(x, engine).values())
        assert abs(decibel(float(np.mean(powers)) / found)) < 0.8, what


def test_an_exact_engine_has_no_error_and_others_are_refused() -> None:
    powers = error_budget(DATA["normal"], Engine(shape=(11, 11)))
    assert not any(power.any() for power in powers.values())
    for changes, message in (
        (
            {"shift_pitch": (0.1, 0.0)},
            r"shift_pitch=\(0.1, 0.0\) is not in the error budget; leave it at None",
        ),
        ({"averages": 2}, "averages=2 is not in the error budget; leave it at 1"),
        ({"detection": "psi4"}, "detection='psi4' is not in the error budget; choose 'hybrid90'"),
    ):
        with pytest.raises(ValueError, match=message):
            error_budget(DATA["normal"], CHIP.replace(**changes))


def test_a_budget_knows_the_unit_of_its_arrays() -> None:
    one, other = (error_budget(scale * DATA["real"], CHIP) for scale in (1.0, 7.0))
    for name, power in one.items():
        np.testing.assert_allclose(other[name], 49 * power, rtol=1e-5)


def test_stages_without_noise_between_them_add_static_errors() -> None:
    """Two stages of static errors alone: e to 2 e, 3 dB."""
    engine = Engine(shape=(4, 4)).replace(static_phase_rms=0.05)
    x = waves(8, 16, 16)
    band = predicted_errors(jnp.fft.fft2, (x,), engine)["0 fft 16 x 16"]
    assert abs(band.high - band.low - decibel(2)) < 1e-6
    assert abs(band.high + decibel(2 * 0.05**2)) < 0.3
    found = [site_errors(jnp.fft.fft2, (x,), engine.replace(seed=seed))["0 fft 16 x 16"] for seed in range(3)]
    assert all(band.holds(ratio) for ratio in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", programs.OWN)
def test_call_sites_of_own_networks_have_the_predicted_error(name: str) -> None:
    """And a chip with three times the noise has not."""
    program = programs.PROGRAMS[name]()
    call = partial(predicted_errors, program.f, (program.weights, program.x), argnums=1)
    bands = call(CHIP)
    found = site_errors(program.f, (program.weights, program.x), CHIP, key=KEY, argnums=1)
    assert bands.keys() == found.keys()
    for label, ratio in found.items():
        assert bands[label].holds(ratio), label
    worse: Any = call(CHIP.replace(tia_noise=1e-10))
    assert not any(worse[label].holds(ratio) for label, ratio in found.items())


@pytest.mark.slow
def test_the_study(tmp_path: Path) -> None:
    out = tmp_path / "results" / "predictions"
    code, said, err = run_here(predictions, "--programs=FNO", f"--out={out}")
    assert (code, err) == (0, "")
    assert "FNO: 2 of 2 inside" in said
    first, second = json.loads(out.with_suffix(".json").read_text())["rows"]
    assert (first["site"], first["stages"], second["site"]) == ("0 rfft 33 x 33", 1, "1 irfft 33 x 33")
    line = f"| FNO | - | 0 rfft 33 x 33 | 1 | {first['measured_db']:.1f} |"
    assert line in predictions_table(Results(tmp_path), "predictions")
