"""From a task's name to batches of token ids."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fourier_attn.data import masking
from fourier_attn.data.batches import Batches, Split
from fourier_attn.data.corpus import read_corpora
from fourier_attn.data.masking import MaskedBatches
from fourier_attn.data.tasks import TASKS, Task, check_task, read
from fourier_attn.data.text import (
    check_kind,
    copy_tokenizer,
    encode,
    fit,
    load_tokenizer,
    save_tokenizer,
    special,
    tokenizer_file,
)

__all__ = ["TASKS", "Splits", "Task", "check", "load", "padded_lengths"]


class Splits(NamedTuple):
    """The batches of each split and their tokenizer.

    Args:
      extra_evals: further validation and test splits, by name.
      in_train: which test texts stand in train too (bool, n).
      idx: GLUE's numbers of the examples of each test split, which TFDS has in another order.
    """

    train: Split
    validation: Split
    test: Split
    extra_evals: Mapping[str, Split]
    tokenizer: Any
    in_train: np.ndarray
    idx: dict[str, np.ndarray]


def load(config: Any, *, directory: Path, seed: int = 0, epochs: int = 1) -> Splits:
    """Reads and encodes the data of `config.task`.

    The tokenizer is the one in the run's `directory`, or else made as `config.tokenizer` says, from train
    where it is to be fitted, and written there. The order of train is drawn from `seed`; validation and
    test keep theirs.

    Raises: ValueError for anything amiss with the configuration or the data set.
    """
    if config["task"] == "pretraining":
        return _load_pretraining(config, directory, seed, epochs)
    task, examples = TASKS[config["task"]], read(config)
    train = examples["train"]
    tokenizer = _tokenizer(config, directory, [*train.texts, *(train.text_pairs or [])])
    ids = special(tokenizer)

    def batches(split: str, **order: int) -> Batches:
        part = examples[split]
        rows = encode(tokenizer, part.texts, config["length"], part.text_pairs)
        lengths, size = padded_lengths(config), config["batch"]
        return Batches(rows, part.labels, buckets=lengths, batch=size, pad=ids.pad, sep=ids.sep, **order)

    names = [*(task.validations or ("validation",)), *task.tests]
    splits = {name: batches(name) for name in names}
    validation, test = names[0], task.tests[0]
    extra_evals = {name: splits[name] for name in names if name not in (validation, test)}
    train = batches("train", seed=seed, epochs=epochs)
    idx = {name: examples[name].idx for name in task.tests}
    return Splits(
        train, splits[validation], splits[test], extra_evals, tokenizer, examples[test].in_train, idx
    )


def _load_pretraining(config: Any, directory: Path, seed: int, epochs: int) -> Splits:
    texts = read_corpora(config)
    tokenizer = _tokenizer(config, directory, texts["train"])

    def batches(split: str, **order: int) -> MaskedBatches:
        rows = tokenizer.encode_batch_fast(texts[split], add_special_tokens=False)
        documents = [np.asarray(row.ids, np.int32) for row in rows]
        sizes = {"length": config["length"], "batch": config["batch"], "rate": config["mask_rate"]}
        return MaskedBatches(documents, tokenizer, **sizes, **order)

    train, validation, test = (
        batches("train", seed=seed, epochs=epochs),
        batches("validation"),
        batches("test"),
    )
    return Splits(train, validation, test, {}, tokenizer, np.zeros(len(test.rows), bool), {})


def _tokenizer(config: Any, directory: Path, texts: list[str]) -> Any:
    file = tokenizer_file(directory)
    if file.exists():
        return load_tokenizer(file)
    if config["tokenizer"].endswith((".json", ".model")):
        copy_tokenizer(Path(config["tokenizer"]), directory)
        return load_tokenizer(tokenizer_file(directory))
    tokenizer = fit(config["tokenizer"], islice(texts, config["fit_examples"] or None), config["vocab"])
    save_tokenizer(tokenizer, directory)
    return tokenizer


def padded_lengths(config: Any) -> tuple[int, ...]:
    """The lengths that texts are padded to: `buckets` below `length`, then `length`."""
    return (*(t for t in config["buckets"] if t < config["length"]), config["length"])


def check(config: Any) -> None:
    """Finds what is wrong with the `data` part of a configuration without reading any data.

    Raises: ValueError.
    """
    check_task(config)
    check_kind(config["tokenizer"], config["vocab"])
    separated = config["task"] == "pretraining" or len(TASKS[config["task"]].texts) > 1
    if separated and config["tokenizer"] in ("words", "bytes"):
        raise ValueError(
            f"data.tokenizer={config['tokenizer']!r} has no [SEP], which task {config['task']!r} needs; "
            "use 'bpe'"
        )
    if config["task"] == "pretraining":
        masking.check(config["length"], config["batch"], config["mask_rate"])
    elif config["length"] < 4:
        raise ValueError(f"data.length={config['length']} must be at least 4")
    else:
        Batches([np.zeros(1, np.int32)], np.zeros(1), buckets=padded_lengths(config), batch=config["batch"])
