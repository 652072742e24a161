"""What a start keeps for the next one: found again, made again where it is damaged, never more than that."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import shrink

from fourier_attn import config, data
from fourier_attn.data import cache, reading
from fourier_attn.data.tables import user_tables


@pytest.fixture
def place(few_reviews: str, tmp_path: Path) -> Path:
    """A data directory in which nothing is kept."""
    return Path(shutil.copytree(few_reviews, tmp_path / "data", ignore=shutil.ignore_patterns(cache.FOLDER)))


def load(place: Path, run: Path, **knobs: object) -> tuple[data.Splits, list[str]]:
    run.mkdir(exist_ok=True)
    c, said = shrink(config.default(), str(place)), []
    c.data.update(knobs)
    return data.load(c.data, directory=run, say=said.append), said


def same(a: data.Splits, b: data.Splits) -> bool:
    return a.fingerprints() == b.fingerprints() and np.array_equal(a.in_train, b.in_train)


def test_a_second_start_reads_what_the_first_one_kept(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, said = load(place, tmp_path / "a")
    assert [line.split()[0] for line in said] == ["fitting", "encoding"]
    monkeypatch.setattr(reading, "read", None)  # is not needed any more
    second, said = load(place, tmp_path / "b")
    assert not said
    assert same(first, second)
    assert (tmp_path / "a/tokenizer.json").read_bytes() == (tmp_path / "b/tokenizer.json").read_bytes()
    assert {path.name for path in place.iterdir()} - {"downloads"} == {"synthetic_reviews", cache.FOLDER}


@pytest.mark.parametrize(
    ("knob", "value"),
    [("train_examples", 64), ("split_seed", 1), ("vocab", 50), ("length", 8), ("eval_examples", 5)],
)
def test_other_knobs_have_other_files(place: Path, tmp_path: Path, knob: str, value: int) -> None:
    load(place, tmp_path / "a")
    found, _ = load(place, tmp_path / "b", **{knob: value})
    shutil.rmtree(place / cache.FOLDER)
    fresh, _ = load(place, tmp_path / "c", **{knob: value})
    assert same(found, fresh)


def test_other_data_are_read_again(place: Path, tmp_path: Path) -> None:
    load(place, tmp_path / "a")
    (file, *_) = sorted(place.glob("synthetic_reviews/*/*.array_record*"))
    file.touch()
    assert load(place, tmp_path / "b")[1]


def test_damaged_files_are_made_again(place: Path, tmp_path: Path) -> None:
    first, _ = load(place, tmp_path / "a")
    for path in (place / cache.FOLDER).iterdir():
        contents = bytearray(path.read_bytes())
        contents[len(contents) // 2] ^= 1
        path.write_bytes(contents)
    second, said = load(place, tmp_path / "b")
    assert len(said) == 2
    assert same(first, second)
    assert not load(place, tmp_path / "c")[1]


def test_a_directory_that_takes_nothing_stays_as_it_is(place: Path, tmp_path: Path) -> None:
    (place / cache.FOLDER).write_text("a file, where the folder would be")
    first, _ = load(place, tmp_path / "a")
    second, said = load(place, tmp_path / "b")
    assert len(said) == 2
    assert same(first, second)


@pytest.mark.parametrize("how", ["linked", "open to all"])
def test_a_folder_that_is_not_ours_is_neither_read_nor_written(how: str, place: Path, tmp_path: Path) -> None:
    load(place, tmp_path / "a")
    ours, target = place / cache.FOLDER, tmp_path / "target"
    if how == "linked":
        ours.rename(target)
        ours.symlink_to(target)
    else:
        ours.chmod(0o777)
    before = {path: path.stat().st_mtime_ns for path in ours.iterdir()}
    assert len(load(place, tmp_path / "b", length=9)[1]) == 2
    assert {path: path.stat().st_mtime_ns for path in ours.iterdir()} == before


def test_only_some_are_kept(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST", 2)
    for i, length in enumerate((8, 9, 10, 11)):
        load(place, tmp_path / str(i), length=length)
    names = [path.name.partition("-")[0] for path in (place / cache.FOLDER).iterdir()]
    assert sorted(names) == ["rows", "rows", "tokenizer"]


def write_table(path: Path, last: str = "b") -> Path:
    lines = [f"text number {i},{'ab'[i % 2]}\n" for i in range(59)]
    path.write_text("".join(["text,label\n", *lines, f"text number 59,{last}\n"]))
    return path


def load_table(table: Path, run: Path, **more: Any) -> tuple[data.Splits, list[str]]:
    run.mkdir(exist_ok=True)
    settings, said = config.default("fourier", "files").data, []
    settings.update({"train": str(table), "vocab": 60, **more})
    return data.load(settings, directory=run, say=said.append), said


def test_a_second_start_with_the_same_table_does_not_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write_table(tmp_path / "a.csv")
    first, said = load_table(table, tmp_path / "a")
    assert [line.split()[0] for line in said] == ["fitting", "encoding"]
    monkeypatch.setattr(user_tables, "read", None)  # is not needed any more
    found = {"text": "text", "label": "label", "labels": ("a", "b")}
    for number, more in enumerate(({}, found, {"batch": 8})):  # as a run that goes on has them
        second, said = load_table(table, tmp_path / f"again{number}", **more)
        assert not said
        assert same(first, second)
        assert (second.knobs, second.notes) == (first.knobs, first.notes)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / cache.FOLDER).iterdir()}
    assert modes == {0o600}  # texts may be private


def test_a_table_that_has_changed_is_read_again(tmp_path: Path) -> None:
    """Also where its size and its time are those of before."""
    table = write_table(tmp_path / "a.csv")
    before = table.stat()
    first, _ = load_table(table, tmp_path / "a")
    write_table(table, last="a")
    os.utime(table, ns=(before.st_atime_ns, before.st_mtime_ns))
    second, said = load_table(table, tmp_path / "b")
    assert len(said) == 2
    assert not same(first, second)
    other = write_table(tmp_path / "b.csv")
    assert load_table(table, tmp_path / "c", validation=str(other))[1]
    other.write_text(other.read_text() + "one more,a\n")
    assert load_table(table, tmp_path / "d", validation=str(other))[1]


@pytest.mark.parametrize(
    "more",
    [{"labels": ("b", "a")}, {"holdout": 0.3}, {"length": 4}, {"train_examples": 20}, {"split_seed": 1}],
)
def test_other_knobs_of_tables_have_other_files(tmp_path: Path, more: dict[str, Any]) -> None:
    table = write_table(tmp_path / "a.csv")
    load_table(table, tmp_path / "a")
    found, _ = load_table(table, tmp_path / "b", **more)
    shutil.rmtree(tmp_path / cache.FOLDER)
    assert same(found, load_table(table, tmp_path / "c", **more)[0])


def test_classes_that_one_run_names_are_no_other_runs(tmp_path: Path) -> None:
    table = write_table(tmp_path / "a.csv")
    for number, (given, expected) in enumerate(
        (((), ("a", "b")), (("b", "a", "c"), ("b", "a", "c")), ((), ("a", "b")), (("b", "a"), ("b", "a")))
    ):
        found, _ = load_table(table, tmp_path / f"run{number}", labels=given)
        assert found.knobs["labels"] == expected


def test_a_table_that_changes_while_it_is_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, read = write_table(tmp_path / "a.csv"), user_tables.read

    def slowly(settings: Any) -> user_tables.Tables:
        found = read(settings)
        write_table(table, last="a")
        return found

    monkeypatch.setattr(user_tables, "read", slowly)
    with pytest.raises(ValueError, match="a table changed while it was read"):
        load_table(table, tmp_path / "a")
    assert [path.name for path in (tmp_path / cache.FOLDER).glob("rows-*")] == []
