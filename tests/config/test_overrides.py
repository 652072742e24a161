"""Overrides on a command line: None, engines by their names, and those of a trained run."""

import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import run_here

from fourier_attn import config, config_flag, main, run_config
from fourier_attn.optics import Engine, presets
from fourier_attn.optics.engine_spec import every_parameter
from fourier_attn.train.rundir import config_file, fingerprints, workdir
from launch import grid

OPTICAL = "--config=optical_fnet:reviews"
ENGINE = "model.mixer.engine"


def read(*words: str) -> config.Config:
    return grid.read([OPTICAL, *(f"--config.{word}" for word in words)])


def test_every_optional_parameter_can_be_none_and_have_a_value_again() -> None:
    """One effect of a preset can be switched off, from a command line and from a sweep."""
    ideal = {(group, name): value for group, name, _, value in every_parameter(Engine())}
    checked = 0
    for group, name, _, value in every_parameter(presets.preset("hostile")):
        if value is None or ideal[group, name] is not None:
            continue
        c, knob = config.default(engine="hostile"), f"{ENGINE}.{group}.{name}"
        config.set_optional(c, knob, None)
        assert config_file.flat(c.to_dict())[knob] is None
        part = c.model.mixer.engine[group]
        part[name] = value
        config.set_optional(c, knob, None)
        assert config.from_dict(c.to_dict()).to_dict() == c.to_dict()
        checked += 1
    assert checked > 10


def test_none_and_names_of_engines_are_given_on_a_command_line() -> None:
    assert read(f"{ENGINE}=None").model.mixer.engine is None
    assert read(f"{ENGINE}.receiver.adc_bits=None").model.mixer.engine.receiver.adc_bits is None
    assert read(f"{ENGINE}.device.crosstalk_db=None", "seed=3").seed == 3
    named = read(f"{ENGINE}=hostile")
    assert presets.build(named.model.mixer.engine) == presets.preset("hostile")
    assert read("model.mixer.eval_engine=ideal").model.mixer.eval_engine.shape == (11, 11)
    assert presets.build(read("model.engine=hostile").model.mixer.engine) == presets.preset("hostile")


def test_an_engine_for_all_mixers_is_given_on_a_command_line() -> None:
    """Those of a layout, too; an option of one mixer comes before it."""
    words = ["--config=fnet:reviews", "--config.model.engine=chip_11x11"]
    assert grid.read(words).model.mixer.padding == "zero"  # as for --config.model.mixer.engine
    words = ["--config=mixer:attention-reviews", "--config.model.engine=chip_11x11"]
    with pytest.raises(
        ValueError, match="model.engine=chip_11x11: mixer 'attention' has no transform .*afno"
    ):
        grid.read(words)
    c = config.default("attention", others=("fourier", "afno", "identity"))
    flag: Any = SimpleNamespace(value=c, override_values={})
    config.complete_overrides(flag, {"model.engine": "chip_11x11", "model.others.afno.engine": "hostile"})
    assert presets.build(c.model.others.fourier.engine) == presets.preset("chip_11x11")
    assert presets.build(c.model.others.afno.engine) == presets.preset("hostile")


@pytest.mark.parametrize("mixer", ["linear", "long_conv", "lambda", "global_filter", "fourier"])
def test_lengths_follow_positions_unless_they_are_set(mixer: str) -> None:
    """Else a longer sequence would need an option that no message and no page names."""
    words = [f"--config=mixer:{mixer}-reviews", "--config.model.positions=96"]
    given = config.default(mixer, "reviews")
    given.model.positions = 96
    for recipe in ([], ["--recipe=small"]):
        fields = grid.read([*words, *recipe]).model.mixer
        assert fields.to_dict() == config.fit_length(given).model.mixer.to_dict()
        assert ("length" in fields) == (mixer != "fourier")
        if "length" in fields:
            assert fields.length == 96
            own = grid.read([*words, *recipe, "--config.model.mixer.length=128"]).model.mixer
            assert own.length == 128
    layout = ["--config=skills:conv_linear-recall", "--config.model.positions=256"]
    assert grid.read(layout).model.mixer.length == 256


