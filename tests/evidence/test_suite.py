"""The suite of networks: which there are, what they may cost, and all of it once on synthetic reviews."""

import json
import math
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cells import written
from conftest import ROOT, run_here
from waiting import HANG_S, wait_for

from evidence.report import write
from evidence.suite import cells as suite
from evidence.suite import pretraining, train
from evidence.suite.ledger import Ledger, digest, unpack
from fourier_attn import config


def test_cells_have_names_of_their_own_and_the_cheap_come_first() -> None:
    for tier in suite.MODELS:
        cells = suite.cells(tier)
        assert len({cell.name for cell in cells}) == len(cells)
        together = [cell for cell in cells if cell.seed == cell.split_seed]
        for seed in {cell.seed for cell in together}:
            costs = [cell.core_hours for cell in together if cell.seed == seed]
            assert costs == sorted(costs)
    with pytest.raises(ValueError, match=r"only='nobody' is not a model of tier 1; it has identity, "):
        suite.cells("1", only=["nobody"])


def test_the_articles_listing_is_a_tier_of_its_own(tmp_path: Path) -> None:
    """Their recipe: one seed each, at the cost that was measured."""
    code, out, error = run_here(train, "--tier=listing", "--list", f"--results={tmp_path}")
    assert (code, error) == (0, "")
    left = [line.split() for line in out.splitlines() if line.startswith("left")]
    cells = [(line[1], line[-1]) for line in left]
    assert cells == [("3.00", "listing-lambda-0"), ("3.00", "listing-fnet-0")]
    for cell in suite.cells("listing"):
        c = cell.read()
        assert (c.data.tokenizer, c.data.batch, c.train.epochs) == ("whitespace", 4, 20)
        config.check(c)


def test_the_cells_on_images_are_about_what_they_say(tmp_path: Path) -> None:
    """Their configurations have their task, and the one command lists all that are not done."""
    tasks = ("shapes", "fashion_mnist", "cifar10", "pixels", "recall", "skills")
    for task in tasks:
        for entry in suite.MODELS[task]:
            file, _, argument = entry.config.partition(":")
            c = runpy.run_path(str(ROOT / file))["get_config"](argument)
            assert c.data.task == entry.task
            config.check(c)
        assert task in write.TITLES
    code, out, error = run_here(train, "--list", "--tier=shapes,cifar10", f"--results={tmp_path}")
    assert code == 0, error
    left = [line.split()[-1] for line in out.splitlines() if line.startswith("left")]
    assert left == [cell.name for task in ("shapes", "cifar10") for cell in suite.cells(task)]
    code, _, error = run_here(train, "--tier=shapes,imagenet")
    assert code == 2
    assert "tier='imagenet' is unknown; choose one of toy, settings, 1, 2, " in error
    assert {tier: suite.folder(tier) for tier in ("1", "bytes", "pretrain", "glue", "shapes", "toy")} == {
        "1": "imdb",
        "bytes": "imdb",
        "pretrain": "pretraining",
        "glue": "glue",
        "shapes": "shapes",
        "toy": "reviews",
    }


def test_the_pace_is_that_of_finished_cells(tmp_path: Path) -> None:
    written(tmp_path, cpu_seconds=2 * 3600 * 0.005)
    assert train.pace(suite.cells("toy"), Ledger(tmp_path)) == pytest.approx(2)
    assert train.pace(suite.cells("1"), Ledger(tmp_path)) == 1


def test_a_budget_below_the_cheapest_cell(tmp_path: Path) -> None:
    code, _, error = run_here(train, "--tier=1", "--budget_hours=0.001", f"--results={tmp_path}")
    assert code == 2
    assert "the cheapest cell left needs: 1-circular-3x3-exact-0" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("scale", [1.0, 1.49, 1.5, 30.123])
def test_the_budget_that_is_asked_for_is_enough(scale: float) -> None:
    left = suite.cells("1")
    with pytest.raises(ValueError, match="pass at least that") as said:
        train.check_budget(left, scale, 1e-3)
    enough = float(str(said.value).partition("some ")[2].split()[0])
    train.check_budget(left, scale, enough)
    assert enough == pytest.approx(0.01 * scale, abs=0.01)


def test_a_budget_that_is_no_number(tmp_path: Path) -> None:
    code, _, error = run_here(train, "--tier=toy", "--budget_hours=nan", f"--results={tmp_path}")
    assert code == 2
    assert "budget_hours=nan is not a number of hours" in error
    train.check_budget(suite.cells("toy"), 1.0, math.inf)


