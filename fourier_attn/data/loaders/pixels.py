"""Loads images as sequences of grey values, one token for each pixel."""

from collections.abc import Callable
from pathlib import Path

from fourier_attn.data import reading
from fourier_attn.data.batches import Batches
from fourier_attn.data.images import grey
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.loaders.encoding import model_knobs
from fourier_attn.data.splits import Splits
from fourier_attn.data.tasks import TASKS

GREY_VALUES = 256


def load(config: DataConfig, directory: Path, say: Callable[[str], None], **order: int) -> Splits:
    """Loads images as sequences of grey values, without a tokenizer.

    Args:
      config, directory, say: see `fourier_attn.data.load`.
      order: seed and epochs of the training set, see `fourier_attn.data.load`.
    """
    task, (pictures, _, _) = TASKS[config.task], reading.read_images(config)

    def batches(split: str, **order: int) -> Batches:
        rows, labels = grey(pictures[split].images), pictures[split].labels
        if rows.shape[1] != config.length:
            raise ValueError(
                f"data.length={config.length} must be {rows.shape[1]}, the number of pixels of an image of "
                f"task {config.task!r}"
            )
        return Batches(list(rows), labels, buckets=rows.shape[1:], batch=config.batch, **order)

    test = task.tests[0]
    return Splits(
        train=batches("train", **order),
        validation=batches("validation"),
        test=batches(test),
        extra_evals={name: batches(name) for name in (*task.tests[1:], *task.held)},
        model=model_knobs(task, GREY_VALUES),
        lengths=(config.length,),
        in_train=pictures[test].in_train,
    )
