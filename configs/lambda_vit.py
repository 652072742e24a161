"""Lambda convolutions on images (Bello, arXiv 2102.08602), in a network of patches of one size.

The string argument is TASK-CONTEXT, for example `configs/lambda_vit.py:cifar10-7`: a task (fashion_mnist,
mnist or cifar10; the first is the default) and how many patches across the neighbourhood is, odd (3).

`python -m fourier_attn.main --config=configs/lambda_vit.py`.

What it reaches: the tables of docs/images.md, from results/. On mnist not yet run.
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
