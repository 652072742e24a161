"""Questions about images, and labels of patches: from data to a trained run that is asked."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT, normal, run_here
from PIL import Image
from sklearn.metrics import jaccard_score

from configs import pixels
from configs import shapes as shapes_config
from fourier_attn import config, data, export, main, model, predict, pretrained, train
from fourier_attn.data import images as pictures
from fourier_attn.data.sources import shapes
from fourier_attn.data.tfds import Pictures, prepared
from fourier_attn.exported import Classifier
from fourier_attn.layers.heads import Question
from fourier_attn.layers.inside import attention_maps
from fourier_attn.studies import attended
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.scores import mean_iou

# by which ml_collections reads a configuration
pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")

ASKED = ("--mode=predict", "--text=what colour is the circle?")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A TFDS data directory with few shapes."""
    where = str(tmp_path_factory.mktemp("shapes"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "SPLITS", {"train": 160, "validation": 16, "test": 20})
        shapes.builder(where).download_and_prepare()
    return where


def test_no_download_is_announced_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(shapes, "SPLITS", {"train": 4, "validation": 4, "test": 4})
    prepared("synthetic_shapes", str(tmp_path), shapes.builder)
    assert capsys.readouterr().out == ""


def small(few: str, task: str = "answers") -> Any:
    c = shapes_config.get_config(task)
    c.data.update({"dir": few, "batch": 16})
    c.model.update({"depth": 1, "d": 8, "mlp": 8})
    c.train.update({"epochs": 2, "log_every": 2})
    return c


@pytest.fixture(scope="module")
def asked(few: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on questions."""
    where = tmp_path_factory.mktemp("runs") / "answers"
    with jax.numpy_dtype_promotion("standard"):
        train.run(small(few), where)
    return where


@pytest.fixture(scope="module")
def patches(few: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on labels of patches."""
    where = tmp_path_factory.mktemp("runs") / "patches"
    with jax.numpy_dtype_promotion("standard"):
        train.run(small(few, "segmentation"), where)
    return where


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("files") / "shapes.png"
    Image.fromarray(next(shapes.examples("test", 1)).image).save(path)
    return str(path)


def test_what_is_no_image_is_named(asked: Path) -> None:
    """As a line of --input may have it."""
    predictor = predict.Predictor.load(asked)
    for image in (5, None, ["a.png"], "none.png", "a\0b"):
        with pytest.raises(ValueError, match=r"about images; give files|cannot be used"):
            predictor.image(image)


def test_a_look_inside_takes_image_and_question(asked: Path, picture: str, tmp_path: Path) -> None:
    """The answer, where the question looked for it, and the weights of the block."""
    words = ("--mode=explain", f"--workdir={asked}", f"--output={tmp_path / 'inside'}")
    code, _, error = run_here(main, *words, f"--image={picture}", "--text=what colour is the circle?")
    assert code == 0, error
    document = json.loads((tmp_path / "inside.json").read_text())
    assert document["question"] == "what colour is the circle?"
    found = dict(predict.predict_image(asked, picture, "what colour is the circle?"))
    assert document["answer"]["probabilities"] == pytest.approx(found, abs=1e-6)
    _, network, params = predict.restore(asked)
    tokenizer = data.text.load_tokenizer(asked / "tokenizer.json")
    question = data.text.encode_questions(tokenizer, ["what colour is the circle?"], 8)
    image = pictures.read_image(Path(picture), (40, 40, 3))[None]
    maps = attention_maps(network, params, image, question=question)
    assert maps.shape == (1, 4, 25)
    np.testing.assert_allclose(maps.sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(np.array(document["map"]).reshape(4, 25), maps[0], atol=1e-6)
    (block,) = document["blocks"]
    heads, rows, columns = np.array(block["weights"]).shape
    assert heads == 4
    assert rows == columns
    for more, message in [
        ((), "text=None: give one with --text"),
        (("--text=what is it?",), "does not know"),
    ]:
        code, _, error = run_here(main, *words, f"--image={picture}", *more)
        assert code == 2
        assert message in error


def test_the_head_is_the_chapters_question_token() -> None:
    """In float64: its words' mean, normalised, attends to the tokens; a padded word is none."""
    head, x = Question(outputs=3, vocab=7, heads=2), normal(2, 5, 4)
    question = jnp.array([[2, 6, -1], [1, -1, -1]])
    params = jax.jit(head.init)(jax.random.key(0), x, x[:, 0], question=question)["params"]
    leaves, tree = jax.tree.flatten(params)
    params = jax.tree.unflatten(tree, [normal(*p.shape, seed=i) for i, p in enumerate(leaves)])
    p = jax.tree.map(lambda a: np.asarray(a, np.float64), params)

    def norm(z: np.ndarray, weights: dict) -> np.ndarray:
        z = z - z.mean()
        return z / np.sqrt(np.mean(z**2) + 1e-6) * weights["scale"] + weights["bias"]

    expected = np.zeros((2, 3))
    for b, ids in enumerate(([2, 6], [1])):
        token = norm(p["words"]["embedding"][ids].mean(axis=0), p["words_norm"])
        patches, out = np.asarray(x[b], np.float64), p["attention"]["out"]["bias"]
        for h in range(2):
            w = {name: p["attention"][name]["kernel"][:, h] for name in ("query", "key", "value")}
            s = patches @ w["key"] @ (token @ w["query"]) / 2  # sqrt of the width 4
            weights = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
            out = out + weights @ patches @ w["value"] @ p["attention"]["out"]["kernel"][h]
        z = norm(token + out, p["norm"])
        hidden = np.maximum(z @ p["mlp_in"]["kernel"] + p["mlp_in"]["bias"], 0)
        z = z + hidden @ p["mlp_out"]["kernel"] + p["mlp_out"]["bias"]
        expected[b] = z @ p["output"]["kernel"] + p["output"]["bias"]
    y = jax.jit(head.apply)({"params": params}, x, x[:, 0], question=question)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)  # float32, values to some tens


def test_batches_hold_the_questions_of_their_images(few: str, tmp_path: Path) -> None:
    splits = data.load(small(few).data, directory=tmp_path, seed=3)
    train = splits.train
    assert splits.model["vocab"] == 2 + len(set(" ".join(shapes.QUESTIONS).replace("?", " ?").split()))
    tokenizer = data.text.load_tokenizer(splits.tokenizer)
    seen = {e.image.tobytes(): shapes.QUESTIONS[e.question] for e in shapes.examples("train", 160)}
    batch = train[1]
    assert batch["question"].shape == (16, 8)
    for number, question in zip(batch["index"], batch["question"], strict=True):
        words = [tokenizer.id_to_token(int(i)) for i in question if i >= 0]
        assert " ".join(words) == seen[train.rows[number].tobytes()].replace("?", " ?")
        assert (question[len(words) :] == -1).all()
    changed = train.questions[0].copy()
    before = splits.fingerprints()["data"]["train"]
    train.questions[0] = -1
    assert splits.fingerprints()["data"]["train"] != before
    train.questions[0] = changed


def test_a_run_answers_questions(asked: Path, picture: str) -> None:
    words = (*ASKED, f"--workdir={asked}", f"--image={picture}")
    code, out, error = run_here(main, *words)
    assert code == 0, error
    found = dict(line.rsplit(" ", 1) for line in out.splitlines())
    assert set(found) == set(shapes.ANSWERS)
    assert sum(map(float, found.values())) == pytest.approx(1, abs=1e-3)
    assert predict.restore(asked)[0].model.head == "question"


def test_an_answer_with_its_map_as_a_picture(asked: Path, picture: str, tmp_path: Path) -> None:
    """Where --output says; without it nothing is written."""
    words = (*ASKED, f"--workdir={asked}", f"--image={picture}")
    before, (_, plain, _) = sorted(asked.iterdir()), run_here(main, *words)
    assert sorted(asked.iterdir()) == before
    code, out, error = run_here(main, *words, f"--output={tmp_path / 'seen'}")
    assert code == 0, error
    files = [tmp_path / f"seen.{kind}" for kind in ("json", "png")]
    assert out == "".join(f"written to {file}\n" for file in files) + plain
    assert np.array(json.loads(files[0].read_text())["map"]).shape == (4, 5, 5)
    assert files[1].read_bytes().startswith(b"\x89PNG")
    before = Path(picture).read_bytes()
    code, _, error = run_here(main, *words, f"--output={picture.removesuffix('.png')}")
    assert (code, Path(picture).read_bytes()) == (2, before)
    assert "would be written over the image; choose another name" in error
    code, out, error = run_here(main, *words, "--output=-")
    assert (code, out, "is no name for the files of a picture" in error) == (2, "", True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--text=what colour is the penguin?",),
            "has a word that the task does not know; ask with are, circle",
        ),
        (("--text=",), "text='' is empty"),
        (("--text=" + "circle " * 9,), "has 9 words; ask with 1 to 8"),
        ((), "and text=None: give one with --text"),
        (("--text=how many circles?", "--text_pair=?"), "--image and --text_pair exclude each other"),
    ],
)
def test_questions_that_cannot_be_answered(
    asked: Path, picture: str, words: tuple[str, ...], message: str
) -> None:
    code, _, error = run_here(main, "--mode=predict", f"--workdir={asked}", f"--image={picture}", *words)
    assert code == 2
    assert message in error
    assert error.count("\n") == 1


