"""The files of the user that a configuration names, which no output may replace."""

from pathlib import Path

import pytest

from fourier_attn import config
from fourier_attn.data.own_files import knob_of


@pytest.mark.parametrize(
    ("knobs", "name", "knob"),
    [
        ({"train": "a.csv", "test": "b.csv"}, "b.csv", "test"),
        ({"train": "rows"}, "rows/train-00001-of-00002.parquet", "train"),
        ({"validation": "images"}, "images/ape/1.jsonl", "validation"),
        ({"train": "rows"}, "link.jsonl", "train"),
        ({"train": "rows"}, "rows/link.parquet", "train"),
        ({"task": "tfds", "train": "rows"}, "rows/new.jsonl", ""),
        ({"corpora": ("texts/*.txt",)}, "texts/new.txt", ""),
        ({"train": "a.csv"}, "hard.csv", "train"),
        ({"train": "missing.csv"}, "missing.csv", ""),
        ({"corpora": ("imdb_reviews", "texts/*.txt")}, "texts/2.txt", "corpora"),
        ({"corpora": ("wikitext2",), "exclude": ("b.csv",)}, "b.csv", "exclude"),
        ({"train": "a.csv", "corpora": ("imdb_reviews", "texts/*.txt")}, "texts/2.csv", ""),
        ({"train": "imdb_reviews:test"}, "new.jsonl", ""),
        ({}, "a.csv", ""),
    ],
)
def test_the_knob_of_a_file(
    knobs: dict[str, object], name: str, knob: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in ("a.csv", "b.csv", "rows/train-00001-of-00002.parquet", "images/ape/1.jsonl", "texts/2.txt"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "rows/train-00001-of-00002.parquet")
    (tmp_path / "rows/link.parquet").symlink_to(tmp_path / "b.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "a.csv")
    monkeypatch.chdir(tmp_path)
    part = config.with_values(config.default("fourier", "files").data, knobs)
    assert [knob_of(Path(name), part), knob_of(tmp_path / name, part)] == [knob, knob]