@pytest.mark.usefixtures("standard_promotion")
def test_overrides_apply_to_the_mixer_and_the_recipe_that_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order of the words; options that are None can be set, and those of a mixer in a layout, too."""
    seen: list[config.Config] = []
    monkeypatch.setattr("fourier_attn.train.run", lambda c, *_: seen.append(c))

    def chosen(*words: str) -> config.Config:
        code, _, error = run_here(main, *words, "--workdir=/nowhere")
        assert code == 0, error
        read = grid.read(words)
        assert read.to_dict() == seen[-1].to_dict()
        return read

    mixer = chosen("--mixer=lambda", "--config=fnet:imdb", "--config.model.mixer.k=7").model.mixer
    assert (mixer.name, mixer.k) == ("lambda", 7)
    small = chosen(
        "--config=fnet:imdb", "--config.optim.learning_rate=0.25", "--recipe=small", "--mixer=afno"
    )
    assert (small.optim.learning_rate, small.model.d, small.model.mixer.name) == (0.25, 64, "afno")
    shaped = chosen("--config=attention:imdb", "--mixer=circular", "--config.model.mixer.shape=(16,8)")
    assert shaped.model.mixer.shape == (16, 8)
    other = chosen(
        "--config=skills:conv_linear-recall", "--mixer=linear", "--config.model.others.token_conv.taps=5"
    )
    assert other.model.others.token_conv.taps == 5
    own = chosen("--config=fnet:imdb", "--mixer=linear", "--config.model.mixer.length=600")
    assert own.model.mixer.length == 600
    exact = chosen("--config=optical_circular:imdb", "--mixer=identity", "--config.model.engine=None")
    assert exact.model.mixer.to_dict() == config.default("identity").model.mixer.to_dict()
    words = ("--config=fnet:imdb", "--mixer=linear", "--config.model.mixer.norm=none")
    for code, _, error in (run_here(main, *words), run_here(main, words[0], words[2], words[1])):
        assert (code, "model.mixer.norm is not an option" in error) == (2, True)  # linear has no such field


def test_a_value_is_not_taken_for_a_mixer() -> None:
    code, _, error = run_here(main, "--config=fnet:imdb", "--tracker", "--mixer=lambda")
    message = "the value of another flag begins with --mixer; write that flag as --FLAG=VALUE"
    assert (code, message in error) == (2, True), error


def test_a_file_of_the_user_keeps_its_links_and_its_own_keys(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from ml_collections import FieldReference\n"
        "from fourier_attn.config import default\n"
        "def get_config():\n"
        "    c = default('fourier', 'imdb')\n"
        "    d = FieldReference(128)\n"
        "    c.model.d, c.model.mlp = d, d * 4\n"
        "    with c.unlocked():\n"
        "        c.note = 'mine'\n"
        "    return c\n"
    )
    read = grid.read([f"--config={tmp_path / 'mine.py'}", "--mixer=lambda", "--config.model.d=64"])
    assert (read.model.mixer.name, read.model.d, read.model.mlp) == ("lambda", 64, 256)
    assert read.to_dict()["note"] == "mine"


def test_a_recipe_has_the_defaults_of_one_task() -> None:
    words = ("--config=fnet:imdb", "--recipe=small", "--config.data.task=sst2")
    message = "cannot be combined, because a recipe keeps the task of the configuration; name the task there"
    with pytest.raises(ValueError, match=message):
        grid.read(words)
    code, _, error = run_here(main, *words)
    assert (code, message in error) == (2, True)


def test_the_last_override_of_a_knob_holds() -> None:
    knob = f"{ENGINE}.receiver.adc_bits"
    assert read(f"{knob}=None", f"{knob}=3").model.mixer.engine.receiver.adc_bits == 3
    assert read(f"{knob}=3", f"{knob}=None").model.mixer.engine.receiver.adc_bits is None


def test_a_text_is_no_override() -> None:
    words = ["main", "--text", "config.x=None"]
    assert config_flag.without_optional(words) == (words, {})


@pytest.mark.parametrize(
    ("word", "allowed"),
    [("--allow_code", True), ("--allow_code=true", True), ("-allow_code", True), ("--noallow_code", False)],
)
def test_code_of_a_run_is_allowed_however_it_is_written(
    word: str, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(sys, "argv", ["main", "--config=x", "--text", "a b", word, "--config.data.dir=a"])
    monkeypatch.setattr(config_file, "allow_code", lambda place: asked.append(place) or [])
    whole = config.default()
    monkeypatch.setattr(config_file, "load", {Path("run"): whole}.__getitem__)
    assert run_config.get_config("run") is whole
    assert asked == [Path("run")] * allowed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["optim.learning_rate=None"],
            "optim.learning_rate=None: this option cannot be None; give a value such as ",
        ),
        ([f"{ENGINE}.frame_rate_hz=None"], "frame_rate_hz=None: this option cannot be None"),
        ([f"{ENGINE}.receiver.bits=None"], "receiver.bits is not an option"),
        ([f"{ENGINE}=None", f"{ENGINE}.averages=2"], "conflicts with .*engine.averages; remove one"),
        ([f"{ENGINE}=bogus"], "preset='bogus' is unknown; choose one of "),
    ],
)
def test_what_cannot_be_none_says_so(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(*words)


def test_a_measured_device_is_named_where_a_preset_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dft = np.fft.fft(np.eye(4)) / 2
    np.savez("dev.npz", transfer=np.kron(dft, dft))
    c = config.with_absolute_paths(read(f"{ENGINE}=dev.npz"))
    assert config.device_files(c) == {f"{ENGINE}.device.file": str(tmp_path / "dev.npz")}
    built = presets.build(c.model.mixer.engine)
    assert built is not None
    assert built.shape == (4, 4)
    c = config.default(engine="dev.npz")
    c.model.mixer.eval_engine = "dev.npz"  # as a configuration file may say it
    c = config.with_absolute_paths(c)
    assert c.model.mixer.eval_engine.device.file == str(tmp_path / "dev.npz")


@pytest.mark.usefixtures("standard_promotion")
def test_overrides_alone_are_laid_over_the_run(toy_run: Path) -> None:
    def said(*words: str) -> tuple[int, str, str]:
        return run_here(main, f"--workdir={toy_run}", "--mode=eval", *words)

    there = config_file.load(toy_run).data.dir
    code, out, error = said(f"--config.data.dir={there}")
    assert code == 0, error
    assert said("--config=fnet:reviews", f"--config.data.dir={there}", "--config.model.d=8")[:2] == (0, out)
    for words, message in (
        (
            ["--config.model.depth=3"],
            r"model.depth=3 differs from 1, with which workdir=.* was trained; remove it",
        ),
        (["--config=attention:reviews"], "model.mixer.name='attention' differs from .*with which workdir="),
        (["--config=fnet:imdb"], "data.task='imdb' differs from .*with which workdir="),
        (["--config.model.dept=3"], "is not an option"),
    ):
        code, _, error = said(*words)
        assert code == 2
        assert re.search(message, error), error
    code, _, error = run_here(main, "--workdir=/nowhere", "--config.seed=3")
    assert (code, "needs --config=NAME" in error) == (2, True)


def test_a_file_that_was_renamed_is_the_same(toy_run: Path, tmp_path: Path) -> None:
    """A tokenizer, the files of devices and tables, and plug-ins are compared by their contents."""
    run = Path(shutil.copytree(toy_run, tmp_path / "run"))
    c = config_file.load(run)
    c.data.tokenizer = str(tmp_path / "first.json")
    config_file.save(run, c, config_file.record(run)["fingerprints"])
    c.data.tokenizer = str(shutil.copy(run / "tokenizer.json", tmp_path / "second.json"))
    workdir.check(run, c)
    (tmp_path / "second.json").write_text("{}")
    with pytest.raises(ValueError, match=r"data.tokenizer is .*first.json' there"):
        workdir.check(run, c)
    before = {"data": {"train": "9 ab", "files.train": "t.csv cd"}, "code": {"source": "x", "mine.py": "ef"}}
    now = {"data": {"train": "9 ab", "files.train": "u.csv cd"}, "code": {"source": "x", "our.py": "ef"}}
    fingerprints.check_same(before, now)
    now["data"]["files.train"] = "t.csv 12"
    with pytest.raises(ValueError, match=r"data.files.train t.csv cd -> t.csv 12"):
        fingerprints.check_same(before, now)


def test_a_measured_device_that_has_moved_is_named_anew(tmp_path: Path) -> None:
    """On the command line where its contents are the same, or in config.json."""
    dft, run = np.fft.fft(np.eye(4)) / 2, tmp_path / "run"
    run.mkdir()
    np.savez(tmp_path / "old.npz", transfer=np.kron(dft, dft))
    c = config.with_absolute_paths(read(f"{ENGINE}={tmp_path / 'old.npz'}"))
    knob = f"{ENGINE}.device.file"
    config_file.save(run, c, {"device": fingerprints.device_fingerprint(c)})
    new = str((tmp_path / "old.npz").rename(tmp_path / "new.npz"))
    with pytest.raises(ValueError, match=rf"other measured devices .*new paths: --config.{knob}=FILE"):
        fingerprints.check_files(run, config_file.load(run))
    named = config.with_absolute_paths(read(f"{ENGINE}={new}"))
    assert config_file.differing(run, named) == {}
    fingerprints.check_files(run, config_file.load(run, {knob: new}))
    facts = json.loads((run / "config.json").read_text())
    facts["config"]["model"]["mixer"]["engine"]["device"]["file"] = new
    (run / "config.json").write_text(json.dumps(facts))
    fingerprints.check_files(run, config_file.load(run))
    np.savez(tmp_path / "other.npz", transfer=np.kron(dft, dft.conj()))
    assert list(config_file.differing(run, read(f"{ENGINE}={tmp_path / 'other.npz'}"))) == [knob]


def test_a_run_is_evaluated_with_the_words_that_trained_it(
    toy_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights of init_from had another mixer than the configuration; the mesh is the machine's."""
    c = config_file.load(toy_run)
    c.init_from = str(tmp_path / "weights")
    (tmp_path / "run").mkdir()
    config_file.save(tmp_path / "run", c, {})
    monkeypatch.setattr(main, "evaluate", lambda *_: None)
    words = ["--config=attention:reviews", f"--config.init_from={tmp_path / 'weights'}"]
    given = (main, f"--workdir={tmp_path / 'run'}", "--mode=eval", *words)
    code, _, error = run_here(*given, "--config.train.mesh=data=1")
    assert code == 0, error
    code, _, error = run_here(*given, "--config.model.dropout=0.77")
    assert (code, "model.dropout=0.77 differs from" in error) == (2, True)
