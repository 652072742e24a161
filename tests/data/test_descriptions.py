"""Nothing is imported, and nothing waits, because a file in a data directory says so."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from fourier_attn import config
from fourier_attn.data import corpus, descriptions, prepare, reading, tfds
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.sources import reviews

TEXT = {"pythonClassName": "tensorflow_datasets.core.features.text_feature.Text", "text": {}}
EVIL = {"pythonClassName": "evil.Evil", "tensor": {}}
DICT = "tensorflow_datasets.core.features.features_dict.FeaturesDict"
SEQUENCE = "tensorflow_datasets.core.features.sequence_feature.Sequence"


def of(feature: Any) -> dict[str, Any]:
    """Returns the description of a data set with this feature besides a text."""
    return {"pythonClassName": DICT, "featuresDict": {"features": {"text": TEXT, "x": feature}}}


HOSTILE = {
    "itself": {"features.json": EVIL},
    "nested": {"features.json": of({"pythonClassName": SEQUENCE, "sequence": {"feature": EVIL}})},
    "snake case": {"features.json": of({"python_class_name": "evil.Evil"})},
    "before 4.4": {"features.json": {"type": DICT, "content": {"x": {"type": "evil.Evil", "content": {}}}}},
    "text as JSON": {
        "features.json": of({
            "pythonClassName": SEQUENCE,
            "jsonFeature": {"json": json.dumps({"feature": {"type": "evil.Evil", "content": {}}})},
        })
    },
    "within TFDS": {"features.json": of({"pythonClassName": "tensorflow_datasets.core.features.evil.Evil"})},
    "data set": {"features.json": of(TEXT), "dataset_info.json": {"features": of(EVIL)}},
}  # fmt: skip


def plant(root: Path, dataset: str, contents: dict[str, Any]) -> Path:
    """Writes a prepared data set that has these descriptions."""
    folder = root / dataset / "1.0.0"
    folder.mkdir(parents=True)
    shards = {"name": "train", "shardLengths": ["3"], "numBytes": "9"}
    info = {"name": dataset, "version": "1.0.0", "fileFormat": "array_record", "splits": [shards]}
    for name in descriptions.DESCRIPTIONS:
        known = contents.get(name, {})
        value = info | known if name == "dataset_info.json" else known
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return folder


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Gives the file that the module `evil`, which can be imported, writes when it is."""
    mark = tmp_path / "imported"
    (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w').close()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    return mark


@pytest.mark.parametrize("contents", HOSTILE.values(), ids=HOSTILE)
def test_a_description_that_names_code_is_refused(
    contents: dict[str, Any], tmp_path: Path, imported: Path
) -> None:
    plant(tmp_path, "x", contents)
    with pytest.raises(ValueError, match=r"names the class '.*[eE]vil', which is not a TFDS feature"):
        tfds.prepared("x", str(tmp_path))
    assert not imported.exists()


def of_x(root: str) -> DataConfig:
    """Returns the configuration of the data set x."""
    data = config.default(task="tfds").data
    data.dataset, data.dir = "x", root
    return data


DOORS = {
    "check_available": lambda root: reading.check_available(of_x(root)),
    "columns": lambda root: reading.tfds_knobs(of_x(root)),
    "camel case": lambda root: tfds.tfds_builder("X", root),
    "corpus": lambda root: corpus.dataset_of("x:train", root),
    "exclude": lambda root: corpus.dataset_of("x", root),
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_every_door_reads_the_description_first(door: Any, tmp_path: Path, imported: Path) -> None:
    plant(tmp_path, "x", HOSTILE["itself"])
    with pytest.raises(ValueError, match=r"evil\.Evil"):
        door(str(tmp_path))
    assert not imported.exists()


def test_a_known_data_set_has_no_other_door(tmp_path: Path, imported: Path) -> None:
    for dataset in ("imdb_reviews", "synthetic_reviews"):
        plant(tmp_path, dataset, HOSTILE["itself"])
    (tmp_path / "source").mkdir()
    with pytest.raises(ValueError, match=r"evil\.Evil"):
        prepare.prepare("imdb_reviews", tmp_path / "source", str(tmp_path))
    with pytest.raises(ValueError, match=r"evil\.Evil"):
        tfds.prepared("synthetic_reviews", str(tmp_path), reviews.builder)
    assert not imported.exists()


@pytest.mark.parametrize("name", descriptions.DESCRIPTIONS)
@pytest.mark.parametrize("kind", ["pipe", "link", "not JSON", "deep"])
def test_a_description_is_a_regular_file_of_json(kind: str, name: str, tmp_path: Path) -> None:
    path = plant(tmp_path, "x", {"features.json": of(TEXT)}) / name
    path.rename(tmp_path / "kept")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(tmp_path / "kept")
    else:
        path.write_text("[" * 100_000 if kind == "deep" else "none", encoding="utf-8")
    with pytest.raises(ValueError, match=f"{name} is "):
        tfds.prepared("x", str(tmp_path))


@pytest.mark.parametrize(
    ("place", "default"), [("x/a/b", "a/b"), ("y", "../y"), ("x/a/b", "a//b"), ("", "..")]
)
def test_the_default_configuration_is_a_folder_that_is_checked(
    place: str, default: str, tmp_path: Path, imported: Path
) -> None:
    plant(tmp_path, place, HOSTILE["itself"])
    (tmp_path / "x" / ".config").mkdir(parents=True, exist_ok=True)
    metadata = tmp_path / "x" / ".config" / "metadata.json"
    metadata.write_text(json.dumps({"default_config_name": default}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"metadata.json has the default configuration .*, which is not"):
        tfds.tfds_builder("x", str(tmp_path))
    metadata.write_text(json.dumps({"default_config_name": None}), encoding="utf-8")
    descriptions.check_descriptions("x", str(tmp_path))
    assert not imported.exists()


@pytest.mark.parametrize("dataset", ["x", "x/incomplete.A"])
def test_only_the_folder_of_a_version_is_skipped(dataset: str, tmp_path: Path, imported: Path) -> None:
    plant(tmp_path, "x/incomplete.A", HOSTILE["itself"])
    with pytest.raises(ValueError, match=r"evil\.Evil"):
        tfds.tfds_builder(dataset, str(tmp_path))
    assert not imported.exists()


def test_a_folder_may_be_renamed_while_descriptions_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = plant(tmp_path, "x", {"features.json": of(TEXT)})
    unfinished = path.rename(path.with_name("incomplete.ABC123_1.0.0"))
    glob = Path.glob

    def renamed(folder: Path, pattern: str) -> Any:
        if unfinished.exists():
            unfinished.rename(path)
            raise FileNotFoundError(str(unfinished))
        return glob(folder, pattern)

    monkeypatch.setattr(Path, "glob", renamed)
    assert [each.parent for each in descriptions._descriptions(tmp_path / "x")] == [path, path]


def test_a_description_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    """TFDS writes a data set into such a folder, and renames the folder at the end."""
    path = plant(tmp_path, "x", {"features.json": of(TEXT)})
    unfinished = path.with_name(f"incomplete.ABC123_{path.name}")
    unfinished.mkdir()
    (unfinished / "features.json").write_text("{", encoding="utf-8")
    descriptions.check_descriptions("x", str(tmp_path))


def test_own_features_of_tfds_are_read(few_reviews: str, tmp_path: Path) -> None:
    """What TFDS itself writes is taken, also with features that nothing here asks for."""
    descriptions.check_descriptions("synthetic_reviews", few_reviews)
    plant(tmp_path, "x", {"features.json": of({"pythonClassName": SEQUENCE, "sequence": {"feature": TEXT}})})
    features: Any = tfds.tfds_builder("x", str(tmp_path)).info.features
    assert set(features) == {"text", "x"}


@pytest.mark.parametrize(
    ("dataset", "data_dir", "message"),
    [
        ("huggingface:x/y", None, "'huggingface:x/y' is not a TFDS name"),
        ("kaggle:x", None, "'kaggle:x' is not a TFDS name"),
        ("x/../../y", None, "is not a TFDS name"),
        ("x/..", None, "is not a TFDS name"),
        ("x/..:1.0.0", None, "is not a TFDS name"),
        ("x/.", None, "is not a TFDS name"),
        ("x/data_dir=y", None, "is not a TFDS name"),
        ("x", "gs://bucket/data", "gs://bucket/data is a URL"),
    ],
)
def test_nothing_asks_the_network(dataset: str, data_dir: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tfds.tfds_builder(dataset, data_dir)
