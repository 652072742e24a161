"""Questions about images: from data to a trained run that is asked."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import drawn, normal, run_here
from pictures import small_shapes

from fourier_attn import config, data, main, pretrained, train
from fourier_attn.data.image_reading import read_image
from fourier_attn.data.sources import shapes
from fourier_attn.data.tfds import prepared
from fourier_attn.inference import export, predictor, printed_answers
from fourier_attn.inference.predictor import Predictor
from fourier_attn.layers.heads import Question
from fourier_attn.layers.introspection import attention_maps
from fourier_attn.studies.inside import attended
from fourier_attn.train import init_from

ASKED = ("--mode=predict", "--text=what colour is the circle?")


def test_no_download_is_announced_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(shapes, "SPLITS", {"train": 4, "validation": 4, "test": 4})
    prepared("synthetic_shapes", str(tmp_path), shapes.builder)
    assert capsys.readouterr().out == ""


@pytest.fixture(scope="module")
def asked(few_shapes: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on questions."""
    where = tmp_path_factory.mktemp("runs") / "answers"
    with jax.numpy_dtype_promotion("standard"):
        train.run(small_shapes(few_shapes), where)
    return where


def test_what_is_no_image_is_named(asked: Path) -> None:
    """As a line of --input may have it."""
    loaded = Predictor.load(asked)
    told = r"takes images; give files|cannot be used|has control characters"
    for image in (5, None, ["a.png"], "none.png", "a\0b"):
        with pytest.raises(ValueError, match=told):
            loaded.image(image)


