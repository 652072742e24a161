"""The synthetic reviews need mixing: a fact, not a claim."""

import importlib
from pathlib import Path

import pytest

from configs import fnet, mixer
from fourier_attn import train

lambdas = importlib.import_module("configs.lambda")  # the name is a keyword

pytestmark = pytest.mark.usefixtures("standard_promotion", "optimised")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "at_least", "below"), [(mixer, 0.5, 0.75), (fnet, 0.95, 1.01), (lambdas, 0.95, 1.01)]
)
def test_only_mixing_reads_them(
    module: object, at_least: float, below: float, data_dir: str, tmp_path: Path
) -> None:
    """Whole runs of configurations as they are; `python -m benchmarks.reviews` runs all of them."""
    config = module.get_config()
    config.data.dir = data_dir
    accuracy = train.run(config, tmp_path / "run")["accuracy"]
    assert at_least <= accuracy < below
