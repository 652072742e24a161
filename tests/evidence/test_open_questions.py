"""Missing runs have their costs in the list of open questions and in the docstrings of configurations."""

import ast
import re
from pathlib import Path

import pytest
from conftest import ROOT

from evidence.pages import layout, open_questions
from evidence.pages.fill import TABLES
from evidence.pages.markdown import Results
from evidence.suite import cells as suite


def test_configurations_were_run_to_their_end_or_say_what_it_would_cost() -> None:
    """Each configuration has a finished run in results, or its docstring has its cost."""
    results = Results(ROOT)
    ledger = open_questions.finished_cells(results)
    left = open_questions.not_run(results, ledger)
    shipped = {name.partition(":")[0] for name in open_questions.shipped(results)}
    assert shipped == {f"configs/{path.name}" for path in (ROOT / "configs").glob("*.py")}
    said = {file: costs(docstring(ROOT / file)) for file in shipped}
    for name in left:
        file, _, argument = name.partition(":")
        known = [hours for pattern, hours in said[file] if re.fullmatch(pattern, argument or "reviews")]
        assert len(known) == 1, f"{name}: its docstring must say that it was not run to its end, and its cost"
        assert 0.5 < open_questions.core_hours(name, ledger) / known[0] < 2, name
    for file, stated in said.items():
        for pattern, _ in stated:
            open_ones = [name.partition(":")[2] or "reviews" for name in left if name.startswith(f"{file}")]
            assert any(re.fullmatch(pattern, argument) for argument in open_ones), (
                f"{file}: {pattern} was run"
            )


def docstring(path: Path) -> str:
    """Returns the docstring of a file in one line."""
    return " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split())


def costs(text: str) -> list[tuple[str, float]]:
    """Returns patterns of the arguments that were not run to their end, and their core-hours."""
    _, _, rest = re.sub("Not run", "not run", text).partition("not run to ")
    group = r"((?:`[\w-]+`(?:, | and )?)+) \(expected cost: ([\d.]+) core-hours"
    return [
        (name.replace("NAME", r"\w+"), float(hours))
        for names, hours in re.findall(group, rest)
        for name in re.findall("`([^`]+)`", names)
    ]


def test_rows_without_a_result_are_open_questions() -> None:
    """Each row of a table that is not yet run is among the open questions, or its table needs a device."""
    page = (ROOT / "docs" / "evidence.md").read_text()
    assert "| Speed of training on a GPU or TPU" in page
    results = Results(ROOT)
    listed = open_questions.open_questions(results) + open_questions.open_configurations(results)
    of_cpus = (make for name, make in TABLES.items() if not name.startswith("gpu-"))
    missing = [row for make in of_cpus for row in layout.parts(make(results)).missing]
    assert missing
    for row in missing:
        name = row.strip("| ").split(" | ")[0].strip("`")
        file, _, argument = name.removeprefix("configs/").partition(":")
        words = [f"`{file}`", argument] if name.startswith("configs/") else [name]
        assert all(word in listed for word in words), row


def test_costs_grow_with_the_work() -> None:
    ledger = open_questions.finished_cells(Results(ROOT))
    known = ledger.grouped("2")["attention"][0]["cpu_seconds"] / 3600
    long, short = open_questions.core_hours("configs/attention.py:imdb", ledger), known
    assert long == pytest.approx(
        short * 20 / 2
    )  # the same network on the same texts, for 20 epochs instead of 2
    assert open_questions.comparable("configs/listops.py:attention") == ("listops", "attention")
    alike = {
        "configs/attention.py:pathfinder": ("pixels", "attention"),  # both read 1,024 pixels
        "configs/mixer.py:global_filter-pathfinder_patches": ("cifar10", "global_filter"),  # 64 patches
        "configs/mixer.py:token_conv": ("2", "fnet"),
    }
    assert {config: open_questions.comparable(config) for config in alike} == alike


def test_a_shorter_run_is_not_a_run_to_the_end() -> None:
    cells = suite.EVERY
    assert open_questions.at_its_end(cells["cifar10-attention-0"])
    assert not open_questions.at_its_end(cells["lm_equal-causal-attention-0"])


def test_runs_with_other_options_are_no_runs_of_a_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    results, ledger = Results(ROOT), open_questions.finished_cells(Results(ROOT))
    config = "configs/lambda_vit.py:mnist-3"

    def run(options: str) -> bool:
        row = {"config": config, "command": f"python -m fourier_attn.main --config={config} {options}"}
        monkeypatch.setattr(Results, "runs", lambda *_: {"x": {"rows": [row]}})
        return config in open_questions.finished(results, ledger)

    assert run("--config.seed=1 --config.data.dir=...")
    assert not run("--config.train.epochs=1")
