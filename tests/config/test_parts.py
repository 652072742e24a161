"""The classes that declare the parts of a configuration, for type checkers and at run time."""

import json
import subprocess
import sys
import typing
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import ROOT

from fourier_attn import config, data
from fourier_attn.config import PARTS, RUN, Config
from fourier_attn.knobs import with_values

CLASSES = {name: hint for name, hint in typing.get_type_hints(Config).items() if name in PARTS}
OPEN = {"model": {"mixer", "others"}}  # mixers have the fields of their layers


def test_every_option_has_the_type_of_its_default() -> None:
    for declared, knobs in ((Config, RUN), *((CLASSES[name], knobs) for name, knobs in PARTS.items())):
        hints = typing.get_type_hints(declared)
        for name, knob in knobs.items():
            assert type(knob.default) is (typing.get_origin(hints[name]) or hints[name]), name


def test_a_configuration_has_what_its_classes_declare() -> None:
    c = config.default()
    assert set(c) == set(typing.get_type_hints(Config)) == {*RUN, *PARTS}
    for name, declared in CLASSES.items():
        assert set(c[name]) == set(typing.get_type_hints(declared)) == {*PARTS[name], *OPEN.get(name, ())}
        assert isinstance(c[name], declared)


def test_a_fitted_configuration_refuses_changes(toy: Config, tmp_path: Path) -> None:
    c = config.fitted(toy, data.load(toy.data, directory=tmp_path))
    changes = (
        lambda: setattr(c.train, "epochs", 9),
        lambda: c.model.update({"d": 3}),
        lambda: c.data.__delitem__("task"),
    )
    for change in changes:
        with pytest.raises(AttributeError, match="FrozenConfigDict is immutable"):
            change()
    assert with_values(c, {"train.epochs": 9}).train.epochs == 9
    assert (c.train.epochs, c.model.d, c.data.task) == (toy.train.epochs, toy.model.d, toy.data.task)


PROGRAM = """
from fourier_attn import data
from fourier_attn.config import Config, OptimConfig, default

def misspelt(config: Config, optim: OptimConfig) -> int:
    config.data.lenght = 3
    data.check(config.model)
    config.train.epochs = "three"
    return config.train.epoch + optim.step + default().model.depht

def right(config: Config) -> int:
    config.model.mixer.heads = 3
    data.check(config.data)
    return config.train.epochs + default().model.depth
"""
ERRORS = [(6, "lenght"), (7, "DataConfig"), (8, "int"), (9, "epoch"), (9, "step"), (9, "depht")]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed here")
def test_a_type_checker_finds_misspelt_options(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(file)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = json.loads(answer.stdout)["generalDiagnostics"]
    found = [(error["range"]["start"]["line"] + 1, error["message"]) for error in errors]
    assert [line for line, _ in found] == [line for line, _ in ERRORS], found
    assert all(f'"{word}"' in text for (_, word), (_, text) in zip(ERRORS, found, strict=True)), found
