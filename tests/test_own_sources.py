"""Own data from elsewhere than tables of text: folders of images, columns of Arrow, data sets of TFDS."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fourier_attn import config, data
from fourier_attn.data import own
from fourier_attn.data.sources import tables

pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")


def test_images_in_folders(tmp_path: Path) -> None:
    for number in range(20):
        folder = tmp_path / "train" / ("cat", "dog")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 7), (number, 0, 0)).save(folder / f"{number}.png")
    settings = config.default("attention", "image_files").data
    settings.update({"train": str(tmp_path / "train"), "image_size": 8})
    splits = data.load(settings, directory=tmp_path)
    assert splits.knobs == {"labels": ("cat", "dog")}
    assert splits.train.rows.shape == (16, 8, 8, 3)
    for split in (splits.train, splits.validation, splits.test):
        np.testing.assert_array_equal(split.rows[:, 0, 0, 0] % 2, split.labels)
    (tmp_path / "train" / ".thumbnails").mkdir()
    (tmp_path / "train" / ".thumbnails" / "x.png").write_bytes(b"none")
    assert len(data.load(settings, directory=tmp_path).train.rows) == 16
    (tmp_path / "train" / "cat" / "x.png").write_bytes(b"none")
    with pytest.raises(ValueError, match="x.png cannot be used"):
        data.load(settings, directory=tmp_path)


def test_parquet_and_arrow_are_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import ipc, parquet

    values = pyarrow.table({"text": [f"text {i}" for i in range(10)], "label": [0, 1] * 5})
    parquet.write_table(values, tmp_path / "a.parquet")
    with ipc.new_stream(tmp_path / "a.arrow", values.schema) as file:
        file.write_table(values)
    for name in ("a.parquet", "a.arrow"):
        rows = [row.values for row in tables.rows(tmp_path / name)]
        assert rows == values.to_pylist()


def test_a_folder_of_a_split_is_read_with_its_classes(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = tmp_path / "train"
    folder.mkdir()
    for number in (0, 1):
        values = pyarrow.table({"text": [f"text {i}" for i in range(number, 20, 2)], "label": [number] * 10})
        parquet.write_table(values, folder / f"data-{number}.parquet")
    features = {"text": {"dtype": "string"}, "label": {"names": ["bad", "good"]}}
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    settings = config.default("fourier", "files").data
    settings.update({"train": str(folder), "vocab": 200})
    found = own.read(settings)
    assert found.labels == ("bad", "good")
    for part in found.parts.values():
        np.testing.assert_array_equal(part.labels, part.rows >= 10)
    settings.train = str(tmp_path)
    with pytest.raises(ValueError, match="is a folder without .parquet or .arrow files"):
        own.read(settings)


def test_any_tfds_data_set(few_reviews: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fourier_attn.data import reading
    from fourier_attn.data.sources import reviews

    builder = reviews.builder(few_reviews)
    monkeypatch.setattr(reading, "prepared", lambda *given: builder)
    settings = config.default("fourier", "tfds").data
    settings.update({"dataset": "synthetic_reviews", "dir": few_reviews, "vocab": 200})
    splits = data.load(settings, directory=tmp_path)
    assert splits.knobs["labels"] == reviews.LABELS
    assert [len(split.rows) for split in (splits.train, splits.validation, splits.test)] == [200, 64, 200]
    settings.update({"labels": (), "validation": "test"})
    with pytest.raises(ValueError, match="are train, test, test; name different splits"):
        data.load(settings, directory=tmp_path)


def test_splits_of_a_tfds_data_set_by_other_names(
    few_reviews: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is what it is named as, whatever its own name, and whatever an earlier start has kept."""
    from fourier_attn.data import kept, reading
    from fourier_attn.data.sources import reviews

    place = Path(shutil.copytree(few_reviews, tmp_path / "data", ignore=shutil.ignore_patterns(kept.FOLDER)))
    for room in (reading, kept):
        monkeypatch.setattr(room, "prepared", lambda *given: reviews.builder(str(place)))

    def found(**given: str) -> dict[str, list[bytes]]:
        settings = config.default("fourier", "tfds").data
        settings.update({"dataset": "synthetic_reviews", "dir": str(place), "tokenizer": "words", **given})
        splits = data.load(settings, directory=tmp_path)  # the first one fits the tokenizer
        return {
            role: sorted(np.asarray(row).tobytes() for row in getattr(splits, role).rows)
            for role in own.SPLITS
        }

    plain = found()
    swapped = found(train="validation", validation="train")
    assert swapped == plain | {"train": plain["validation"], "validation": plain["train"]}
    assert found(train="test", test="train") == plain | {
        "train": plain["test"],
        "test": plain["train"],
    }
    held = found(test="validation")  # which is none for validation, then
    assert held["test"] == plain["validation"]
    assert len(held["validation"]) == 40
