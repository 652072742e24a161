"""The suite of networks: its cells, the files of what they found, and all of it once on synthetic reviews."""

import dataclasses
import json
import math
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from cells import finding
from conftest import ROOT, run_here

from configs import imdb_small
from fourier_attn import config, provenance
from fourier_attn.optics import components, cost, plan, presets
from fourier_attn.studies import collect, images, imdb, ledger, projection, report, starts, suite, variance
from fourier_attn.studies.comparisons import COMPARISONS
from fourier_attn.studies.glue_report import glue_table
from fourier_attn.studies.ledger import Ledger, digest, pack, unpack
from fourier_attn.train import init_from

# by which ml_collections reads a configuration
pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")


@pytest.mark.parametrize("count", [1, 8, 13, 25_000])
def test_answers_are_packed_without_loss(count: int) -> None:
    right = np.random.default_rng(0).random(count) < 0.8
    packed = pack(right)
    assert len(packed["bits"]) <= count / 6 + 4  # 6 bits in each letter, filled up to 4 of them
    np.testing.assert_array_equal(unpack(json.loads(json.dumps(packed))), right)


def test_cells_have_names_of_their_own_and_the_cheap_come_first() -> None:
    for tier in suite.MODELS:
        cells = suite.cells(tier)
        assert len({cell.name for cell in cells}) == len(cells)
        together = [cell for cell in cells if cell.seed == cell.split_seed]
        for seed in {cell.seed for cell in together}:
            costs = [cell.core_hours for cell in together if cell.seed == seed]
            assert costs == sorted(costs)
    with pytest.raises(ValueError, match=r"only='nobody' is no model of tier 1; it has identity, "):
        suite.cells("1", only=["nobody"])


def test_every_tier_has_a_title_and_a_line_of_the_page() -> None:
    page = (ROOT / "docs" / "evidence.md").read_text()
    for tier in suite.MODELS:
        assert tier in report.TITLES
        assert f"`{tier}`" in page or tier in images.TASKS


def test_the_articles_listing_is_a_tier_of_its_own(tmp_path: Path) -> None:
    """Their recipe: one seed each of the networks that wait for a machine that is fast enough."""
    code, out, error = run_here(imdb, "--tier=listing", "--list", f"--results={tmp_path}")
    assert (code, error) == (0, "")
    left = [line.split() for line in out.splitlines() if line.startswith("left")]
    cells = [(line[1], line[-1]) for line in left]
    assert cells == [("8.00", "listing-lambda-0"), ("8.00", "listing-fnet-0")]
    for cell in suite.cells("listing"):
        c = cell.read()
        assert (c.data.tokenizer, c.data.batch, c.train.epochs) == ("whitespace", 4, 20)
        config.check(c)


def test_the_cells_on_images_are_about_what_they_say(tmp_path: Path) -> None:
    """Their configurations have their task, and the one command lists all that are not done."""
    for task in images.TASKS:
        for entry in suite.MODELS[task]:
            file, _, argument = entry.config.partition(":")
            c = runpy.run_path(str(ROOT / file))["get_config"](argument)
            assert c.data.task == entry.task
            config.check(c)
        assert task in report.TITLES
    code, out, error = run_here(images, "--list", "--tasks=shapes,cifar10", f"--results={tmp_path}")
    assert code == 0, error
    left = [line.split()[-1] for line in out.splitlines() if line.startswith("left")]
    assert left == [cell.name for task in ("shapes", "cifar10") for cell in suite.cells(task)]
    code, _, error = run_here(images, "--tasks=imagenet")
    assert code == 2
    assert "tasks=imagenet is unknown; choose of shapes, fashion_mnist, cifar10, pixels" in error


def written(directory: Path, name: str = "toy-fnet-0", **more: object) -> Path:
    cell = suite.EVERY[name]
    knobs = collect.differing(collect.plain(cell.read()))
    facts = finding(name, knobs=knobs, test={"accuracy": 0.5}, cpu_seconds=18.0)
    return Ledger(directory).write(facts | more)


