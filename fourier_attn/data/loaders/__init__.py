"""Loaders, one for each kind of input: from the `data` part of a configuration to `Splits`."""

from collections.abc import Callable
from pathlib import Path

from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.loaders import corpora, images, pixels, skills, squad, tables, tags, texts
from fourier_attn.data.loaders.masked import masked
from fourier_attn.data.splits import Splits
from fourier_attn.data.tasks import TASKS
from fourier_attn.data.text import copy_tokenizer, tokenizer_file

OWN_LOADERS = {"files": tables.load, "tags": tags.load, "squad": squad.load}


def load(
    config: DataConfig,
    *,
    directory: Path,
    seed: int = 0,
    epochs: int = 1,
    tokenizer: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Splits:
    """Reads and encodes the data of `config.task`.

    The tokenizer is the one in the run's `directory`. If there is none yet, it is made as `config.tokenizer`
    says, fitted on train where necessary, and written there. The order of train is drawn from `seed`;
    validation and test keep theirs.

    Args:
      tokenizer: a file to be used instead of what `config.tokenizer` says.
      say: called with a line before each slow step.
    Raises: ValueError for an invalid configuration or data set.
    """
    if tokenizer and not tokenizer_file(directory).exists():
        copy_tokenizer(tokenizer, directory)
    splits = _loader(config.task)(config, directory, say, seed=seed, epochs=epochs)
    return masked(splits, config, seed) if config.masked else splits


def _loader(name: str) -> Callable[..., Splits]:
    if name in OWN_LOADERS:
        return OWN_LOADERS[name]
    task = TASKS[name]
    if task.corpora:
        return corpora.load
    if task.skill:
        return skills.load
    if not task.images:
        return texts.load
    return images.load if task.inputs == "patches" else pixels.load
