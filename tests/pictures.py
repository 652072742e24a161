"""Images as the tests make them, with the files that hold them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from configs import shapes as shapes_config
from fourier_attn import config

COUNTS = {"train": 60, "t10k": 20}


def drawn(count: int, *shape: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images whose class shows in their brightness, and their classes."""
    random = np.random.default_rng((seed, count))
    labels = random.integers(0, 10, count, np.uint8)
    noise = random.integers(0, 20, (count, *shape))
    return (labels.reshape(-1, *[1] * len(shape)) * 20 + noise).astype(np.uint8), labels


def idx_file(array: np.ndarray) -> bytes:
    head = bytes((0, 0, 8, array.ndim)) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return head + array.tobytes()


def idx_files(where: Path, pack: Callable[[bytes], bytes] = bytes, end: str = "") -> Path:
    where.mkdir(exist_ok=True)
    for name, count in COUNTS.items():
        images, labels = drawn(count, 28, 28)
        (where / f"{name}-images-idx3-ubyte{end}").write_bytes(pack(idx_file(images)))
        (where / f"{name}-labels-idx1-ubyte{end}").write_bytes(pack(idx_file(labels)))
    return where


def small(data_dir: str) -> Any:
    c = config.default("fourier", "fashion_mnist")
    c.data.update({"dir": data_dir, "batch": 16, "holdout": 0.2})
    c.model.update({"depth": 1, "d": 8, "mlp": 8, "patch": 7})
    c.train.update({"epochs": 2, "log_every": 2})
    c.optim.warmup_steps = 2
    return c


def small_shapes(few: str, task: str = "answers") -> Any:
    c = shapes_config.get_config(task)
    c.data.update({"dir": few, "batch": 16})
    c.model.update({"depth": 1, "d": 8, "mlp": 8})
    c.train.update({"epochs": 2, "log_every": 2})
    return c
