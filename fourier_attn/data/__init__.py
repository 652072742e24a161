"""From a task's name to batches of token ids."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from fourier_attn.data.batches import Batches
from fourier_attn.data.tasks import TASKS, read
from fourier_attn.data.text import encode, fit

__all__ = ["TASKS", "Splits", "load"]


class Splits(NamedTuple):
    """The batches of each split, their tokenizer, and which test texts stand in train too (bool, n)."""

    train: Batches
    validation: Batches
    test: Batches
    tokenizer: Tokenizer
    in_train: np.ndarray


def load(config: Any, *, tokenizer_file: Path, seed: int = 0, epochs: int = 1) -> Splits:
    """Reads and encodes the data of `config.task`.

    The tokenizer is read from `tokenizer_file`, or fitted on train and written there. The order of
    train is drawn from `seed`; validation and test keep theirs.

    Raises: ValueError for anything amiss with the configuration or the data set.
    """
    examples = read(config)
    if tokenizer_file.exists():
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
    else:
        tokenizer = fit(config["tokenizer"], examples["train"].texts, config["vocab"])
        tokenizer.save(str(tokenizer_file))
    buckets = (*(t for t in config["buckets"] if t < config["length"]), config["length"])

    def batches(split: str, **order: int) -> Batches:
        rows = encode(tokenizer, examples[split].texts, config["length"])
        return Batches(rows, examples[split].labels, buckets=buckets, batch=config["batch"], **order)

    train = batches("train", seed=seed, epochs=epochs)
    return Splits(train, batches("validation"), batches("test"), tokenizer, examples["test"].in_train)
