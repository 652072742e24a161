"""Names of files and folders: `~` is expanded, and what a library would misread is refused first."""

from pathlib import Path

import pytest

from fourier_attn import config, paths, train
from fourier_attn.data import corpus
from fourier_attn.data.tfds import folder as data_folder
from fourier_attn.inference.predictor import Predictor
from fourier_attn.train.rundir.checkpoint import Checkpoints


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory, and a working directory beside it."""
    for name in ("home", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


def test_files_without_a_name_are_refused() -> None:
    """A stem gets endings, and a folder has no place for them."""
    assert paths.stem("a/b.c", "--out") == Path("a/b.c")
    for name, cure in ((".", "NAME"), ("..", "../NAME"), ("/", "/NAME"), ("a/", "a/NAME")):
        with pytest.raises(ValueError, match=f"^--out={name} is a folder; .*, --out={cure}$"):
            paths.stem(name, "--out")


def test_a_tilde_is_the_home_directory(home: Path) -> None:
    assert paths.given("~/a b/c.csv") == home / "a b/c.csv"
    assert paths.given("~") == home
    assert paths.given("runs/~x") == Path("runs/~x")
    assert paths.given("./~/x") == Path.cwd() / "~/x"
    assert paths.given("~$report.csv") == Path.cwd() / "~$report.csv"
    with pytest.raises(ValueError, match=r"user nobody-here is unknown; write \./~nobody-here/a"):
        paths.given("~nobody-here/a")


@pytest.mark.parametrize("name", ["", "a\x01b", "a\nb", "a\x7fb", "a\0b", "a\udcffb", "gs://bucket/run"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"give one|rename|is a URL"):
        paths.given(name)


@pytest.mark.parametrize("name", ["a[1]b", "a*b", "a?b", "a\\b", "gs:", "s3:/runs"])
def test_a_folder_that_libraries_would_misread_is_refused_before_anything_is_written(name: str) -> None:
    c = config.default("identity", "reviews")
    refusals = (
        lambda: train.run(c, name),
        lambda: Checkpoints(Path(name), read_only=True),
        lambda: data_folder(name),
    )
    for refused in refusals:
        with pytest.raises(ValueError, match=r"(workdir|data\.dir)=.* contains .* choose a path without"):
            refused()
    assert not [*Path.cwd().iterdir()]


@pytest.mark.parametrize(
    "name", ["a]b", "a{b", "a%2Fb", "a#b", "a|b", "a//b", "a:b", "l=(1,2)", "é ü", "a.."]
)
def test_other_folders_are_taken_as_they_are(name: str) -> None:
    assert paths.folder(name, "workdir") == Path.cwd() / name


def test_a_configuration_is_kept_with_names_that_hold_from_any_directory(home: Path) -> None:
    c = config.default("fourier", "files")
    c.data.train, c.data.test, c.data.tokenizer = "t.csv", "~/t.csv", "../tok.json"
    c.data.corpora, c.init_from = ("~/a.txt", "imdb_reviews:train"), "runs/a/../b"
    found = config.with_absolute_paths(c)
    here = Path.cwd()
    assert found.data.train == f"{here}/t.csv"
    assert found.data.test == f"{home}/t.csv"
    assert found.data.validation == found.data.dir == ""
    assert found.data.tokenizer == f"{here}/../tok.json"
    assert found.data.corpora == (f"{home}/a.txt", "imdb_reviews:train")
    assert found.init_from == f"{here}/runs/a/../b"
    assert c.data.train == "t.csv"
    assert config.with_absolute_paths(found).to_dict() == found.to_dict()
    c = config.default("identity", "tfds")
    c.data.train = "train"
    assert config.with_absolute_paths(c).data.train == "train"  # a split's name


def test_a_step_up_from_a_link_leads_where_it_did(home: Path) -> None:
    (home / "a").mkdir()
    (home / "t.csv").touch()
    Path("link").symlink_to(home / "a")
    assert Path(paths.absolute("link/../t.csv")).samefile(home / "t.csv")


def test_the_folder_of_a_pattern_is_taken_literally(home: Path) -> None:
    place = home / "a[1]"
    place.mkdir()
    for name in ("b.txt", "c[2].txt"):
        (place / name).write_text("one\n\ntwo\n")
    assert paths.matching("~/a[1]/*.txt") == [place / "b.txt", place / "c[2].txt"]
    assert paths.matching("~/a[1]/c[2].txt") == [place / "c[2].txt"]
    assert paths.matching("nothing*.txt") == []
    assert corpus.names_files("~/a[1]/b.txt")


def test_a_run_is_found_in_the_home_directory() -> None:
    with pytest.raises(ValueError, match=r"home/runs/a"):
        Predictor.load("~/runs/a")
