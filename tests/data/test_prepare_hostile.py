"""Copies of data sets that are damaged or made to do harm: one message each, and nothing is left behind."""

import gzip
import io
import json
import lzma
import os
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from waiting import HANG_S

from fourier_attn.data.prepare import prepare
from fourier_attn.data.tables import files

REVIEWS = {
    "aclImdb/train/neg/0_1.txt": b"Dull .",
    "aclImdb/train/pos/0_9.txt": b"Superb .",
    "aclImdb/test/neg/0_1.txt": b"Weak .",
    "aclImdb/test/pos/0_9.txt": b"Moving .",
    "aclImdb/train/unsup/0_0.txt": b"Green .",
}
ROWS = '{"text": "Dull .", "label": 0}\n{"text": "Superb .", "label": 1}\n'


def folder(where: Path) -> Path:
    for name, text in REVIEWS.items():
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_bytes(text)
    return where / "aclImdb"


def rows(where: Path) -> Path:
    where.mkdir()
    for split in ("train", "test"):
        (where / f"{split}.jsonl").write_text(ROWS)
    return where


def archive(where: Path, *members: tarfile.TarInfo, contents: bytes = b"") -> Path:
    """An archive of all reviews, then `members`, each with the same contents."""
    where.mkdir()
    path = where / "aclImdb_v1.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        for name, text in REVIEWS.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            file.addfile(member, io.BytesIO(text))
        for member in members:
            member.size = len(contents) if member.isfile() else 0
            file.addfile(member, io.BytesIO(contents))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def refused(source: Path, message: str, dataset: str = "imdb_reviews") -> None:
    """The command answers in one line, whatever it has to read, and nothing is left of the attempt.

    It has a minute and 4 GB, so that a source that hangs or fills the memory harms nothing else.
    """
    data_dir = source.parent / "tfds"
    options = [f"--dataset={dataset}", f"--source={source}", f"--data_dir={data_dir}"]
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32)); "
        "from fourier_attn import command; from fourier_attn.data import prepare; "
        "prepare.define_flags(); sys.exit(command.run(prepare.main))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert message in result.stderr
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert not data_dir.exists()


@pytest.mark.slow
def test_a_link_to_a_device_is_not_read(tmp_path: Path) -> None:
    path = folder(tmp_path) / "train" / "pos" / "7_9.txt"
    path.symlink_to("/dev/zero")
    refused(tmp_path / "aclImdb", "train/pos/7_9.txt is a link; put the file or folder itself there")


@pytest.mark.slow
def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(folder(tmp_path) / "train" / "pos" / "7_9.txt")
    refused(tmp_path / "aclImdb", "train/pos/7_9.txt is a named pipe, not a regular file")


def reject(source: Path, message: str, dataset: str = "imdb_reviews") -> None:
    """As `refused`, within this process."""
    data_dir = source.parent / "tfds"
    with pytest.raises(ValueError, match=message):
        prepare(dataset, source, str(data_dir))
    assert not data_dir.exists()


@pytest.mark.slow
def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """Three kB are 34 MB here, and could be GB."""
    source = rows(tmp_path / "source")
    (source / "train.jsonl").unlink()
    million = lzma.compress(b'{"text": "Dull .", "label": 0}\n' * 34_000)
    (source / "train.jsonl.xz").write_bytes(million * 32)
    reject(source, "train.jsonl.xz decompresses to more than 16,777,216 bytes")


def plant_pipe(path: Path) -> None:
    os.mkfifo(path)


def plant_folder(path: Path) -> None:
    path.mkdir()


def plant_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def plant_broken_link(path: Path) -> None:
    path.symlink_to("nowhere")


PLANTED = [
    (plant_pipe, "is a named pipe, not a regular file"),
    (plant_folder, "is a folder, not a regular file"),
    (plant_link, "is a link; put the file"),
    (plant_broken_link, "is a link; put the file"),
]


