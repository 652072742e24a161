"""Own data from elsewhere than tables of text: folders of images, columns of Arrow, data sets of TFDS."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fourier_attn import config, data
from fourier_attn.data.tables import image_folders, user_tables
from fourier_attn.data.tables.rows import read_rows


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
        rows = [row.values for row in read_rows(tmp_path / name)]
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
    found = user_tables.read(settings)
    assert found.labels == ("bad", "good")
    for part in found.parts.values():
        np.testing.assert_array_equal(part.labels, part.rows >= 10)
    settings.train = str(tmp_path)
    with pytest.raises(ValueError, match="is a folder without .parquet or .arrow files"):
        user_tables.read(settings)
    (folder / "dataset_info.json").unlink()
    os.mkfifo(folder / "dataset_info.json")
    settings.train = str(folder)
    with pytest.raises(ValueError, match="dataset_info.json is a named pipe, not a regular file"):
        user_tables.read(settings)


def some(where: Path, *names: str, count: int = 20) -> None:
    """Writes files of Arrow or Parquet, each with its own rows."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import ipc, parquet

    for name in names:
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = {"text": [f"{name} {i}" for i in range(count)], "label": ["x", "y"] * (count // 2)}
        values = pyarrow.table(rows)
        if name.lower().endswith(".parquet"):
            parquet.write_table(values, path)
        else:
            with ipc.new_stream(path, values.schema) as file:
                file.write_table(values)


def state(where: Path, *names: str, **more: Any) -> None:
    (where / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": name} for name in names]} | more)
    )


FOLDERS = {
    "cache": (("d-00000-of-00001.arrow", "cache-1.arrow", "tmp1.arrow"), ("d-00000-of-00001.arrow",), None),
    "cache alone": (("data.arrow", "cache-1.arrow"), (), None),
    "hidden": (("a.parquet", ".b.parquet", "_c.parquet", ".cache/d.parquet"), (), None),
    "capitals": (("A.PARQUET",), (), None),
    "state names another": (("a.arrow",), ("b.arrow",), "lacks b.arrow, which its state.json lists"),
    "state leads out": (("a.arrow",), ("../a.arrow",), "names '../a.arrow', which is not a file next to it"),
    "shard missing": (("train-00000-of-00002.parquet",), (), "has 1 shards of train, but their names say 2"),
    "two copies": (("x-00000-of-00001.parquet", "x-00000-of-00002.parquet"), (), "their names say 1 or 2"),
    "two splits": (("train-00000-of-00001.arrow", "test-00000-of-00001.arrow"), (), "files of test, train"),
    "two splits of a name": (("imdb-train.arrow", "imdb-test.arrow"), (), "files of imdb-test, imdb-train"),
    "two kinds": (("a.parquet", "b.arrow"), (), "has .arrow and .parquet files"),
    "backup": (("a.parquet", "a_backup.parquet"), (), "a_backup.parquet seems to be a copy of another file"),
    "copy": (("a.parquet", "a (1).parquet"), (), r"a \(1\).parquet seems to be a copy of another file"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_the_files_of_a_folder(name: str, tmp_path: Path) -> None:
    there, stated, message = FOLDERS[name]
    some(tmp_path, *there)
    if stated:
        state(tmp_path, *stated)
    settings = config.default("fourier", "files").data
    settings.train = str(tmp_path)
    if message:
        with pytest.raises(ValueError, match=message):
            user_tables.read(settings)
    else:
        assert sum(map(len, user_tables.read(settings).parts.values())) == 20


def test_folders_that_are_no_split(tmp_path: Path) -> None:
    settings = config.default("fourier", "files").data
    settings.train = str(tmp_path)
    some(tmp_path, "train/data.arrow", "test/data.arrow")
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(
        ValueError, match=r"contains the splits test, train; give the folder of one, for example .*test"
    ):
        user_tables.check_available(settings)
    (tmp_path / "dataset_dict.json").unlink()
    some(tmp_path, "a.arrow")
    shutil.copy(tmp_path / "a.arrow", tmp_path / "b.arrow")
    with pytest.raises(ValueError, match=r"b.arrow seems to be a copy of another file \(same contents"):
        user_tables.check_available(settings)
    (tmp_path / "b.arrow").unlink()
    state(tmp_path, "a.arrow", _indices_data_files=[{"filename": "indices.arrow"}])
    with pytest.raises(ValueError, match=r"has a selection of rows .*flatten_indices\(\)"):
        user_tables.check_available(settings)


def test_what_lies_beside_images(tmp_path: Path) -> None:
    """Empty folders are no classes; lists and checksums are not images; a test may be without classes."""
    for number in range(24):
        path = tmp_path / "train" / ("cat", "dog")[number % 2] / f"{number}.PNG"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(path)
    (tmp_path / "train" / "empty").mkdir()
    for name in ("SHA256SUMS.txt", "cat/Thumbs.db", "dog/README"):
        (tmp_path / "train" / name).write_bytes(b"none")
    (tmp_path / "train" / "dog" / "1.PNG").rename(tmp_path / "train" / "dog" / "1")
    (tmp_path / "test").mkdir()
    for number in range(3):
        Image.new("RGB", (8, 8), (number, 9, 0)).save(tmp_path / "test" / f"{number}.png")
    settings = config.default("attention", "image_files").data
    settings.update({"train": str(tmp_path / "train"), "test": str(tmp_path / "test"), "image_size": 8})
    found, chosen, notes = image_folders.read(settings)
    assert chosen == {"labels": ("cat", "dog")}
    assert sum(len(found[split]) for split in ("train", "validation")) == 24
    assert found["test"].labels.tolist() == [-1, -1, -1]
    said = "\n".join(notes)
    for part in (
        "classes cat ",
        "not used as classes: empty",
        "3 files are not images",
        "test has no labels",
    ):
        assert part in said
    settings.labels = ("cat", "dog", "empty")
    assert "train has no rows of the class 'empty'" in "\n".join(image_folders.read(settings)[2])
    settings.validation = str(tmp_path / "test")
    with pytest.raises(ValueError, match=r"data.validation=.*test has no images in subfolders of classes"):
        image_folders.read(settings)


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
    with pytest.raises(ValueError, match="are train, test, test; give different splits"):
        data.load(settings, directory=tmp_path)


def test_splits_of_a_tfds_data_set_by_other_names(
    few_reviews: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is what it is named as, whatever its own name, and whatever an earlier start has kept."""
    from fourier_attn.data import cache, reading
    from fourier_attn.data.sources import reviews

    place = Path(shutil.copytree(few_reviews, tmp_path / "data", ignore=shutil.ignore_patterns(cache.FOLDER)))
    for room in (reading, cache):
        monkeypatch.setattr(room, "prepared", lambda *given: reviews.builder(str(place)))

    def found(**given: str) -> dict[str, list[bytes]]:
        settings = config.default("fourier", "tfds").data
        settings.update({"dataset": "synthetic_reviews", "dir": str(place), "tokenizer": "words", **given})
        splits = data.load(settings, directory=tmp_path)  # the first one fits the tokenizer
        return {
            role: sorted(np.asarray(row).tobytes() for row in getattr(splits, role).rows)
            for role in user_tables.SPLITS
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


def test_a_feature_that_is_no_text_and_examples_without_labels(tmp_path: Path) -> None:
    """The message names the option: the data set itself is sound."""
    import tensorflow_datasets as tfds

    class NumberedSet(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> tfds.core.DatasetInfo:
            label = tfds.features.ClassLabel(names=["x", "y"])
            features = {"text": tfds.features.Text(), "label": label, "n": np.int64, "plain": np.str_}
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

        def _split_generators(self, dl_manager: object) -> dict[str, Any]:
            def rows(hidden: bool) -> Any:
                for i in range(20):
                    label = -1 if hidden else i % 2
                    yield i, {"text": f"text {i}", "label": label, "n": i, "plain": f"plain {i}"}

            return {"train": rows(False), "test": rows(True)}

        def _generate_examples(self) -> None:
            """Unused: `_split_generators` makes the examples."""

    NumberedSet(data_dir=str(tmp_path), file_format="array_record").download_and_prepare()
    given = {"dataset": "numbered_set", "dir": str(tmp_path), "vocab": 200}
    part = config.with_values(config.default("fourier", "tfds").data, given)
    with pytest.raises(
        ValueError, match=r"data.text=n: this feature .*, not a text; give one of text, plain"
    ):
        data.load(config.with_values(part, {"text": "n"}), directory=tmp_path)
    (tmp_path / "run").mkdir()
    named = config.with_values(part, {"text": "plain"})
    assert data.load(named, directory=tmp_path / "run").knobs["text"] == "plain"
    splits = data.load(part, directory=tmp_path)
    assert data.hidden(splits.test.labels)
    with pytest.raises(ValueError, match=r"data.train=test: 20 of 20 examples have no valid label \(-1\)"):
        data.load(config.with_values(part, {"train": "test", "test": "train"}), directory=tmp_path)
