"""From a task's name to batches of token ids."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from fourier_attn.data.batches import Batches
from fourier_attn.data.tasks import TASKS, check_task, read
from fourier_attn.data.text import encode, fit, load_tokenizer, save_tokenizer

__all__ = ["TASKS", "Splits", "check", "load", "padded_lengths"]


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
        tokenizer = load_tokenizer(tokenizer_file)
    else:
        tokenizer = fit(config["tokenizer"], examples["train"].texts, config["vocab"])
        save_tokenizer(tokenizer, tokenizer_file)

    def batches(split: str, **order: int) -> Batches:
        rows, labels = encode(tokenizer, examples[split].texts, config["length"]), examples[split].labels
        return Batches(rows, labels, buckets=padded_lengths(config), batch=config["batch"], **order)

    train = batches("train", seed=seed, epochs=epochs)
    return Splits(train, batches("validation"), batches("test"), tokenizer, examples["test"].in_train)


def padded_lengths(config: Any) -> tuple[int, ...]:
    """The lengths that texts are padded to: `buckets` below `length`, then `length`."""
    return (*(t for t in config["buckets"] if t < config["length"]), config["length"])


def check(config: Any) -> None:
    """Finds what is wrong with the `data` part of a configuration without reading any data.

    Raises: ValueError.
    """
    check_task(config)
    if config["length"] < 1:
        raise ValueError(f"data.length={config['length']} must be at least 1")
    fit(config["tokenizer"], [], config["vocab"])
    Batches([np.zeros(1, np.int32)], np.zeros(1), buckets=padded_lengths(config), batch=config["batch"])