def test_an_affordable_suite_stays_within_its_budget(tmp_path: Path) -> None:
    runs = [train.CellRun(cell, tmp_path, Ledger(tmp_path), ()) for cell in suite.cells("1")]
    chosen = list(train.affordable(runs, 2.0, 1.0))
    assert 2 * sum(run.cell.core_hours for run in chosen) <= 1.0
    assert len(chosen) > 3
    assert list(train.affordable(runs, 2.0, None)) == runs


def test_data_that_are_not_there(tmp_path: Path) -> None:
    words = ["--tier=1", f"--results={tmp_path / 'a'}", f"--data_dir={tmp_path / 'none'}"]
    code, _, error = run_here(train, *words, f"--runs={tmp_path / 'runs'}")
    assert code == 2
    assert "python -m fourier_attn.data.prepare --dataset=imdb_reviews --source=DIR" in error
    assert not (tmp_path / "runs").exists()


def test_texts_of_pre_training_that_are_not_there(tmp_path: Path) -> None:
    """One line, and nothing is begun; of the cell's own texts each is looked for."""
    words = ["--tier=pretrain", f"--results={tmp_path / 'a'}", f"--data_dir={tmp_path / 'none'}"]
    code, out, error = run_here(train, *words, f"--runs={tmp_path / 'runs'}")
    assert (code, out) == (2, "")
    assert "python -m fourier_attn.data.prepare --dataset=imdb_reviews --source=DIR" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("corpora", "exclude", "message"),
    [
        (("synthetic_reviews:train", "wikitext2"), (), "wikitext2 is not in .* --dataset=wikitext2"),
        (
            ("synthetic_reviews:unsupervised",),
            (),
            "has no split 'unsupervised'; it has train, ",
        ),
        (("synthetic_reviews",), ("synthetic_reviews:tests",), "has no split 'tests'"),
        ((), (), r"data.corpora=\(\) is empty"),
    ],
)
def test_each_text_of_pre_training_is_looked_for(
    corpora: tuple[str, ...], exclude: tuple[str, ...], message: str, few_reviews: str
) -> None:
    c = suite.EVERY[pretraining.start("fnet-mini")].read()
    c.data.corpora, c.data.exclude = corpora, exclude
    with pytest.raises(ValueError, match=message):
        train.check_texts(c.data, few_reviews)


@pytest.mark.slow
def test_the_whole_suite_killed_once_in_between(tmp_path: Path) -> None:
    """Two models, two seeds: stopped within the second cell, it goes on; the report stands on its files."""
    directories = [f"--runs={tmp_path / 'runs'}", f"--results={tmp_path / 'results'}"]
    command = [sys.executable, "-m", "evidence.suite.train", "--tier=toy", *directories]
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    cells = tmp_path / "results" / "reviews" / "cells"
    second = tmp_path / "runs" / "toy-fnet-0" / "config.json"
    wait_for(lambda: second.exists() or first.poll() is not None)
    assert first.poll() is None, first.communicate()
    first.send_signal(signal.SIGTERM)
    assert first.wait(HANG_S) == 128 + signal.SIGTERM
    assert [path.stem for path in cells.glob("*.json")] == ["toy-identity-0"]
    before = (cells / "toy-identity-0.json").read_bytes()
    listed = subprocess.run([*command, "--list"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "1 of 4 cells done" in listed
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    assert "4 of 4 cells done" in done.stdout
    assert (cells / "toy-identity-0.json").read_bytes() == before  # not trained twice
    resumed = json.loads((cells / "toy-fnet-0.json").read_text())
    assert resumed["processes"] == resumed["counted"] == 2
    assert resumed["sha256"] == digest(resumed)
    assert len(resumed["epochs"]) == 2
    assert resumed["cpu_seconds"] > 1
    assert resumed["peak_memory_mib"] > 50
    right = unpack(resumed["right"])
    assert right.mean() == pytest.approx(resumed["test"]["accuracy"])
    code, _, error = run_here(write, f"--results={cells.parent}")
    assert (code, error) == (0, "")
    text = (cells.parent / "report.md").read_text()
    assert "`fnet` is better than `identity`" in text
    for name in ("curves-toy.png", "costs-toy.png", "forest-toy.png"):
        assert (cells.parent / name).stat().st_size > 5_000
        assert f"({name})" in text
