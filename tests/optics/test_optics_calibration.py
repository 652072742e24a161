"""Calibration recovers what is hidden, as well as noise and levels allow; measured devices are engines."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import normal, run_here
from optical import KEY, dft, exact, made, snr

from evidence.pages.engine_errors import calibration_table
from evidence.pages.markdown import Results
from fourier_attn.optics import Engine, calibrate
from fourier_attn.optics.calibration import corrections, passes, residual_db, transfer_matrix
from fourier_attn.optics.drift import recalibration
from fourier_attn.optics.presets import build, preset
from fourier_attn.studies.engine import calibrate as study

STATIC = {
    "static_phase_rms": 0.3,
    "static_gain_rms": 0.1,
    "crosstalk_db": -20.0,
    "shift_pitch": (0.1, 0.05),
    "defocus_rad": 0.3,
    "seed": 77,
}


@pytest.mark.slow
def test_residual_falls_with_light_and_with_probes_down_to_the_levels() -> None:
    """Shot noise alone: 10 dB for ten times the light, and for ten times the probes."""
    device = made(shape=(5, 5), detection="hybrid90", **STATIC)
    few, light, rounds = (
        residual_db(calibrate(device, KEY, photons=photons, probes=probes), device)
        for photons, probes in ((1e3, 4), (1e5, 4), (1e3, 40))
    )
    assert abs(few - light - 20) < 0.5  # of 625 entries the power has a deviation of 0.2 dB
    assert abs(few - rounds - 10) < 0.7
    levels = device.replace(adc_bits=6, dac_bits_amp=6, dac_bits_phase=6)
    floor = [
        residual_db(calibrate(levels, KEY, photons=photons, probes=4), device) for photons in (1e8, 1e10)
    ]
    assert abs(floor[0] - floor[1]) < 0.3
    exactly = calibrate(made(shape=(5, 5), **STATIC), KEY, probes=1)
    assert residual_db(exactly, device) < -100  # single precision, and no noise


def test_a_hidden_device_is_predicted() -> None:
    """The measured model has the ratio of signal to error that the device has, within 0.3 dB."""
    hidden = preset("chip_11x11").replace(shape=(6, 6), **STATIC)
    model = calibrate(hidden, KEY, photons=5e4)
    x = normal(500, 6, 6)
    assert abs(snr(dft(x, model, KEY), exact(x)) - snr(dft(x, hidden, KEY), exact(x))) < 0.3
    unknown = hidden.replace(static_phase_rms=0.02, static_gain_rms=0.01, crosstalk_db=-40.0)
    unknown = unknown.replace(shift_pitch=(0.0, 0.0), defocus_rad=0.0)  # one program with the hidden one
    assert abs(snr(dft(x, unknown, KEY), exact(x)) - snr(dft(x, hidden, KEY), exact(x))) > 10


def test_digital_factors_correct_what_stands_at_pixels() -> None:
    """Patterns, shift and defocus are products with a factor for each pixel; what couples pixels is none."""
    x = normal(200, 6, 6)
    device = made(shape=(6, 6), **(STATIC | {"crosstalk_db": None}))
    model = calibrate(device, KEY, probes=1, corrected=True)
    assert snr(dft(x, corrections(device, model)), exact(x)) > 90
    coupled = made(shape=(6, 6), **STATIC)
    model = calibrate(coupled, KEY, probes=1, corrected=True)
    assert snr(dft(x, corrections(coupled, model)), exact(x)) > snr(dft(x, coupled), exact(x)) + 5


def test_hardware_is_corrected_like_an_emulated_device() -> None:
    """Gains of its pixels, which the factors take away."""
    gains = np.random.default_rng(0).uniform(0.5, 2, (6, 6))

    def hardware(x: np.ndarray) -> np.ndarray:
        return np.fft.fft2(x * gains, norm="ortho").astype(np.complex64)

    device, x = made(shape=(6, 6), backward="surrogate", hardware=hardware), normal(200, 6, 6)
    model = calibrate(device, KEY, probes=1, corrected=True)
    assert snr(dft(x, device), exact(x)) < 20
    assert snr(dft(x, corrections(device, model)), exact(x)) > 90


@pytest.mark.slow
def test_a_leaky_chip_is_brought_to_twenty_five_decibels() -> None:
    """20 dB with drives that do not know the leak; what calibration adds is at most a decibel more."""
    chip, x = preset("chip_11x11"), normal(100, 11, 11)
    leaky = snr(dft(x, chip.replace(compensated=False), KEY), exact(x))
    corrected = snr(dft(x, corrections(chip, calibrate(chip, KEY, corrected=True)), KEY), exact(x))
    assert leaky < 20.5
    assert 24.5 < corrected < 26.5


def test_passes_are_counted() -> None:
    assert passes(made(shape=(5, 5), detection="psi4", averages=2), probes=3) == 3 * 25 * 4 * 2


def leaking(delta: float, drives: int = 257) -> np.ndarray:
    """Transmissions of a Mach-Zehnder modulator with a leak, at drives that turn it by up to pi / 2."""
    b = np.sin(np.pi / 2 * np.linspace(0, 1, drives))
    return b + 1j * delta * np.sqrt(1 - b**2)


def test_a_measured_device_is_the_one_that_was_measured(tmp_path: Path) -> None:
    """Matrix and table from a file give what the parameters give that they were made with."""
    chip = preset("chip_11x11").replace(shape=(4, 4), drive_noise_rms=None)
    chip = chip.replace(dac_bits_amp=None, adc_bits=None)  # a level more or less is no small difference
    path = tmp_path / "device.npz"
    np.savez(path, transfer=transfer_matrix(chip), drive_table=leaking(10 ** (-30 / 20), 4097))
    measured = Engine.from_file(path, like=chip.replace(extinction_db=None, compensated=False))
    x = normal(50, 4, 4)
    np.testing.assert_allclose(dft(x, measured, KEY), dft(x, chip, KEY), atol=1e-5)  # 257 drives: 6e-4
    config = {"shape": (4, 4), "device": {"file": str(path)}}
    np.testing.assert_allclose(
        dft(x, build(config)), dft(x, Engine.from_file(path, like=Engine((4, 4)))), atol=1e-6
    )
    np.save(tmp_path / "alone.npy", transfer_matrix(Engine((4, 4))))
    np.testing.assert_allclose(
        dft(x, Engine.from_file(tmp_path / "alone.npy", shape=(4, 4))), exact(x), atol=1e-5
    )


def test_cameras_and_amplitudes_have_tables() -> None:
    engine = made(shape=(4, 4), encode="amplitude")
    table = np.linspace(0.0, 0.5, 3) ** 2  # straight lines between 0, 1/16 and 1/4
    measured = Engine.from_measured(transfer_matrix(engine), table, like=engine)
    x = jnp.abs(normal(50, 4, 4))
    np.testing.assert_allclose(dft(x, measured), exact(x), atol=1e-5)  # drives are chosen by the table


def test_what_a_matrix_does_not_say_stays(tmp_path: Path) -> None:
    """How often a measured device is calibrated, which costs passes; a drift is not lost, but refused."""
    file = tmp_path / "device.npy"
    np.save(file, transfer_matrix(Engine((4, 4))))
    ageing = {"insertion_loss_db": 3.0, "recalibrate_s": 1e-3, "calibration_probes": 64.0}
    for device in (ageing, ageing | {"static_phase_rms": 0.1}):  # which the matrix has instead
        engine = build({"shape": (4, 4), "device": {"file": str(file)} | device})
        assert engine is not None
        assert {name: getattr(engine.device, name) for name in ageing} == ageing
        assert engine.device.static_phase_rms is None
        assert recalibration(engine) == recalibration(Engine((4, 4)).replace(**ageing)) > 0
    with pytest.raises(ValueError, match="a measured transfer does not drift; leave phase_drift_rms"):
        build({"shape": (4, 4), "device": {"file": str(file), "phase_drift_rms": 0.1}})


BAD = {
    "square": (np.ones((16, 4)), None, "transfer of shape (16, 4) must be a square matrix"),
    "finite": (
        np.full((16, 16), np.nan),
        None,
        "transfer of shape (16, 16) has 256 entries that are not finite",
    ),
    "aperture": (
        np.eye(9),
        None,
        "transfer of shape (9, 9) is not of the aperture (4, 4), which has 16 pixels",
    ),
    "numbers": ("T", None, "transfer must hold numbers"),
    "monotone": (np.eye(16), [0.0, 0.4, 0.3, 1.0], "drive_table is not monotone: 0.3 at place 2 follows 0.4"),
    "short": (np.eye(16), [1.0], "drive_table of shape (1,) must be a row of at least two transmissions"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_measurements_are_named(name: str) -> None:
    transfer, table, message = BAD[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        Engine.from_measured(transfer, table, shape=(4, 4))


def test_bad_files_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", matrix=np.eye(16))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "text.npz").write_text("no archive")
    messages = {
        "other.npz": "no `transfer`",
        "objects.npy": "Object arrays",
        "none.npz": "No such",
        "text.npz": "is not a readable measured device",
    }
    np.savez_compressed(tmp_path / "damaged.npz", transfer=np.eye(16))
    damaged = bytearray((tmp_path / "damaged.npz").read_bytes())
    damaged[62] ^= 0xFF  # where the packed numbers begin
    (tmp_path / "damaged.npz").write_bytes(damaged)
    messages["damaged.npz"] = "invalid code lengths"
    for name, message in messages.items():
        with pytest.raises(ValueError, match=message) as error:
            build({"shape": (4, 4), "device": {"file": str(tmp_path / name)}})
        assert f"device.file={tmp_path / name}" in str(error.value)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--photons=0", "--photons=0 must be positive"),
        ("--phase=much", "--phase=much must be numbers"),
        ("--gain=0.1", "--phase=[0.3, 0.02] and --gain=[0.1] must be pairs"),
        ("--workdir=runs", "--workdir and --init_from go together"),
        ("--detections=eyes", "detection='eyes'"),
    ],
)
def test_a_study_that_cannot_be_is_named(option: str, message: str, tmp_path: Path) -> None:
    code, _, said = run_here(study, option, f"--out={tmp_path / 'calibrate'}")
    assert code == 2
    assert message in said


@pytest.mark.slow
def test_a_study_of_calibration(tmp_path: Path) -> None:
    """Its rows are what calibration finds, and its table says so."""
    (tmp_path / "results").mkdir()
    words = ["--engine=chip_11x11", "--photons=1e5", "--phase=0.3", "--gain=0.1", "--detections=hybrid90"]
    code, _, said = run_here(study, *words, "--probes=4", f"--out={tmp_path / 'results' / 'calibrate'}")
    assert code == 0, said
    (row,) = Results(tmp_path).document("calibrate")["rows"]
    assert row["residual_db"] < -30
    assert abs(row["predicted_db"] - row["hidden_db"]) < 0.3
    assert row["corrected_db"] > row["hidden_db"] + 10
    text = calibration_table(Results(tmp_path), "calibrate")
    assert f"| 0.3 rad, 0.1 | hybrid90 | 100,000 | {4 * 121} | {row['residual_db']:.1f} |" in text


def test_what_does_nothing_is_refused() -> None:
    measured = Engine.from_measured(np.eye(16), shape=(4, 4))
    with pytest.raises(ValueError, match="defocus_rad=1.0 is a part of the measured transfer"):
        measured.replace(defocus_rad=1.0)
    with pytest.raises(ValueError, match="gain_drift_rms=0.1: a measured transfer does not drift"):
        measured.replace(gain_drift_rms=0.1)
    with pytest.raises(ValueError, match="extinction_db=30.0 is a part of drive_table"):
        Engine.from_measured(np.eye(16), [0.0, 1.0], shape=(4, 4)).replace(extinction_db=30.0)
    with pytest.raises(ValueError, match="calibration writes phases"):
        calibrate(made(shape=(4, 4), encode="amplitude"), KEY)
    with pytest.raises(ValueError, match="probes=0 must be at least 1"):
        calibrate(Engine((4, 4)), KEY, probes=0)
    with pytest.raises(ValueError, match=r"wavelengths=2 and apertures=1: calibration finds one matrix"):
        calibrate(Engine((4, 4)).replace(wavelengths=2), KEY)
    with pytest.raises(ValueError, match=r"file='x.npz' has not been read; use Engine.from_file"):
        dft(jnp.ones((4, 4)), Engine((4, 4)).replace(file="x.npz"))
