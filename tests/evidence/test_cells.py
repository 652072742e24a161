"""The files of finished cells, and what they must say to count."""

import dataclasses
import json
import math
import re
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from cells import written
from conftest import run_here

from evidence.report import write
from evidence.suite import cells, ledger, pretraining, start_weights, train
from evidence.suite.ledger import Ledger, digest, pack, unpack
from fourier_attn.config import with_architecture
from fourier_attn.studies import collect
from fourier_attn.studies.runs import weights_digest
from fourier_attn.train import init_from


@pytest.mark.parametrize("count", [1, 8, 13, 25_000])
def test_answers_are_packed_without_loss(count: int) -> None:
    right = np.random.default_rng(0).random(count) < 0.8
    packed = pack(right)
    assert len(packed["bits"]) <= count / 6 + 4  # 6 bits in each letter, filled up to 4 of them
    np.testing.assert_array_equal(unpack(json.loads(json.dumps(packed))), right)


PRETRAINED = pretraining.start("fnet-mini")


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


def test_what_was_put_aside_before_stays(tmp_path: Path) -> None:
    for content in ("first", "second", "third"):
        path = written(tmp_path)
        path.write_text(content)
        Ledger(tmp_path).put_aside()
    kept = {path.name: path.read_text() for path in (tmp_path / "cells").iterdir()}
    names = [f"toy-fnet-0.json.aside{i}" for i in ("", "1", "2")]
    assert kept == dict(zip(names, ("first", "second", "third"), strict=True))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"cell": "toy-fn', "cannot be read"),
        ("[]", "is not a file of a finished cell"),
        ('{"rows": []}', "is not a file of a finished cell"),
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
        assert there.aside == {path: f"is not a file of a finished cell (it lacks {key})"}
    few = {"cell": "toy-fnet-0", "test": {}, "epochs": []}
    path.write_text(json.dumps(few | {"sha256": digest(few)}))
    assert "(it lacks tier, model, config and " in Ledger(tmp_path).aside[path]


def test_a_file_under_another_name_is_no_finding(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.rename(path.with_name("toy-fnet-1.json"))
    assert not Ledger(tmp_path).findings


def test_what_has_become_the_default_is_the_same() -> None:
    cell = cells.EVERY["cifar10-identity-0"]
    assert cell.differing({}) == cell.differing({"train.epochs": 10, "model.mixer.name": "identity"}) == ""
    told = cell.differing({"train.epochs": 9})
    assert told == "train.epochs 9 there, as by default in configs/mixer.py:identity-cifar10"


def test_a_cell_of_another_configuration_does_not_count(tmp_path: Path) -> None:
    cell = cells.EVERY["toy-fnet-0"]
    knobs = collect.differing(collect.plain(cell.read()))
    assert cell.differing(knobs) == ""
    written(tmp_path / "reviews", knobs=knobs | {"train.epochs": 9})
    what = "train.epochs 9 there, 2 in configs/fnet.py"
    there = Ledger(tmp_path, by_task=True)
    assert there.unlike() == {"toy-fnet-0": what}
    assert there.path("toy-fnet-0").is_file()
    directories = [f"--results={tmp_path}", f"--runs={tmp_path / 'runs'}"]
    code, _, error = run_here(train, "--tier=toy", *directories)
    assert code == 2
    assert f"was trained with other options ({what}); restore the configuration" in error
    assert not (tmp_path / "runs").exists()
    code, out, _ = run_here(train, "--tier=toy", "--list", *directories)
    assert (code, what in out) == (0, True)
    assert f"`toy-fnet-0` was trained with other options: {what}." in write.cautions(there)


def test_two_runs_of_a_cell_do_not_take_each_other_s_place(tmp_path: Path) -> None:
    path = written(tmp_path, date="yesterday")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"toy-fnet-0\.json belongs to another run; move one of them away"):
        written(tmp_path, date="today")
    assert path.read_bytes() == before
    runs = [
        train.CellRun(cells.EVERY[name], tmp_path, Ledger(tmp_path), ())
        for name in ("toy-fnet-0", "toy-fnet-1")
    ]
    assert list(train.affordable(runs, 1.0, None)) == runs[1:]  # the other is done by now


def test_a_score_that_failed_is_kept_and_said() -> None:
    found = {"metric": "spearman", "test": {}, "validation": [0.1, None]}
    assert math.isnan(ledger.score(found))
    assert train.in_words(found) == "validation spearman failed"
    assert ledger.score(found | {"test": {"spearman": 0.5}, "validation": []}) == 0.5


def test_one_seed_has_no_interval() -> None:
    found = {"metric": "accuracy", "test": {"accuracy": 0.9}, "right": pack(np.ones(10, bool))}
    assert np.isnan(ledger.interval([found])).all()
    clipped = [found | {"right": None}, found | {"right": None, "test": {"accuracy": 0.99}}]
    assert ledger.interval(clipped)[1] == 1.0