def test_a_file_of_questions(asked: Path, picture: str, tmp_path: Path) -> None:
    """Answers are those of each alone; a line that cannot be answered is named, or left out."""
    questions = ["what colour is the circle?", "how many squares?", "how many circles?"]
    lines = [json.dumps({"image": picture, "text": text}) for text in questions]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(lines))
    words = ("--mode=predict", f"--workdir={asked}", f"--input={source}", f"--output={target}")
    code, _, error = run_here(main, *words)
    assert code == 0, error
    answers = [json.loads(line) for line in target.read_text().splitlines()]
    for answer, question in zip(answers, questions, strict=True):
        alone = dict(predict.predict_image(asked, picture, question))
        assert answer["probabilities"] == pytest.approx(alone, abs=1e-6)
    bad = [
        ({"image": picture}, "is no object with image and text"),
        ({"image": "none.png", "text": questions[0]}, "image=none.png cannot be used"),
        ({"image": picture, "text": "how many penguins?"}, "has a word that the task does not know"),
        ({"image": picture, "text": "circle " * 9}, "has 9 words; ask with 1 to 8"),
        ({"image": picture, "text": 3}, "text=3 is no text"),
    ]
    for value, message in bad:
        source.write_text("\n".join([lines[0], json.dumps(value), lines[1]]))
        code, _, error = run_here(main, *words)
        assert code == 2
        assert "in.jsonl, line 2: " in error
        assert message in error
    code, _, error = run_here(main, *words, "--skip_bad")
    assert code == 0, error
    assert [json.loads(line)["line"] for line in target.read_text().splitlines()] == [1, 3]


