"""Measured matrices in other conventions are recognised, and files stand wherever a preset's name does."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from conftest import normal
from optical import KEY, dft, made

from fourier_attn.optics import Engine
from fourier_attn.optics.calibration import transfer_matrix
from fourier_attn.optics.conventions import Reading, check_passive, fit, gain, ideal, report, standard
from fourier_attn.optics.parts import Device
from fourier_attn.optics.presets import build, preset, scaled


def device(shape: tuple[int, int]) -> np.ndarray:
    """The matrix of an imperfect device."""
    size = shape[0] * shape[1]
    turned = np.exp(0.1j * np.random.default_rng(0).standard_normal(size))
    return ideal(np.arange(size), shape, "2d", False) * turned


def written(transfer: np.ndarray, shape: tuple[int, int], reading: Reading) -> np.ndarray:
    """A matrix as somebody with another convention has it."""
    found = np.zeros_like(transfer)
    places = (reading.places(shape, read=False), reading.places(shape, read=True))
    found[np.ix_(*places)] = transfer.conj() if reading.conjugate else transfer
    return found


@pytest.mark.parametrize(("lens", "centered"), [("2d", False), ("2d", True), ("1d", False), ("1d", True)])
def test_the_ideal_matrix_is_the_engines(lens: str, centered: bool) -> None:
    engine = made(shape=(3, 4), lens=lens, centered=centered)
    np.testing.assert_allclose(
        ideal(np.arange(12), (3, 4), lens, centered), transfer_matrix(engine), atol=1e-6
    )


@pytest.mark.parametrize("shape", [(4, 4), (3, 5)])
def test_every_convention_is_found_and_named(shape: tuple[int, int]) -> None:
    """Centre, order and sign, with any scale: what is found is the device again."""
    transfer = device(shape)
    plain = fit(transfer, shape)
    assert plain.reading == Reading()
    assert abs(plain.plain_db - 20) < 2
    scales = itertools.cycle((1.0, 4.0, 0.3j))
    for flags, scale in zip(itertools.product((False, True), repeat=5), scales, strict=False):
        odd = scale * written(transfer, shape, Reading(*flags))
        found = fit(odd, shape)
        assert abs(found.best_db - plain.best_db) < 1
        again = standard(odd, shape, found.reading, found.factor)
        assert np.abs(again - transfer).max() < 0.1
    said = report("dev.npz", fit(4 * written(transfer, shape, Reading(True, True, conjugate=True)), shape))
    assert "dB read as" in said
    assert "times 0.2" in said
    assert "Reading(" in said
    assert "conventions" not in report("dev.npz", plain)


def test_optics_do_not_amplify() -> None:
    rng = np.random.default_rng(0)
    for matrix in (rng.standard_normal((9, 9)) + 0j, np.eye(9) + 0j, np.diag(np.arange(9.0)) + 0j):
        np.testing.assert_allclose(gain(matrix), np.linalg.norm(matrix, 2), rtol=0.02)
    check_passive(device((4, 4)), 1.0)
    check_passive(np.diag([0.5, 1.3]) + 0j, 10**-0.3)  # with its loss
    for matrix, loss in ((10 * device((4, 4)), 0.03), (np.diag([0.5, 1.3]) + 0j, 1.0)):
        with pytest.raises(ValueError, match="but optics are passive"):
            check_passive(matrix, loss)
    with pytest.raises(ValueError, match="largest singular value 10, root mean square 10"):
        Engine.from_measured(10 * device((4, 4)), like=preset("chip_11x11").replace(shape=(4, 4)))


@pytest.mark.parametrize("shape", [(4, 4), (3, 5)])
def test_mirrored_axes_are_found(shape: tuple[int, int]) -> None:
    """Rows, columns or both, on either side, with the middle at zero as well."""
    transfer = device(shape)
    for side, (rows, columns), centred in itertools.product(
        ("written", "read"), ((True, False), (False, True), (True, True)), (False, True)
    ):
        flags = {f"{side}_upside_down": rows, f"{side}_mirrored": columns, f"{side}_centred": centred}
        odd = written(transfer, shape, Reading(**flags))
        found = fit(odd, shape)
        again = standard(odd, shape, found.reading, found.factor)
        assert abs(found.best_db - fit(transfer, shape).best_db) < 0.1
        assert np.abs(again - transfer).max() < 0.1 or found.reading.conjugate  # of a pattern of phases
    image = np.arange(16).reshape(4, 4)[:, ::-1].reshape(-1)
    assert "Reading(read_mirrored=True)" in report("dev.npz", fit(device((4, 4))[:, image], (4, 4)))


def test_what_fits_badly_is_not_recommended() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((16, 16)) + 1j * rng.standard_normal((16, 16))
    for matrix in (np.eye(16) + 0j, noise / 6):
        said = report("dev.npz", fit(matrix, (4, 4)))
        assert "no known convention fits" in said
        assert "save" not in said


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (5.623, "and give insertion_loss_db=15: the matrix holds that loss"),
        (4.0, "4 is the root of 16 points, so it is a transform divided by their number"),
        (0.25, ""),
    ],
)
def test_a_factor_above_one_is_loss_or_normalisation(size: float, words: str) -> None:
    said = report("dev.npz", fit(ideal(np.arange(16), (4, 4), "2d", False) / size, (4, 4)))
    assert f"times {size:g}" in said
    assert words in said
    assert ("insertion_loss_db" in said) == (size > 1)


def test_no_way_makes_an_engine_that_amplifies() -> None:
    """Neither of the ways to give a matrix; noise of a calibration may do so by a little."""
    loud = 10 * np.eye(16) + 0j
    for make in (
        lambda: Engine(shape=(4, 4)).replace(transfer=loud),
        lambda: Device(transfer=loud),
        lambda: Engine.from_measured(loud),
        lambda: Engine.from_measured(loud / 10, like=Engine(shape=(4, 4))).replace(transfer=loud),
        lambda: Engine.from_measured(3 * np.diag([1.0, 0, 0, 0]), insertion_loss_db=3.0),
    ):
        with pytest.raises(ValueError, match="but optics are passive"):
            make()
    noisy = Engine.with_transfer(1.2 * np.eye(16))
    assert noisy.replace(averages=2).replace(insertion_loss_db=0.1).averages == 2
    with pytest.raises(ValueError, match="but optics are passive"):
        noisy.replace(transfer=noisy.device.transfer.copy())
    with pytest.raises(ValueError, match="drive_table has the amplitude 100: modulators pass no more"):
        Engine.from_measured(np.eye(16), np.linspace(0, 100, 16), shape=(4, 4))


def test_a_file_stands_where_a_preset_does(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Alone, with a preset's modulators and receiver, and with parameters of its own."""
    transfer = device((4, 4))
    file = str(tmp_path / "dev.npz")
    np.savez(file, transfer=transfer)
    engine = preset(file)
    assert (engine.shape, engine.device.file, engine.noisy) == ((4, 4), file, False)
    x = normal(5, 4, 4)
    expected = (np.asarray(x).reshape(5, 16) @ transfer).reshape(5, 4, 4)
    np.testing.assert_allclose(dft(x, engine), expected, atol=1e-5)
    assert build(file).device.file == file
    chip = preset(f"chip_11x11:{file}")
    assert (chip.shape, chip.receiver.detection, chip.device.static_phase_rms) == ((4, 4), "hybrid90", None)
    assert scaled(chip, 6, 1.0, 0).receiver.adc_bits == 6
    assert np.isfinite(dft(x, chip, KEY)).all()
    assert capsys.readouterr().err.count("signal over error") == 1
    own = str(tmp_path / "own.npz")
    np.savez(own, transfer=device((2, 8)), shape=(2, 8), detection="hybrid90", adc_bits=7, power_w=1e-5)
    engine = preset(own)
    assert (engine.shape, engine.receiver.adc_bits, engine.laser.power_w) == ((2, 8), 7, 1e-5)
    np.savez(own, transfer=device((2, 8)), bits=7, shape=(2, 8))
    with pytest.raises(ValueError, match="an engine has no bits"):
        preset(own)
    with pytest.raises(ValueError, match="not a readable measured device"):
        preset(str(tmp_path / "none.npz"))
    with pytest.raises(ValueError, match=r"preset='chip' is unknown; .* or the file of a measured device"):
        preset("chip")


def test_another_convention_is_said_at_load(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    np.save(tmp_path / "odd.npy", written(device((4, 4)), (4, 4), Reading(True, True)))
    build({"shape": (4, 4), "device": {"file": str(tmp_path / "odd.npy")}})
    said = capsys.readouterr().err
    assert "odd.npy: signal over error -" in said
    assert "written pixels with zero in the middle, read pixels with zero in the middle" in said
    assert "Reading(written_centred=True, read_centred=True)" in said
    np.save(tmp_path / "loud.npy", 4 * device((4, 4)))
    with pytest.raises(ValueError, match=r"(?s)singular value 4, .*times 0.2"):
        preset(str(tmp_path / "loud.npy"))
