"""Trains on CIFAR-10 as 1,024 grey values, the image task of Long Range Arena.

The argument is a model of `MODELS`. All models have four layers of width 128, batches of 32 and 600 steps.
Batch 5 is held out. Training is short, for two CPU cores, so the accuracy does not show what a full training
would reach.

Command: `python -m fourier_attn.main --config=configs/pixels.py:fnet`.

Expected: the tables of docs/images.md.
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default, fit_length

MODELS = {
    "attention": ("attention", {"heads": 4, "head_width": "split"}),
    "fnet": ("fourier", {"norm": "tokens", "padding": "zero"}),
    "lambda": ("lambda", {"heads": 4}),
    "long_conv": ("long_conv", {}),
}
BATCH, STEPS = 32, 600


def get_config(name: str = "fnet") -> Config:
    check_choice("model", name, MODELS)
    mixer, fields = MODELS[name]
    config = default(mixer, "pixels")
    config.model.mixer.update(fields)
    config.data.batch, config.data.train_examples = BATCH, BATCH * STEPS // 2
    config.train.epochs = 2
    return fit_length(config)
