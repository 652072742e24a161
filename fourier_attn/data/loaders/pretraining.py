"""Loads the texts of pre-training."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from fourier_attn.data.corpus import read_corpora
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.loaders.encoding import model_knobs, run_tokenizer
from fourier_attn.data.masking import MaskedBatches
from fourier_attn.data.splits import Splits
from fourier_attn.data.tables.columns import LIMITS
from fourier_attn.data.tasks import TASKS
from fourier_attn.data.text import ids_of, tokenizer_file


def load(config: DataConfig, directory: Path, say: Callable[[str], None], **order: int) -> Splits:
    """Loads documents as windows with masked tokens, as `fourier_attn.data.load`."""
    texts = read_corpora(config)
    tokenizer = run_tokenizer(config, directory, texts["train"], say)

    def batches(split: str, **order: int) -> MaskedBatches:
        documents = [np.asarray(row, np.int32) for row in ids_of(tokenizer, texts[split])[0]]
        sizes = {"length": config.length, "batch": config.batch, "rate": config.mask_rate}
        return MaskedBatches(documents, tokenizer, **sizes, most=config[LIMITS[split]], **order)

    test = batches("test")
    return Splits(
        train=batches("train", **order),
        validation=batches("validation"),
        test=test,
        extra_evals={},
        model=model_knobs(TASKS["pretraining"], tokenizer.get_vocab_size()),
        lengths=(config.length,),
        in_train=np.zeros(len(test.rows), bool),
        tokenizer=tokenizer_file(directory),
    )
