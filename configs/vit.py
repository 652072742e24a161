"""A vision transformer (Dosovitskiy et al., arXiv 2010.11929): patches, pre-norm blocks, attention.

The string argument is the task: fashion_mnist, mnist or cifar10. Small, and with the mean of the tokens
instead of a class token.

`python -m fourier_attn.main --config=configs/vit.py:cifar10`.

What it reaches: the tables of docs/images.md, from results/. On mnist not yet run.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "fashion_mnist") -> Config:
    config = default("attention", task)
    config.model.mixer.heads, config.model.mixer.head_width = 4, "split"
    return config
