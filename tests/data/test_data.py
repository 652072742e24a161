import shutil
from pathlib import Path

import numpy as np
import pytest

from fourier_attn import config, data
from fourier_attn.data import reading, tasks
from fourier_attn.data.checks import check_task
from fourier_attn.data.examples import Examples
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.sources import reviews


def settings(data_dir: str, **changes: object) -> DataConfig:
    return config.with_values(config.default().data, {"dir": data_dir} | changes)


@pytest.mark.slow
def test_reviews_are_as_many_as_stated_and_no_two_are_the_same(data_dir: str) -> None:
    examples = reading.read(settings(data_dir))
    assert {name: len(split) for name, split in examples.items()} == reviews.SPLITS
    texts = [text for split in examples.values() for text in split.texts]
    assert len(set(texts)) == len(texts)
    assert not examples["test"].in_train.any()
    for split in examples.values():
        assert 0.45 < split.labels.mean() < 0.55


@pytest.mark.slow
def test_reviews_are_the_same_on_every_machine(data_dir: str, tmp_path: Path) -> None:
    reviews.builder(str(tmp_path)).download_and_prepare()
    again, first = reading.read(settings(str(tmp_path))), reading.read(settings(data_dir))
    assert again["test"].texts == first["test"].texts


def test_no_word_tells_the_label_of_a_synthetic_review(data_dir: str) -> None:
    """The best guess from any one word is right for fewer than 3 of 4 of the reviews that have it."""
    examples = reading.read(settings(data_dir))["train"]
    labels = examples.labels
    words = [set(text.split()) for text in examples.texts]
    for word in set().union(*words):
        having = np.array([word in bag for bag in words])
        if having.sum() > 100:
            assert 0.25 < labels[having].mean() < 0.75, word


def test_holdout_is_a_seeded_part_of_train(data_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks.Task("synthetic_reviews", reviews.LABELS, builder=reviews.builder)
    monkeypatch.setitem(tasks.TASKS, "reviews", task)
    first, again, other = (reading.read(settings(data_dir, split_seed=seed)) for seed in (0, 0, 1))
    assert (len(first["train"]), len(first["validation"])) == (6400, 1600)
    assert not set(first["train"].texts) & set(first["validation"].texts)
    assert first["validation"].texts == again["validation"].texts != other["validation"].texts
    with pytest.raises(ValueError, match=r"data.holdout=1.0 must lie between 0 and 1"):
        reading.read(settings(data_dir, holdout=1.0))


def test_a_test_text_that_is_also_in_train_is_marked(data_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = reading.read_split

    def with_copy(builder: object, split: str, texts: tuple[str, ...], *more: object) -> Examples:
        examples = read(builder, split, texts, *more)
        if split == "test":
            examples.texts[7] = read(builder, "train", texts).texts[3].upper().replace(" .", "!!")
        return examples

    monkeypatch.setattr(reading, "read_split", with_copy)
    assert np.flatnonzero(reading.read(settings(data_dir))["test"].in_train).tolist() == [7]


def test_buckets_and_tokenizer_of_a_task(data_dir: str, tmp_path: Path) -> None:
    splits = data.load(settings(data_dir, length=20, buckets=(16, 64)), directory=tmp_path)
    assert {splits.train[i]["inputs"].shape[1] for i in range(len(splits.train))} == {16, 20}
    again = data.load(settings(data_dir, vocab=5), directory=tmp_path)  # the saved tokenizer is used
    assert again.model == splits.model


def test_unknown_task(data_dir: str) -> None:
    with pytest.raises(
        ValueError, match="data.task='imbd' is unknown; did you mean imdb. Choose one of reviews, imdb"
    ):
        reading.read(settings(data_dir, task="imbd"))


def test_a_data_set_that_cannot_be_had_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*args: object, **kwargs: object) -> None:
        raise ConnectionError("network is unreachable")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    with pytest.raises(
        ValueError, match=r"python -m fourier_attn.data.prepare --dataset=imdb_reviews --source=DIR"
    ):
        reading.read(settings(str(tmp_path), task="imdb"))


@pytest.mark.parametrize("damage", ["shard missing", "shard cut", "info missing"])
def test_a_damaged_data_set_is_named(damage: str, few_reviews: str, tmp_path: Path) -> None:
    shutil.copytree(few_reviews, tmp_path, dirs_exist_ok=True)
    folder = Path(reviews.builder(str(tmp_path)).data_path)
    shard = next(folder.glob("*train*array_record*"))
    if damage == "shard missing":
        shard.unlink()
    elif damage == "shard cut":
        shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
    else:
        (folder / "dataset_info.json").unlink()
    with pytest.raises(ValueError, match="cannot be read.* move this folder and prepare the data set again"):
        reading.read(settings(str(tmp_path)))


@pytest.mark.parametrize(
    ("task", "knob", "value"),
    [
        ("imdb", "flip", True),
        ("imdb", "crop", 4),
        ("pretraining", "mix", "mixup"),
        ("image_files", "text", "words"),
        ("image_files", "label", "kind"),
    ],
)
def test_knobs_of_other_tasks_are_refused(task: str, knob: str, value: object) -> None:
    knobs = config.default("fourier", task).data
    knobs.update({"train": "images"} if task == "image_files" else {})
    check_task(knobs)
    knobs[knob] = value
    with pytest.raises(
        ValueError, match=f"data.{knob}={value!r} has no effect for task '{task}'; leave it out"
    ):
        check_task(knobs)
