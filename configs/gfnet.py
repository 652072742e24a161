"""Global filters on images (GFNet; Rao et al., arXiv 2107.00645): a learned transfer function of two axes.

The string argument is the task: fashion_mnist, mnist or cifar10.

`python -m fourier_attn.main --config=configs/gfnet.py:cifar10`.

What it reaches: the tables of docs/images.md, from results/. On mnist not yet run.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "fashion_mnist") -> Config:
    return default("global_filter", task)
