"""The emulated bench writes files that fit it, and studies write what the tables of pages list."""

import json
from pathlib import Path
from types import ModuleType

import jax
import numpy as np
import pytest
from conftest import run_here

from evidence.pages.engine_errors import laboratory_table
from evidence.pages.markdown import Results
from evidence.pages.programs import bounds_table
from fourier_attn.optics.calibration import transfer_matrix
from fourier_attn.optics.recordings import read_drives, read_recording
from fourier_attn.studies.engine import bounds, laboratory, predictions, programs
from fourier_attn.studies.engine.laboratory import BLACK_LEVEL, GAIN, LO_RATIO, PHOTONS, READ_NOISE_E


def test_the_bench_records_its_hidden_device(tmp_path: Path) -> None:
    """Counts are those of the matrix, up to shot noise, read noise and rounding to whole counts."""
    bench = laboratory.Bench(tmp_path)
    recording = read_recording(bench.record("shots.csv", reference=True), black_level=BLACK_LEVEL)
    assert recording.reference is not None
    transfer = transfer_matrix(laboratory.hidden_device())
    light = recording.probes @ transfer + np.sqrt(LO_RATIO) * recording.reference[:, None]
    electrons = PHOTONS * np.abs(light) ** 2
    deviation = np.sqrt(electrons + READ_NOISE_E**2 + GAIN**2 / 12)
    scores = (GAIN * recording.readings - electrons) / deviation
    assert abs(np.mean(scores)) < 5 / np.sqrt(scores.size)
    np.testing.assert_allclose(np.std(scores), 1, rtol=5 / np.sqrt(2 * scores.size))
    leak = np.abs(read_drives(bench.drive("drive.csv"))[0])
    np.testing.assert_allclose(leak, 10 ** (-25 / 20))


@pytest.mark.slow
def test_training_through_a_model_of_the_bench_helps_on_the_bench() -> None:
    """The exact model of the hidden device stands for a fit, which takes long."""
    data, hidden = laboratory.digits(), laboratory.hidden_device()
    assert len(data.test_labels) == 1797 - len(data.labels) == 397
    with jax.numpy_dtype_promotion("standard"):  # which Optax needs
        exact = laboratory.train_exactly(data, steps=60)
        tuned = laboratory.trained(exact, hidden, data, laboratory.TUNING_RATE, steps=30)
        before, after = (np.mean(laboratory.accuracies(params, hidden, data)) for params in (exact, tuned))
    assert before < after - 0.02


@pytest.mark.slow
def test_the_laboratory_is_listed_on_its_page(tmp_path: Path) -> None:
    out = tmp_path / "results" / "laboratory"
    with jax.numpy_dtype_promotion("standard"):
        code, said, err = run_here(laboratory, f"--out={out}")
    assert code == 0, err
    document = json.loads(out.with_suffix(".json").read_text())
    hidden = [row for row in document["rows"] if row["tested_on"] == "hidden device"]
    untrained, through, alone = (row["accuracy"] for row in hidden)
    assert untrained + 0.02 < through
    assert alone < through
    assert f"hidden device     {100 * through:.1f}" in said
    assert f"| hidden device | {100 * through:.1f} |" in laboratory_table(Results(tmp_path), "laboratory")


def test_published_speedups_are_our_bounds(tmp_path: Path) -> None:
    """arXiv 2308.01719: S = 1 / (1 - f)."""
    out = tmp_path / "results" / "bounds"
    code, said, err = run_here(bounds, f"--out={out}")
    assert (code, err) == (0, ""), err
    for row in json.loads(out.with_suffix(".json").read_text())["rows"]:
        np.testing.assert_allclose(row["share"], (row["published"] - 1) / row["published"])
        np.testing.assert_allclose(row["bound"], row["published"], rtol=1e-9)
    assert "| convolution alone | 159.4 | 99.37 | 159.4 |" in bounds_table(Results(tmp_path), "bounds")
    assert "convolution alone            159.4    99.37  159.4" in said


@pytest.mark.parametrize("study", [bounds, laboratory, predictions, programs])
def test_a_name_that_cannot_be_written_is_refused_first(study: ModuleType) -> None:
    """A study takes up to minutes, and a wrong --out must not cost them."""
    code, said, err = run_here(study, "--out=.")
    assert (code, said) == (2, "")
    assert err == "error: --out=. is a folder; add a name for the files, --out=NAME\n"