def test_questions_are_no_program(asked: Path, tmp_path: Path) -> None:
    """What cannot be exported is said; the weights can."""
    with pytest.raises(ValueError, match=r"asks questions about images, .* use --format=safetensors"):
        export.export(asked, tmp_path / "out")
    assert not any(tmp_path.iterdir())
    export.export(asked, tmp_path / "out", "safetensors")
    _, params = pretrained.load(tmp_path / "out" / "model.safetensors")
    jax.tree.map(np.testing.assert_array_equal, params, jax.device_get(predict.restore(asked)[2]))


def test_a_folder_is_loaded_back(asked: Path, patches: Path, picture: str, tmp_path: Path) -> None:
    """Questions with their tokenizer, which frames them with no [CLS] and [SEP]."""
    for run, questions in ((asked, ["what colour is the circle?"]), (patches, None)):
        folder = tmp_path / run.name
        export.export(run, folder, "huggingface")
        found = predict.Predictor.load(folder)([picture], questions)
        assert found == predict.Predictor.load(run)([picture], questions)
        assert (folder / "tokenizer.json").exists() == bool(questions)
    assert json.loads((tmp_path / "answers" / "tokenizer.json").read_text())["post_processor"] is None


@pytest.mark.slow
def test_a_program_of_images_asks_for_arrays(patches: Path, picture: str, tmp_path: Path) -> None:
    """The file name of one gets one line; its bytes get the answers of the run."""
    pytest.importorskip("flatbuffers")
    folder = tmp_path / "out"
    words = [sys.executable, "-m", "fourier_attn.export", f"--workdir={patches}", f"--to={folder}"]
    subprocess.run(words, check=True, cwd=ROOT)  # without annotations that are checked: rows may be `b` there
    words = [sys.executable, folder / "classify.py", picture]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert f"error: {picture!r}: this network takes images" in done.stderr
    assert "an array of bytes (n, 40, 40, 3)" in done.stderr
    image = pictures.read_image(Path(picture), (40, 40, 3))[None]
    [answer] = predict.Predictor.load(patches)([picture])
    expected = [list(p["probabilities"].values()) for row in answer["patches"] for p in row]
    np.testing.assert_allclose(Classifier(folder)(image)[0], expected, atol=1e-5)


