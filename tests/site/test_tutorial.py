"""Runs the commands of docs/tutorial.md."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PAGE = (ROOT / "docs/tutorial.md").read_text()


def commands(text: str) -> list[str]:
    """Returns the shell commands of a part of the page; a backslash continues one on the next line."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.M | re.S)
    return [command for block in blocks for command in re.split(r"(?<!\\)\n", block.strip())]


REVIEWS, FEW = "range(4000)", "range(1000)"  # accuracies are not checked
FIRST, FURTHER = map(commands, PAGE.replace(REVIEWS, FEW).split("## Further steps"))


def test_the_page_has_all_commands() -> None:
    assert (len(FIRST), len(FURTHER)) == (10, 8)
    assert PAGE.count(REVIEWS) == 1


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("flatbuffers"), reason="the extra `export` is not installed")
def test_the_commands_lead_from_a_table_to_a_classifier(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": ":".join(filter(None, paths)),
        "TQDM_DISABLE": "1",
    }
    said = []
    for command in (*FIRST, *FURTHER):
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        said.append(done.stdout)
    assert "600 train, 200 validation, 200 test" in said[1]
    assert "fnet" in said[3]
    assert "attention" in said[3]
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    lines = [line.split("\t") for line in said[8].splitlines()]
    for answer, (label, probability, _) in zip(answers, lines, strict=True):
        assert label == answer["label"]
        assert float(probability) == pytest.approx(answer["probability"], abs=1e-4)
    assert (tmp_path / "folder" / "README.md").exists()
    further = said[len(FIRST) :]
    assert "of 300 rows with labels" in further[1]
    assert len((tmp_path / "windows.jsonl").read_text().splitlines()) == 300
    assert (tmp_path / "runs" / "balanced" / "confusion.png").exists()
    assert "mean validation accuracy" in further[4]
    assert "word perplexity" in further[6]
    assert further[7].startswith("the film was")
