"""Helpers of the tests that sentences and tables of the pages agree with the results."""

import re
import subprocess
from collections.abc import Mapping

import jax
from conftest import ROOT

from evidence.pages.markdown import Results
from evidence.pages.values import VALUES
from fourier_attn import model
from fourier_attn.config import Config, fitted_without_data

RESULTS = Results(ROOT)


def page(path: str) -> str:
    """The text of a page, such as "docs/evidence.md", on one line."""
    return " ".join((ROOT / path).read_text().split())


def agree(text: str, said: Mapping[str, bool]) -> None:
    """Checks that a text has each sentence, and that the condition holds under which it is true."""
    for sentence, holds in said.items():
        assert sentence in text, sentence
        assert holds, sentence


def numbers(name: str) -> list[float]:
    """The numbers of a value: the middle and the ends of its interval."""
    return [float(text.replace(",", "")) for text in re.findall(r"-?[\d,.]*\d", VALUES[name](RESULTS))]


def parameters(config: Config) -> int:
    """The number of parameters of a configuration's network."""
    c = fitted_without_data(config).model
    shapes = jax.eval_shape(model.build(c).init, jax.random.key(0), model.example(c))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes["params"]))


def git(*words: str) -> list[str]:
    """Returns the words that git prints; none outside of a clone."""
    done = subprocess.run(["git", "-C", str(ROOT), *words], check=False, capture_output=True, text=True)
    return done.stdout.split()
