"""Loads images that a model reads as patches, with questions if the task has some."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fourier_attn.data import reading
from fourier_attn.data.augmentation import Augmentation
from fourier_attn.data.examples import Pictures
from fourier_attn.data.images import ImageBatches, statistics
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.loaders.encoding import run_tokenizer
from fourier_attn.data.splits import Origin, Splits
from fourier_attn.data.tasks import task_of
from fourier_attn.data.text import encode_questions, tokenizer_file
from fourier_attn.knobs import with_values


def load(config: DataConfig, directory: Path, say: Callable[[str], None], **order: int) -> Splits:
    """Loads images that the model reads as patches.

    Args:
      config, directory, say: see `fourier_attn.data.load`.
      order: seed and epochs of the training set, see `fourier_attn.data.load`.
    """
    pictures, knobs, notes = reading.read_images(config)
    task = task_of(with_values(config, knobs))
    train, test = pictures["train"], task.tests[0]
    augmentation = _augmentation(config, train)
    tokenizer = run_tokenizer(config, directory, train.questions.tolist(), say) if task.question else None

    def batches(part: Pictures, **more: Any) -> ImageBatches:
        asked = encode_questions(tokenizer, part.questions.tolist(), config.length) if tokenizer else None
        return ImageBatches(part.images, part.labels, batch=config.batch, questions=asked, **more)

    mean, deviation = statistics(train.images)
    model = {
        "inputs": task.inputs,
        "image": train.images.shape[1:],
        "pixel_mean": mean,
        "pixel_deviation": deviation,
        "head": task.head,
        "classes": len(task.labels),
    }
    if tokenizer:
        model["vocab"] = tokenizer.get_vocab_size()
    return Splits(
        train=batches(train, augmentation=augmentation, **order),
        validation=batches(pictures["validation"]),
        test=batches(pictures[test]),
        extra_evals={name: batches(pictures[name]) for name in (*task.tests[1:], *task.held)},
        model=model,
        lengths=(),
        in_train=pictures[test].in_train,
        tokenizer=tokenizer_file(directory) if tokenizer else None,
        knobs=knobs,
        notes=notes,
        origins=_origins(config, pictures) if config.task == "image_files" else {},
    )


def _augmentation(config: DataConfig, train: Pictures) -> Augmentation:
    rows, cols = train.images.shape[1:3]
    if config.crop >= min(rows, cols):
        raise ValueError(
            f"data.crop={config.crop} is too large for images of {rows} x {cols} pixels; reduce it"
        )
    return Augmentation(config.flip, config.crop, config.mix)


def _origins(config: DataConfig, pictures: dict[str, Pictures]) -> dict[str, list[Origin]]:
    """Returns the file of each image in the custom folders of validation and test."""
    folders = {split: Path(config[split] or config.train) for split in ("validation", "test")}
    return {
        split: [Origin(str(folder / name), None) for name in pictures[split].ids]
        for split, folder in folders.items()
    }
