"""Watts come first: photons, noise at constant power, and what detectors take."""

import jax.numpy as jnp
import numpy as np
import pytest
from optical import KEY, changed, decibel, dft, exact, made, waves

from fourier_attn.optics import Engine
from fourier_attn.optics.engine_spec import ELECTRON_C
from fourier_attn.optics.presets import PRESETS, preset

PIXEL = {"shape": (1, 1), "detection": "hybrid90", "frame_rate_hz": 1e9}
ONES = jnp.ones((10_000, 1, 1))


def ratio(engine: Engine) -> float:
    """dB of unit intensity over its noise; 10,000 numbers know it to 0.06 dB."""
    return -20 * np.log10(np.std(np.asarray(dft(ONES, engine, KEY))))


def test_photons_follow_from_watts() -> None:
    """n = resp P 10^(-loss / 10) / (f q): 1 uW, 1 ns, 1 A/W are 6,242 electrons."""
    engine = made(**PIXEL, power_w=1e-6)
    assert abs(engine.photons - 6242) < 1
    assert engine.replace(insertion_loss_db=10.0).photons == pytest.approx(engine.photons / 10)
    assert engine.replace(frame_rate_hz=1e8).photons == pytest.approx(engine.photons * 10)
    assert engine.replace(responsivity=0.5).photons == pytest.approx(engine.photons / 2)
    lossy = engine.replace(insertion_loss_db=7.0, responsivity=0.8)
    assert lossy.with_photons(1234.0).photons == pytest.approx(1234)
    assert made(shape=(1, 1)).photons is None
    assert lossy.with_photons(None).photons is None


def test_electrons_are_no_more_than_photons() -> None:
    """eta = R h c / (q lambda): 0.8 at 1 A/W and 1.55 um, 1 at lambda / 1.2398 um, and refused above."""
    chip = preset("chip_11x11")
    assert chip.quantum_efficiency == pytest.approx(6.62607015e-34 * 299792458 / 1.602176634e-19 / 1.55e-6)
    assert chip.replace(wavelength_m=None).quantum_efficiency is None
    most = 1.55 / 1.239841984
    assert chip.replace(responsivity=0.999999 * most).quantum_efficiency == pytest.approx(1, abs=2e-6)
    with pytest.raises(ValueError, match="responsivity=1.25016 A/W is above one electron per photon"):
        chip.replace(responsivity=1.000001 * most)
    with pytest.raises(ValueError, match="0.5105 A/W at wavelength_m=6.33e-07"):
        chip.replace(wavelength_m=6.33e-7)
    for name, entry in PRESETS.items():
        assert name == "ideal" or 0.5 < entry.engine.quantum_efficiency <= 1


@pytest.mark.parametrize(
    ("noise", "by_rate", "by_loss"),
    [({}, 10, 10), ({"tia_noise": 1e-9}, 10, 20), ({"read_noise_e": 1e5}, 20, 20)],
)
def test_at_constant_watts_speed_and_loss_cost(noise: dict, by_rate: float, by_loss: float) -> None:
    """dB for ten times the rate, or the loss: photons go as eta / f, i^2 B / I^2 as f / eta^2."""
    engine = made(**PIXEL, power_w=1e-3, **noise)
    best = ratio(engine)
    assert abs(best - ratio(engine.replace(frame_rate_hz=1e10)) - by_rate) < 0.3
    assert abs(best - ratio(engine.replace(insertion_loss_db=10.0)) - by_loss) < 0.3


def test_the_chip_is_limited_by_its_amplifiers() -> None:
    chip = preset("chip_11x11")
    still = dict.fromkeys(("phase_noise_rms", "drive_noise_rms", "rin_db_hz", "power_drift_rms", "cmrr_db"))
    still |= dict.fromkeys(("static_phase_rms", "static_gain_rms", "crosstalk_db", "extinction_db"))
    still |= {"dac_bits_amp": None, "dac_bits_phase": None, "adc_bits": None, "dc_block": False}
    light = chip.replace(shape=(1, 1), **still)
    assert ratio(light.replace(tia_noise=None)) > ratio(light) + 10
    rates = [ratio(light.replace(frame_rate_hz=rate)) for rate in (1e8, 1e9, 1e10)]
    assert abs(rates[0] - rates[1] - 10) < 0.5
    assert abs(rates[1] - rates[2] - 10) < 0.5