def test_a_file_that_was_edited_is_noticed_and_put_aside(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert Ledger(tmp_path).findings["toy-fnet-0"]["test"] == {"accuracy": 0.5}
    path.write_text(path.read_text().replace("0.5", "0.9"))
    edited = Ledger(tmp_path)
    assert not edited.findings
    assert "hash" in edited.aside[path]
    assert "it is now toy-fnet-0.json.aside" in edited.put_aside()[0]
    assert not path.exists()
    assert not Ledger(tmp_path).aside


def test_a_report_names_first_what_cannot_be_used(tmp_path: Path) -> None:
    written(tmp_path)
    path = written(tmp_path, "toy-identity-0")
    path.write_text(path.read_text().replace("0.5", "0.9"))
    first, second = report.cautions(Ledger(tmp_path))
    assert first.startswith("`toy-identity-0.json` was changed after it was written")
    assert second.startswith("Tier toy is not complete")


def test_what_was_put_aside_before_stays(tmp_path: Path) -> None:
    for content in ("first", "second", "third"):
        path = written(tmp_path)
        path.write_text(content)
        Ledger(tmp_path).put_aside()
    kept = {path.name: path.read_text() for path in (tmp_path / "cells").iterdir()}
    names = [f"toy-fnet-0.json.aside{i}" for i in ("", "1", "2")]
    assert kept == dict(zip(names, ("first", "second", "third"), strict=True))


def test_a_cell_that_goes_on_from_weights_has_all_knobs_that_these_do_not_bring() -> None:
    cell, weights = suite.EVERY["glue-rte-pretrained-0"], suite.EVERY[suite.PRETRAINED].read()
    settings = init_from.adopt(cell.read(), weights.model.to_dict())
    settings.init_from = f"/elsewhere/runs/{suite.PRETRAINED}"
    knobs = collect.differing(collect.plain(settings))
    assert cell.differing(knobs) == ""
    assert cell.differing(knobs | {"init_from": suite.PRETRAINED}) == ""  # as its file has it
    assert cell.differing(knobs | {"model.d": 8, "data.vocab": 60, "model.others.attention.heads": 2}) == ""
    assert cell.differing(knobs | {"data.length": 96}).startswith("data.length 96 there, as by default in")
    for knob in ("model.dropout", "model.mixer.method", "data.train_examples", "train.epochs"):
        assert knob in cell.differing(knobs | {knob: 7})
    told = f"init_from as by default there, {suite.PRETRAINED!r} in configs/finetune.py:rte"
    assert cell.differing({key: value for key, value in knobs.items() if key != "init_from"}) == told
    assert "init_from 'other' there" in cell.differing(knobs | {"init_from": "runs/other"})


def test_weights_have_a_digest(toy_run: Path, tmp_path: Path) -> None:
    """That of what another run would start with; the same of a copy elsewhere, another of other numbers."""
    _, _, params = init_from.restore(toy_run)
    found = starts.digest(toy_run)
    assert re.fullmatch("[0-9a-f]{16}", found)
    assert found == starts.digest_of(params)
    shutil.copytree(toy_run, tmp_path / "copy")
    assert found == starts.digest(tmp_path / "copy")
    assert found != starts.digest_of(jax.tree.map(lambda p: p + 1, params))


def test_a_run_keeps_which_weights_it_began_with(tmp_path: Path) -> None:
    """Noted before it begins, and from then on it does not go on from others."""
    cell = dataclasses.replace(suite.EVERY["toy-fnet-0"], start="start")
    run = imdb.CellRun(cell, tmp_path, Ledger(tmp_path), (), "0a")
    directory = run.program.workdir
    assert starts.noted(directory) is None
    assert list(imdb.affordable([run], 1.0, None)) == [run]
    assert starts.noted(directory) == "0a"
    starts.check(directory, "0b")  # of a run that has not begun there may be others
    starts.note(directory, "0b")
    directory.mkdir()
    (directory / "config.json").touch()
    starts.check(directory, "0b")
    with pytest.raises(ValueError, match=r"toy-fnet-0 began with the weights 0b, and those there now are 0a"):
        starts.check(directory, "0a")
    starts.note(directory, "0a")
    assert starts.noted(directory) == "0b"


def test_a_finding_names_its_start_and_its_weights(
    toy_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name, since a path means nothing on another machine."""
    cell = dataclasses.replace(suite.EVERY["toy-fnet-0"], start="start")
    directory = tmp_path / cell.name
    starts.note(directory, "0a")
    shutil.copytree(toy_run, directory)
    monkeypatch.setattr(suite.Cell, "differing", lambda *_: "")
    row = collect.row(directory)
    monkeypatch.setattr(
        collect, "row", lambda _: row | {"knobs": {"init_from": str(tmp_path / "start"), "data.length": 9}}
    )
    found = ledger.finding(cell, directory)
    assert found["knobs"] == {"init_from": "start", "data.length": 9}
    assert found["weights"] == "0a"
    assert found.keys() >= set(ledger.FACTS)
    alone = dataclasses.replace(cell, start="")
    assert ledger.finding(alone, directory)["weights"] is None


def test_a_cell_of_another_configuration_does_not_count(tmp_path: Path) -> None:
    cell = suite.EVERY["toy-fnet-0"]
    knobs = collect.differing(collect.plain(cell.read()))
    assert cell.differing(knobs) == ""
    written(tmp_path, knobs=knobs | {"train.epochs": 9})
    what = "train.epochs 9 there, 2 in configs/fnet.py"
    assert Ledger(tmp_path).unlike() == {"toy-fnet-0": what}
    directories = [f"--results={tmp_path}", f"--runs={tmp_path / 'runs'}"]
    code, _, error = run_here(imdb, "--tier=toy", *directories)
    assert code == 2
    assert f"was trained with other knobs ({what}); restore the configuration" in error
    assert not (tmp_path / "runs").exists()
    code, out, _ = run_here(imdb, "--tier=toy", "--list", *directories)
    assert (code, what in out) == (0, True)
    assert f"`toy-fnet-0` was trained with other knobs: {what}." in report.cautions(Ledger(tmp_path))


@pytest.mark.parametrize("name", ["imdb", "images"])
def test_all_results_are_of_the_configurations_of_today(name: str) -> None:
    ledger = Ledger(ROOT / "results" / name)
    assert ledger.findings
    assert not ledger.unlike()
    assert not ledger.aside


@pytest.mark.parametrize("name", ["imdb", "images"])
def test_reports_say_what_their_cells_do(name: str) -> None:
    directory = ROOT / "results" / name
    assert report.report(Ledger(directory)) == (directory / "report.md").read_text()


def test_two_runs_of_a_cell_do_not_take_each_other_s_place(tmp_path: Path) -> None:
    path = written(tmp_path, date="yesterday")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"toy-fnet-0\.json is of another run; move one of them away"):
        written(tmp_path, date="today")
    assert path.read_bytes() == before
    runs = [
        imdb.CellRun(suite.EVERY[name], tmp_path, Ledger(tmp_path), ())
        for name in ("toy-fnet-0", "toy-fnet-1")
    ]
    assert list(imdb.affordable(runs, 1.0, None)) == runs[1:]  # the other is done by now


def test_a_score_that_failed_is_kept_and_said() -> None:
    found = {"metric": "spearman", "test": {}, "validation": [0.1, None]}
    assert math.isnan(ledger.score(found))
    assert imdb.in_words(found) == "validation spearman failed"
    assert ledger.score(found | {"test": {"spearman": 0.5}, "validation": []}) == 0.5


def test_one_seed_has_no_interval() -> None:
    found = {"metric": "accuracy", "test": {"accuracy": 0.9}, "right": pack(np.ones(10, bool))}
    assert np.isnan(ledger.interval([found])).all()
    clipped = [found | {"right": None}, found | {"right": None, "test": {"accuracy": 0.99}}]
    assert ledger.interval(clipped)[1] == 1.0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"cell": "toy-fn', "cannot be read"),
        ("[]", "is no file of a finished cell"),
        ('{"rows": []}', "is no file of a finished cell"),
    ],
)
def test_half_written_and_foreign_files_are_named(text: str, why: str, tmp_path: Path) -> None:
    written(tmp_path, "toy-identity-0")
    path = tmp_path / "cells" / "toy-fnet-0.json"
    path.write_text(text)
    there = Ledger(tmp_path)
    assert list(there.findings) == ["toy-identity-0"]
    assert why in there.aside[path]


def test_a_foreign_file_with_a_hash_of_its_own_is_put_aside(tmp_path: Path) -> None:
    """What lacks a single fact is no finding, before somebody asks for this fact."""
    path = written(tmp_path)
    whole = json.loads(path.read_text())
    for key in whole.keys() - {"sha256"}:
        rest = {name: value for name, value in whole.items() if name not in (key, "sha256")}
        path.write_text(json.dumps(rest | {"sha256": digest(rest)}))
        there = Ledger(tmp_path)
        assert not there.findings
        assert there.aside == {path: f"is no file of a finished cell (it has no {key})"}
    few = {"cell": "toy-fnet-0", "test": {}, "epochs": []}
    path.write_text(json.dumps(few | {"sha256": digest(few)}))
    assert "(it has no tier, model, config and " in Ledger(tmp_path).aside[path]


def test_a_file_under_another_name_is_no_finding(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.rename(path.with_name("toy-fnet-1.json"))
    assert not Ledger(tmp_path).findings


def test_the_pace_is_that_of_finished_cells(tmp_path: Path) -> None:
    written(tmp_path, cpu_seconds=2 * 3600 * 0.005)
    assert imdb.pace(suite.cells("toy"), Ledger(tmp_path)) == pytest.approx(2)
    assert imdb.pace(suite.cells("1"), Ledger(tmp_path)) == 1


def test_a_budget_below_the_cheapest_cell(tmp_path: Path) -> None:
    code, _, error = run_here(imdb, "--tier=1", "--budget_hours=0.001", f"--results={tmp_path}")
    assert code == 2
    assert "the cheapest cell left needs: 1-circular-3x3-exact-0" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("scale", [1.0, 1.49, 1.5, 30.123])
def test_the_budget_that_is_asked_for_is_enough(scale: float) -> None:
    left = suite.cells("1")
    with pytest.raises(ValueError, match="give at least that") as said:
        imdb.check_budget(left, scale, 1e-3)
    enough = float(str(said.value).partition("some ")[2].split()[0])
    imdb.check_budget(left, scale, enough)
    assert enough == pytest.approx(0.01 * scale, abs=0.01)


def test_a_budget_that_is_no_number(tmp_path: Path) -> None:
    code, _, error = run_here(imdb, "--tier=toy", "--budget_hours=nan", f"--results={tmp_path}")
    assert code == 2
    assert "budget_hours=nan is no number of hours" in error
    imdb.check_budget(suite.cells("toy"), 1.0, math.inf)


def test_an_affordable_suite_stays_within_its_budget(tmp_path: Path) -> None:
    runs = [imdb.CellRun(cell, tmp_path, Ledger(tmp_path), ()) for cell in suite.cells("1")]
    chosen = list(imdb.affordable(runs, 2.0, 1.0))
    assert 2 * sum(run.cell.core_hours for run in chosen) <= 1.0
    assert len(chosen) > 3
    assert list(imdb.affordable(runs, 2.0, None)) == runs


def test_data_that_are_not_there(tmp_path: Path) -> None:
    words = ["--tier=1", f"--results={tmp_path / 'a'}", f"--data_dir={tmp_path / 'none'}"]
    code, _, error = run_here(imdb, *words, f"--runs={tmp_path / 'runs'}")
    assert code == 2
    assert "python -m fourier_attn.data.prepare --dataset=imdb_reviews --source=DIR" in error
    assert not (tmp_path / "runs").exists()


def test_texts_of_pre_training_that_are_not_there(tmp_path: Path) -> None:
    """One line, and nothing is begun; of the cell's own texts each is looked for."""
    words = ["--tier=pretrain", f"--results={tmp_path / 'a'}", f"--data_dir={tmp_path / 'none'}"]
    code, out, error = run_here(imdb, *words, f"--runs={tmp_path / 'runs'}")
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
        ((), (), r"data.corpora=\(\) names no texts"),
    ],
)
def test_each_text_of_pre_training_is_looked_for(
    corpora: tuple[str, ...], exclude: tuple[str, ...], message: str, few_reviews: str
) -> None:
    c = suite.EVERY[suite.PRETRAINED].read()
    c.data.corpora, c.data.exclude = corpora, exclude
    with pytest.raises(ValueError, match=message):
        imdb.check_texts(c.data, few_reviews)


