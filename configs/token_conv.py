"""A filter of 3 x 3 patches, the same for all features, on images: what neighbours alone can do.

The string argument is the task: fashion_mnist, mnist or cifar10.

`python -m fourier_attn.main --config=configs/token_conv.py:cifar10`.

What it reached from an earlier initial value: the tables of docs/images.md, from results/. From today's
initial value, and on mnist, not yet run.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "fashion_mnist") -> Config:
    return default("token_conv", task)
