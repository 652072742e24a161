"""Images in training, and the judgement of a file."""

import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT, assert_same_run, run_here
from pictures import drawn, idx_files, small
from PIL import Image

from fourier_attn import data, main, model, train
from fourier_attn.data.image_reading import read_image
from fourier_attn.data.images import statistics
from fourier_attn.data.prepare import prepare
from fourier_attn.data.sources import idx
from fourier_attn.inference import evaluation, printed_answers
from fourier_attn.inference.predictor import Predictor
from fourier_attn.ops import positions
from fourier_attn.train import init_from


@pytest.fixture(scope="module")
def clothes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A TFDS data directory that holds few images as fashion_mnist."""
    where = str(tmp_path_factory.mktemp("clothes"))
    prepare("fashion_mnist", idx_files(tmp_path_factory.mktemp("files")), where)
    return where


def test_statistics_are_those_of_train(clothes: str, tmp_path: Path) -> None:
    splits = data.load(small(clothes).data, directory=tmp_path)
    assert (len(splits.train.rows), len(splits.validation.rows), len(splits.test.rows)) == (48, 12, 20)
    assert splits.model["pixel_mean"] == statistics(splits.train.rows)[0]
    assert splits.model["image"] == (28, 28, 1)
    assert not splits.in_train.any()


def augmented(clothes: str) -> Any:
    c = small(clothes)
    c.data.flip, c.data.crop, c.data.mix = True, 2, "mixup"
    return c


@pytest.fixture(scope="module")
def run(clothes: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("run")
    c = augmented(clothes)
    with jax.numpy_dtype_promotion("standard"):
        train.run(c, where)
    return where


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("step", [2, 3])
def test_a_stopped_run_of_augmented_images_ends_the_same(
    step: int, run: Path, clothes: str, tmp_path: Path, stopped_at: Callable[[Any, Path, int], None]
) -> None:
    """Bit for bit: within an epoch, and at its end."""
    c = augmented(clothes)
    stopped_at(c, tmp_path, step)
    train.run(c, tmp_path)
    assert_same_run(run, tmp_path)


@pytest.mark.usefixtures("standard_promotion")
def test_images_in_bfloat16(clothes: str) -> None:
    c, pixels = small(clothes), jnp.asarray(drawn(4, 28, 28, 1)[0])
    c.model.update({"image": (28, 28, 1), "classes": 10, "patch": 7})
    full = model.build(c.model)
    params = jax.jit(full.init)(jax.random.key(0), pixels)
    c.model.dtype = "bfloat16"
    answers = jax.jit(model.build(c.model).apply)(params, pixels)
    assert answers.dtype == jnp.float32
    np.testing.assert_allclose(answers, jax.jit(full.apply)(params, pixels), atol=0.05)  # 8 bits


@pytest.mark.usefixtures("standard_promotion")
def test_a_run_is_evaluated_and_judges_a_file(run: Path, clothes: str, tmp_path: Path) -> None:
    last = [eval(line, {"null": None}) for line in (run / "metrics.jsonl").read_text().splitlines()][-1]
    assert evaluation.evaluate(run)["test"]["accuracy"] == last["accuracy"]
    image, path = drawn(1, 28, 28)[0][0], tmp_path / "boot.png"
    Image.fromarray(image).save(path)
    answers = printed_answers.predict_image(run, path)
    assert sorted(name for name, _ in answers) == sorted(idx.CLOTHES)
    values = [value for _, value in answers]
    assert (values == sorted(values, reverse=True), round(sum(values), 5)) == (True, 1.0)
    again = train.run(augmented(clothes), run)  # which is finished
    assert again["accuracy"] == last["accuracy"]
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
    assert "reads patches, but data.task=reviews gives tokens; choose other weights" in err


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
    predictor = Predictor.load(tmp_path / "second")
    assert tuple(predictor.config.model.image) == (42, 42, 3)
    (then, _, began), (now, _, trained) = (init_from.restore(tmp_path / name) for name in ("first", "second"))
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
        (b"no image", "cat.png cannot be used: it is not a PNG, JPEG, BMP, PPM or WEBP file"),
        (b"", "cat.png cannot be used: it is not a PNG, JPEG, BMP, PPM or WEBP file"),
        (png()[:50], "give a PNG, JPEG, BMP, PPM or WEBP file"),
        (bomb(), "9000 x 9000 pixels, more than 67,108,864"),
        (png("RGB"), "its mode is RGB, but the network takes L; convert it first"),
        (png("RGBA"), "its mode is RGBA, but the network takes L; convert it first"),
        (png("I;16"), "its mode is I;16, but the network takes L; convert it first"),
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
        (("--config.data.crop=28",), "data.crop=28 is too large for images of 28 x 28 pixels"),
        (("--config.data.length=64",), "data.length=64 has no effect for task 'fashion_mnist'"),
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
        ((f"--workdir={run}", "--text=good"), "takes images; give --image=FILE"),
        ((f"--workdir={toy_run}", f"--image={path}"), "takes texts; give --text"),
        ((f"--workdir={run}", "--text=good", f"--image={path}"), "leave --text out"),
    ):
        code, _, err = run_here(main, "--mode=predict", *words)
        assert code == 2
        assert message in err
