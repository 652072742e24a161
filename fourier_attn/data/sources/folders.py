"""Images of the user's own: a folder with a folder of images for each class."""

from pathlib import Path
from typing import Any

import numpy as np

from fourier_attn import paths
from fourier_attn.data.images import read_image
from fourier_attn.data.tfds import Pictures

SPLITS = {"train": "train_examples", "validation": "eval_examples", "test": "test_examples"}


def read(config: Any) -> tuple[dict[str, Pictures], dict[str, Any], tuple[str, ...]]:
    """The splits, the knob `labels`, and notes; what has no folder is a share `holdout` of train.

    Raises: ValueError that names folder or file and the cure.
    """
    names = tuple(config["labels"]) or classes(paths.given(config["train"]))
    found = {
        split: _images(paths.given(config[split]), names, config["image_size"])
        for split in SPLITS
        if config[split]
    }
    train, missing = found["train"], [split for split in SPLITS if split not in found]
    order, count = np.random.default_rng(config["split_seed"]).permutation(len(train)), 0
    for split in missing:
        count = round(config["holdout"] * len(train))
        if not count or count * len(missing) >= len(train):
            raise ValueError(
                f"{config['train']} has {len(train)} images, of which data.holdout={config['holdout']} "
                f"cannot be kept for each of {' and '.join(missing)}; add images, or name folders of these"
            )
        found[split], order = train.take(order[:count]), order[count:]
    found["train"] = train.take(order)
    notes = []
    for split in ("validation", "test"):
        found[split] = found[split].seen_in(found["train"])
        if same := int(found[split].in_train.sum()):
            notes.append(f"{split}: {same:,} of {len(found[split]):,} images are in train, too")
    limited = {split: found[split].first(config[knob]) for split, knob in SPLITS.items()}
    return limited, {"labels": names}, tuple(notes)


def classes(folder: Path) -> tuple[str, ...]:
    """The names of the folders in a folder, sorted. Raises: ValueError for fewer than two."""
    if not folder.is_dir():
        raise ValueError(f"data.train={folder} is no folder; name one that has a folder for each class")
    names = tuple(sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."))
    if len(names) < 2:
        raise ValueError(
            f"data.train={folder} has the folders {', '.join(names) or 'none'}; there must be two or more, "
            "one for each class"
        )
    return names


def _images(folder: Path, names: tuple[str, ...], size: int) -> Pictures:
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; name one that has a folder for each class")
    found = [path for path in sorted(folder.glob("*/*")) if "." not in (path.name[0], path.parent.name[0])]
    if unknown := next((path for path in found if path.parent.name not in names), None):
        raise ValueError(f"{unknown} is of no class of train ({', '.join(names)[:200]}); move it away")
    if not found:
        raise ValueError(f"{folder} has no images in folders of classes; put some there")
    images = np.empty((len(found), size, size, 3), np.uint8)
    for image, path in zip(images, found, strict=True):
        image[:] = read_image(path, (size, size, 3))
    labels = np.array([names.index(path.parent.name) for path in found])
    ids = np.array([f"{path.parent.name}/{path.name}" for path in found])
    return Pictures(images, labels, ids, np.zeros(len(found), bool), np.full(len(found), ""))
