"""Loads the data that a configuration describes; each kind of input has a loader."""

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
    """Reads and encodes the data of a task.

    The tokenizer is the one in the run's directory. If the directory has none, the tokenizer that
    `data.tokenizer` describes is fitted or copied, and saved there. The order of the training set is drawn
    from `seed`; validation and test sets keep their order.

    Args:
      config: the `data` part of the configuration.
      directory: directory of the run.
      seed: seed of the order of the training set; default 0.
      epochs: number of epochs; default 1.
      tokenizer: tokenizer file that replaces `data.tokenizer`; default None.
      say: called with a line before each slow step; default: nothing.
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
