"""Messages about values that are not one of their choices."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT

from fourier_attn.choices import check_choice, check_choices

MAIN = [sys.executable, "-m", "fourier_attn.main"]


def test_an_unknown_value_is_named_with_its_choices() -> None:
    check_choice("method", "fft", {"auto": 1, "fft": 2})
    check_choice("width", 2, (1, 2))
    for value, choices, otherwise, message in (
        ("dct", {"auto": 1, "fft": 2}, "", "method='dct' is unknown; choose one of auto, fft"),
        (["fft"], {"auto": 1, "fft": 2}, "", "method=['fft'] is unknown; choose one of auto, fft"),
        (None, iter(("a", "b")), ", or a file", "method=None is unknown; choose one of a, b, or a file"),
        (3, (1, 2), "", "method=3 is unknown; choose one of 1, 2"),
        ("dft", ("auto", "fft"), "", "method='dft' is unknown; choose one of auto, fft"),
        ("ffft", ("dct", "fft"), "", "method='ffft' is unknown; did you mean fft? Choose one of dct, fft"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            check_choice("method", value, choices, otherwise)


def test_of_several_names_the_unknown_ones_are_named() -> None:
    check_choices("--only", ["a", "b"], ["a", "b", "c"])
    check_choices("--only", [], ["a"])
    with pytest.raises(ValueError, match=r"^--only=y,x is unknown; choose from a, b$"):
        check_choices("--only", ["y", "a", "x", "y"], iter(["a", "b"]))
    meant = r"^--only=lamda,x is unknown; did you mean lambda\? Choose from a, lambda$"
    with pytest.raises(ValueError, match=meant):
        check_choices("--only", ["lamda", "x"], iter(["a", "lambda"]))


def test_similar_names_of_tasks_configurations_and_metrics_are_suggested() -> None:
    for words, said in {
        "--config=fnet:imbd": "data.task='imbd' is unknown; did you mean imdb? Choose one of reviews, imdb",
        "--config=fnte:imdb": "--config=fnte:imdb cannot be read; did you mean fnet? Choose one of attention",
        "--config=mixer:lamda-imdb": "mixer.name='lamda' is unknown; did you mean lambda? Choose one of",
        "--config=fnet --config.train.monitor=acuracy": "did you mean accuracy? Choose one of accuracy",
    }.items():
        done = subprocess.run([*MAIN, *words.split()], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert said in done.stderr
