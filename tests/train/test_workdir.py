"""A run's directory: nothing outside it is written, and nothing in it is believed unread."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
from conftest import ROOT, shrink
from waiting import HANG_S

from fourier_attn import config, train
from fourier_attn.inference import printed_answers
from fourier_attn.train import memory, summary
from fourier_attn.train.distributed import sharding, signals
from fourier_attn.train.rundir import config_file, workdir
from fourier_attn.train.rundir.metrics_log import read_lines

pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.fixture(scope="module")
def whole(few_reviews: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[config.Config, Path]:
    c = shrink(config.default(), few_reviews)
    c.train.epochs = 1
    where = tmp_path_factory.mktemp("whole") / "run"
    with jax.numpy_dtype_promotion("standard"):
        train.run(c, where)
    return c, where


@pytest.fixture
def run(whole: tuple[config.Config, Path], tmp_path: Path) -> tuple[config.Config, Path]:
    """A copy of a finished run."""
    shutil.copytree(whole[1], tmp_path / "run")
    return whole[0], tmp_path / "run"


LINKS = [
    "predictions.jsonl",
    "metrics.jsonl",
    "metrics.jsonl.tmp",
    "config.json",
    "config.json.tmp",
    "curves.png",
    "tokenizer.tmp",
    ".lock",
    "tensorboard",
    "checkpoints",
    "checkpoints/6",
    "checkpoints/7.orbax-checkpoint-tmp",
    "tensorboard/events.out.tfevents.1",
]


@pytest.mark.parametrize("name", LINKS)
def test_a_link_is_refused_and_its_target_untouched(
    name: str, run: tuple[config.Config, Path], tmp_path: Path
) -> None:
    c, where = run
    path, target = where / name, tmp_path / "precious"
    if path.is_dir():
        shutil.rmtree(path)
        target.mkdir()
        (target / "thesis.txt").write_text("precious")
    else:
        path.unlink(missing_ok=True)
        target.write_text("precious")
    path.symlink_to(target)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="is a link, which a run's directory must not contain; remove it"):
        train.run(c, where)
    assert sorted(tmp_path.rglob("*")) == before
    assert (target / "thesis.txt" if target.is_dir() else target).read_text() == "precious"


def test_another_process_may_remove_files_during_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an active run does with temporary files and old checkpoints."""
    (tmp_path / "config.json.tmp").touch()
    (tmp_path / "old").mkdir()

    def walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        for found in listed(folder):
            (tmp_path / "config.json.tmp").unlink(missing_ok=True)
            shutil.rmtree(tmp_path / "old", ignore_errors=True)
            yield found

    listed = os.walk
    monkeypatch.setattr(os, "walk", walk)
    workdir.refuse_links(tmp_path)


