import io
import json
import lzma
import tarfile
from pathlib import Path

import pytest
import tensorflow_datasets as tfds
from conftest import SHARED

from fourier_attn import config
from fourier_attn.data import reading
from fourier_attn.data.corpus import read_corpora
from fourier_attn.data.prepare import prepare
from fourier_attn.data.sources import wikitext
from fourier_attn.data.tables.files import letters
from fourier_attn.data.tfds import tfds_builder
from fourier_attn.data.tfds_splits import read_split

ROWS = {
    "train": [
        {"text": f"Train review {i} – été<br />", "label": i % 2, "id": i, "rating": 1 + 8 * (i % 2)}
        for i in range(8)
    ],
    "test": [
        {"text": f"Test review {i}", "label": i % 2, "id": i, "rating": 1 + 8 * (i % 2)} for i in range(4)
    ],
    "unsup": [{"text": f"Unlabelled review {i}", "id": i} for i in range(3)],
}


def jsonl(where: Path, **changes: object) -> Path:
    where.mkdir()
    for split, rows in (ROWS | changes).items():
        with lzma.open(where / f"{split}.jsonl.xz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return where


def folder(where: Path) -> Path:
    for split, rows in ROWS.items():
        for row in rows:
            label = ("neg", "pos")[row["label"]] if "label" in row else "unsup"
            directory = where / "aclImdb" / ("test" if split == "test" else "train") / label
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"{row['id']}_{row.get('rating', 0)}.txt").write_text(row["text"], encoding="utf-8")
    return where


def archive(where: Path) -> Path:
    where.mkdir()
    path = where / "aclImdb_v1.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        file.add(folder(where / "unpacked") / "aclImdb", "aclImdb")
        file.addfile(tarfile.TarInfo("aclImdb/train/pos/9_9.txt.sh"), io.BytesIO())
    return path


def contents(data_dir: Path) -> dict:
    source = tfds.data_source("imdb_reviews", data_dir=data_dir, download=False)
    return {
        split: [(row["text"].decode(), int(row["label"])) for row in rows] for split, rows in source.items()
    }


@pytest.mark.parametrize("make", [jsonl, folder, archive], ids=lambda f: f.__name__)
def test_every_form_gives_the_data_set_of_tfds(make: object, tmp_path: Path) -> None:
    prepare("imdb_reviews", make(tmp_path / "source"), str(tmp_path / "tfds"))
    read = contents(tmp_path / "tfds")
    assert set(read) == {"train", "test", "unsupervised"}
    assert sorted(read["train"]) == sorted((row["text"], row["label"]) for row in ROWS["train"])
    assert sorted(read["test"]) == sorted((row["text"], row["label"]) for row in ROWS["test"])
    assert sorted(read["unsupervised"]) == sorted((row["text"], -1) for row in ROWS["unsup"])


def test_the_form_does_not_change_the_order(tmp_path: Path) -> None:
    for make in (jsonl, folder):
        prepare("imdb_reviews", make(tmp_path / make.__name__), str(tmp_path / f"tfds_{make.__name__}"))
    assert contents(tmp_path / "tfds_jsonl") == contents(tmp_path / "tfds_folder")


def test_a_prepared_data_set_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = jsonl(tmp_path / "source")
    prepare("imdb_reviews", source, str(tmp_path / "tfds"))
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "tfds").rglob("*")}
    prepare("imdb_reviews", source, str(tmp_path / "tfds"))
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "tfds").rglob("*")} == before
    assert "is already in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            b'{"text": "fine", "label": 1}\n{"text": "caf\xe9", "label": 1}\n',
            "train.jsonl, line 2 is not UTF-8",
        ),
        (b'{"text": "no label"}\n', "train.jsonl, line 1 has label=None; give every row a 'label' of 0 or 1"),
        (b'{"text": "odd", "label": 7}\n', "train.jsonl, line 1 has label=7"),
        (b'{"text": "a float", "label": 1.0}\n', "train.jsonl, line 1 has label=1.0"),
        (b'{"label": 1}\n', "train.jsonl, line 1 has no text"),
        (b"no json\n", "train.jsonl, line 1 is not a JSON object"),
        (b"", "split 'train' in .* has no reviews"),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_left(line: bytes, message: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.jsonl").write_bytes(line)
    (source / "test.jsonl").write_text('{"text": "a", "label": 0}\n')
    with pytest.raises(ValueError, match=message):
        prepare("imdb_reviews", source, str(tmp_path / "tfds"))
    assert not list((tmp_path / "tfds").rglob("*.array_record*"))
    with pytest.raises(ValueError, match=message):  # the failed attempt does not count as prepared
        prepare("imdb_reviews", source, str(tmp_path / "tfds"))


def test_a_file_of_the_folder_that_is_not_utf8(tmp_path: Path) -> None:
    source = folder(tmp_path / "source")
    (source / "aclImdb" / "test" / "pos" / "99_9.txt").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"aclImdb/test/pos/99_9.txt is not UTF-8"):
        prepare("imdb_reviews", source, str(tmp_path / "tfds"))


def test_a_source_of_no_known_form(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"source=.*nowhere does not exist"):
        prepare("imdb_reviews", tmp_path / "nowhere", str(tmp_path / "tfds"))
    with pytest.raises(ValueError, match="is not a copy of imdb_reviews; expected the unpacked folder"):
        prepare("imdb_reviews", tmp_path, str(tmp_path / "tfds"))


