"""Trains FNet's mixing on images: the transform runs over rows and columns of patches, and over features.

The argument is TASK-VARIANT, for example `configs/fnet_vit.py:cifar10-space`. The defaults are fashion_mnist
and all. TASK is fashion_mnist, mnist or cifar10.

    all      transforms rows, columns and features
    space    transforms rows and columns only
    hybrid   as "all", with attention in the last two blocks. If you change the depth, also set the layout:
             --config.model.depth=3 --config.model.layout="('fourier','attention','attention')"

Command: `python -m fourier_attn.main --config=configs/fnet_vit.py`.

Expected: the tables of docs/images.md. Not run to their end: `mnist-all`, `mnist-space`, `mnist-hybrid` and
`fashion_mnist-space` (expected cost: 0.12 core-hours each), `cifar10-space` (expected cost: 0.2 core-hours).
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default

VARIANTS = ("all", "space", "hybrid")


def get_config(argument: str = "fashion_mnist") -> Config:
    task, variant = [*argument.split("-", 1), VARIANTS[0]][:2]
    check_choice("variant", variant, VARIANTS)
    hybrid = variant == "hybrid"
    config = default("fourier", task, others=("attention",) if hybrid else ())
    config.model.mixer.norm = "tokens"
    config.model.mixer.features = variant != "space"
    if hybrid:
        config.model.layout = ("fourier",) * (config.model.depth - 2) + ("attention",) * 2
        config.model.others.attention.heads, config.model.others.attention.head_width = 4, "split"
    return config