@pytest.mark.parametrize(("plant", "message"), PLANTED)
def test_regular_files_only(plant: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    """In each form of each source."""
    plant(folder(tmp_path) / "test" / "neg" / "3_3.txt")
    reject(tmp_path / "aclImdb", f"aclImdb/test/neg/3_3.txt {message}")
    source = rows(tmp_path / "rows")
    (source / "test.jsonl").unlink()
    plant(source / "test.jsonl")
    reject(source, f"rows/test.jsonl {message}")
    (tmp_path / "packed").mkdir()
    plant(tmp_path / "packed" / "aclImdb_v1.tar.gz")
    reject(tmp_path / "packed", f"packed/aclImdb_v1.tar.gz {message}")
    wiki = tmp_path / "wiki"
    wiki.mkdir()
    for name in ("wiki.train.tokens", "wiki.valid.tokens"):
        (wiki / name).write_text(" \n = One = \n \n Text . \n")
    plant(wiki / "wiki.test.tokens")
    reject(wiki, f"wiki.test.tokens {message}", "wikitext2")
    (tmp_path / "glue" / "CoLA").mkdir(parents=True)
    for name in ("train", "dev"):
        (tmp_path / "glue" / "CoLA" / f"{name}.tsv").write_text("gj04\t1\t\tWe went.\n")
    plant(tmp_path / "glue" / "CoLA" / "test.tsv")
    reject(tmp_path / "glue", f"CoLA/test.tsv {message}", "glue/cola")


def test_a_socket_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder(tmp_path) / "test" / "neg")  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("3_3.txt")
        reject(tmp_path / "aclImdb", r"test/neg/3_3.txt cannot be opened \(No such device or address\)")


def test_a_linked_folder_within_the_source_is_refused(tmp_path: Path) -> None:
    source = folder(tmp_path)
    (source / "train" / "pos").rename(tmp_path / "elsewhere")
    (source / "train" / "pos").symlink_to(tmp_path / "elsewhere")
    reject(source, "aclImdb/train/pos is a link; put the file or folder itself there, or remove it")


def test_a_link_that_the_user_names_is_followed(tmp_path: Path) -> None:
    for name, source in {
        "folder": folder(tmp_path),
        "rows": rows(tmp_path / "rows"),
        "archive": archive(tmp_path / "tar"),
    }.items():
        (tmp_path / f"{name}_link{source.suffix}").symlink_to(source)
        builder = prepare(
            "imdb_reviews", tmp_path / f"{name}_link{source.suffix}", str(tmp_path / f"to_{name}")
        )
        assert builder.info.splits["train"].num_examples == 2