def test_a_cell_that_goes_on_from_weights_has_all_knobs_that_these_do_not_bring() -> None:
    cell, weights = cells.EVERY["glue-rte-fnet-mini-0"], cells.EVERY[PRETRAINED].read()
    settings = with_architecture(cell.read(), weights.model.to_dict())
    settings.init_from = f"/elsewhere/runs/{PRETRAINED}"
    knobs = collect.differing(collect.plain(settings))
    assert cell.differing(knobs) == ""
    assert cell.differing(knobs | {"init_from": PRETRAINED}) == ""  # as its file has it
    assert cell.differing(knobs | {"model.d": 8, "data.vocab": 60, "model.others.attention.heads": 2}) == ""
    assert cell.differing(knobs | {"data.length": 96}).startswith("data.length 96 there, as by default in")
    for knob in ("model.dropout", "model.mixer.method", "data.train_examples", "train.epochs"):
        assert knob in cell.differing(knobs | {knob: 7})
    told = f"init_from as by default there, {PRETRAINED!r} in configs/finetune.py:rte"
    assert cell.differing({key: value for key, value in knobs.items() if key != "init_from"}) == told
    assert "init_from 'other' there" in cell.differing(knobs | {"init_from": "runs/other"})


def test_weights_have_a_digest(toy_run: Path, tmp_path: Path) -> None:
    """That of what another run would start with; the same of a copy elsewhere, another of other numbers."""
    _, _, params = init_from.restore(toy_run)
    found = start_weights.digest(toy_run)
    assert re.fullmatch("[0-9a-f]{16}", found)
    assert found == weights_digest(params)
    shutil.copytree(toy_run, tmp_path / "copy")
    assert found == start_weights.digest(tmp_path / "copy")
    assert found != weights_digest(jax.tree.map(lambda p: p + 1, params))


def test_a_run_keeps_which_weights_it_began_with(tmp_path: Path) -> None:
    """Noted before it begins, and from then on it does not go on from others."""
    cell = dataclasses.replace(cells.EVERY["toy-fnet-0"], start="start")
    run = train.CellRun(cell, tmp_path, Ledger(tmp_path), (), "0a")
    directory = run.program.workdir
    assert start_weights.noted(directory) is None
    assert list(train.affordable([run], 1.0, None)) == [run]
    assert start_weights.noted(directory) == "0a"
    start_weights.check(directory, "0b")  # of a run that has not begun there may be others
    start_weights.note(directory, "0b")
    directory.mkdir()
    (directory / "config.json").touch()
    start_weights.check(directory, "0b")
    with pytest.raises(
        ValueError, match=r"toy-fnet-0 started from the weights 0b, but the weights are now 0a"
    ):
        start_weights.check(directory, "0a")
    start_weights.note(directory, "0a")
    assert start_weights.noted(directory) == "0b"


def test_a_finding_names_its_start_and_its_weights(
    toy_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name, since a path means nothing on another machine."""
    cell = dataclasses.replace(cells.EVERY["toy-fnet-0"], start="start")
    directory = tmp_path / cell.name
    start_weights.note(directory, "0a")
    shutil.copytree(toy_run, directory)
    monkeypatch.setattr(cells.Cell, "differing", lambda *_: "")
    row = collect.row(directory)
    monkeypatch.setattr(
        collect, "row", lambda _: row | {"knobs": {"init_from": str(tmp_path / "start"), "data.length": 9}}
    )
    found = ledger.finished_cell(cell, directory)
    assert found["knobs"] == {"init_from": "start", "data.length": 9}
    assert found["weights"] == "0a"
    assert found.keys() >= set(ledger.FACTS)
    alone = dataclasses.replace(cell, start="")
    assert ledger.finished_cell(alone, directory)["weights"] is None


def test_a_finding_has_the_metrics_of_its_masked_model(
    toy_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cells.EVERY["toy-fnet-0"]
    directory = tmp_path / cell.name
    shutil.copytree(toy_run, directory)
    monkeypatch.setattr(cells.Cell, "differing", lambda *_: "")
    assert "self_pretrained" not in ledger.finished_cell(cell, directory)
    row = collect.row(directory)
    monkeypatch.setattr(collect, "row", lambda _: row | {"knobs": {"train.self_pretrain": 2}})
    (directory / "self_pretrained").mkdir()
    lines = (
        {"split": "test", "step": 8, "epoch": 1.0, "perplexity": 9.0},
        {"split": "validation", "step": 9, "epoch": 2.0, "perplexity": 4.0},
        {"split": "test", "step": 9, "epoch": 2.0, "perplexity": 5.0, "accuracy": 0.25},
    )
    (directory / "self_pretrained" / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    found = ledger.finished_cell(cell, directory)
    assert found["self_pretrained"] == {"perplexity": 5.0, "accuracy": 0.25}


def test_cells_that_go_on_from_weights_need_these(tmp_path: Path) -> None:
    there = Ledger(tmp_path)
    with pytest.raises(ValueError, match=r"pretrain-fnet-mini-0 is not finished.*run --tier=pretrain first"):
        train.check_start(tmp_path / PRETRAINED, there)
    path = written(tmp_path, PRETRAINED)
    message = (
        f"{path} says that these weights are trained, but they are not in {tmp_path / PRETRAINED}; "
        "copy the directory of that run there, or move the file away so that --tier=pretrain trains it again"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        train.check_start(tmp_path / PRETRAINED, Ledger(tmp_path))
    assert {cell.start for cell in cells.cells("glue")} == {
        "",
        *map(pretraining.start, pretraining.NETWORKS),
    }
    assert {cell.name for cell in cells.cells("pretrain")} >= {
        c.start for c in cells.cells("glue") if c.start
    }


def test_a_configuration_that_is_changed_is_not_that_of_the_next_reader() -> None:
    first = cells.EVERY[PRETRAINED].read()
    first.data.corpora = ()
    assert cells.EVERY[PRETRAINED].read().data.corpora == ("imdb_reviews:unsupervised", "wikitext2")
