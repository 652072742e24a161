"""Tasks of GLUE in the one loop, on tiny files: metrics, hidden labels, files to hand in."""

from pathlib import Path

import numpy as np
import pytest
from conftest import configuration as load
from conftest import small_family as small

from fourier_attn import train
from fourier_attn.data.prepare import prepare
from fourier_attn.inference import evaluation, printed_answers
from fourier_attn.train.rundir.metrics_log import read_lines

pytestmark = pytest.mark.usefixtures("standard_promotion")

ROWS = {
    "SST-2": ["sentence\tlabel\n", "a {} film {}\t{}\n"],
    "STS-B": [
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n",
        "{2}\tg\tf\ty\to\ts\ts\tThe {0} cat {1}\tthe {0} dog\t{2}.5\n",
    ],
}


@pytest.fixture
def glue(tmp_path: Path) -> str:
    """Two tasks of GLUE in tiny files, prepared."""
    for folder, (header, row) in ROWS.items():
        (tmp_path / "source" / folder).mkdir(parents=True)
        for split in ("train", "dev", "test"):
            rows = [row.format(("good", "bad")[i % 2], i, i % 2) for i in range(24)]
            lines = header + "".join(rows)
            if split == "test":
                lines = "\n".join(
                    "\t".join(
                        line.split("\t")[:-1] if folder == "STS-B" else [str(i - 1), line.split("\t")[0]]
                    )
                    for i, line in enumerate(lines.splitlines())
                )
                lines = lines.replace("-1\tsentence", "index\tsentence") + "\n"
            (tmp_path / "source" / folder / f"{split}.tsv").write_text(lines)
    for name in ("glue/sst2", "glue/stsb"):
        prepare(name, tmp_path / "source", str(tmp_path / "tfds"))
    return str(tmp_path / "tfds")


@pytest.mark.slow
@pytest.mark.parametrize("task", ["sst2", "stsb"])
def test_a_task_of_glue_ends_with_a_file_to_hand_in(task: str, glue: str, tmp_path: Path) -> None:
    c = small(load("finetune", task))
    c.data.dir, c.train.epochs = glue, 2
    result = train.run(c, tmp_path / "run")
    assert result["examples"] == 24  # test labels are hidden
    lines = read_lines(tmp_path / "run")
    validation = [line for line in lines if line["split"] == "validation"]
    metric = {"sst2": "accuracy", "stsb": "spearman"}[task]
    assert all(-1 <= line[metric] <= 1 for line in validation)
    file = tmp_path / "run" / {"sst2": "SST-2.tsv", "stsb": "STS-B.tsv"}[task]
    rows = [line.split("\t") for line in file.read_text().splitlines()]
    assert rows[0] == ["index", "prediction"]
    assert [row[0] for row in rows[1:]] == [str(i) for i in range(24)]
    assert "validation" in evaluation.evaluate(tmp_path / "run")
    assert "test" not in evaluation.evaluate(tmp_path / "run")
    if task == "stsb":
        [(name, score)] = printed_answers.predict(tmp_path / "run", "the cat", "a dog")
        assert name == "score"
        assert np.isfinite(score)
        with pytest.raises(ValueError, match=r"takes 2 text\(s\); give text and text_pair"):
            printed_answers.predict(tmp_path / "run", "the cat")


@pytest.mark.slow
def test_mnli_has_two_of_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Validation and test splits, matched and mismatched; the matched one chooses, both are reported."""
    folder = tmp_path / "source" / "MNLI"
    folder.mkdir(parents=True)
    names = ("entailment", "neutral", "contradiction")
    for file in ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched"):
        labelled = not file.startswith("test")
        rows = ["index\tgenre\tsentence1\tsentence2" + "\tgold_label" * labelled]
        rows += [
            f"{i}\tg\tHe {file} {i}.\tShe {i}." + f"\t{names[i % 3]}" * labelled
            for i in range({"train": 20, "dev_mismatched": 7}.get(file, 5))
        ]
        (folder / f"{file}.tsv").write_text("\n".join(rows) + "\n")
    prepare("glue/mnli", tmp_path / "source", str(tmp_path / "tfds"))
    c = small(load("finetune", "mnli"))
    c.data.dir, c.train.epochs, c.data.batch = str(tmp_path / "tfds"), 1, 8
    train.run(c, tmp_path / "run")
    lines = {line["split"]: line for line in read_lines(tmp_path / "run")}
    assert lines["test"]["examples"] == lines["test_mismatched"]["examples"] == 5
    assert 0 <= lines["validation_mismatched"]["accuracy"] <= 1
    assert (7 * lines["validation_mismatched"]["accuracy"]) % 1 == pytest.approx(0, abs=1e-5)
    assert "validation_mismatched accuracy" in capsys.readouterr().out
    for file in ("MNLI-m.tsv", "MNLI-mm.tsv"):
        answers = [line.split("\t")[1] for line in (tmp_path / "run" / file).read_text().splitlines()[1:]]
        assert len(answers) == 5
        assert set(answers) <= set(names)
    assert evaluation.evaluate(tmp_path / "run").keys() == {"validation", "validation_mismatched"}
