"""Loads the documents of `data.corpora` for language models and for pre-training."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fourier_attn.data.corpus import read_corpora
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.loaders.encoding import model_knobs, run_tokenizer
from fourier_attn.data.masking import MaskedBatches, MaskedTokenBatches
from fourier_attn.data.splits import Splits
from fourier_attn.data.tables.columns import LIMITS
from fourier_attn.data.tasks import TASKS
from fourier_attn.data.text import ids_of, special, tokenizer_file
from fourier_attn.data.windows import NextTokenBatches, Windows, separator


def load(config: DataConfig, directory: Path, say: Callable[[str], None], **order: int) -> Splits:
    """Loads documents as windows of tokens.

    Args:
      config, directory, say: see `fourier_attn.data.load`.
      order: seed and epochs of the training set, see `fourier_attn.data.load`.
    """
    task, texts = TASKS[config.task], read_corpora(config)
    tokenizer = run_tokenizer(config, directory, texts["train"], say)
    documents = {
        split: [np.asarray(row, np.int32) for row in ids_of(tokenizer, rows)[0]]
        for split, rows in texts.items()
    }
    words = {split: [len(text.split()) for text in rows] for split, rows in texts.items()}

    def batches(split: str, **order: int) -> Windows:
        common = {"length": config.length, "batch": config.batch, "most": config[LIMITS[split]], **order}
        return _batches(task.head, config, tokenizer, documents[split], words[split], common)

    test = batches("test")
    return Splits(
        train=batches("train", **order),
        validation=batches("validation"),
        test=test,
        extra_evals={},
        model=model_knobs(task, tokenizer.get_vocab_size()),
        lengths=(config.length,),
        in_train=np.zeros(len(test.rows), bool),
        tokenizer=tokenizer_file(directory),
        notes=() if task.head == "pretraining" else (_note(documents, words, special(tokenizer).unknown),),
    )


def _batches(
    head: str,
    config: DataConfig,
    tokenizer: Any,
    documents: list[np.ndarray],
    words: list[int],
    common: dict[str, int],
) -> Windows:
    """Returns the batches of a split for a head.

    Args:
      head: "lm", "mlm" or "pretraining".
      config: the `data` part of the configuration.
      tokenizer: the tokenizer.
      documents: token ids of each document.
      words: number of words of each document's text.
      common: further arguments of all kinds of batches.
    """
    if head == "lm":
        ids = special(tokenizer)
        return NextTokenBatches(documents, words, separator=separator(ids), pad=ids.pad, **common)
    if head == "mlm":
        masks = {"rate": config.mask_rate, "mask_seed": config.split_seed}
        return MaskedTokenBatches(documents, tokenizer, **masks, **common)
    return MaskedBatches(documents, tokenizer, rate=config.mask_rate, **common)


def _note(documents: Mapping[str, list[np.ndarray]], words: Mapping[str, list[int]], unknown: int) -> str:
    """Returns a line about tokens, tokens per word, and unknown tokens.

    Args:
      documents: token ids of each document, by split.
      words: number of words of each document's text, by split.
      unknown: id of the unknown token.
    """
    counts, shares = [], []
    for split in LIMITS:
        tokens = sum(map(len, documents[split]))
        counts.append(f"{split} {tokens:,} ({tokens / max(sum(words[split]), 1):.2f} a word)")
        if found := sum(int((row == unknown).sum()) for row in documents[split]):
            shares.append(f"{split} {found / tokens:.2%}")
    return f"tokens: {', '.join(counts)}" + (f"; unknown: {', '.join(shares)}" if shares else "")
