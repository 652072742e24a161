"""Tables of the skills: chance next to accuracies, and cells whose examples ask for several answers."""

import json
from pathlib import Path

import pytest
from conftest import ROOT

from evidence.pages.markdown import NOT_RUN, Results
from evidence.pages.skills import skills_table
from evidence.suite.ledger import one_answer

# by which ml_collections reads a configuration
pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")


def test_a_row_has_the_chance_of_its_task_and_says_what_was_not_run(tmp_path: Path) -> None:
    lines = skills_table(Results(tmp_path)).splitlines()
    assert lines[0] == "| task | chance, % | `identity`, % | `conv_attention`, % |"
    rows = {line.split("`")[1]: line for line in lines[2:]}
    assert rows["recall"] == f"| `recall` | 0.78 | {NOT_RUN} | {NOT_RUN} |"  # one of 128 values
    assert rows["induction"].startswith("| `induction` | 7.14 |")  # 1 / 14
    assert len(skills_table(Results(ROOT)).splitlines()) == 2 + len(rows) == 10


def test_examples_with_a_label_for_each_token_have_several_answers(tmp_path: Path) -> None:
    for label, one in ((1, True), ([1, -100], False)):
        (tmp_path / "predictions.jsonl").write_text(json.dumps({"label": label, "prediction": label}) + "\n")
        assert one_answer(tmp_path) == one