def test_another_run_may_begin_during_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes its configuration between two looks at the directory."""
    c = config.default()

    def iterdir(folder: Path) -> Iterator[Path]:
        config_file.save(folder, c)
        return listed(folder)

    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", iterdir)
    workdir.check(tmp_path, c)


def test_a_lock_that_another_start_has_removed_locks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: Any, operation: int) -> None:
        (tmp_path / ".lock").unlink()
        locked(file, operation)

    locked = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(ValueError, match="is in use by another run"), workdir.lock(tmp_path):
        pass


def test_a_pipe_is_refused(run: tuple[config.Config, Path]) -> None:
    c, where = run
    (where / "metrics.jsonl").unlink()
    os.mkfifo(where / "metrics.jsonl")
    with pytest.raises(ValueError, match="metrics.jsonl is neither a file nor a folder; remove it"):
        train.run(c, where)


FORGED = [
    '{"split": "test"}',
    '{"step": 1e999, "epoch": 1, "split": "test"}',
    '{"step": "6", "epoch": 1, "split": "test"}',
    '{"step": true, "epoch": 1, "split": "test"}',
    '{"step": 6, "epoch": null, "split": "test"}',
    '{"step": 6, "epoch": NaN, "split": "test"}',
    '{"step": 6, "epoch": 1, "split": ["test"]}',
    "[]",
    "6",
    "null",
    "\ufeff{}",
    "[" * 100_000,
    "\udcff",
]


@pytest.mark.parametrize("line", FORGED, ids=range(len(FORGED)))
def test_a_forged_line_is_refused(line: str, run: tuple[config.Config, Path]) -> None:
    c, where = run
    with (where / "metrics.jsonl").open("ab") as file:
        file.write(line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(ValueError, match="metrics.jsonl, line 6 is damaged"):
        train.run(c, where)


LOST = ["predictions.jsonl", "checkpoints/6", "metrics of test", "bits", "contents", "folder"]


@pytest.mark.parametrize(
    "lost", [LOST[0], *(pytest.param(what, marks=pytest.mark.slow) for what in LOST[1:])]
)
def test_a_test_line_alone_is_not_the_end(
    lost: str, run: tuple[config.Config, Path], whole: tuple[config.Config, Path]
) -> None:
    """Without answers, or the last state, the run goes on and writes them again."""
    c, where = run
    if lost == "metrics of test":
        lines = read_lines(where)[:-1]
        lines += [{"step": 6, "epoch": 1.0, "split": "test"}]
        (where / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif lost == "predictions.jsonl":
        (where / lost).unlink()
    elif lost == "bits":
        largest = max((where / "checkpoints" / "6").rglob("d/*"), key=lambda path: path.stat().st_size)
        largest.write_bytes(bytes(byte ^ 1 for byte in largest.read_bytes()))
    elif lost in ("contents", "folder"):
        shutil.rmtree(where / "checkpoints" / "6")
        if lost == "contents":
            (where / "checkpoints" / "6").mkdir()
        else:
            (where / "checkpoints" / "6").touch()
    else:
        shutil.rmtree(where / lost)
    assert summary.finished(where) is None
    train.run(c, where)
    done = summary.finished(where)
    assert done is not None
    assert done["accuracy"] == summary.finished(whole[1])["accuracy"]
    assert (where / "predictions.jsonl").read_bytes() == (whole[1] / "predictions.jsonl").read_bytes()


def test_a_run_of_several_devices_is_finished_where_one_would_not_hold_it(
    whole: tuple[config.Config, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1000)
    monkeypatch.setattr(sharding, "here", None)  # nothing is put onto one
    assert summary.finished(whole[1]) is not None


def test_a_run_killed_before_its_config_begins_again(
    whole: tuple[config.Config, Path], tmp_path: Path
) -> None:
    """What it left is not used: it may be of another configuration."""
    c, _ = whole
    (tmp_path / ".lock").touch()
    (tmp_path / "tokenizer.json").write_text("half")
    (tmp_path / "config.json.tmp").write_text("{")
    assert train.run(c, tmp_path)["step"] == 6


def test_a_tokenizer_alone_is_no_run(whole: tuple[config.Config, Path], tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("mine")
    with pytest.raises(ValueError, match="contains files but no config.json"):
        train.run(whole[0], tmp_path)
    assert (tmp_path / "tokenizer.json").read_text() == "mine"


def put(path: str, value: Any) -> Callable[[dict], None]:
    *parts, last = path.split(".")

    def edit(tree: dict) -> None:
        for part in parts:
            tree = tree[part]
        tree[last] = value

    return edit


EDITS = [
    put("config", None),
    put("config", []),
    put("config.model", 3),
    put("config.model.mixer", None),
    put("config.model.mixer.name", "bogus"),
    put("config.model.mixer.name", ["fourier"]),
    put("config.model.mixer.engine", "bogus"),
    put("config.model.mixer.engine", {"shape": 3}),
    put("config.model.mixer.bogus", 1),
    put("config.model.others", ["a"]),
    put("config.model.others", {"bogus": {}}),
    put("config.model.d", 10**400),
    put("config.model.d", 10**8),
    put("config.model.d", "wide"),
    put("config.model.d", -8),
    put("config.model.d", 16),
    put("config.model.depth", 10**5),
    put("config.model.depth", {}),
    put("config.model.dropout", float("nan")),
    put("config.model.norm_eps", float("inf")),
    put("config.optim.learning_rate", 10**400),
    put("config.optim", []),
    put("config.data.task", "bogus"),
    put("config.data.task", {}),
    put("config.data.batch", True),
    put("config.data.buckets", ["a"]),
    put("config.train.seeds", 10**8),
    put("config.seed", -1),
    put("config.bogus", 1),
]


@pytest.mark.parametrize("edit", EDITS, ids=range(len(EDITS)))
def test_an_edited_config_is_refused(edit: Callable[[dict], None], run: tuple[config.Config, Path]) -> None:
    c, where = run
    facts = json.loads((where / "config.json").read_text())
    facts["fingerprints"].pop("config")  # as in a run of an earlier version
    edit(facts)
    (where / "config.json").write_text(json.dumps(facts))
    for use in (lambda: train.run(c, where), lambda: printed_answers.predict(where, "fine")):
        with pytest.raises(ValueError, match="."):
            use()


@pytest.mark.parametrize(("name", "value"), [("vocab", 10**12), ("head", "bogus")])
def test_what_the_data_determine_is_checked_on_use(
    name: str, value: object, run: tuple[config.Config, Path]
) -> None:
    _, where = run
    facts = json.loads((where / "config.json").read_text())
    facts["config"]["model"][name] = value
    del facts["fingerprints"]["config"]
    (where / "config.json").write_text(json.dumps(facts))
    with pytest.raises(ValueError, match=f"model.{name}="):
        printed_answers.predict(where, "fine")


NONE = ["", "{", "[]", "null", "3", "\0", "{}", "[" * 100_000, '{"config": {}}']


@pytest.mark.parametrize("text", NONE, ids=range(len(NONE)))
def test_a_config_that_is_none_is_refused(text: str, run: tuple[config.Config, Path]) -> None:
    c, where = run
    (where / "config.json").write_text(text)
    for use in (lambda: train.run(c, where), lambda: printed_answers.predict(where, "fine")):
        with pytest.raises(ValueError, match="config.json is damaged .*give another workdir"):
            use()


def test_nohup_stays() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.StopSignals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, previous)


def command(c: config.Config, where: Path, folder: str, *options: str) -> subprocess.Popen:
    """The command in a process of its own, whose signals act as in a terminal."""
    reset = "import signal; [signal.signal(s, signal.SIG_DFL) for s in (1, 15)]; "
    reset += "signal.signal(2, signal.default_int_handler); import runpy, sys; "
    reset += "sys.argv = ['main', *sys.argv[1:]]; runpy.run_module('fourier_attn.main', run_name='__main__')"
    words = ["--config=configs/fnet.py", f"--workdir={where}", f"--config.data.dir={folder}"]
    words += ["--config.data.train_examples=96", "--config.model.depth=1", "--config.train.log_every=1"]
    words += ["--config.train.epochs=400", "--config.train.patience=0", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = os.environ | {"TQDM_DISABLE": "1"}
    return subprocess.Popen([sys.executable, "-c", reset, *words], cwd=ROOT, env=environment, **pipes)


def wait_for_lines(process: subprocess.Popen, where: Path, count: int = 1) -> None:
    while len(read_lines(where)) < count and process.poll() is None:
        time.sleep(0.02)


@pytest.mark.slow
def test_a_closed_terminal_saves(toy: config.Config, few_reviews: str, tmp_path: Path) -> None:
    process = command(toy, tmp_path / "run", few_reviews)
    wait_for_lines(process, tmp_path / "run")
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 128 + signal.SIGHUP, err
    assert re.search(r"Step \d+ of 1200 is saved", out)
    assert err.strip() == "SIGHUP: saving after this step; a second signal exits immediately"


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0, 0.002, 0.01, 0.05])
def test_a_second_signal_leaves_at_once(
    pause: float, toy: config.Config, few_reviews: str, tmp_path: Path
) -> None:
    where = tmp_path / "run"
    process = command(toy, where, few_reviews)
    wait_for_lines(process, where, 3)
    process.send_signal(signal.SIGINT)
    time.sleep(pause)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 128 + signal.SIGINT, err
    assert "Traceback" not in err
    assert err.count("\n") <= 4, err
    again = command(toy, where, few_reviews, "--config.seed=0")
    wait_for_lines(again, where, len(read_lines(where)) + 1)
    again.kill()
    assert "damaged" not in again.communicate()[0]


@pytest.mark.slow
@pytest.mark.parametrize("library", ["numpy", "jaxlib", "grain", "tokenizers"])
def test_interrupted_while_importing_it_says_one_line(
    library: str, toy: config.Config, few_reviews: str, tmp_path: Path
) -> None:
    process = command(toy, tmp_path / "run", few_reviews)
    while library not in Path(f"/proc/{process.pid}/maps").read_text() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 128 + signal.SIGINT, err
    assert err.strip() == "error: stopped by Ctrl-C"
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [60, 200, 400])
def test_a_full_disk_is_named_in_one_line(
    kilobytes: int, toy: config.Config, few_reviews: str, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system can be mounted by root only")
    try:
        process = command(toy, disk / "run", few_reviews)
        _, err = process.communicate(timeout=HANG_S)
        assert process.returncode == 1, err
        assert err.startswith("error: the disk is full (")
        assert err.count("\n") == 1, err
    finally:
        subprocess.run(["umount", str(disk)], check=True)