@pytest.fixture(scope="module")
def real_imdb(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A data directory with the real reviews, where this machine has them."""
    if not (SHARED / "imdb").is_dir():
        pytest.skip("the IMDb files are not on this machine")
    where = str(tmp_path_factory.mktemp("imdb"))
    prepare("imdb_reviews", SHARED / "imdb", where)
    return where


@pytest.mark.slow
def test_real_imdb_has_123_test_texts_in_train(real_imdb: str) -> None:
    examples = reading.read(config.with_values(config.default("fourier", "imdb").data, {"dir": real_imdb}))
    assert {name: len(split) for name, split in examples.items()} == {
        "train": 20_000,
        "validation": 5_000,
        "test": 25_000,
    }
    assert examples["test"].in_train.sum() == 123
    assert examples["test"].labels.sum() == 12_500


@pytest.mark.slow
def test_real_pretraining_texts_do_not_repeat_a_test_text(real_imdb: str) -> None:
    """270 of the 50,000 unlabelled reviews do."""
    part = config.default("fourier", "pretraining").data
    part.dir, part.corpora, part.exclude = real_imdb, ("imdb_reviews:unsupervised",), ("imdb_reviews:test",)
    builder = tfds_builder("imdb_reviews", real_imdb)
    tested = {letters(text) for text in read_split(builder, "test").texts}
    unlabelled = [letters(text) for text in read_split(builder, "unsupervised").texts]
    assert sum(text in tested for text in unlabelled) == 270
    splits = read_corpora(part)
    kept = [letters(text) for split in splits.values() for text in split]
    assert len(kept) == len(set(kept)) == len(set(unlabelled) - tested)
    assert not set(kept) & tested


def test_a_cut_off_file_is_named(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "source")
    path = source / "train.jsonl.xz"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"train.jsonl.xz cannot be read after line \d"):
        prepare("imdb_reviews", source, str(tmp_path / "tfds"))


def test_other_files_in_the_folder_are_not_read(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "source")
    (source / "train.jsonl.bak").write_text("nonsense")
    prepare("imdb_reviews", source, str(tmp_path / "tfds"))
    assert len(contents(tmp_path / "tfds")["train"]) == 8


def test_a_half_written_data_set_is_named(tmp_path: Path) -> None:
    (tmp_path / "tfds" / "imdb_reviews" / "plain_text" / "1.0.0").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"imdb_reviews/plain_text/1.0.0 is incomplete"):
        prepare("imdb_reviews", jsonl(tmp_path / "source"), str(tmp_path / "tfds"))


ARTICLES = {
    "train": [
        " \n = One <unk> = \n \n Key : W \n = Wins , L = \n Losses . \n \n = = Part = = \n \n Text . \n ",
        " = Two ( of 2 ) = 2 = \n \n = = = Deep = = = \n \n École \u2028 . \n ",
        " = Three = \n \n End = \n ",
    ],
    "valid": [" \n = Four = \n \n Text . \n "],
    "test": [" = Five = \n \n Text . "],
}


@pytest.fixture
def wiki(tmp_path: Path) -> Path:
    for split, articles in ARTICLES.items():
        path = tmp_path / "wiki" / f"wiki.{split}.tokens.xz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(lzma.compress(("\n".join(articles) + "\n").encode()))
    return tmp_path / "wiki"


def read_wiki(data_dir: Path) -> dict[str, list[str]]:
    source = wikitext.builder(str(data_dir)).as_data_source()
    return {split: [row["text"].decode() for row in rows] for split, rows in source.items()}


def test_an_article_of_wikitext_is_an_example(wiki: Path, tmp_path: Path) -> None:
    prepare("wikitext2", wiki, str(tmp_path / "tfds"))
    assert read_wiki(tmp_path / "tfds") == {
        "train": ARTICLES["train"],
        "validation": ARTICLES["valid"],
        "test": ARTICLES["test"],
    }


def test_real_wikitext_has_720_articles(tmp_path: Path) -> None:
    if not (SHARED / "wikitext2").is_dir():
        pytest.skip("the WikiText-2 files are not on this machine")
    prepare("wikitext2", SHARED / "wikitext2", str(tmp_path))
    read = read_wiki(tmp_path)
    assert {split: len(articles) for split, articles in read.items()} == {
        "train": 600,
        "validation": 60,
        "test": 60,
    }
    assert read["train"][1].startswith(
        " = Tower Building of the Little Rock Arsenal = \n \n The Tower Building"
    )
    for split, file in wikitext.FILES.items():  # nothing is lost, and the order is kept
        with lzma.open(SHARED / "wikitext2" / f"{file}.xz") as whole:
            assert "\n".join([*read[split], ""]).encode() == whole.read()


def test_files_that_are_not_wikitext(wiki: Path, tmp_path: Path) -> None:
    for contents, message in (
        (b" Text . \n \n = One = \n \n", "wiki.test.tokens does not begin with a title"),
        (b" \n = = Part = = \n \n", "wiki.test.tokens does not begin with a title"),
        (b"", "wiki.test.tokens does not begin with a title"),
        (b" \n = One = \n \n \xff \n", "wiki.test.tokens, line 4 is not UTF-8"),
    ):
        (wiki / "wiki.test.tokens").write_bytes(contents)
        with pytest.raises(ValueError, match=message):
            prepare("wikitext2", wiki, str(tmp_path / "tfds"))
    (wiki / "wiki.valid.tokens.xz").unlink()
    with pytest.raises(ValueError, match=r"not a copy of wikitext2; .*but wiki.valid.tokens is missing$"):
        prepare("wikitext2", wiki, str(tmp_path / "tfds"))
    assert not list((tmp_path / "tfds").rglob("*.array_record*"))


def test_wikitext_is_built_from_a_local_copy_only(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match=r"prepare --dataset=wikitext2 --source=DIR"):
            wikitext.builder(str(tmp_path)).download_and_prepare()
    assert not (tmp_path / "wikitext2" / "1.0.0").exists()
