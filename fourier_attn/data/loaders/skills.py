"""Generates the sequences of the synthetic skills: new ones for each training batch, fixed ones otherwise."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from fourier_attn.data import skills
from fourier_attn.data.batches import Batch
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.loaders.encoding import model_knobs
from fourier_attn.data.skills import Knobs, Questions
from fourier_attn.data.splits import Splits
from fourier_attn.data.tasks import task_of

TRAIN, EVALUATION = 16_000, 1_000  # number of examples of an epoch, and of validation and test
# The first number of each split's seed, so that splits use different random numbers.
STREAMS = {"train": 0, "validation": 1, "test": 2}


class QuestionBatches:
    """Makes batches of synthetic sequences, `batches[step]`, each a function of (seed, step).

    Training generates every batch anew. Evaluation has `size` fixed examples, and fills the last batch with
    copies of its first example with weight 0.

    A batch is a dict:

        inputs (b, t)              tokens
        answer_positions (b, p)    places with an answer; all places for `compress`
        label (b, p)               the answers; `IGNORED` if a sequence has fewer
        weight (b,)                1, or 0 for copies that fill up the batch
        index (b,)                 index of the example

    Args:
      name: a key of `SKILLS`.
      knobs: options of the task.
      split: a key of `STREAMS`.
      size: number of examples of an epoch; training rounds it up to whole batches.
      batch: number of examples b of a batch.
      seed: random seed.
      epochs: number of epochs; default 1.
    """

    def __init__(
        self, name: str, knobs: Knobs, split: str, *, size: int, batch: int, seed: int, epochs: int = 1
    ):
        self.name, self.knobs, self.batch, self.epochs = name, knobs, batch, epochs
        self.stream, self.fresh = (STREAMS[split], seed), split == "train"
        self.places = skills.SKILLS[name].asked(knobs)
        self.steps_per_epoch = -(-size // batch)
        # for training the first epoch, which is used for the fingerprint of a run
        parts = [self._sample(step) for step in range(self.steps_per_epoch)]
        rows, labels = (
            np.concatenate(part)[: None if self.fresh else size] for part in zip(*parts, strict=True)
        )
        self.rows, self.labels = rows, skills.gathered(labels, self.places)[1]
        self.all_labels = labels

    def __len__(self) -> int:
        return self.epochs * self.steps_per_epoch

    def __getitem__(self, index: int) -> Batch:
        step = int(index) % self.steps_per_epoch
        members = np.arange(step * self.batch, (step + 1) * self.batch, dtype=np.int32)
        weight = (members < len(self.rows)).astype(np.float32)
        members = np.where(weight > 0, members, members[0])
        if self.fresh:
            inputs, labels = self._sample(int(index))
        else:
            inputs, labels = self.rows[members], self.all_labels[members]
        positions, label = skills.gathered(labels, self.places)
        return {
            "inputs": inputs,
            "answer_positions": positions,
            "label": label,
            "weight": weight,
            "index": members,
        }

    def _sample(self, step: int) -> Questions:
        return skills.sample(self.name, np.random.default_rng((*self.stream, step)), self.batch, self.knobs)


def load(config: DataConfig, directory: Path, say: Callable[[str], None], **order: int) -> Splits:
    """Generates the sequences of a task, without a tokenizer.

    The training set depends on the run's seed, validation and test sets only on `data.split_seed`.

    Args:
      config, directory, say: see `fourier_attn.data.load`.
      order: seed and epochs of the training set, see `fourier_attn.data.load`.
    """
    knobs = skills.knobs_of(config)
    skills.check(config.task, knobs)

    def batches(split: str, size: int, **order: int) -> QuestionBatches:
        return QuestionBatches(config.task, knobs, split, size=size, batch=config.batch, **order)

    test = batches("test", config.test_examples or EVALUATION, seed=config.split_seed)
    return Splits(
        train=batches("train", config.train_examples or TRAIN, **order),
        validation=batches("validation", config.eval_examples or EVALUATION, seed=config.split_seed),
        test=test,
        extra_evals={},
        model=model_knobs(task_of(config), config.vocab),
        lengths=(config.length,),
        in_train=np.zeros(len(test.labels), bool),
    )