BAD_MEMBERS = [
    (member("../aclImdb/train/pos/9_9.txt"), "is outside the archive"),
    (member("aclImdb/../../9_9.txt"), "is outside the archive"),
    (member("/aclImdb/train/pos/9_9.txt"), "is outside the archive"),
    (member("aclImdb/train/pos/9_9.txt", tarfile.SYMTYPE, "/etc/passwd"), "is a link"),
    (member("aclImdb/train/pos/9_9.txt", tarfile.LNKTYPE, "aclImdb/train/pos/0_9.txt"), "is a link"),
    (member("aclImdb/train/pos/9_9.txt", tarfile.LNKTYPE, "nowhere"), "is a link"),
    (member("aclImdb/train/pos/9_9.txt", tarfile.FIFOTYPE), "is neither file nor folder"),
    (member("aclImdb/train/pos/9_9.txt", tarfile.CHRTYPE), "is neither file nor folder"),
    (
        member("aclImdb/train/pos/0_9.txt"),
        "and .* are the same review, aclImdb/train/pos/0_9.txt; remove",
    ),
    (member("./aclImdb/train/pos/0_9.txt"), "and .* are the same review, aclImdb/train/pos/0_9.txt"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_MEMBERS, ids=range(len(BAD_MEMBERS)))
def test_members_that_have_no_place_in_an_archive(bad: tarfile.TarInfo, message: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "source", bad, contents=b"x")
    reject(path, f"member '{bad.name}' {message}")


def test_a_wrong_checksum_is_noticed(tmp_path: Path) -> None:
    path = archive(tmp_path / "source")
    packed = bytearray(path.read_bytes())
    packed[-8] ^= 1  # of the CRC-32
    path.write_bytes(packed)
    reject(path, r"aclImdb_v1.tar.gz cannot be read as a tar archive \(CRC check failed")


def test_a_cut_off_archive_is_named(tmp_path: Path) -> None:
    path = archive(tmp_path / "source")
    whole = path.read_bytes()
    for kept in (20, len(whole) // 2, len(whole) - 4):
        path.write_bytes(whole[:kept])
        reject(path, "aclImdb_v1.tar.gz cannot be read as a tar archive")


def test_a_damaged_header_is_not_the_end(tmp_path: Path) -> None:
    path = archive(tmp_path / "source", member("aclImdb/train/pos/5_9.txt"), contents=b"fine")
    with gzip.open(path) as file:
        tar = bytearray(file.read())
    tar[tar.index(b"aclImdb/train/pos/5_9.txt") + 20] ^= 1
    path.write_bytes(gzip.compress(tar))
    reject(path, "aclImdb_v1.tar.gz is damaged: it has data after its end")


def test_what_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "reviews.zip"
    path.write_bytes(b"PK" + bytes(2000))
    reject(path, "reviews.zip cannot be read as a tar archive")


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TEXT", 2000), ("ROWS", 10), ("UNPACKED", 60_000), ("SMALL", 20_480)):
        monkeypatch.setattr(files, name, value)


@pytest.mark.usefixtures("small_limits")
def test_each_form_has_its_limits(tmp_path: Path) -> None:
    long = b"x" * 2001
    path = folder(tmp_path) / "train" / "pos" / "7_9.txt"
    path.write_bytes(long)
    reject(tmp_path / "aclImdb", "train/pos/7_9.txt has more than 2,000 bytes, too many for a text")
    path.unlink()
    for number in range(7):
        (path.parent / f"{number}_8.txt").write_bytes(b"fine")
    reject(tmp_path / "aclImdb", "more than 60,000 bytes or 10 reviews, too many for imdb_reviews")
    a_review = member("aclImdb/train/pos/7_9.txt")
    reject(archive(tmp_path / "long", a_review, contents=long), "7_9.txt' has more than 2,000 bytes")
    source = rows(tmp_path / "rows")
    line = json.dumps({"text": "x" * 2000, "label": 1})
    (source / "test.jsonl").write_text(f"{ROWS}{line}\n")
    reject(source, "test.jsonl, line 3 has more than 2,000 bytes")
    (source / "test.jsonl").write_text(ROWS * 6)
    reject(source, "more than 60,000 bytes or 10 reviews")
    monster = tmp_path / "wiki"
    monster.mkdir()
    for name in ("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"):
        (monster / name).write_text(" \n = One = \n \n" + ("x" * 1000 + "\n") * 3)
    reject(monster, "wiki.train.tokens has an article of more than 2,000 characters", "wikitext2")
    (monster / "wiki.train.tokens").write_text(" \n = One = \n \n" + "x\n" * 8)
    reject(monster, "wiki.train.tokens has more than 10 lines", "wikitext2")


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(("compress", "name"), [(lzma.compress, "wiki.x.xz"), (gzip.compress, "wiki.x.gz")])
def test_packed_files_are_limited_in_ratio_and_size(compress: Callable, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    line = os.urandom(500).replace(b"\n", b"").replace(b"\r", b"") + b"\n"
    path.write_bytes(compress(bytes(20_000)))  # ratios of little files do not matter
    with files.unpacked(path, tmp_path) as file:
        assert len(file.read()) == 20_000
    for contents, limit in ((bytes(100_000), 20_480), (line * 2000, 60_000)):
        path.write_bytes(compress(contents))
        with (
            pytest.raises(ValueError, match=f"{name} decompresses to more than {limit:,} bytes"),
            files.unpacked(path, tmp_path) as file,
        ):
            file.read()


def test_ids_that_are_there_twice(tmp_path: Path) -> None:
    source = rows(tmp_path / "source")
    for ids in ((3, 3), ("2", None)):  # without an id, a row has its number
        values = [{"text": "Dull .", "label": 1} | ({"id": i} if i else {}) for i in ids]
        (source / "test.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in values))
        reject(
            source,
            "test.jsonl, line 2 and .*test.jsonl, line 1 are the same review, .*_0.txt; remove one of them",
        )


def test_half_a_character_is_not_utf8(tmp_path: Path) -> None:
    source = rows(tmp_path / "source")
    (source / "test.jsonl").write_text('{"text": "a\\ud800", "label": 0}\n')
    reject(source, "test.jsonl, line 1 is not UTF-8")


def test_a_refusal_leaves_what_was_there(tmp_path: Path) -> None:
    prepare("imdb_reviews", rows(tmp_path / "good"), str(tmp_path / "tfds"))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "tfds").rglob("*")}
    (tmp_path / "wiki").mkdir()
    for name in ("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"):
        (tmp_path / "wiki" / name).write_text("nonsense")
    with pytest.raises(ValueError, match="does not begin with a title"):
        prepare("wikitext2", tmp_path / "wiki", str(tmp_path / "tfds"))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "tfds").rglob("*")} == before
