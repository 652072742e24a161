"""Images: from their official files to batches, training, and the judgement of a file."""

import gzip
import io
import json
import lzma
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT, SHARED, assert_same_run, run_here
from PIL import Image

from fourier_attn import config, data, main, model, predict, train
from fourier_attn.data import tasks
from fourier_attn.data.images import Augmentation, ImageBatches, augment, read_image, statistics
from fourier_attn.data.prepare import prepare
from fourier_attn.data.sources import cifar, idx
from fourier_attn.data.tfds import read_pictures
from fourier_attn.ops import positions
from fourier_attn.train import init_from
from fourier_attn.train.losses import OBJECTIVES

# by which ml_collections reads a configuration
pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")

COUNTS = {"train": 60, "t10k": 20}


def drawn(count: int, *shape: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images whose class shows in their brightness, and their classes."""
    random = np.random.default_rng((seed, count))
    labels = random.integers(0, 10, count, np.uint8)
    noise = random.integers(0, 20, (count, *shape))
    return (labels.reshape(-1, *[1] * len(shape)) * 20 + noise).astype(np.uint8), labels


def idx_file(array: np.ndarray) -> bytes:
    head = bytes((0, 0, 8, array.ndim)) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return head + array.tobytes()


def idx_files(where: Path, pack: Callable[[bytes], bytes] = bytes, end: str = "") -> Path:
    where.mkdir(exist_ok=True)
    for name, count in COUNTS.items():
        images, labels = drawn(count, 28, 28)
        (where / f"{name}-images-idx3-ubyte{end}").write_bytes(pack(idx_file(images)))
        (where / f"{name}-labels-idx1-ubyte{end}").write_bytes(pack(idx_file(labels)))
    return where


@pytest.fixture(scope="module")
def clothes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A TFDS data directory that holds few images as fashion_mnist."""
    where = str(tmp_path_factory.mktemp("clothes"))
    prepare("fashion_mnist", idx_files(tmp_path_factory.mktemp("files")), where)
    return where


def small(data_dir: str) -> Any:
    c = config.default("fourier", "fashion_mnist")
    c.data.update({"dir": data_dir, "batch": 16, "holdout": 0.2})
    c.model.update({"depth": 1, "d": 8, "mlp": 8, "patch": 7})
    c.train.update({"epochs": 2, "log_every": 2})
    c.optim.warmup_steps = 2
    return c


# from files


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
        ("train-labels-idx1-ubyte", lambda b: idx_file(np.zeros(59, np.uint8)), "60 images and 59 labels"),
        ("train-images-idx3-ubyte", lambda b: b[:-1], "47,039 bytes after its head, which says"),
        ("train-images-idx3-ubyte", lambda b: b[:7], "is no IDX file of bytes with 3 axes"),
        ("t10k-labels-idx1-ubyte", lambda b: b"\x1f\x8b" + b, "is no IDX file of bytes with 1 axes"),
        ("t10k-labels-idx1-ubyte", lambda b: b[:-1] + b"\x0a", "a label of 10 or more"),
        (
            "t10k-images-idx3-ubyte",
            lambda b: idx_file(np.zeros((20, 14, 56), np.uint8)),
            r"has images of \(14, 56\), not \(28, 28\) pixels",
        ),
        (
            "t10k-images-idx3-ubyte",
            lambda b: b[:4] + b"\xff" * 12 + b[16:],
            "bytes after its head, which says",
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
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.xz cannot be read to its end"):
        prepare("mnist", source, str(tmp_path / "tfds"))
    (source / "train-images-idx3-ubyte.xz").unlink()
    with pytest.raises(ValueError, match="has no train-images-idx3-ubyte"):
        prepare("mnist", source, str(tmp_path / "tfds"))


@pytest.mark.parametrize(
    ("form", "name", "change", "message"),
    [
        ("bin", "data_batch_2.bin", lambda b: b[:-1], "no multiple of 3073"),
        ("bin", "test_batch.bin", lambda b: b"", "0 bytes, no multiple of 3073"),
        ("bin", "test_batch.bin", lambda b: b"\x0a" + b[1:], "a label of 10 or more"),
        ("delta", "labels.npz", lambda b: b[:-30], "holds no labels"),
        ("delta", "data_batch_1.delta.xz", lambda b: lzma.compress(bytes(3072)), "13 images and 15 labels"),
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
    with pytest.raises(ValueError, match="holds no labels"):
        prepare("cifar10", tmp_path / "files", str(tmp_path / "tfds"))


def test_a_label_file_that_unpacks_to_more_than_labels_is_refused(tmp_path: Path) -> None:
    cifar_files(tmp_path / "files", "delta")
    labels = {"train": np.zeros(2**24, np.uint8), "test_first1000": np.zeros(1, np.uint8)}
    np.savez_compressed(tmp_path / "files" / "labels.npz", **labels)
    with pytest.raises(ValueError, match=r"holds no labels .*it unpacks to 16,777,"):
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


# batches


def batches(**changes: Any) -> ImageBatches:
    images, labels = drawn(50, 8, 6, 3)
    given = {"batch": 16, "seed": 3, "epochs": 3, "augmentation": Augmentation(True, 2, "cutmix")} | changes
    return ImageBatches(images, labels, **given)


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    one, other = batches(), batches()
    backwards = {i: other[i] for i in reversed(range(len(other)))}
    for i in range(len(one)):
        jax.tree.map(np.testing.assert_array_equal, one[i], backwards[i])
    assert not np.array_equal(one[0]["inputs"], batches(seed=4)[0]["inputs"])
    assert not np.array_equal(one[0]["inputs"], one[4]["inputs"])


def test_an_epoch_holds_each_image_once() -> None:
    made = batches(augmentation=Augmentation())
    for epoch in range(2):
        seen = [made[i] for i in range(4 * epoch, 4 * epoch + 4)]
        real = np.concatenate([batch["index"][batch["weight"] > 0] for batch in seen])
        assert sorted(real) == list(range(50))
        assert all(np.array_equal(made.rows[b["index"]], b["inputs"]) for b in seen)
        assert all(np.array_equal(made.labels[b["index"]], b["label"]) for b in seen)


def test_evaluation_augments_nothing() -> None:
    made = batches(seed=None, epochs=1)
    np.testing.assert_array_equal(made[0]["inputs"], made.rows[:16])
    assert "second_label" not in made[0]


def test_flipped_and_cropped_images() -> None:
    """Each is the image or its mirror image, moved by up to so many pixels, with black outside."""
    images, labels = drawn(64, 8, 6, 3)
    found = augment(images, labels, np.random.default_rng(0), Augmentation(flip=True, crop=2))["inputs"]
    moves = set()
    for before, after in zip(images, found, strict=True):
        for flipped, x in ((0, before), (1, before[:, ::-1])):
            padded = np.pad(x, ((2, 2), (2, 2), (0, 0)))
            places = np.ndindex(5, 5)
            moves |= {(flipped, i, j) for i, j in places if (padded[i : i + 8, j : j + 6] == after).all()}
    assert len(moves) > 30  # of 50
    assert {move[0] for move in moves} == {0, 1}


def test_mixup() -> None:
    images, labels = drawn(32, 8, 6, 3)
    batch = augment(images, labels, np.random.default_rng(0), Augmentation(mix="mixup"))
    share = batch["share"][0]
    other = np.random.default_rng(0).permutation(32)
    np.testing.assert_array_equal(batch["second_label"], labels[other])
    np.testing.assert_allclose(batch["inputs"], share * images + (1 - share) * images[other], atol=0.501)
    assert (batch["inputs"].dtype, (batch["share"] == share).all()) == (np.uint8, True)


@pytest.mark.parametrize("mix", ["mixup", "cutmix"])
def test_real_images_are_mixed_with_real_ones_only(mix: str) -> None:
    """Those of a ragged last batch, whose other places are filled with copies of its first image."""
    images, labels = (
        np.arange(11, dtype=np.uint8).reshape(-1, 1, 1, 1) * np.ones((8, 6, 3), np.uint8),
        range(11),
    )
    mixed = set()
    for seed in range(5):
        last = ImageBatches(images, np.array(labels), batch=8, seed=seed, augmentation=Augmentation(mix=mix))[
            1
        ]
        assert last["weight"].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
        first, second = last["label"], last["second_label"]
        assert sorted(second[:3]) == sorted(first[:3])  # each is the partner of one
        np.testing.assert_array_equal(second[3:], first[3:])
        mixed |= set((second[:3] != first[:3]).tolist())
    assert True in mixed


def test_cutmix_has_the_share_of_its_pixels() -> None:
    images, labels = np.stack([np.full((9, 7, 1), n, np.uint8) for n in range(32)]), np.arange(32)
    shares = set()
    for seed in range(20):
        batch = augment(images, labels, np.random.default_rng(seed), Augmentation(mix="cutmix"))
        own = batch["inputs"] == images
        moved = batch["second_label"] != labels
        np.testing.assert_allclose(own.mean((1, 2, 3))[moved], batch["share"][moved], atol=1e-6)
        other = np.broadcast_to(batch["second_label"][:, None, None, None], images.shape)
        assert (batch["inputs"] == np.where(own, images, other)).all()
        shares.add(round(float(batch["share"][0]), 3))
    assert len(shares) > 10


def test_the_loss_of_mixed_images_is_that_of_both_labels() -> None:
    objective, logits = OBJECTIVES["classes"], jnp.asarray(np.random.default_rng(0).normal(size=(4, 3)))
    logits = logits.astype(jnp.float32)
    first, second = jnp.array([0, 1, 2, 0]), jnp.array([2, 2, 1, 0])
    share, weight = jnp.array([1.0, 0.0, 0.25, 0.5]), jnp.array([1.0, 1.0, 1.0, 0.0])
    batch = {"label": first, "second_label": second, "share": share, "weight": weight}
    loss, count = objective.sums(logits, batch)["loss"]
    logp = np.asarray(jax.nn.log_softmax(logits))
    rows = np.arange(4)
    terms = -(share * logp[rows, first] + (1 - share) * logp[rows, second]) * weight
    np.testing.assert_allclose([loss, count], [terms.sum(), 3], rtol=1e-6)


def test_statistics() -> None:
    images, _ = drawn(9, 8, 6, 3)
    mean, deviation = statistics(images)
    np.testing.assert_allclose(mean, (images / 255).mean((0, 1, 2)), atol=1e-6)
    np.testing.assert_allclose(deviation, (images / 255).std((0, 1, 2)), atol=1e-6)


def test_statistics_are_those_of_train(clothes: str, tmp_path: Path) -> None:
    splits = data.load(small(clothes).data, directory=tmp_path)
    assert (len(splits.train.rows), len(splits.validation.rows), len(splits.test.rows)) == (48, 12, 20)
    assert splits.model["pixel_mean"] == statistics(splits.train.rows)[0]
    assert splits.model["image"] == (28, 28, 1)
    assert not splits.in_train.any()


# a run


@pytest.fixture(scope="module")
def run(clothes: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("run")
    c = small(clothes)
    c.data.mix = "mixup"
    with jax.numpy_dtype_promotion("standard"):
        train.run(c, where)
    return where


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("step", [2, 3])
def test_a_stopped_run_of_augmented_images_ends_the_same(
    step: int, run: Path, clothes: str, tmp_path: Path, stopped_at: Callable[[Any, Path, int], None]
) -> None:
    """Bit for bit: within an epoch, and at its end."""
    c = small(clothes)
    c.data.mix = "mixup"
    assert (c.data.flip, c.data.crop) == (True, 2)
    stopped_at(c, tmp_path, step)
    train.run(c, tmp_path)
    assert_same_run(run, tmp_path)


@pytest.mark.usefixtures("standard_promotion")
def test_images_in_bfloat16(clothes: str) -> None:
    c, pixels = small(clothes), jnp.asarray(drawn(4, 28, 28, 1)[0])
    c.model.update({"image": (28, 28, 1), "classes": 10, "patch": 7})
    full = model.build(c.model)
    params = full.init(jax.random.key(0), pixels)
    c.model.dtype = "bfloat16"
    answers = model.build(c.model).apply(params, pixels)
    assert answers.dtype == jnp.float32
    np.testing.assert_allclose(answers, full.apply(params, pixels), atol=0.05)  # 8 bits


@pytest.mark.usefixtures("standard_promotion")
def test_a_run_is_evaluated_and_judges_a_file(run: Path, clothes: str, tmp_path: Path) -> None:
    last = [eval(line, {"null": None}) for line in (run / "metrics.jsonl").read_text().splitlines()][-1]
    assert predict.evaluate(run)["test"]["accuracy"] == last["accuracy"]
    image, path = drawn(1, 28, 28)[0][0], tmp_path / "boot.png"
    Image.fromarray(image).save(path)
    answers = predict.predict_image(run, path)
    assert sorted(name for name, _ in answers) == sorted(idx.CLOTHES)
    values = [value for _, value in answers]
    assert (values == sorted(values, reverse=True), round(sum(values), 5)) == (True, 1.0)
    c = small(clothes)
    c.data.mix = "mixup"
    assert train.run(c, run)["accuracy"] == last["accuracy"]  # finished
    code, out, err = run_here(main, "--mode=predict", f"--workdir={run}", f"--image={path}")
    assert (code, len(out.splitlines()), err) == (0, 10, "")
    assert out.splitlines()[0] == f"{answers[0][0]} {answers[0][1]:.4f}"


@pytest.mark.usefixtures("standard_promotion")
def test_a_run_starts_from_another_ones_weights(run: Path, clothes: str, tmp_path: Path) -> None:
    c = small(clothes)
    c.init_from, c.train.epochs = str(run), 1
    train.run(c, tmp_path)
    code, _, err = run_here(main, f"--config={ROOT}/configs/fnet.py", f"--config.init_from={run}")
    assert (code, err.count("\n")) == (2, 1)
    assert "reads patches, and data.task=reviews gives tokens; name other weights" in err


@pytest.mark.usefixtures("standard_promotion")
def test_weights_at_another_resolution(tmp_path: Path) -> None:
    """A run from weights for 28 x 28 pixels is one of its own images of 42 x 42, in training and after."""
    for name, size in (("train", 40), ("test", 20)):
        for number in range(size):
            path = tmp_path / name / ("dark", "light")[number % 2] / f"{number:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng((size, number)).integers(0, 50, (42, 42)) + 200 * (number % 2)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    c = small("")
    c.model.positions_kind = "learned"  # the one kind with a table
    c.data.update({"task": "image_files", "dir": "", "batch": 8, "image_size": 28})
    c.data.update({name: str(tmp_path / name) for name in ("train", "test")})
    train.run(c, tmp_path / "first")
    c.init_from, c.data.image_size = str(tmp_path / "first"), 42
    train.run(c, tmp_path / "second")
    predictor = predict.Predictor.load(tmp_path / "second")
    assert tuple(predictor.config.model.image) == (42, 42, 3)
    (then, _, began), (now, _, trained) = (predict.restore(tmp_path / name) for name in ("first", "second"))
    start = init_from.at_resolution(began, then.model, now.model)["encoder"]["positions"]
    table = jnp.asarray(began["encoder"]["positions"])
    np.testing.assert_array_equal(start, positions.interpolate(table, (4, 4), (6, 6)))
    assert trained["encoder"]["positions"].shape == start.shape == (36, 8)
    lines = (tmp_path / "second" / "predictions.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in lines]
    files = sorted((tmp_path / "test").glob("*/*.png"))
    answers = predictor([files[line["index"]] for line in lines])
    found, expected = ([each["probability"] for each in several] for several in (answers, lines))
    np.testing.assert_allclose(found, expected, atol=2e-6)  # which were written with six digits


def bomb() -> bytes:
    """A small file that says it has more pixels than we take, and fewer than Pillow refuses."""
    file = io.BytesIO()
    Image.new("1", (9000, 9000)).save(file, "PNG")
    return file.getvalue()


def png(mode: str = "L", size: tuple[int, int] = (28, 28)) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"no image", "cannot identify image file"),
        (b"", "cannot identify image file"),
        (png()[:50], "give a PNG, JPEG, BMP, PPM or WEBP file"),
        (bomb(), "9000 x 9000 pixels, more than 67,108,864"),
        (png("RGB"), "its pixels are RGB, and the network takes L: convert it first"),
        (png("RGBA"), "its pixels are RGBA, and the network takes L: convert it first"),
        (png("I;16"), "its pixels are I;16, and the network takes L: convert it first"),
    ],
    ids=["text", "empty", "cut", "bomb", "colour", "alpha", "deep"],
)
def test_files_that_are_no_images(contents: bytes, message: str, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(contents)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        code, out, err = run_here(main, "--mode=predict", f"--workdir={run}", f"--image={path}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    with pytest.raises(ValueError, match=message):
        read_image(path, (28, 28, 1))


def test_images_are_scaled_and_grey_ones_coloured(tmp_path: Path) -> None:
    path = tmp_path / "wide.png"
    Image.fromarray(np.full((10, 30), 77, np.uint8)).save(path)
    found = read_image(path, (8, 12, 3))
    assert (found.shape, found.dtype, set(found.ravel().tolist())) == ((8, 12, 3), np.uint8, {77})


def test_black_and_white_images_are_grey_ones(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 2, (8, 12)).astype(bool)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert Image.open(tmp_path / "a.png").mode == "1"
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", (8, 12, 1))[..., 0], 255 * pixels)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", (8, 12, 3))[..., 2], 255 * pixels)


@pytest.mark.parametrize("contents", [bomb(), png("RGB"), None], ids=["large", "colour", "missing"])
def test_another_format_is_no_cure_for_a_readable_file(contents: bytes | None, tmp_path: Path) -> None:
    if contents:
        (tmp_path / "cat.png").write_bytes(contents)
    with pytest.raises(ValueError, match="cannot be used") as caught:
        read_image(tmp_path / "cat.png", (28, 28, 1))
    assert "PNG" not in str(caught.value)


def test_images_stand_upright(tmp_path: Path) -> None:
    """As a camera that was turned has noted it."""
    pixels, turned = np.zeros((8, 8), np.uint8), Image.Exif()
    pixels[:4] = 255
    turned[0x112] = 6  # to be turned by 90 degrees, clockwise
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=turned)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", (8, 8, 1))[..., 0], np.rot90(pixels, -1))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--config.model.patch=5",), "patch=5 with stride=5 does not divide an image of 28 x 28 pixels"),
        (("--config.model.patch=5",), "pad=True (of a run --config.model.pad_image=True), which adds zeros"),
        (("--config.model.stride=9",), "stride=9 leaves pixels out between patches of 4"),
        (("--config.data.mix=blend",), "data.mix='blend' is unknown; choose one of"),
        (("--config.data.crop=28",), "data.crop=28 would leave nothing of images of 28 x 28 pixels"),
        (("--config.data.length=64",), "data.length=64 does nothing for task 'fashion_mnist'"),
        (("--config.model.pooling=class",), "model.pooling='class' needs model.class_token=True"),
        (("--config.model.positions_kind=rotary",), "needs attention in some block"),
        (("--config.model.class_token=True",), "49 tokens|50 tokens fill no grid of its proportions"),
    ],
)
def test_bad_configurations(words: tuple, message: str, clothes: str, tmp_path: Path) -> None:
    code, _, err = run_here(
        main,
        f"--config={ROOT}/configs/fnet.py:fashion_mnist",
        f"--config.data.dir={clothes}",
        f"--workdir={tmp_path / 'run'}",
        *words,
    )
    assert (code, err.count("\n")) == (2, 1), err
    assert any(part in err for part in message.split("|")), err


def test_texts_and_images_are_not_mixed_up(run: Path, toy_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(png())
    for words, message in (
        ((f"--workdir={run}", "--text=good"), "about images; give --image=FILE"),
        ((f"--workdir={toy_run}", f"--image={path}"), "about texts; give --text"),
        ((f"--workdir={run}", "--text=good", f"--image={path}"), "leave --text out"),
    ):
        code, _, err = run_here(main, "--mode=predict", *words)
        assert code == 2
        assert message in err
