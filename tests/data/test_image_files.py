"""Images from their official files."""

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SHARED
from pictures import COUNTS, drawn, idx_file, idx_files

from fourier_attn import config, data
from fourier_attn.data import tasks
from fourier_attn.data.prepare import prepare
from fourier_attn.data.sources import cifar, idx
from fourier_attn.data.tfds_splits import read_pictures


@pytest.mark.parametrize(
    ("pack", "end"), [(bytes, ""), (gzip.compress, ".gz"), (lzma.compress, ".xz")], ids=["plain", "gz", "xz"]
)
def test_idx_files(tmp_path: Path, pack: Callable, end: str) -> None:
    builder = prepare("mnist", idx_files(tmp_path / "files", pack, end), str(tmp_path / "tfds"))
    for split, name in idx.NAMES.items():
        found, (images, labels) = read_pictures(builder, split), drawn(COUNTS[name], 28, 28)
        order = np.argsort([np.flatnonzero((images == i[..., 0]).all((1, 2)))[0] for i in found.images])
        np.testing.assert_array_equal(found.images[order, ..., 0], images)
        np.testing.assert_array_equal(found.labels[order], labels)


def cifar_files(where: Path, form: str, counts: tuple[int, int] = (3, 4)) -> dict[str, tuple]:
    where.mkdir()
    made = {name: drawn(counts[0], 32, 32, 3, seed=i) for i, name in enumerate(cifar.BATCHES)}
    made["test_batch"] = drawn(counts[1], 32, 32, 3, seed=9)
    for name, (images, labels) in made.items():
        if form == "bin":
            rows = np.concatenate([labels[:, None], images.transpose(0, 3, 1, 2).reshape(len(images), -1)], 1)
            (where / f"{name}.bin").write_bytes(rows.tobytes())
            continue
        colours = images.transpose(3, 0, 1, 2).copy()
        colours[0] -= colours[1]
        colours[2] -= colours[1]
        for axis in (3, 2):
            colours = np.diff(
                colours,
                axis=axis,
                prepend=np.zeros_like(colours[:, :, :1, :1]).repeat(colours.shape[5 - axis], 5 - axis),
            )
        name = "test_first1000" if name == "test_batch" else name
        (where / f"{name}.delta.xz").write_bytes(lzma.compress(colours.tobytes()))
    if form == "delta":
        train = np.concatenate([made[name][1] for name in cifar.BATCHES])
        np.savez(where / "labels.npz", train=train, test_first1000=made["test_batch"][1])
    return made


@pytest.mark.parametrize("form", ["bin", "delta"])
def test_cifar_files(tmp_path: Path, form: str) -> None:
    made = cifar_files(tmp_path / "files", form)
    builder = prepare("cifar10", tmp_path / "files", str(tmp_path / "tfds"))
    found = read_pictures(builder, "train")
    order = np.argsort(found.ids)
    assert found.ids[order].tolist() == [f"train_{i:05d}" for i in range(15)]
    np.testing.assert_array_equal(found.images[order], np.concatenate([made[n][0] for n in cifar.BATCHES]))
    np.testing.assert_array_equal(found.labels[order], np.concatenate([made[n][1] for n in cifar.BATCHES]))
    test = read_pictures(builder, "test")
    np.testing.assert_array_equal(test.images[np.argsort(test.ids)], made["test_batch"][0])