def test_pixels_are_no_program() -> None:
    c = pixels.get_config("fnet")
    c.data.task, c.model.classes = "pixels", 10
    predictor = predict.Predictor(c, model.build(c.model), {})
    with pytest.raises(ValueError, match="'pixels' has images as tokens, which programs do not take"):
        export.check_programs(predictor)


def test_as_many_questions_as_images(asked: Path, picture: str) -> None:
    with pytest.raises(ValueError, match="there are 1 images and 2 questions; give as many"):
        predict.Predictor.load(asked)([picture], ["how many squares?"] * 2)


def test_labels_of_patches(few: str, picture: str, tmp_path: Path) -> None:
    """A run on them: its metrics by hand from its answers, and what it says of an image."""
    with jax.numpy_dtype_promotion("standard"):
        result = train.run(small(few, "segmentation"), tmp_path / "run")
    assert 0 <= result["mean_iou"] <= 1
    lines = (tmp_path / "run" / "predictions.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    label, chosen = (np.array([row[name] for row in rows]) for name in ("label", "prediction"))
    assert label.shape == (20, 25)
    assert result["mean_iou"] == pytest.approx(mean_iou(chosen, label))
    assert result["accuracy"] == pytest.approx(np.mean(chosen == label), abs=1e-6)
    code, out, error = run_here(main, "--mode=predict", f"--workdir={tmp_path / 'run'}", f"--image={picture}")
    assert code == 0, error
    assert [line.split()[:2] for line in out.splitlines()] == [[str(i // 5), str(i % 5)] for i in range(25)]
    assert {line.split()[2] for line in out.splitlines()} <= set(shapes.LABELS)
    code, _, error = run_here(main, *ASKED, f"--workdir={tmp_path / 'run'}", f"--image={picture}")
    assert code == 2
    assert "leave --text out" in error


def test_labels_of_other_patches_are_refused(few: str, tmp_path: Path) -> None:
    c = small(few, "segmentation")
    c.model.patch = 4
    with pytest.raises(ValueError, match="has labels for 25 patches, and the network 100 of them"):
        train.run(c, tmp_path / "run")


def test_mean_iou_is_the_mean_jaccard_index() -> None:
    random = np.random.default_rng(0)
    label, prediction = random.integers(0, 4, (2, 6, 25))
    expected = jaccard_score(label.ravel(), prediction.ravel(), average="macro")
    assert mean_iou(prediction, label) == pytest.approx(expected)
    assert mean_iou(label, label) == 1
    assert mean_iou(np.array([[0, 1]]), np.array([[0, 0]])) == pytest.approx((1 / 2 + 0) / 2)


def test_each_patch_counts_alike_and_padded_examples_do_not() -> None:
    logits, label = normal(3, 4, 5), jnp.asarray(np.random.default_rng(0).integers(0, 5, (3, 4)), jnp.int32)
    batch = {"label": label, "weight": jnp.array([1.0, 1.0, 0.0])}
    sums = OBJECTIVES["tokens"].sums(logits, batch)
    log_p = jax.nn.log_softmax(logits)
    loss = -np.mean([log_p[b, t, label[b, t]] for b in range(2) for t in range(4)])
    np.testing.assert_allclose(sums["loss"], [2 * loss, 2], rtol=1e-5)
    right = np.mean(np.argmax(logits[:2], axis=-1) == label[:2])
    np.testing.assert_allclose(sums["accuracy"], [2 * right, 2], rtol=1e-6)


@pytest.mark.parametrize(
    ("task", "knob", "value"),
    [
        ("shapes", "crop", 2),
        ("shapes", "mix", "mixup"),
        ("shapes_patches", "flip", True),
        ("pixels", "flip", True),
    ],
)
def test_what_would_change_the_answer_is_refused(task: str, knob: str, value: Any) -> None:
    c = config.default("attention", task)
    c.data[knob] = value
    with pytest.raises(ValueError, match=f"data.{knob}=.* would move or mix what task '{task}' asks"):
        config.check(c)


def test_a_class_token_has_no_label() -> None:
    c = config.default("attention", "shapes_patches")
    c.model.class_token = True
    with pytest.raises(ValueError, match="model.class_token=True has no label among those of the patches"):
        config.check(c)


def test_grey_values() -> None:
    images = np.array([[[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [10, 20, 30]]]], np.uint8)
    np.testing.assert_array_equal(pictures.grey(images), [[76, 150, 29, 18]])
    np.testing.assert_array_equal(pictures.grey(images[..., :1]), [[255, 0, 0, 10]])


def test_pixels_as_tokens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Batches of 1,024 grey values without padding, of a task that needs no tokenizer."""
    random = np.random.default_rng(0)

    def some(count: int) -> Pictures:
        images = random.integers(0, 256, (count, 32, 32, 3), np.uint8)
        none = np.zeros(count, bool)
        return Pictures(images, random.integers(0, 10, count), np.arange(count), none, np.full(count, ""))

    parts = {"train": some(8), "validation": some(4), "test": some(4), "batch_5": some(4)}
    monkeypatch.setattr(data, "read_images", lambda config: (dict(parts), {}, ()))
    c = pixels.get_config("fnet")
    c.data.batch = 4
    splits = data.load(c.data, directory=tmp_path)
    batch = splits.validation[0]
    np.testing.assert_array_equal(batch["inputs"], pictures.grey(parts["validation"].images))
    assert batch["mask"].all()
    assert splits.tokenizer is None
    assert "batch_5" in splits.evals
    fitted = config.fitted(c, splits)
    assert (fitted.model.inputs, fitted.model.vocab, fitted.model.classes) == ("tokens", 256, 10)
    shapes_ = jax.eval_shape(
        model.build(fitted.model).init, jax.random.key(0), jnp.zeros((1, 1024), jnp.int32)
    )
    assert shapes_["params"]["encoder"]["tokens"]["embedding"].shape == (256, 128)
    c.data.length = 512
    with pytest.raises(ValueError, match="data.length=512 must be 1024, the pixels of an image"):
        data.load(c.data, directory=tmp_path)


def test_the_patches_that_are_asked_about() -> None:
    questions = np.array(["how many squares?", "what colour is the circle?", "how many crosses are there?"])
    labels = np.array([[0, 2, 1, 2], [1, 1, 0, 3], [4, 3, 0, 0]])
    expected = [[0, 1, 0, 1], [1, 1, 0, 0], [1, 0, 0, 0]]
    np.testing.assert_array_equal(attended.asked_patches(questions, labels), expected)


@pytest.mark.parametrize("swapped", [False, True])
def test_weights_on_the_asked_shapes_are_told_from_others(
    swapped: bool, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two made-up heads: all weight on shapes of the asked kind, as they were drawn, or of the next one.

    Where heads change their places between validation and test, the one that was chosen has none.
    """
    pictures = {split: list(shapes.examples(split, 20)) for split in ("validation", "test")}
    drawn = {each.image.tobytes(): each for examples in pictures.values() for each in examples}
    tested = {each.image.tobytes() for each in pictures["test"]}

    def weights(network: Any, params: Any, test: Any) -> np.ndarray:
        images = [image for i in range(len(test)) for image in test[i]["inputs"]][: len(test.labels)]
        found = [drawn[image.tobytes()] for image in images]
        heads = np.array(
            [[each.labels.ravel() == 1 + (each.question + k) % 4 for k in (0, 1)] for each in found]
        )
        if swapped and images[0].tobytes() in tested:
            heads = heads[:, ::-1]
        return heads / heads.sum(-1, keepdims=True)

    monkeypatch.setattr(attended, "_weights", weights)
    out = tmp_path / "attended.json"
    code, _, error = run_here(attended, f"--workdir={asked}", f"--out={out}")
    assert code == 0, error
    for row in json.loads(out.read_text())["rows"]:
        assert (row["share"], row["best_head"]) == pytest.approx((0.5, 0.0 if swapped else 1.0))
        assert row["pointing"] == (0 if swapped else 1)


def test_where_questions_look_is_measured(asked: Path, tmp_path: Path) -> None:
    """Of a network that has learned little, both shares are about those of the patches."""
    out = tmp_path / "attended.json"
    code, said, error = run_here(attended, f"--workdir={asked}", f"--out={out}")
    assert code == 0, error
    rows = json.loads(out.read_text())["rows"]
    assert sum(row["examples"] for row in rows) == 20
    for row in rows:
        assert 0 < row["chance"] < 0.2
        assert row["share"] == pytest.approx(row["chance"], abs=0.1)
        assert row["best_head"] >= row["share"]
        assert 0 <= row["pointing"] < 0.6
    assert "of the weight on the right patches" in said
