"""A trained run for elsewhere: programs that need nothing of this package, weights, a folder for the hub."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import run_here

from fourier_attn import config, data, pretrained, train
from fourier_attn.data.text import encode_with_cut, fit, special
from fourier_attn.family import family
from fourier_attn.inference import classify, evaluation, export
from fourier_attn.inference.predictor import Predictor
from fourier_attn.pretrained import folder
from fourier_attn.pretrained.folder import card, describe
from fourier_attn.train import init_from
from fourier_attn.train.init_from import restore
from fourier_attn.train.rundir import config_file

TEXTS = ["The film was not dull.", "zzz qqq", "I liked the long and brave story. " * 30, "dull [SEP] dull"]
# Runs a folder's programs where this package cannot be imported.
STANDALONE = """
import sys
sys.path += {paths}
class Refuse:
    def find_spec(self, name, *rest):
        if name.split(".")[0] in ("fourier_attn", "flax"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
sys.path.insert(0, {folder!r})
import classify, json
print(json.dumps(classify.Classifier({folder!r})(*{given}).tolist()))
"""


def standalone(folder: Path, *given: Any) -> np.ndarray:
    flatbuffers = pytest.importorskip("flatbuffers")
    paths = [str(Path(flatbuffers.__file__).parents[1])]
    program = STANDALONE.format(paths=paths, folder=str(folder), given=given)
    command = [sys.executable, "-I", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return np.array(json.loads(done.stdout))


def test_a_card_leaves_out_what_could_not_be_measured() -> None:
    """A correlation with answers that are all the same is null in metrics.jsonl."""
    measured = [{"split": "test", "examples": 9, "loss": 0.5, "accuracy": None}]
    text = card(config.default(), "own", measured)
    assert "| loss | 0.5 |" in text
    assert "accuracy" not in text


@pytest.mark.parametrize(
    ("task", "call"),
    [
        ("reviews", '(["a text"])'),
        ("qqp", '(["a text"], ["its second text"])'),
        ("pretraining", '(["a text with a [MASK]"])'),
        ("cifar10", '(["image.png"])'),
        ("shapes", '(["image.png"], ["a question"])'),
        ("pixels", '`from fourier_attn import pretrained; pretrained.load("THIS FOLDER")`'),
    ],
)
def test_a_card_says_what_the_task_takes(task: str, call: str) -> None:
    used = card(config.default(task=task), "fourier_attn", []).splitlines()[-1]
    assert used.endswith(f'Predictor.load("THIS FOLDER"){call}`' if call.startswith("(") else call)


def test_a_card_says_to_which_length_texts_were_padded() -> None:
    """It sets the frequencies where padding is mixed with the tokens."""
    c = config.default("fourier", "sst2")  # 32, 64 and 128
    assert "pad to the smallest of 32, 64, 128 that holds the text, as in training" in card(
        c, "huggingface", []
    )
    c.data.buckets = ()
    assert "max_length=128, truncation=True`" in card(c, "huggingface", [])


def test_programs_of_nothing_answer_nothing() -> None:
    for inputs in ("tokens", "patches"):
        classifier = object.__new__(classify.Classifier)
        classifier.facts, classifier.programs = {"inputs": inputs, "pairs": False, "batch": None}, {}
        assert len(classifier([])) == 0


@pytest.mark.slow
def test_programs_answer_without_this_package(toy_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("flatbuffers")
    code, out, err = run_here(
        export, f"--workdir={toy_run}", f"--to={tmp_path / 'out'}", "--platforms=cpu,cuda,tpu"
    )
    assert (code, err) == (0, "")
    assert "classify.py" in out
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["labels"], manifest["batch"]) == (["negative", "positive"], None)
    expected = [list(answer["probabilities"].values()) for answer in Predictor.load(toy_run)(TEXTS)]
    np.testing.assert_allclose(standalone(tmp_path / "out", TEXTS), expected, atol=1e-5)


def test_only_an_unknown_number_of_rows_is_given_up(toy_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program then takes so many rows as a batch has; any other error is one."""
    predictor, asked = Predictor.load(toy_run), []

    def programs(error: Exception) -> Any:
        def one(predictor: Predictor, platforms: Any, b: Any) -> dict[int, bytes]:
            asked.append(b)
            if isinstance(b, int):
                return {48: b"program"}
            raise error

        monkeypatch.setattr(export, "_programs", one)
        return export.programs(predictor, ("cpu",))

    assert programs(jax.errors.InconclusiveDimensionOperation("b > 128")) == ({48: b"program"}, 16)
    asked.clear()
    with pytest.raises(TypeError, match="a mistake"):
        programs(TypeError("a mistake"))
    assert len(asked) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_pairs_buckets_and_seeds_are_exported(tmp_path: Path) -> None:
    pytest.importorskip("flatbuffers")
    rows = [{"premise": f"a {i} b", "hypothesis": f"c {i * i} d e", "label": "xyz"[i % 3]} for i in range(60)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    c = config.default("lambda", "files")
    c.data.train, c.data.buckets = str(tmp_path / "a.jsonl"), (8,)
    c.data.update({"vocab": 60, "length": 24, "batch": 8})
    c.model.update({"depth": 1, "d": 8, "mlp": 8, "positions": 24, "types": 2})
    c.train.epochs, c.train.seeds = 1, 2
    train.run(config.fit_length(c), tmp_path / "run")
    export.export(tmp_path / "run", tmp_path / "out")
    texts, pairs = ["a 3 b", "a b " * 30, "a", "a [SEP] b"], ["c 5", "d e", "e " * 40, "[PAD]"]
    expected = [list(a["probabilities"].values()) for a in Predictor.load(tmp_path / "run")(texts, pairs)]
    np.testing.assert_allclose(standalone(tmp_path / "out", texts, pairs), expected, atol=1e-5)
    with pytest.raises(ValueError, match="classifies pairs; give text_pairs"):
        classify.Classifier(tmp_path / "out")(texts)
    with pytest.raises(ValueError, match="exists and is not overwritten"):
        export.export(tmp_path / "run", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".fourier_attn", "a.jsonl", "out", "run"]


def test_weights_alone(toy_run: Path, tmp_path: Path) -> None:
    export.export(toy_run, tmp_path / "out", "safetensors")
    settings, params = pretrained.load(tmp_path / "out" / "model.safetensors")
    found, _, kept = restore(toy_run)
    jax.tree.map(np.testing.assert_array_equal, params, jax.device_get(kept))
    assert settings.to_dict() == found.model.to_dict()


def test_a_folder_is_loaded_back(toy_run: Path, tmp_path: Path) -> None:
    export.export(toy_run, tmp_path / "out", "huggingface")
    assert Predictor.load(tmp_path / "out")(TEXTS) == Predictor.load(toy_run)(TEXTS)
    card = (tmp_path / "out" / "README.md").read_text()
    last = json.loads((toy_run / "metrics.jsonl").read_text().splitlines()[-1])
    assert f"| accuracy | {last['accuracy']:.6g} |" in card
    with pytest.raises(
        ValueError,
        match=r"an exported folder, which has no data set; .* with --mode=predict --input=FILE.csv",
    ):
        evaluation.evaluate(tmp_path / "out")
    export.export(tmp_path / "out", tmp_path / "deep" / "er" / "again", "huggingface")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    for name in names:
        assert (tmp_path / "out" / name).read_bytes() == (
            tmp_path / "deep" / "er" / "again" / name
        ).read_bytes()
    (tmp_path / "out" / "README.md").write_text("a card completed by hand")
    classify.check_sums(tmp_path / "out")
    (tmp_path / "out" / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"config.json has changed since the export .* remove SHA256SUMS"):
        Predictor.load(tmp_path / "out")
    (tmp_path / "out" / "SHA256SUMS").unlink()
    with pytest.raises(ValueError, match="lacks the data part of a run"):
        Predictor.load(tmp_path / "out")


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_a_folder_whose_files_were_changed_is_refused(name: str, tmp_path: Path) -> None:
    """One flipped bit would otherwise answer differently without a word."""
    (tmp_path / name).write_bytes(b"\x00contents")
    (tmp_path / "SHA256SUMS").write_text(f"{classify.checksum(tmp_path / name)}  {name}\n")
    classify.check_sums(tmp_path)
    (tmp_path / name).write_bytes(b"\x01contents")
    (tmp_path / "model.safetensors").touch()
    for read in (classify.check_sums, classify.Classifier, folder.load, pretrained.load):
        with pytest.raises(ValueError, match=f"{name} has changed since the export"):
            read(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ValueError, match=f"{name} has changed since the export"):
        classify.check_sums(tmp_path)


@pytest.mark.parametrize("line", ["{sum} *model.h5", "# sums", "", "{sum}  missing", "{SUM}  model.h5"])
def test_sums_in_another_form_are_not_those_of_an_export(line: str, tmp_path: Path) -> None:
    (tmp_path / "model.h5").touch()
    found = classify.checksum(tmp_path / "model.h5")
    (tmp_path / "SHA256SUMS").write_text(line.format(sum=found, SUM=found.upper()) + "\n")
    classify.check_sums(tmp_path, foreign=True)
    with pytest.raises(ValueError, match="has changed since the export"):
        classify.check_sums(tmp_path)


def test_a_network_gets_its_own_tokenizer_and_classes(toy_run: Path) -> None:
    """Ids beyond the table would be clamped, and labels beyond the classes end in a traceback."""
    found = Predictor.load(toy_run)
    with pytest.raises(ValueError, match=r"the tokenizer has 258 tokens, but the network \d+; restore"):
        Predictor(found.config, found.network, found.params, fit("bytes", [], 300))
    c = config.default(task="files")
    c.data.labels, c.model.classes = ("a", "b", "c"), 2
    with pytest.raises(ValueError, match="names 3 classes, but the network has 2"):
        Predictor(c, found.network, found.params)


@pytest.mark.parametrize("format", ["huggingface", "safetensors"])
def test_an_exported_folder_is_a_start(
    format: str, toy_run: Path, toy: config.Config, tmp_path: Path
) -> None:
    """With the tokenizer that lies next to its weights; a folder that says its task keeps the head, too."""
    export.export(toy_run, tmp_path / "out", format)
    toy.init_from = str(tmp_path / "out")
    start = init_from.load(toy, tmp_path / "next")
    assert start.tokenizer == tmp_path / "out" / "tokenizer.json"
    assert start.tokenizer
    assert start.tokenizer.is_file()
    kept = "the head is kept: it has the same task" in start.notes
    assert (kept, "head" in start.params) == ((True, True) if format == "huggingface" else (False, False))
    trained = restore(toy_run)[2]["encoder"]
    jax.tree.map(np.testing.assert_array_equal, start.params["encoder"], jax.device_get(trained))
    toy.init_from = str(tmp_path / "out" / "model.safetensors")
    assert init_from.load(toy, tmp_path / "next").tokenizer == start.tokenizer
    (tmp_path / "out" / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="has no tokenizer next to its weights; give the tokenizer"):
        init_from.load(toy, tmp_path / "next")


def test_programs_are_not_weights(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "48.stablehlo").write_bytes(b"program")
    with pytest.raises(ValueError, match=r"contains exported programs, .* --format=huggingface"):
        Predictor.load(tmp_path)


def test_few_programs_are_compiled_for_any_number_of_texts() -> None:
    """XLA compiles a program for each number of rows that it is called with."""
    seen: list[int] = []

    class Program:
        def call(self, tokens: np.ndarray) -> np.ndarray:
            seen.append(len(tokens))
            return tokens[:, :2]

    classifier: Any = object.__new__(classify.Classifier)
    classifier.facts, classifier.programs = {"batch": None}, {8: Program()}
    for rows in range(1, 600):
        tokens = np.arange(rows * 3).reshape(rows, 3)
        np.testing.assert_array_equal(classifier.run(8, tokens), tokens[:, :2])
    assert sorted(set(seen)) == [1, 2, 4, 8, 16, 32, 64, 128, 256]


@pytest.mark.parametrize("inputs", ["one text", b"one text", ["a", 3], [b"a"]])
def test_programs_refuse_what_is_not_a_list_of_texts(inputs: Any) -> None:
    classifier = object.__new__(classify.Classifier)
    classifier.facts, classifier.programs = {"inputs": "tokens", "pairs": False, "batch": None}, {}
    with pytest.raises(ValueError, match="give a list of texts|is not a text; give strings"):
        classifier(inputs)


def test_programs_say_what_they_cut() -> None:
    """As the run itself does: of a pair the longer text."""
    classifier: Any = object.__new__(classify.Classifier)
    texts = ["a b c d e f", "a b"]
    for kind, length in (("words", 4), ("bpe", 6)):
        classifier.tokenizer = tokenizer = fit(kind, ["a b c d e f"] * 9, 60)
        classifier.facts = {**special(tokenizer)._asdict(), "length": length}
        rows, cut = encode_with_cut(tokenizer, texts, length)
        found = [classifier.row(text, None) for text in texts]
        assert [row for row, _ in found] == [row.tolist() for row in rows]
        assert [share for _, share in found] == pytest.approx(cut.tolist())
        assert found[0][1] > 0
    rows, cut = encode_with_cut(tokenizer, texts[:1], 6, texts[1:])
    row, share = classifier.row(*texts)
    assert (row, share) == (rows[0].tolist(), pytest.approx(cut[0]))


def test_a_folder_of_weights_is_not_a_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "fnet"}')
    with pytest.raises(ValueError, match=r"a folder of weights, not a run; .* --config.init_from="):
        config_file.load(tmp_path)


def test_a_folder_says_what_transformers_would_need() -> None:
    """Their FNet mixes padding like tokens, which is not the default here."""
    c = family("fnet", "tiny").model
    c.mixer.padding = "invariant"
    assert "train with --config.model.mixer.padding=tokens" in folder.unlike_theirs(c)
    assert "transformers lacks this network" in folder.unlike_theirs(config.default("circular").model)


def test_a_folder_does_not_say_where_files_lay(toy_run: Path, tmp_path: Path) -> None:
    c = config_file.load(toy_run)
    names = ("train", "validation", "test", "tokenizer")
    files = {name: f"/home/somebody/clinic/{name}.csv" for name in names}
    c.data.update(files | {"dir": "/home/somebody", "corpora": ("/home/somebody/clinic/*.txt",)})
    describe(tmp_path, c, "fourier_attn", toy_run / "tokenizer.json", [])
    written = (tmp_path / "config.json").read_text() + (tmp_path / "README.md").read_text()
    assert "/home" not in written
    assert "train.csv" in written


@pytest.fixture
def published(few_reviews: str, tmp_path: Path) -> Path:
    """A run whose network is the published one."""
    c = family("fnet", "tiny", "reviews")
    c.model.update({"depth": 2, "d": 16, "emb": 16, "mlp": 24, "positions": 32})
    c.data.update({"dir": few_reviews, "train_examples": 64, "vocab": 150, "length": 32, "buckets": ()})
    c.data.tokenizer, c.model.mixer.padding, c.train.epochs = "bpe", "tokens", 1
    with jax.numpy_dtype_promotion("standard"):
        train.run(config.fit_length(c), tmp_path / "run")
    export.export(tmp_path / "run", tmp_path / "out", "huggingface")
    return tmp_path


def test_a_published_network_gets_their_names(published: Path) -> None:
    facts = json.loads((published / "out" / "config.json").read_text())
    assert facts["architectures"] == ["FNetForSequenceClassification"]
    assert facts["id2label"] == {"0": "negative", "1": "positive"}
    assert Predictor.load(published / "out")(TEXTS) == Predictor.load(published / "run")(TEXTS)


@pytest.mark.slow
def test_their_library_loads_it(published: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    folder = published / "out"
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = [text for text in TEXTS if "[SEP]" not in text]  # which is text to us, and a token to them
    given = tokenizer(texts, padding="max_length", max_length=32, truncation=True, return_tensors="pt")
    with torch.no_grad():
        logits = network(given["input_ids"], token_type_ids=given.get("token_type_ids")).logits
    expected = [list(answer["probabilities"].values()) for answer in Predictor.load(folder)(texts)]
    np.testing.assert_allclose(torch.softmax(logits, -1), expected, atol=1e-4)  # float32, and their GELU
    assert network.config.id2label == dict(enumerate(data.TASKS["reviews"].labels))
