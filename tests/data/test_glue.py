import lzma
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from conftest import SHARED
from tensorflow_datasets.text import glue as tfds_glue

from fourier_attn.data.prepare import prepare
from fourier_attn.data.sources import glue
from fourier_attn.train import scores

PAIR = "index\tsentence1\tsentence2"
MRPC = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
QNLI = "index\tquestion\tsentence"
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
MNLI = "index\tgenre\tsentence1\tsentence2"
TINY = {  # what the published files hold, in two or three rows of each
    "SST-2/train": 'sentence\tlabel\n" so it ends \t0\nwitty \t1\n\n',
    "SST-2/dev": "sentence\tlabel\na thriller \t1\n",
    "SST-2/test": 'index\tsentence\n0\tIt " ends ( badly ) .\n1\tFine , fine .\n',
    "CoLA/train": "gj04\t1\t\tWe went.\nbc01\t0\t*\tWent\u2028 we.\n",
    "CoLA/dev": "gj04\t1\t\tSentence ends.",
    "CoLA/test": 'index\tsentence\n0\tÉtudes "bloom.\n',
    "MRPC/train": f'{MRPC}\n1\t1\t2\tHe said " yes .\tYes .\n0\t3\t4\ta\tb\n',
    "MRPC/dev": f"{MRPC}\n0\t5\t6\tc\td\n",
    "MRPC/test": "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\te\tf\n1\t9\t10\tg\th\n",
    "STS-B/train": f"{PAIR}\tscore\n0\tA plane.\tA jet.\t4.750\n1\tA cat.\tA sum.\t0.000\n",
    "STS-B/dev": f"{PAIR}\tscore\n0\tOne.\tUn.\t5\n",
    "STS-B/test": f"{PAIR}\n0\tTwo.\tDeux.\n",
    "RTE/train": f"{PAIR}\tlabel\n0\tIt rains.\tWet.\tentailment\n1\tIt rains.\tNo.\tnot_entailment\n",
    "RTE/dev": f"{PAIR}\tlabel\n0\tIt snows.\tNo.\tnot_entailment\n",
    "RTE/test": f"{PAIR}\n0\tIt hails.\tYes.\n",
    "WNLI/train": f"{PAIR}\tlabel\r\n0\tIt is.\tThe cup is.\t1\r\n1\tIt is.\tThe bag is.\t0\r\n",
    "WNLI/dev": f"{PAIR}\tlabel\n0\tIt was.\tThe cup was.\t0\n",
    "WNLI/test": f"{PAIR}\n0\tIt will.\tThe cup will.\n",
    "QNLI/train": f'{QNLI}\tlabel\n0\tWho?\tI, "am.\tentailment\n1\tWho?\tNo.\tnot_entailment\n',
    "QNLI/dev": f"{QNLI}\tlabel\n0\tWhy?\tSo.\tentailment\n",
    "QNLI/test": f"{QNLI}\n0\tHow?\tThus.\n",
    "QQP/train": f'{QQP}\n9\t1\t2\tIs it "?\tIt?\t1\n8\t3\t4\t"A broken\nquestion\tWhole?\t0\n'
    "7\t5\t6\tA\rbreak\tB\t1\n6\t7\t8\tEnd?\t\t0\n",
    "QQP/dev": f"{QQP}\n5\t1\t2\tC?\tD?\t0\n",
    "QQP/test": "id\tquestion1\tquestion2\n0\tE?\tF?\n",
    "MNLI/train": f"{MNLI}\tlabel1\tgold_label\n0\tfiction\tHe ran.\tHe moved.\tneutral\tentailment\n",
    "MNLI/dev_matched": f"{MNLI}\tlabel1\tgold_label\n0\tslate\tHe sat.\tHe ran.\tneutral\tcontradiction\n",
    "MNLI/dev_mismatched": f"{MNLI}\tlabel1\tgold_label\n0\t9/11\tHe ate.\tA pie.\tentailment\tneutral\n",
    "MNLI/test_matched": f"{MNLI}\n0\tslate\tShe sat.\tShe ran.\n",
    "MNLI/test_mismatched": f"{MNLI}\n0\t9/11\tShe ate.\tA pie.\n",
}


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    for name, text in TINY.items():
        path = tmp_path / "glue" / f"{name}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return tmp_path / "glue"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real files, unpacked, since TFDS reads no other; without the labels of a test split."""
    if not (SHARED / "glue").is_dir():
        pytest.skip("the GLUE files are not on this machine")
    where = tmp_path_factory.mktemp("glue")
    for path in (SHARED / "glue").glob("*/*.tsv.xz"):
        if path.name != "test_labeled.tsv.xz":
            (where / path.parent.name).mkdir(exist_ok=True)
            (where / path.parent.name / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
    return where


class Download:
    """TFDS's download manager, of archives that are there. MRPC comes as train and dev in one file."""

    def __init__(self, source: Path, where: Path) -> None:
        self.source, self.where = source, where

    def download_and_extract(self, url: str) -> str:
        return str(self.source)

    def download(self, urls: dict) -> dict:
        train, dev = ((self.source / "MRPC" / f"{name}.tsv").read_text() for name in ("train", "dev"))
        rows = dev.splitlines(keepends=True)[1:]
        (self.where / "both.tsv").write_text(train.rstrip("\n") + "\n" + "".join(rows))
        (self.where / "ids.tsv").write_text("".join("\t".join(row.split("\t")[1:3]) + "\n" for row in rows))
        test = self.source / "MRPC" / "test.tsv"
        return {"dev_ids": self.where / "ids.tsv", "train": self.where / "both.tsv", "test": test}


def oracle(builder: tfds_glue.Glue, source: Path, where: Path) -> dict[str, list]:
    """What TFDS's own builder makes of the files."""
    generators = builder._split_generators(Download(source, where))
    return {str(made.name): list(builder._generate_examples(**made.gen_kwargs)) for made in generators}


def is_tfds(name: str, source: Path, where: Path) -> None:
    builder = tfds_glue.Glue(config=name.removeprefix("glue/"), data_dir=str(where))
    expected = oracle(builder, source, where)
    read = {split: list(examples) for split, examples in glue.splits(builder, source).items()}
    if name == "glue/mrpc":  # TFDS numbers dev on from train, in the order of a file that is not at hand
        shift = len(read["train"])
        expected["validation"] = [(i - shift, row | {"idx": i - shift}) for i, row in expected["validation"]]
    label = builder.info.features["label"]
    if isinstance(label, tfds.features.ClassLabel):
        for _, row in (row for rows in expected.values() for row in rows):
            row["label"] = label.encode_example(row["label"])
    assert read == expected


@pytest.mark.parametrize("name", glue.GLUE)
def test_reads_what_tfds_reads(name: str, tiny: Path, tmp_path: Path) -> None:
    is_tfds(name, tiny, tmp_path)


@pytest.mark.parametrize("name", ["cola", "mrpc", "rte", "sst2", "stsb", "wnli"])
def test_reads_what_tfds_reads_in_the_real_files(name: str, real: Path, tmp_path: Path) -> None:
    is_tfds(f"glue/{name}", real, tmp_path)


@pytest.mark.parametrize("name", glue.GLUE)
def test_the_table_says_what_tfds_says(name: str, tiny: Path, tmp_path: Path) -> None:
    task, config = glue.GLUE[name], tfds_glue.Glue.builder_configs[name.removeprefix("glue/")]
    assert set(task.texts) == set(config.text_features)
    assert list(task.texts) == list(config.text_features)
    assert list(task.labels) == (config.label_classes or [])
    assert task.folder == config.data_dir
    assert len(task.submissions) == len(task.tests) == len(task.validations)
    assert set(task.metrics) <= set(scores.SCORES)


def test_a_prepared_task_is_read_by_name(tiny: Path, tmp_path: Path) -> None:
    prepare("glue/mnli", tiny, str(tmp_path / "tfds"))
    prepare("glue/stsb", tiny / "STS-B", str(tmp_path / "tfds"))  # the task's own folder will do
    read = tfds.data_source("glue/mnli", data_dir=tmp_path / "tfds", download=False)
    assert tuple(read) == glue.GLUE["glue/mnli"].splits
    row = {"premise": b"He sat.", "hypothesis": b"He ran.", "label": 2, "idx": 0}
    assert dict(read["validation_matched"][0]) == row
    assert read["test_mismatched"][0]["label"] == -1
    read = tfds.data_source("glue/stsb", data_dir=tmp_path / "tfds", download=False)
    assert {float(row["label"]) for row in read["train"]} == {4.75, 0.0}
    assert read["test"][0]["label"] == -1.0


def test_the_labels_of_sst2s_test_set(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    answers = "sentence\tlabel\nIt '' ends -lrb- badly -rrb- .\t0\nfine, fine\t1\n".replace("-lrb-", "(")
    (tiny / "SST-2" / "test_labeled.tsv").write_text(answers.replace("-rrb-", ")"))
    prepare("glue/sst2", tiny, str(tmp_path / "tfds"))
    read = tfds.data_source("glue/sst2", data_dir=tmp_path / "tfds", download=False)["test"]
    texts = {row["idx"]: (row["sentence"].decode(), row["label"]) for row in read}
    assert texts == {0: ('It " ends ( badly ) .', 0), 1: ("Fine , fine .", 1)}
    assert "in TFDS they are -1" in capsys.readouterr().out


@pytest.mark.parametrize("rows", ["fine, fine\t1\nIt ends ( badly ) .\t0\n", "It ends ( badly ) .\t0\n"])
def test_labels_of_other_sentences_are_refused(rows: str, tiny: Path, tmp_path: Path) -> None:
    (tiny / "SST-2" / "test_labeled.tsv").write_text(f"sentence\tlabel\n{rows}")
    with pytest.raises(ValueError, match=r"test_labeled.tsv has \d sentences, .* in the same order"):
        prepare("glue/sst2", tiny, str(tmp_path / "tfds"))


@pytest.mark.parametrize(
    ("file", "contents", "message"),
    [
        ("RTE/dev", f"{PAIR}\tlabel\n0\ta\tb\n", "dev.tsv, line 2 has 3 columns instead of 4"),
        ("RTE/dev", f"{PAIR}\tlabel\n0\ta\tb\tentailment\t\n", "dev.tsv, line 2 has 5 columns"),
        (
            "RTE/dev",
            f"{PAIR}\tlabel\n0\ta\tb\tyes\n",
            "line 2 has the label 'yes'; expected one of 0, 1, ent",
        ),
        ("RTE/train", f"{PAIR}\tlabel\n0\ta\tb\t2\n", "line 2 has the label '2'"),
        ("RTE/train", f"{PAIR}\tlabel\n0\ta\tb\t-1\n", "line 2 has the label '-1'"),
        ("STS-B/train", f"{PAIR}\tscore\n0\ta\tb\t5.1\n", "label '5.1'; expected a number from 0 to 5"),
        ("STS-B/dev", f"{PAIR}\tscore\n0\ta\tb\tnan\n", "line 2 has the label 'nan'"),
        ("STS-B/dev", f"{PAIR}\tscore\n0\ta\tb\t4 or 5\n", "line 2 has the label '4 or 5'"),
        ("CoLA/train", "source\tlabel\tmark\tsentence\n", "train.tsv, line 1 has the label 'label'"),
        ("QQP/train", TINY["QQP/train"] + "1\t2\t3\t4\t5\t6\t7\n", "line 8 has 7 columns instead of 6"),
        ("WNLI/dev", f"{PAIR}\n0\ta\tb\n", "dev.tsv, line 1 has no column label"),
        ("WNLI/test", "", "test.tsv has no column sentence1, sentence2"),
        ("WNLI/test", f"{PAIR}\n", "test.tsv has no examples"),
        ("MRPC/test", b"index\t#1 String\t#2 String\n0\ta\tb\n1\tcaf\xe9\tb\n", "line 3 is not UTF-8"),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_left(
    file: str, contents: str | bytes, message: str, tiny: Path, tmp_path: Path
) -> None:
    (tiny / f"{file}.tsv").write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    name = next(name for name, task in glue.GLUE.items() if task.folder == file.split("/")[0])
    for _ in range(2):  # the failed attempt does not count as prepared
        with pytest.raises(ValueError, match=message):
            prepare(name, tiny, str(tmp_path / "tfds"))
    assert not list((tmp_path / "tfds").rglob("*.array_record*"))


def test_a_cut_off_file_is_named(tiny: Path, tmp_path: Path) -> None:
    path = tiny / "RTE" / "dev.tsv"
    packed = lzma.compress(path.read_bytes())
    path.with_name("dev.tsv.xz").write_bytes(packed[:-30])
    path.unlink()
    with pytest.raises(ValueError, match=r"dev.tsv.xz cannot be read after line \d"):
        prepare("glue/rte", tiny, str(tmp_path / "tfds"))


def test_missing_files_are_named(tiny: Path, tmp_path: Path) -> None:
    (tiny / "MNLI" / "dev_matched.tsv").unlink()
    with pytest.raises(ValueError, match=r"not a copy of glue/mnli; .*but dev_matched.tsv is missing$"):
        prepare("glue/mnli", tiny, str(tmp_path / "tfds"))
    (tiny / "RTE").rename(tiny / "other")
    assert glue.available(tiny) == [name for name in glue.GLUE if name != "glue/rte"]
    with pytest.raises(ValueError, match="is not a copy of glue; expected a folder with one of CoLA, SST-2"):
        glue.available(tmp_path)


COUNTS = {
    "glue/cola": (8551, 1043, 1063),
    "glue/mrpc": (3668, 408, 1725),
    "glue/stsb": (5749, 1500, 1379),
    "glue/rte": (2490, 277, 3000),
    "glue/wnli": (635, 71, 146),
}


@pytest.mark.slow
def test_the_real_tasks(real: Path, tmp_path: Path) -> None:
    assert set(glue.available(SHARED / "glue")) == {*COUNTS, "glue/sst2"}
    for name, counts in COUNTS.items():
        builder = prepare(name, SHARED / "glue", str(tmp_path))
        assert tuple(split.num_examples for split in builder.info.splits.values()) == counts
    rows = tfds.data_source("glue/wnli", data_dir=tmp_path, download=False)["validation"]
    assert sorted(row["idx"] for row in rows) == [*range(71)]
    first = next(row for row in rows if row["idx"] == 0)
    assert first["sentence1"] == b"The drain is clogged with hair. It has to be cleaned."
    assert (first["sentence2"], first["label"]) == (b"The hair has to be cleaned.", 0)


def test_the_real_labels_of_sst2(real: Path, tmp_path: Path) -> None:
    builder = tfds_glue.Glue(config="sst2", data_dir=str(tmp_path))
    read = {split: [*rows] for split, rows in glue.splits(builder, SHARED / "glue").items()}
    labels = {split: np.bincount([row["label"] for _, row in rows]).tolist() for split, rows in read.items()}
    assert labels == {"train": [29780, 37569], "validation": [428, 444], "test": [912, 909]}
    unlabelled = [row for _, row in glue.splits(builder, real)["test"]]
    assert [row | {"label": -1} for _, row in read["test"]] == unlabelled


@pytest.mark.parametrize(
    ("name", "predictions", "lines"),
    [
        ("glue/sst2", [1, 0], ["1", "0"]),
        ("glue/wnli", np.array([1, 0], np.int32), ["1", "0"]),
        ("glue/rte", [1, 0], ["not_entailment", "entailment"]),
        ("glue/mnli", [2, 1, 0], ["contradiction", "neutral", "entailment"]),
        ("glue/stsb", np.array([2.5, -0.5, 5.25, 1.23456], np.float32), ["2.500", "0.000", "5.000", "1.235"]),
    ],
)
def test_a_submission(name: str, predictions: object, lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / glue.GLUE[name].submissions[0]
    expected = ["index\tprediction", *(f"{i}\t{line}" for i, line in enumerate(lines))]
    glue.write_submission(path, name, predictions)
    assert path.read_text() == "\n".join(expected) + "\n"
    index = np.arange(len(lines))[::-1]
    glue.write_submission(path, name, [predictions[i] for i in index], index)
    assert path.read_text() == "\n".join(expected) + "\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "predictions", "index", "message"),
    [
        ("glue/rte", [0, 2], None, "prediction 2 is not one of the 2 classes of RTE"),
        ("glue/rte", [-1], None, "prediction -1 is not one"),
        ("glue/sst2", [0.5], None, "prediction 0.5 is not one"),
        ("glue/stsb", [float("nan")], None, "prediction nan"),
        ("glue/sst2", [0, 1], [0, 2], "index must contain each of 0 to 1 once"),
    ],
)
def test_a_bad_submission(
    name: str, predictions: list, index: list | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        glue.write_submission(tmp_path / "answers.tsv", name, predictions, index)
    assert not list(tmp_path.iterdir())
