"""Trains lambda convolutions on images, in a network with patches of one size (Bello, arXiv 2102.08602).

The argument is TASK-CONTEXT, for example `configs/lambda_vit.py:cifar10-7`. TASK is fashion_mnist (default),
mnist or cifar10. CONTEXT is the width of the neighbourhood in patches, an odd number (default 3).

Command: `python -m fourier_attn.main --config=configs/lambda_vit.py`.

Expected: the tables of docs/images.md. Not run to their end: `mnist-3` and `mnist-7` (expected cost: 0.21
core-hours each).
"""

from fourier_attn.config import Config, default


def get_config(argument: str = "fashion_mnist") -> Config:
    task, context = [*argument.split("-", 1), "3"][:2]
    if not context.isdecimal():
        raise ValueError(f"context={context!r} must be a whole number")
    config = default("lambda", task)
    config.model.mixer.heads = 4
    config.model.mixer.context = int(context)
    return config
