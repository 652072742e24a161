"""Holds the steps that all loaders of texts need: tokenizer, encoding, batches of tokens."""

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from fourier_attn import paths
from fourier_attn.data.batches import Batches, padded_lengths
from fourier_attn.data.cache import CachedSplit, DataCache
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.packed import PackedTokens
from fourier_attn.data.tasks import Task
from fourier_attn.data.text import (
    KINDS,
    copy_tokenizer,
    fit,
    load_tokenizer,
    names_file,
    save_tokenizer,
    special,
    tokenizer_file,
)


def run_tokenizer(
    config: DataConfig,
    directory: Path,
    texts: Iterable[str],
    say: Callable[[str], None] = lambda line: None,
    cache: DataCache | None = None,
) -> Any:
    """Returns the tokenizer of a run. If its directory has none, one is copied or fitted, and saved there.

    Args:
      config: the `data` part of the configuration.
      directory: directory of the run.
      texts: texts to fit a tokenizer on; at most `data.fit_examples` are used.
      say: called with a line before the fit, and with notes about it; default: nothing.
      cache: stores a fitted tokenizer; default None.
    """
    if not tokenizer_file(directory).exists():
        if names_file(config.tokenizer):
            copy_tokenizer(paths.given(config.tokenizer), directory)
        else:
            say(f"fitting the tokenizer {config.tokenizer!r} ...")
            chosen = islice(texts, config.fit_examples or None)
            save_tokenizer(fit(config.tokenizer, chosen, config.vocab, say), directory)
            if cache:
                cache.store_tokenizer(directory)
    return load_tokenizer(tokenizer_file(directory))


def rows_to_fit(config: DataConfig, *, pairs: bool) -> int:
    """Returns the number of rows that have `data.fit_examples` texts; 0: all rows.

    Args:
      config: the `data` part of the configuration.
      pairs: whether each row has two texts.
    """
    return math.ceil(config.fit_examples / (2 if pairs else 1))


def restore_tokenizer(cache: DataCache, config: DataConfig, directory: Path) -> None:
    """Copies a cached tokenizer into a run's directory, if the run fits a tokenizer and has none yet.

    Args:
      cache: the cache.
      config: the `data` part of the configuration.
      directory: directory of the run.
    """
    if config.tokenizer in KINDS:
        cache.restore_tokenizer(directory)


def token_batches(
    config: DataConfig, tokenizer: Any, parts: Mapping[str, CachedSplit], order: Mapping[str, int]
) -> dict[str, Batches]:
    """Returns the batches of each split.

    Args:
      config: the `data` part of the configuration.
      tokenizer: the tokenizer.
      parts: the encoded splits.
      order: `seed` and `epochs` of the training set.
    """
    ids, lengths, size = special(tokenizer), padded_lengths(config), config.batch

    def batches(part: CachedSplit, **order: int) -> Batches:
        return Batches(part.rows, part.labels, buckets=lengths, batch=size, pad=ids.pad, sep=ids.sep, **order)

    return {name: batches(part, **(order if name == "train" else {})) for name, part in parts.items()}


def model_knobs(task: Task, vocab: int) -> dict[str, Any]:
    """Returns the options of a model on tokens that the data determine."""
    return {"inputs": "tokens", "vocab": vocab, "head": task.head, "classes": max(len(task.labels), 1)}


def cut_note(rows: PackedTokens, length: int) -> list[str]:
    """Returns a note on training texts that are longer than `data.length`; [] if all are shorter."""
    count = 0 if rows.cut is None else int(rows.cut.sum())
    if not count:
        return []
    return [
        f"train: {count:,} of {len(rows):,} texts ({count / len(rows):.1%}) are cut at data.length={length}"
    ]
