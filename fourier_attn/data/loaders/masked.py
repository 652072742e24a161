"""Masks the inputs of a task for self-pretraining, without using its labels."""

from types import MappingProxyType
from typing import Any

import numpy as np

from fourier_attn.data.batches import Batch, Split
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.masking import Masks
from fourier_attn.data.skills import IGNORED
from fourier_attn.data.splits import Splits
from fourier_attn.data.text import load_tokenizer


class MaskedSplit:
    """Makes batches with masked tokens from the batches of a task, `batches[step]`.

    The share `rate` of each example's tokens is masked, see `Masks`. The masks of example i in epoch e are
    drawn from (seed, e, i). In evaluation they are drawn from (seed, 0, i), so that they are the same for
    every network and epoch.

    A batch is that of the task with masked inputs (b, t), answer_positions (b, p), the places of the chosen
    tokens, and label (b, p), their original tokens. Unused places have the label `IGNORED`, and
    $p = round(rate length)$ is at least 1.

    Args:
      split: batches of tokens with padding.
      masks: chooses p tokens of a row.
      rate: share of the tokens of an example.
      seed: seed of the masks.
      training: whether masks differ between epochs.
    Source: Amos et al., Never Train from Scratch, ICLR 2024, arXiv 2310.02980 (self-pretraining).
    """

    def __init__(self, split: Split, masks: Masks, rate: float, seed: int, training: bool):
        self.split, self.masks, self.rate = split, masks, rate
        self.seed, self.training = seed, training
        self.rows, self.batch, self.steps_per_epoch = split.rows, split.batch, split.steps_per_epoch
        self.labels = np.zeros(len(split.rows), np.int32)

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> Batch:
        batch = self.split[index]
        epoch = int(index) // self.steps_per_epoch if self.training else 0
        tokens, chosen = batch["inputs"].copy(), []
        for row, member in zip(tokens, batch["index"], strict=True):
            rng = np.random.default_rng((self.seed, 2, epoch, int(member)))
            chosen.append(self.masks.choose(row[None], rng, self.rate))
        places, found, real = (np.concatenate(arrays) for arrays in zip(*chosen, strict=True))
        label = np.where(real, found, IGNORED).astype(np.int32)
        return batch | {"inputs": tokens, "answer_positions": places, "label": label}


def masked(splits: Splits, config: DataConfig, seed: int) -> Splits:
    """Returns the splits of a masked language model on the inputs of a task.

    If the vocabulary lacks [MASK], as for words, bytes or pixels, the chosen tokens become random ones.

    Args:
      splits: the splits of the task.
      config: the `data` part of the configuration.
      seed: seed of the masks of the training set; those of evaluation have `data.split_seed`.
    """
    tokenizer: Any = None if splits.tokenizer is None else load_tokenizer(splits.tokenizer)
    if tokenizer is None:
        masks = Masks.of_values(splits.model["vocab"], config.mask_rate, config.length)
    else:
        masks = Masks.of(tokenizer, config.mask_rate, config.length, needed=False)

    def split(part: Split, training: bool = False) -> MaskedSplit:
        return MaskedSplit(part, masks, config.mask_rate, seed if training else config.split_seed, training)

    return splits._replace(
        train=split(splits.train, training=True),
        validation=split(splits.validation),
        test=split(splits.test),
        extra_evals={name: split(part) for name, part in splits.extra_evals.items()},
        model={**splits.model, "head": "mlm", "classes": 1},
        in_train=np.zeros(len(splits.test.labels), bool),
        idx=MappingProxyType({}),
    )