def test_wells_and_photodiodes_are_full() -> None:
    """A camera's pixel counts up to its well; a balanced pair up to its diodes' saturation."""
    x = jnp.full((1, 2, 2), 1.0)  # all light in one output, 4 times unit intensity
    camera = changed(made(shape=(2, 2)), photons=1e8, detection="intensity")
    np.testing.assert_allclose(dft(x, camera, KEY)[0, 0, 0], 4.0, rtol=1e-3)
    np.testing.assert_allclose(dft(x, camera.replace(well_depth_e=3e8), KEY)[0, 0, 0], 3.0, rtol=1e-6)
    np.testing.assert_allclose(
        dft(x, camera.replace(well_depth_e=3e8, statistics="poisson"), KEY)[0, 0, 0], 3.0, rtol=1e-6
    )
    pair = changed(made(shape=(2, 2)), photons=1e12, detection="homodyne_re", lo_ratio=4.0)
    watts = pair.laser.power_w
    # (2 + 2)^2 / 2 = 8 and 0 are on the two detectors; 6 are left of it: (6 - 0) / (4 r / 2)
    found = dft(x, pair.replace(saturation_w=6 * watts), KEY)[0, 0, 0]
    np.testing.assert_allclose(found, 1.5, rtol=1e-4)
    for limit in ({"saturation_w": 1e30}, {"well_depth_e": 1e30}):
        np.testing.assert_allclose(dft(x, pair.replace(**limit), KEY), dft(x, pair, KEY), atol=1e-5)


def test_a_power_that_the_receiver_cannot_take_is_refused() -> None:
    camera = preset("demonstrator_5x5")
    with pytest.raises(
        ValueError, match="power_w=5e-09 puts .* electrons into a detector in a pass, reference"
    ):
        camera.replace(power_w=5e-9)
    with pytest.raises(ValueError, match="it takes 1e"):
        camera.replace(frame_rate_hz=1.0)
    with pytest.raises(ValueError, match="and it takes"):
        preset("chip_11x11").replace(power_w=1.0)


def test_common_modes_leak_into_differences() -> None:
    """(1st - 2nd) + c (1st + 2nd) of a pair: E + c (|E|^2 + R^2 (P - 1)) / (2 R), c = 10^(-dB / 20)."""
    x, r, c = waves(50, 4, 5) / 8, 10**0.5, 10 ** (-20 / 20)
    engine = made(shape=(4, 5), detection="hybrid90", cmrr_db=20.0, dac_range=1.0)
    e = exact(x)
    np.testing.assert_allclose(dft(x, engine), e + c * np.abs(e) ** 2 * (1 + 1j) / (2 * r), atol=2e-6)
    np.testing.assert_allclose(dft(x, engine.replace(cmrr_db=np.inf)), e, atol=2e-6)
    dark = np.asarray(dft(jnp.zeros((4000, 4, 5)), engine.replace(rin_db_hz=-110.0), KEY))
    spread = c * r**2 * (1e-11 * 1e9) ** 0.5 / (2 * r)  # of the laser, which the reference brings
    np.testing.assert_allclose(np.std(dark.real), spread, rtol=0.05)


def test_electrons_of_a_camera() -> None:
    """Read noise adds to shot noise, and to dark current's: n / (1 + (n_d + r^2) / n)."""
    camera = changed(made(shape=(1, 1)), photons=1e4, detection="intensity", frame_rate_hz=1e3)
    camera = camera.replace(read_noise_e=200.0, dark_current=1e-12, well_depth_e=1e6)
    dark = 1e-12 / (1e3 * ELECTRON_C)
    assert abs(ratio(camera) - decibel(1e8 / (1e4 + dark + 200**2))) < 0.25