def test_cells_that_go_on_from_weights_need_these(tmp_path: Path) -> None:
    there = Ledger(tmp_path)
    with pytest.raises(ValueError, match=r"pretrain-fnet-mini-0 is not finished.*run --tier=pretrain first"):
        imdb.check_start(tmp_path / suite.PRETRAINED, there)
    path = written(tmp_path, suite.PRETRAINED)
    message = (
        f"{path} says that these weights are trained, but they are not in {tmp_path / suite.PRETRAINED}; "
        "bring the directory of that run there, or move the file away so that --tier=pretrain trains it again"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        imdb.check_start(tmp_path / suite.PRETRAINED, Ledger(tmp_path))
    assert {cell.start for cell in suite.cells("glue")} == {"", suite.PRETRAINED}
    assert suite.PRETRAINED in {cell.name for cell in suite.cells("pretrain")}


def test_a_report_does_not_pass_over_what_is_missing(tmp_path: Path) -> None:
    code, _, error = run_here(report, f"--results={tmp_path}")
    assert (code, "has no finished cell" in error) == (2, True)
    path = written(tmp_path)
    whole = path.read_text()
    path.write_text(whole.replace("0.", "0.1"))
    code, _, error = run_here(report, f"--results={tmp_path}")
    assert (code, f"({path.name} was changed after it was written" in error) == (2, True)
    path.write_text(whole)
    code, _, error = run_here(report, f"--results={tmp_path}")
    assert code == 2
    assert "3 of 4 cells are not yet run (identity 2, fnet 1)" in error


def test_a_report_does_not_pass_over_different_code() -> None:
    def found(cell: str, source: str, rows: str = "z", drift: tuple[str, ...] = ()) -> ledger.Finding:
        prints = {"code": {"source": source}, "data": {"test": rows}}
        facts = {"cell": cell, "tier": "1", "task": "imdb", "fingerprints": prints, "split_seed": 0}
        facts |= {"knobs": {"data.vocab": 9, "model.d": 8}}
        return facts | {"allowed_drift": [{"what": list(drift)}] if drift else []}

    assert not list(report.mixed([found("a", "x"), found("b", "x")]))
    (said,) = report.mixed([found("a", "x"), found("b", "y"), found("c", "x")])
    assert "2 versions of the code (a, c: source x; b: source y)" in said
    (said,) = report.mixed([found("a", "x"), found("b", "x", rows="other")])
    assert "2 test sets of imdb, split 0, data.vocab=9 (a: z; b: other)" in said
    (said,) = report.mixed([found("a", "x", drift=("device",))])
    assert said == "`a` went on with other device."


def test_only_cells_of_the_same_start_have_the_same_rows() -> None:
    """Weights bring their tokenizer, so that rows of ids are others than from scratch."""

    def found(cell: str, rows: str, start: str = "", weights: str | None = None) -> ledger.Finding:
        facts = {"cell": cell, "tier": "glue", "task": "rte", "split_seed": 0, "allowed_drift": []}
        knobs = {"data.vocab": 8000} | ({"init_from": start} if start else {})
        prints = {"code": {"source": "x"}, "data": {"test": rows}}
        return facts | {"knobs": knobs, "fingerprints": prints, "weights": weights}

    scratch, first = found("a", "own"), found("b", "theirs", "pretrain", "0a")
    assert not list(report.mixed([scratch, first]))
    (said,) = report.mixed([scratch, first, found("c", "other", "pretrain", "0a")])
    assert "2 test sets of rte from pretrain, split 0, data.vocab=8000 (b: theirs; c: other)" in said
    (said,) = report.mixed([scratch, first, found("c", "theirs", "pretrain", "0b")])
    assert said == "Tier glue has 2 weights of pretrain (b: 0a; c: 0b)."


def test_comparisons_are_written_down() -> None:
    """The text that was committed before any test set was read says what the code compares."""
    text = (ROOT / "results" / "imdb" / "comparisons.md").read_text()
    assert all(f"{claim}" in text for claim in COMPARISONS["1"])


def test_glue_is_averaged_as_the_paper_does() -> None:
    def found(task: str, **metrics: float | None) -> ledger.Finding:
        return {"task": task, "epochs": [{"epoch": 1, "validation": {}}, {"epoch": 2, "validation": metrics}]}

    groups = {
        "mrpc-a": [found("mrpc", accuracy=0.7, f1=0.8), found("mrpc", accuracy=0.72, f1=0.8)],
        "cola-a": [found("cola", accuracy=0.68, matthews=0.1)],
        "stsb-a": [found("stsb", spearman=None, pearson=None)],
        "stsb-b": [found("stsb", spearman=0.8, pearson=0.1), found("stsb", spearman=None, pearson=0.1)],
    }
    lines = glue_table(groups).splitlines()
    assert lines[2] == "| a | 75.5 ± 0.7 (2) | 68.0 (1) | failed | 71.8 (2 tasks) |"
    assert lines[3] == "| b | not yet run | not yet run | 80.0 (1, 1 failed) | 80.0 (1 tasks) |"


@pytest.mark.slow
def test_the_whole_suite_killed_once_in_between(tmp_path: Path) -> None:
    """Two models, two seeds: stopped within the second cell, it goes on; the report stands on its files."""
    directories = [f"--runs={tmp_path / 'runs'}", f"--results={tmp_path / 'results'}"]
    command = [sys.executable, "-m", "fourier_attn.studies.imdb", "--tier=toy", *directories]
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    cells, began = tmp_path / "results" / "cells", time.monotonic()
    second = tmp_path / "runs" / "toy-fnet-0" / "config.json"
    while not second.exists():
        assert first.poll() is None, first.communicate()
        assert time.monotonic() - began < 300
        time.sleep(0.2)
    first.send_signal(signal.SIGTERM)
    assert first.wait(120) == 128 + signal.SIGTERM
    assert [path.stem for path in cells.glob("*.json")] == ["toy-identity-0"]
    before = (cells / "toy-identity-0.json").read_bytes()
    listed = subprocess.run([*command, "--list"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "1 of 4 cells done" in listed
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
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
    code, _, error = run_here(report, directories[1])
    assert (code, error) == (0, "")
    text = (tmp_path / "results" / "report.md").read_text()
    assert "`fnet` is better than `identity`" in text
    for name in ("curves-toy.png", "costs-toy.png", "forest-toy.png"):
        assert (tmp_path / "results" / name).stat().st_size > 5_000
        assert f"({name})" in text


def test_what_varies(tmp_path: Path) -> None:
    """By hand: seeds of 80 and 82 %; a device of 71 and 73 at two numbers of bits, another of 74 and 74."""
    for name, accuracy in (("1-fnet-0", 0.80), ("1-fnet-1", 0.82), ("1-fnet-engine-2", 0.75)):
        found = finding(name, test={"accuracy": accuracy, "examples": 100})
        Ledger(tmp_path).write(found)
    points = ((4, 0, 0.71), (8, 0, 0.73), (4, 1, 0.74), (8, 1, 0.74))
    rows = [
        {"run": "1-fnet-engine-2", "bits": bits, "noise": 1.0, "device": device, "accuracy": accuracy}
        for bits, device, accuracy in points
    ]
    rows += [{**row, "run": "1-fnet-exact-2"} for row in rows] + [{**rows[0], "noise": 4.0, "accuracy": 0.1}]
    document = {"command": "c", "rows": rows}
    (tmp_path / "robustness-fnet.json").write_text(json.dumps(provenance.record() | document))
    lines = "\n".join(variance.components(Ledger(tmp_path), "1"))
    assert "| `fnet`: seed and split together | 1 | 1.41 | 0.63 to 45.13 |" in lines
    assert "(#accuracy-over-bits-and-noise-fnet)) | 1 | 1.41 |" in lines  # of 72 and 74
    assert "seed alone" not in lines  # of one network
    assert "fnet-exact" not in lines
    assert list(variance.components(Ledger(tmp_path), "2")) == []
    rows[2:4] = []  # one device tells nothing
    (tmp_path / "robustness-fnet.json").write_text(json.dumps(provenance.record() | document))
    assert "its engine's device" not in "\n".join(variance.components(Ledger(tmp_path), "1"))


def test_joules_of_an_example_are_those_of_its_transforms() -> None:
    """Two layers of FNet on 4 x 8^2 tokens of 8^2 features, two examples in a pass; exactly, none."""
    found = projection.example_joules(imdb_small.get_config("fnet-engine"), projection.Options())
    engine = presets.preset("chip_11x11").replace(shape=(8, 8))
    frames = 2 * plan("fourier_mix", (1, 256, 64), engine).frames / 2
    for corner in ("low", "typical", "high"):
        spent = cost.energy(engine, frames, prices=components.prices(corner, components.library()))
        assert found[corner] == pytest.approx(spent.total, rel=1e-6)
    assert projection.example_joules(imdb_small.get_config("fnet"), projection.Options()) is None
