"""The command line: what it prints, and what it answers to bad input."""

import importlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, run_here
from waiting import HANG_S

from fourier_attn.train.rundir.checkpoint import checkpoint_ids
from fourier_attn.train.rundir.metrics_log import read_lines

MAIN = "fourier_attn.main"
PREPARE = "fourier_attn.data.prepare"
SPEEDUP = "fourier_attn.studies.engine.speedup"
TOY = [
    "--config=configs/fnet.py",
    "--config.data.train_examples=96",
    "--config.model.depth=1",
    "--config.train.log_every=5",
]


def start(module: str, *options: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", module, *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TQDM_DISABLE": "1"},
    )


def call(module: str, *options: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a process of its own."""
    process = start(module, *options)
    out, err = process.communicate(timeout=HANG_S)
    return process.returncode, out, err


def answer(module: str, *options: str) -> tuple[int, str, str]:
    """The same in this process."""
    return run_here(importlib.import_module(module), *options)


@pytest.fixture(scope="module")
def trained(few_reviews: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a small finished run, made by the command."""
    where = tmp_path_factory.mktemp("runs") / "small"
    code, _, err = answer(MAIN, *TOY, f"--config.data.dir={few_reviews}", f"--workdir={where}")
    assert code == 0, err
    return where


@pytest.mark.slow
def test_training_says_what_it_does(few_reviews: str, tmp_path: Path) -> None:
    """In a process of its own, as users run it."""
    options = [f"--config.data.dir={few_reviews}", f"--workdir={tmp_path / 'run'}", "--config.train.epochs=1"]
    code, out, err = call(MAIN, *TOY, *options)
    assert code == 0, err
    for word in ("device", "parameters", "96 train, 64 validation, 200 test", "epoch 1"):
        assert word in out
    assert re.fullmatch(r"test accuracy \d+\.\d\d %", out.splitlines()[-1])


@pytest.mark.slow
def test_predict_prints_label_and_probability(trained: Path) -> None:
    code, out, err = answer(MAIN, "--mode=predict", f"--workdir={trained}", "--text=the film was superb .")
    assert (code, err) == (0, "")
    label, probability = out.split()
    assert label in ("negative", "positive")
    assert 0.5 <= float(probability) <= 1


def test_eval_prints_both_splits(trained: Path) -> None:
    code, out, _ = answer(MAIN, "--mode=eval", f"--workdir={trained}")
    assert code == 0
    assert re.fullmatch(r"validation loss \S+ accuracy \S+ %\ntest loss \S+ accuracy \S+ %\n", out)
    result = read_lines(trained)[-1]
    assert f"test loss {result['loss']:.4f} accuracy {100 * result['accuracy']:.2f} %" in out


BAD = [
    (MAIN, [], "--mode=train needs --config=NAME:TASK, for example --config=fnet:imdb"),
    (
        MAIN,
        ["--config=configs/fnet.py", "--config.train.epoch=3"],
        'train.epoch is not an option. Did you mean "epochs"? `python -m fourier_attn.config`',
    ),
    (MAIN, ["--config=configs/fnet.py", "--config.nothing=1"], "nothing is not an option. `python -m"),
    (MAIN, ["--config=configs/fnet.py", "--config.model.no.x=1"], "model.no.x is not an option. `python -m"),
    (MAIN, ["--config.seed=1"], "--config.seed needs --config=NAME"),
    (
        MAIN,
        ["--config=configs/fnet.py", "--config.train.epochs=many"],
        "--config.train.epochs=many: invalid literal",
    ),
    (MAIN, ["--config=configs/fnet.py", "--confg.seed=3"], "Unknown command line flag 'confg.seed'; --help"),
    (
        MAIN,
        ["--config=configs/fnet.py:imbd"],
        "task='imbd' is unknown; did you mean imdb? Choose one of reviews, imdb",
    ),
    (MAIN, ["--config=configs/nothing.py"], "--config=configs/nothing.py cannot be read"),
    (MAIN, ["--config=configs/fnet.py", "train"], "unknown argument 'train'"),
    (
        MAIN,
        ["--config=configs/fnet.py", "--mode=test"],
        "--mode=test: value should be one of <train|eval|predict|explain|compile>",
    ),
    (
        MAIN,
        ["--config=configs/fnet.py", "--config.model.mixer.name=attention"],
        "mixer 'attention' has no engine, eval_engine, features, lengths, norm, padding, prefer; ",
    ),
    (
        MAIN,
        [
            "--config=configs/attention.py",
            "--config.model.mixer.heads=3",
            "--config.model.mixer.head_width=split",
        ],
        "heads=3 must divide d=64",
    ),
    (MAIN, ["--config=configs/fnet.py", "--config.data.length=64"], "64 tokens exceeds positions=48"),
    (
        MAIN,
        ["--config=configs/finetune.py:reviews", "--config.init_from=x", "--config.model.mixer.padding=zero"],
        "model.mixer.padding cannot be set together with init_from=x, which determines the architecture; "
        "leave it out; use",
    ),
    (MAIN, ["--mode=predict", "--text=fine"], "--mode=predict needs --workdir=DIR"),
    (MAIN, ["--mode=predict", "--text=fine", "--workdir=nowhere"], "contains no run"),
    (SPEEDUP, [], "--config is missing; name one like --config=fnet:imdb, or your own file"),
    (PREPARE, ["--dataset=imdb_reviews"], "--dataset and --source are required"),
    (PREPARE, ["--dataset=squad", "--source=x"], "--dataset=squad: value should be one of"),
    (PREPARE, ["--dataset=imdb_reviews", "--source=nowhere"], "source=nowhere does not exist"),
]


@pytest.mark.parametrize(("reply", "cases"), [(call, [BAD[0], BAD[-1]]), (answer, BAD)])
def test_bad_input_gets_one_message(reply: Callable, cases: list) -> None:
    """Two in processes of their own, which exit with the code; all of them here."""
    for module, options, message in cases:
        code, out, err = reply(module, *options)
        assert message in err
        assert (code, out) == (2, ""), message
        assert err.startswith("error: "), message
        assert err.count("\n") == 1, message
        assert "Traceback" not in err, message


def test_empty_text(trained: Path) -> None:
    code, _, err = answer(MAIN, "--mode=predict", f"--workdir={trained}", "--text=")
    assert (code, err) == (2, "error: text='' is empty; give a text\n")
    code, _, err = answer(MAIN, "--mode=predict", f"--workdir={trained}", "--text=abc \udcff")
    assert (code, err.count("\n")) == (2, 1)
    assert "is not UTF-8" in err


def test_another_configuration(trained: Path) -> None:
    code, _, err = answer(MAIN, *TOY, f"--workdir={trained}", "--config.train.epochs=2")
    assert code == 2
    assert "has a run with another configuration: train.epochs is 3 there, 2 now" in err


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_says_how_to_go_on(signum: int, few_reviews: str, tmp_path: Path) -> None:
    where = tmp_path / "run"
    options = [*TOY, f"--config.data.dir={few_reviews}", f"--workdir={where}", "--config.train.epochs=400"]
    options += ["--config.train.patience=0", "--config.train.log_every=1"]
    process = start(MAIN, *options)
    while not read_lines(where) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signum)
    out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 128 + signum, err
    saved = re.search(r"Step (\d+) of 1200 is saved.\nStopped. To resume, give --workdir=(\S+) again.", out)
    assert saved
    assert saved[2] == str(where)
    assert checkpoint_ids(where)[0].step == int(saved[1])
    again = start(MAIN, f"--workdir={where}")  # the directory alone is enough
    while not any(line["step"] > int(saved[1]) for line in read_lines(where)) and again.poll() is None:
        time.sleep(0.05)
    again.send_signal(signum)
    out, err = again.communicate(timeout=HANG_S)
    assert again.returncode == 128 + signum, err
    assert f"resuming at step {saved[1]}" in out


def test_help_is_not_an_error() -> None:
    code, out, err = call(MAIN, "--help")
    assert code == 0
    assert "--workdir" in out + err
    assert "Traceback" not in out + err


@pytest.mark.slow
def test_the_list_of_knobs_is_cut_quietly() -> None:
    shown = "import sys; sys.stdin.readline()"
    program = f"{sys.executable} -m fourier_attn.config | {sys.executable} -c '{shown}'"
    done = subprocess.run(program, shell=True, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