def test_batch_five_is_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its images are in no other split."""
    made = cifar_files(tmp_path / "files", "bin", (10, 4))
    prepare("cifar10", tmp_path / "files", str(tmp_path / "tfds"))
    task = tasks.TASKS["cifar10"]
    assert dict(task.held) == {"batch_5": ("train_40000", "train_50000")}
    fewer = {"batch_5": ("train_00040", "train_00050")}
    monkeypatch.setitem(tasks.TASKS, "cifar10", task.__class__(**(vars(task) | {"held": fewer})))
    c = config.default("fourier", "cifar10")
    c.data.dir = str(tmp_path / "tfds")
    splits = data.load(c.data, directory=tmp_path)
    sizes = {name: len(split.rows) for name, split in {"train": splits.train, **splits.evals}.items()}
    assert sizes == {"train": 36, "validation": 4, "batch_5": 10, "test": 4}

    def every(rows: np.ndarray) -> set[bytes]:
        return {row.tobytes() for row in rows}

    assert every(splits.extra_evals["batch_5"].rows) == every(made["data_batch_5"][0])
    assert not every(splits.extra_evals["batch_5"].rows) & every(splits.train.rows)


def damaged(where: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    path = where / name
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("train-labels-idx1-ubyte", lambda b: idx_file(np.zeros(59, np.uint8)), "60 images, but 59 labels"),
        ("train-images-idx3-ubyte", lambda b: b[:-1], "47,039 bytes of data, but its header says"),
        ("train-images-idx3-ubyte", lambda b: b[:7], "is not an IDX file of bytes with 3 axes"),
        ("t10k-labels-idx1-ubyte", lambda b: b"\x1f\x8b" + b, "is not an IDX file of bytes with 1 axes"),
        ("t10k-labels-idx1-ubyte", lambda b: b[:-1] + b"\x0a", "a label of 10 or more"),
        (
            "t10k-images-idx3-ubyte",
            lambda b: idx_file(np.zeros((20, 14, 56), np.uint8)),
            r"has images of \(14, 56\), not \(28, 28\) pixels",
        ),
        (
            "t10k-images-idx3-ubyte",
            lambda b: b[:4] + b"\xff" * 12 + b[16:],
            "bytes of data, but its header says",
        ),
    ],
)
def test_damaged_idx_files(tmp_path: Path, name: str, change: Callable, message: str) -> None:
    source = idx_files(tmp_path / "files")
    damaged(source, name, change)
    with pytest.raises(ValueError, match=message):
        prepare("mnist", source, str(tmp_path / "tfds"))
    assert not list((tmp_path / "tfds").rglob("*.json"))


def test_files_that_are_cut_off_or_missing(tmp_path: Path) -> None:
    source = idx_files(tmp_path / "files", lzma.compress, ".xz")
    damaged(source, "train-images-idx3-ubyte.xz", lambda b: b[: len(b) // 2])
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.xz cannot be read completely"):
        prepare("mnist", source, str(tmp_path / "tfds"))
    (source / "train-images-idx3-ubyte.xz").unlink()
    with pytest.raises(ValueError, match="has no train-images-idx3-ubyte"):
        prepare("mnist", source, str(tmp_path / "tfds"))


@pytest.mark.parametrize(
    ("form", "name", "change", "message"),
    [
        ("bin", "data_batch_2.bin", lambda b: b[:-1], "not a multiple of 3073"),
        ("bin", "test_batch.bin", lambda b: b"", "0 bytes, not a multiple of 3073"),
        ("bin", "test_batch.bin", lambda b: b"\x0a" + b[1:], "a label of 10 or more"),
        ("delta", "labels.npz", lambda b: b[:-30], "contains no labels"),
        ("delta", "data_batch_1.delta.xz", lambda b: lzma.compress(bytes(3072)), "13 images, but 15 labels"),
    ],
)
def test_damaged_cifar_files(tmp_path: Path, form: str, name: str, change: Callable, message: str) -> None:
    cifar_files(tmp_path / "files", form)
    damaged(tmp_path / "files", name, change)
    with pytest.raises(ValueError, match=message):
        prepare("cifar10", tmp_path / "files", str(tmp_path / "tfds"))


def test_a_label_file_with_objects_is_refused(tmp_path: Path) -> None:
    cifar_files(tmp_path / "files", "delta")
    np.savez(tmp_path / "files" / "labels.npz", train=np.array([{}]), test_first1000=np.array([{}]))
    with pytest.raises(ValueError, match="contains no labels"):
        prepare("cifar10", tmp_path / "files", str(tmp_path / "tfds"))


def test_a_label_file_that_unpacks_to_more_than_labels_is_refused(tmp_path: Path) -> None:
    cifar_files(tmp_path / "files", "delta")
    labels = {"train": np.zeros(2**24, np.uint8), "test_first1000": np.zeros(1, np.uint8)}
    np.savez_compressed(tmp_path / "files" / "labels.npz", **labels)
    with pytest.raises(ValueError, match=r"contains no labels .*it decompresses to 16,777,"):
        prepare("cifar10", tmp_path / "files", str(tmp_path / "tfds"))


@pytest.mark.skipif(not (SHARED / "fashion_mnist").is_dir(), reason="needs the local copies")
def test_the_local_copies_can_be_read() -> None:
    read = idx.splits(None, SHARED / "fashion_mnist")
    number, first = next(read["train"])
    assert (number, first["label"], idx.CLOTHES[first["label"]]) == (0, 9, "Ankle boot")
    differences = cifar._differences(SHARED / "cifar10", "test_first1000")
    labels = cifar._labels(SHARED / "cifar10" / "labels.npz", SHARED / "cifar10")["test_first1000"]
    assert (differences.shape, labels[:6].tolist()) == ((1000, 32, 32, 3), [3, 8, 8, 0, 6, 6])


def test_what_is_downloaded_is_read_here(tmp_path: Path) -> None:
    """With a stand-in for TFDS's downloads; these were not made."""
    source = idx_files(tmp_path / "files")
    builder: Any = idx.builder("fashion_mnist")(str(tmp_path / "tfds"))

    class Downloads:
        def download_and_extract(self, urls: dict[str, str]) -> dict[str, Path]:
            assert all(url == f"{builder.URL}{name}.gz" for name, url in urls.items())
            return {name: source / name for name in urls}

    made = builder._split_generators(Downloads())
    assert {split: len(list(rows)) for split, rows in made.items()} == {"train": 60, "test": 20}