def test_a_look_inside_takes_image_and_question(asked: Path, shapes_picture: str, tmp_path: Path) -> None:
    """The answer, where the question looked for it, and the weights of the block."""
    words = ("--mode=explain", f"--workdir={asked}", f"--output={tmp_path / 'inside'}")
    code, _, error = run_here(main, *words, f"--image={shapes_picture}", "--text=what colour is the circle?")
    assert code == 0, error
    document = json.loads((tmp_path / "inside.json").read_text())
    assert document["question"] == "what colour is the circle?"
    found = dict(printed_answers.predict_image(asked, shapes_picture, "what colour is the circle?"))
    assert document["answer"]["probabilities"] == pytest.approx(found, abs=1e-6)
    _, network, params = init_from.restore(asked)
    tokenizer = data.text.load_tokenizer(asked / "tokenizer.json")
    question = data.text.encode_questions(tokenizer, ["what colour is the circle?"], 8)
    image = read_image(Path(shapes_picture), (40, 40, 3))[None]
    maps = attention_maps(network, params, image, question=question)
    assert maps.shape == (1, 4, 25)
    np.testing.assert_allclose(maps.sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(np.array(document["map"]).reshape(4, 25), maps[0], atol=1e-6)
    (block,) = document["blocks"]
    heads, rows, columns = np.array(block["weights"]).shape
    assert heads == 4
    assert rows == columns
    for more, message in [
        ((), "needs a question; give --text"),
        (("--text=what is it?",), "does not know"),
    ]:
        code, _, error = run_here(main, *words, f"--image={shapes_picture}", *more)
        assert code == 2
        assert message in error


def test_the_head_is_the_chapters_question_token() -> None:
    """In float64: its words' mean, normalised, attends to the tokens; a padded word is none."""
    head, x = Question(outputs=3, vocab=7, heads=2), normal(2, 5, 4)
    question = jnp.array([[2, 6, -1], [1, -1, -1]])
    params = drawn(head, x, x[:, 0], question=question)["params"]
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


def test_batches_hold_the_questions_of_their_images(few_shapes: str, tmp_path: Path) -> None:
    splits = data.load(small_shapes(few_shapes).data, directory=tmp_path, seed=3)
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


def test_a_run_answers_questions(asked: Path, shapes_picture: str) -> None:
    words = (*ASKED, f"--workdir={asked}", f"--image={shapes_picture}")
    code, out, error = run_here(main, *words)
    assert code == 0, error
    found = dict(line.rsplit(" ", 1) for line in out.splitlines())
    assert set(found) == set(shapes.ANSWERS)
    assert sum(map(float, found.values())) == pytest.approx(1, abs=1e-3)
    assert init_from.restore(asked)[0].model.head == "question"


def test_an_answer_with_its_map_as_a_picture(
    asked: Path, shapes_picture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where --output says; without it nothing is written. The run is read once for both."""
    restore, restored = init_from.restore, []
    monkeypatch.setattr(
        predictor, "restore", lambda directory, *more: restored.append(directory) or restore(directory, *more)
    )
    words = (*ASKED, f"--workdir={asked}", f"--image={shapes_picture}")
    before, (_, plain, _) = sorted(asked.iterdir()), run_here(main, *words)
    assert sorted(asked.iterdir()) == before
    restored.clear()
    code, out, error = run_here(main, *words, f"--output={tmp_path / 'seen'}")
    assert code == 0, error
    assert len(restored) == 1
    files = [tmp_path / f"seen.{kind}" for kind in ("json", "png")]
    assert out == plain + "".join(f"written to {file}\n" for file in files)
    assert np.array(json.loads(files[0].read_text())["map"]).shape == (4, 5, 5)
    assert files[1].read_bytes().startswith(b"\x89PNG")
    before = Path(shapes_picture).read_bytes()
    code, out, error = run_here(main, *words, f"--output={shapes_picture.removesuffix('.png')}")
    assert (code, out, Path(shapes_picture).read_bytes()) == (2, plain, before)
    assert "would be written over the image; choose another name" in error
    code, out, error = run_here(main, *words, "--output=-")
    assert (code, out, "cannot name the files of a picture" in error) == (2, "", True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--text=what colour is the penguin?",),
            "has a word that the task does not know; ask with are, circle",
        ),
        (("--text=",), "text='' is empty"),
        (("--text=" + "circle " * 9,), "has 9 words; ask with 1 to 8"),
        ((), "needs a question; give --text"),
        (("--text=how many circles?", "--text_pair=?"), "--image and --text_pair exclude each other"),
    ],
)
def test_questions_that_cannot_be_answered(
    asked: Path, shapes_picture: str, words: tuple[str, ...], message: str
) -> None:
    about = (f"--workdir={asked}", f"--image={shapes_picture}")
    code, _, error = run_here(main, "--mode=predict", *about, *words)
    assert code == 2
    assert message in error
    assert error.count("\n") == 1


def test_a_file_of_questions(asked: Path, shapes_picture: str, tmp_path: Path) -> None:
    """Answers are those of each alone; a line that cannot be answered is named, or left out."""
    questions = ["what colour is the circle?", "how many squares?", "how many circles?"]
    lines = [json.dumps({"image": shapes_picture, "text": text}) for text in questions]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(lines))
    words = ("--mode=predict", f"--workdir={asked}", f"--input={source}", f"--output={target}")
    code, _, error = run_here(main, *words)
    assert code == 0, error
    answers = [json.loads(line) for line in target.read_text().splitlines()]
    for answer, question in zip(answers, questions, strict=True):
        alone = dict(printed_answers.predict_image(asked, shapes_picture, question))
        assert answer["probabilities"] == pytest.approx(alone, abs=1e-6)
    bad = [
        ({"image": shapes_picture}, "has no 'text', but 'image'"),
        ({"image": "none.png", "text": questions[0]}, "image=none.png cannot be used"),
        ({"image": shapes_picture, "text": "how many penguins?"}, "has a word that the task does not know"),
        ({"image": shapes_picture, "text": "circle " * 9}, "has 9 words; ask with 1 to 8"),
        ({"image": shapes_picture, "text": 3}, "text=3 is not a text"),
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
    with pytest.raises(ValueError, match=r"has questions about images, .* with --format=safetensors"):
        export.export(asked, tmp_path / "out")
    assert not any(tmp_path.iterdir())
    export.export(asked, tmp_path / "out", "safetensors")
    _, params = pretrained.load(tmp_path / "out" / "model.safetensors")
    jax.tree.map(np.testing.assert_array_equal, params, jax.device_get(init_from.restore(asked)[2]))


def test_a_folder_is_loaded_back(asked: Path, shapes_picture: str, tmp_path: Path) -> None:
    """With the tokenizer of its questions, which frames them with no [CLS] and [SEP]."""
    export.export(asked, tmp_path / "out", "huggingface")
    found = Predictor.load(tmp_path / "out")([shapes_picture], ["what colour is the circle?"])
    assert found == Predictor.load(asked)([shapes_picture], ["what colour is the circle?"])
    assert json.loads((tmp_path / "out" / "tokenizer.json").read_text())["post_processor"] is None


def test_as_many_questions_as_images(asked: Path, shapes_picture: str) -> None:
    with pytest.raises(ValueError, match="1 images and 2 questions; give equally many"):
        Predictor.load(asked)([shapes_picture], ["how many squares?"] * 2)


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
    with pytest.raises(ValueError, match=f"data.{knob}=.* would change the correct answers of task '{task}'"):
        config.check(c)


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
