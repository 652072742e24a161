"""A device is found from the files of a bench, judged on probes that were held out, and used as an engine."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import run_here
from optical import KEY, dft

from fourier_attn.optics import Engine
from fourier_attn.optics.camera import photon_transfer
from fourier_attn.optics.conventions import Reading, fit, ideal, standard
from fourier_attn.optics.device_fit import aligned, device_arrays, fit_device
from fourier_attn.optics.phase_retrieval import retrieve_phases
from fourier_attn.optics.recordings import Recording, read_drives, read_frames, read_recording
from fourier_attn.studies.engine import fit as study

GAIN, READ, LASER = 2.0, 6.0, 0.02  # electrons per count, electrons, relative


def random_transfer(pixels: int, seed: int = 0) -> np.ndarray:
    """A unitary matrix times errors of 5 % at its detectors."""
    rng = np.random.default_rng(seed)
    unitary = np.linalg.qr(rng.normal(size=(pixels, pixels)) + 1j * rng.normal(size=(pixels, pixels)))[0]
    return unitary * (1 + 0.05 * rng.normal(size=pixels))


def random_probes(shots: int, pixels: int, seed: int = 1) -> np.ndarray:
    """Fields of random phases."""
    return np.exp(2j * np.pi * np.random.default_rng(seed).random((shots, pixels)))


def counts(power: np.ndarray, photons: float, seed: int = 2, read: float = 0.0) -> np.ndarray:
    """What a camera reads of light of so many photo-electrons at power 1."""
    rng = np.random.default_rng(seed)
    return (rng.poisson(photons * power) + read * rng.normal(size=power.shape)) / GAIN


def error(found: np.ndarray, transfer: np.ndarray, per_column: bool = True) -> float:
    """Of a matrix, relative; up to the phases of columns."""
    if per_column:
        found = found * np.exp(-1j * np.angle(np.sum(transfer.conj() * found, axis=0)))
    return float(np.linalg.norm(found - transfer) / np.linalg.norm(transfer))


def frames(shots: int = 100, pixels: int = 100, seed: int = 3, laser: float = LASER) -> np.ndarray:
    """Of a ramp from dark to 2,000 electrons, rounded, with a black level of 100 counts."""
    rng = np.random.default_rng(seed)
    electrons = np.linspace(0, 2000, pixels) * (1 + laser * rng.normal(size=(shots, 1)))
    return np.round((rng.poisson(electrons) + READ * rng.normal(size=(shots, pixels))) / GAIN + 100)


@pytest.mark.parametrize("pixels", [9, 25])
def test_a_matrix_is_recovered_from_noiseless_intensities(pixels: int) -> None:
    """At the fewest shots, four per unknown, also of detectors where plain projections stagnate."""
    side = math.isqrt(pixels)
    for transfer in (random_transfer(pixels), ideal(np.arange(pixels), (side, side), "2d", False)):
        probes = random_probes(4 * pixels, pixels)
        found = retrieve_phases(probes, np.abs(probes @ transfer) ** 2)
        assert error(found, transfer) < 1e-6


def test_a_reference_beam_fixes_the_phases_between_detectors() -> None:
    transfer, probes = random_transfer(9), random_probes(80, 9)
    beam = random_probes(80, 1, seed=5)
    response = np.random.default_rng(6).uniform(0.5, 2.0, (1, 9))
    written = np.hstack([probes, beam])
    found = retrieve_phases(written, np.abs(written @ np.vstack([transfer, response])) ** 2, reference=-1)
    assert error(found[:-1], transfer, per_column=False) < 1e-6
    np.testing.assert_allclose(found[-1], response[0], atol=1e-6)


def test_errors_fall_with_the_root_of_the_photons() -> None:
    transfer, probes = random_transfer(16), random_probes(160, 16)
    power = np.abs(probes @ transfer) ** 2
    errors = [
        error(retrieve_phases(probes, counts(power, n)) * (GAIN / n) ** 0.5, transfer) for n in (1e3, 1e5)
    ]
    assert abs(errors[0] / errors[1] - 10) < 1  # of 512 real numbers the ratio has a deviation of 5 %


def test_held_out_probes_fit_as_well_as_noise_allows() -> None:
    """Signal over error is that of the noise and of the fit, with the noise from the frames of a camera."""
    transfer, probes = random_transfer(16), random_probes(160, 16)
    readings = counts(np.abs(probes @ transfer) ** 2, 1e3, read=READ)
    noise = photon_transfer(frames(laser=0.0), black_level=100.0)
    found = fit_device(Recording(probes, readings), (4, 4), noise=noise)
    exact = np.abs(probes @ transfer) ** 2
    theory = 10 * math.log10(np.sum(exact**2) / np.sum((exact + READ**2 / 1e3) / 1e3))
    assert found.floor_db is not None
    assert abs(found.floor_db - theory) < 0.5
    assert abs(found.held_out_db - found.expected_db) < 1  # of 512 readings
    assert found.expected_db < found.floor_db < found.fitted_db
    assert found.sound
    assert abs(noise.gain * found.unit / (1e3 * np.sum(np.abs(transfer) ** 2) / 16) - 1) < 0.05
    unknown = fit_device(Recording(probes, readings), (4, 4))
    assert unknown.floor_db is None
    assert abs(unknown.expected_db - found.expected_db) < 1


def test_a_recording_without_noise_is_sound() -> None:
    """Iterations end above 100 dB, on other probes than fitted ones a few dB earlier."""
    assert all(fit_device(Recording(GOOD, POWER), (2, 2), seed=seed).sound for seed in range(8))


def test_held_out_probes_detect_a_wrong_fit() -> None:
    """Probes in another order than the readings; and light that is not the square of a superposition."""
    transfer, probes = random_transfer(9), random_probes(150, 9)
    readings = counts(np.abs(probes @ transfer) ** 2, 1e5)
    noise = photon_transfer(frames(), black_level=100.0)
    assert fit_device(Recording(probes, readings), (3, 3), noise=noise).sound
    for wrong in (np.roll(readings, 1, axis=0), readings**0.8):
        found = fit_device(Recording(probes, wrong), (3, 3), noise=noise)
        assert not found.sound
        assert "check the order of probes and pixels" in found.verdict()
    shuffled = fit_device(Recording(probes, np.roll(readings, 1, axis=0)), (3, 3))  # noise unknown
    assert shuffled.held_out_db < 5


def test_a_matrix_that_explains_nothing_is_not_sound() -> None:
    """Fields whose phase drifts from shot to shot: fitted and held-out probes agree, in being wrong."""
    transfer, probes = random_transfer(15), random_probes(90, 15)
    turned = probes @ transfer * random_probes(90, 1, seed=7)
    found = fit_device(Recording(probes, turned), (3, 5))
    assert found.held_out_db > found.expected_db - 3
    assert not found.sound
    assert "The matrix does not explain the readings" in found.verdict()


@pytest.mark.parametrize("change", [0.0, -0.3])
def test_light_that_changes_during_a_recording_is_seen(change: float) -> None:
    """Held-out probes alone agree, since all probes err alike. The fit takes up less than a third."""
    transfer, probes = random_transfer(15), random_probes(120, 15)
    light = 1 + change * np.linspace(-0.5, 0.5, 120)[:, None]
    readings = counts(light * np.abs(probes @ transfer) ** 2, 1e4)
    found = fit_device(Recording(probes, readings), (3, 5))
    assert change - 4 * found.change_error < found.change < 0.67 * change + 4 * found.change_error
    assert found.held_out_db > found.expected_db - 3
    assert found.sound == (change == 0)
    assert ("let the laser warm up" in found.verdict()) == (change != 0)


def test_held_out_ratios_have_their_standard_error() -> None:
    """They scatter over recordings as it says; one probe has none."""
    transfer = random_transfer(9)
    recordings = []
    for seed in range(12):
        probes = random_probes(100, 9, seed=seed)
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=(2, 100, 9)) * 0.1
        recordings.append(Recording(probes, probes @ transfer + noise[0] + 1j * noise[1]))
    found = [fit_device(recording, (3, 3)) for recording in recordings]
    means = np.mean([one.held_out_error_db for one in found if one.held_out_error_db is not None])
    assert 0.5 < np.std([one.held_out_db for one in found]) / means < 1.6
    assert f"+- {found[0].held_out_error_db:.1f} dB" in found[0].verdict()
    assert fit_device(recordings[0], (3, 3), share=1e-3).held_out_error_db is None


def test_shots_of_one_probe_are_held_out_together() -> None:
    """Else a fit is judged by what it has seen; a common phase does not make another probe."""
    probes = np.vstack([random_probes(40, 4), 1j * random_probes(40, 4)])
    recording = Recording(probes, np.abs(probes @ random_transfer(4)) ** 2)
    found = fit_device(recording, (2, 2), share=0.25)
    assert len(found.measured) == 20
    assert len(np.unique(found.measured.round(9), axis=0)) == 10


def test_probes_that_were_measured_twice_are_one_probe() -> None:
    """Measured fields of one pattern differ a little; a mirror of 400 that is turned is another pattern."""
    probes = random_probes(40, 4)
    rng = np.random.default_rng(0)
    noise = 1e-3 * (rng.normal(size=(40, 4)) + 1j * rng.normal(size=(40, 4)))
    twice = Recording(np.vstack([probes, 1j * probes + noise]), np.ones((80, 4)))
    np.testing.assert_array_equal(twice.numbers(), np.tile(np.arange(40), 2))
    mirrors = np.ones((3, 400), complex)
    mirrors[1, 7] = 0
    assert Recording(mirrors, np.ones((3, 400))).numbers().tolist() == [0, 1, 0]


def test_fields_need_no_retrieval() -> None:
    transfer, probes = random_transfer(16), random_probes(120, 16)
    rng = np.random.default_rng(0)
    noise = 0.1 * (rng.normal(size=(120, 16)) + 1j * rng.normal(size=(120, 16)))
    found = fit_device(Recording(probes, probes @ transfer + noise), (4, 4))
    assert abs(found.held_out_db - 10 * math.log10(np.mean(np.abs(probes @ transfer) ** 2) / 0.02)) < 1.2
    assert abs(found.held_out_db - found.expected_db) < 1
    assert found.sound


def test_photon_transfer_is_within_its_standard_errors() -> None:
    """The mean of 40 recordings is unbiased, and the recordings scatter as their errors say."""
    found = [photon_transfer(frames(seed=seed), black_level=100.0) for seed in range(40)]
    rounded = math.sqrt(READ**2 + GAIN**2 / 12)  # a count is rounded
    for name, true in (("gain", GAIN), ("read_noise", rounded), ("laser_rms", LASER)):
        apart = [(getattr(one, name) - true) / getattr(one, f"{name}_error") for one in found]
        assert abs(np.mean(apart)) < 0.6, name  # three deviations are 0.47; errors are estimated, too
        assert 0.6 < np.std(apart) < 1.5, name
    assert photon_transfer(frames(laser=0.0), black_level=100.0).laser_rms == 0.0
    assert found[0].rin_db_hz(1e3) == pytest.approx(20 * math.log10(found[0].laser_rms) - 30)


@pytest.mark.parametrize(
    "reading",
    [
        Reading(),
        Reading(conjugate=True),
        Reading(read_mirrored=True, read_upside_down=True),
        Reading(written_centred=True, read_centred=True),
    ],
)
def test_phases_of_detectors_are_set_in_the_convention_of_the_bench(reading: Reading) -> None:
    """So that the convention of a camera that sees an inverted image is still recognised."""
    exact, rng = ideal(np.arange(16), (4, 4), "2d", False), np.random.default_rng(0)
    measured = np.empty_like(exact)
    places = np.ix_(reading.places((4, 4), read=False), reading.places((4, 4), read=True))
    measured[places] = exact.conj() if reading.conjugate else exact
    found = aligned(measured * np.exp(2j * np.pi * rng.random(16)), (4, 4))
    np.testing.assert_allclose(standard(measured, (4, 4), reading), exact, atol=1e-12)
    np.testing.assert_allclose(np.abs(found), np.abs(measured), atol=1e-12)
    assert fit(found, (4, 4)).best_db > 100


def as_csv(path: Path, columns: dict[str, Any]) -> Path:
    """Writes a table with a header."""
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def shots(path: Path, probes: np.ndarray, readings: np.ndarray, reference: np.ndarray | None = None) -> Path:
    """Writes a recording."""
    columns: dict[str, Any] = {}
    for m, probe in enumerate(probes.T):
        columns |= {f"probe_{m}_re": np.real(probe), f"probe_{m}_im": np.imag(probe)}
    for k, reading in enumerate(readings.T):
        columns[f"intensity_{k}"] = reading
    if reference is not None:
        columns |= {"reference_re": np.real(reference), "reference_im": np.imag(reference)}
    return as_csv(path, columns)


def test_files_of_a_bench_become_an_engine(tmp_path: Path) -> None:
    """The device transforms as the hidden one does, and has its light, its noise and its modulators."""
    transfer, probes = random_transfer(9), random_probes(150, 9)
    beam = np.exp(0.5j * np.pi * np.random.default_rng(5).integers(0, 4, 150))
    response = np.full((1, 9), 1.5)
    power = np.abs(np.column_stack([probes, beam]) @ np.vstack([transfer, response])) ** 2
    recorded = np.round(counts(power, 1e4, read=READ) + 100)
    drives = np.linspace(0, 5, 21) ** 2  # not equally spaced
    words = [
        f"--recording={shots(tmp_path / 'shots.csv', probes, recorded, beam)}",
        f"--frames={as_csv(tmp_path / 'frames.csv', {f'pixel_{n}': c for n, c in enumerate(frames(500).T)})}",
        f"--drive={tmp_path / 'drive.csv'}",
        "--black_level=100",
        "--full_scale=65535",
        "--frame_rate_hz=1e3",
        f"--out={tmp_path / 'device'}",
    ]
    as_csv(tmp_path / "drive.csv", {"drive": drives, "amplitude": drives / 25, "phase_rad": 0 * drives + 0.3})
    code, said, warned = run_here(study, *words)
    assert code == 0, warned
    assert "held out" in said
    assert "signal over error" in warned  # against the exact transform, by which conventions are recognised
    engine = Engine.from_file(tmp_path / "device.npz")
    unit = math.sqrt(np.sum(np.abs(transfer) ** 2) / 9)
    assert error(np.asarray(engine.device.transfer), transfer / unit, per_column=False) < 0.01
    assert engine.receiver.detection == "linear3"
    assert engine.photons == pytest.approx(1e4 * unit**2, rel=0.05)
    assert engine.receiver.lo_ratio == pytest.approx((1.5 / unit) ** 2, rel=0.02)
    assert engine.receiver.read_noise_e == pytest.approx(READ, rel=0.2)
    assert engine.laser.rin_db_hz == pytest.approx(20 * math.log10(LASER) - 30, abs=1)
    assert engine.receiver.well_depth_e == pytest.approx(GAIN * (65535 - 100), rel=0.05)
    np.testing.assert_allclose(np.abs(engine.modulator.drive_table[-1]), 1.0)
    np.testing.assert_allclose(np.abs(engine.modulator.drive_table[128]), 0.5, atol=1e-6)
    x = jax.random.normal(jax.random.key(0), (200, 3, 3))
    whole = np.asarray(dft(jnp.asarray(x), engine, KEY))
    hidden = (np.asarray(x, float).reshape(-1, 9) @ transfer / unit).reshape(-1, 3, 3)
    assert np.linalg.norm(whole - hidden) < 0.1 * np.linalg.norm(
        hidden
    )  # shot noise, with the light of a camera
    code, _, said = run_here(study, *words)
    assert (code, "exists" in said) == (2, True)


def test_an_unsound_fit_is_not_written(tmp_path: Path) -> None:
    probes = random_probes(80, 4)
    readings = np.roll(counts(np.abs(probes @ random_transfer(4)) ** 2, 1e5), 1, axis=0)
    frame = tmp_path / "frames.npy"
    np.save(frame, frames())
    words = [f"--recording={shots(tmp_path / 'shots.csv', probes, readings)}", f"--out={tmp_path / 'device'}"]
    assert "record --frames to tell it from errors that all probes share" in run_here(study, *words)[1]
    words += [f"--frames={frame}", "--full_scale=1e6"]
    code, _, said = run_here(study, *words)
    assert code == 2
    assert "check the order of probes and pixels" in said
    assert not (tmp_path / "device.npz").exists()
    assert run_here(study, *words, "--keep")[0] == 0
    assert Engine.from_file(tmp_path / "device.npz").receiver.detection == "intensity"


def test_a_matrix_that_amplifies_gets_the_loss_that_makes_it_passive() -> None:
    transfer, probes = random_transfer(9) * np.linspace(0.5, 1.5, 9), random_probes(60, 9)
    arrays = device_arrays(fit_device(Recording(probes, probes @ transfer), (3, 3)), (3, 3), "hybrid90")
    largest = np.linalg.norm(arrays["transfer"], 2)
    assert arrays["insertion_loss_db"] == pytest.approx(20 * math.log10(largest))
    parameters = {name: value for name, value in arrays.items() if name != "transfer"}
    assert Engine.from_measured(arrays["transfer"], **parameters).device.transmission < 0.8


GOOD = random_probes(40, 4)
POWER = np.abs(GOOD @ random_transfer(4)) ** 2


def changed(values: np.ndarray, place: Any, value: float) -> np.ndarray:
    """A copy with other values at a place."""
    values = values.copy()
    values[place] = value
    return values


BAD_SHOTS: dict[str, tuple[np.ndarray, np.ndarray, str]] = {
    "few": (
        GOOD[:10],
        POWER[:10],
        "has 10 different probes; 4 unknown numbers per detector need at least 17",
    ),
    "repeated": (GOOD[:1].repeat(40, 0), POWER, "has 1 different probes"),
    "dependent": (changed(GOOD, np.s_[:, 1], 0.5), POWER * 1.0, "linearly dependent, of rank 3 with 4"),
    "not finite": (
        GOOD,
        changed(POWER, (3, 2), np.nan),
        "intensity_2 is 'nan' in row 4, which is not a finite",
    ),
    "negative": (GOOD, changed(POWER, (3, 2), -1.0), "intensity_2 is -1 in shot 3, below 0; save counts as"),
    "saturated": (GOOD, np.minimum(POWER * 1000, 1023), "counts are at the camera's maximum 1023"),
    "amplitude": (2 * GOOD, POWER, "has the amplitude 2, and 1 is full transmission; divide all probes by 2"),
    "real": (1j * np.real(GOOD), POWER, "a matrix and its conjugate give the same intensities; write"),
    "sizes": (GOOD, POWER[:, :3], "has 4 written pixels and 3 detectors; crop or bin"),
    "cut off": (
        GOOD,
        np.minimum(np.round(POWER * 1000), 900),
        "counts are equal to the largest one, 900, so that the camera seems to cut off",
    ),
    "stuck": (GOOD, changed(POWER, np.s_[:, 1], 0.7), "intensity_1 has the size 0.7 in all shots"),
    "dark": (GOOD, changed(POWER, np.s_[:, 1], 0.0), "intensity_1 has no light above the black level"),
}


@pytest.mark.parametrize("name", BAD_SHOTS)
def test_bad_recordings_are_refused_with_the_cure(name: str, tmp_path: Path) -> None:
    probes, readings, message = BAD_SHOTS[name]
    if name == "dependent":
        probes = probes.copy()
        probes[:, 1] = 0.5 * probes[:, 0]
    file = shots(tmp_path / "shots.csv", probes, readings)
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        read_recording(file)
    assert str(file) in str(refused.value)


BAD_FILES: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "ragged": (
        read_recording,
        "probe_0_re,probe_0_im,intensity_0\n1,0,2\n1,0\n",
        "row 2 has 2 columns, and the",
    ),
    "missing": (
        read_recording,
        "probe_0_re,intensity_0\n1,2\n",
        "has no column probe_0_im; number pixels from 0",
    ),
    "unknown": (
        read_recording,
        "probe_0_re,photo_0\n1,2\n",
        "has the column 'photo_0'; columns are probe_0_re",
    ),
    "both": (
        read_recording,
        "probe_0_re,probe_0_im,intensity_0,field_0_re,field_0_im\n1,0,1,1,0\n",
        "must have either intensity_0, .. or field_0_re",
    ),
    "empty": (read_recording, "probe_0_re,probe_0_im,intensity_0\n", "has no rows below its header"),
    "falling": (
        read_drives,
        "drive,amplitude,phase_rad\n0,0,0\n1,0.6,0\n2,0.5,0\n",
        "is not monotone: amplitude=0.5 in row 3 follows 0.6; sort the rows by drive",
    ),
    "unsorted": (
        read_drives,
        "drive,amplitude,phase_rad\n0,0,0\n2,0.6,0\n1,0.7,0\n",
        "is not monotone: drive=1 in row 3 follows 2",
    ),
    "decimals": (
        read_recording,
        "probe_0_re;probe_0_im;intensity_0\n1;0;0,25\n",
        "intensity_0 is '0,25' in row 1, which is not a finite number; write decimals with a point",
    ),
    "complex": (
        read_recording,
        "probe_0,intensity_0\n(0.5-0.5j),2\n",
        "write its real and imaginary part into the columns probe_0_re and probe_0_im",
    ),
    "bright": (
        read_drives,
        "drive,amplitude,phase_rad\n0,0,0\n1,5,0\n",
        "amplitude=5, and 1 is full transmission; divide all amplitudes by 5",
    ),
    "degrees": (
        read_drives,
        "drive,amplitude,phase_rad\n0,0,0\n1,0.5,90\n2,1,180\n",
        "phase_rad turns by 2 rad from drive=0 to 1, too far to be interpolated; convert degrees",
    ),
    "columns": (read_drives, "volts,amplitude\n0,0\n1,1\n", "has the columns volts, amplitude; give drive,"),
    "pixels": (read_frames, "pixel_1,pixel_2\n0,0\n", "has no column pixel_0"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_tables_are_refused_with_the_cure(name: str, tmp_path: Path) -> None:
    read, text, message = BAD_FILES[name]
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        read(tmp_path / "table.csv")


BAD_FRAMES = {
    "one": (frames(1), "has 1 frame of shape (100,); variances need repeated frames"),
    "saturated": (np.minimum(frames(), 1023), "counts are at the camera's maximum 1023"),
    "alike": (frames()[:, -5:], "too alike for a line"),
    "copied": (np.tile(frames(1), (20, 1)), "repeats one frame without any noise; record each frame anew"),
    "cut off": (np.minimum(frames(), 800), "counts are equal to the largest one, 800, so that the camera"),
    "smoothed": (
        frames()[0] + np.random.default_rng(0).normal(size=(100, 100)) * np.linspace(9, 1, 100),
        "variances do not rise with the means",
    ),
    "black": (frames() - 50, "below the black level 100"),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frames_are_refused_with_the_cure(name: str) -> None:
    values, message = BAD_FRAMES[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        photon_transfer(values, black_level=100.0)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_tables_of_other_programs_are_read(separator: str, tmp_path: Path) -> None:
    """With a byte order mark, the line ends of Windows, comments, and a header as numpy.savetxt writes it."""
    plain = shots(tmp_path / "plain.csv", GOOD, POWER)
    expected = read_recording(plain)
    header, *rows = plain.read_text().replace(",", separator).splitlines()
    files = {
        "windows": "\r\n".join(["\ufeff" + header, *rows, ""]),
        "comments": "\n".join(["# 4 pixels, 633 nm", header, *rows]),
        "savetxt": "\n".join(["# 4 pixels, 633 nm", f"# {header}", *rows]),
    }
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode())
        for one, other in zip(read_recording(tmp_path / name)[:2], expected[:2], strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)


def test_options_are_checked_before_the_fit(tmp_path: Path) -> None:
    file = shots(tmp_path / "shots.csv", GOOD, POWER)
    for words, message in (
        (["--frame_rate_hz=1e3"], "gives the device light only together with --frames"),
        (["--frame_rate_hz=0", "--frames=frames.csv"], "--frame_rate_hz=0 must be positive"),
        (["--detection=camera"], "--detection='camera' is unknown; choose"),
        (["--black_level=nan"], "--black_level=nan must be a number of counts"),
    ):
        code, said, err = run_here(study, f"--recording={file}", f"--out={tmp_path / 'device'}", *words)
        assert (code, said, message in err) == (2, "", True), err


def test_arrays_are_read_like_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "shots.npz", probes=GOOD, intensities=POWER)
    columns = read_recording(shots(tmp_path / "shots.csv", GOOD, POWER))
    for one, other in zip(read_recording(tmp_path / "shots.npz")[:2], columns[:2], strict=True):
        np.testing.assert_array_equal(one, other)
    light = read_recording(tmp_path / "shots.npz", black_level=0.25).readings
    np.testing.assert_allclose(light, POWER - 0.25)
    np.savez(tmp_path / "both.npz", probes=GOOD, intensities=POWER, fields=GOOD)
    np.savez(tmp_path / "beam.npz", probes=GOOD, fields=GOOD, reference=GOOD[:, 0])
    for name, message in (
        ("both", "give probes, and either intensities or fields"),
        ("beam", "leave reference out"),
    ):
        with pytest.raises(ValueError, match=message):
            read_recording(tmp_path / f"{name}.npz")
