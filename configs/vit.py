"""Trains a small vision transformer: patches and pre-norm attention (Dosovitskiy et al., arXiv 2010.11929).

The argument is the task: fashion_mnist (default), mnist or cifar10. The classifier uses the mean of the
tokens instead of a class token.

Command: `python -m fourier_attn.main --config=configs/vit.py:cifar10`.

Expected: the tables of docs/images.md. Not run to its end: `mnist` (expected cost: 0.24 core-hours).
"""

from fourier_attn.config import Config, default


def get_config(task: str = "fashion_mnist") -> Config:
    config = default("attention", task)
    config.model.mixer.heads, config.model.mixer.head_width = 4, "split"
    return config
