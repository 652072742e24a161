"""Trains on IMDb as 1,024 bytes, the text task of Long Range Arena.

The argument is a model of `MODELS`. As in the benchmark, there are four layers of width 256 with four heads,
and batches of 32. Unlike there, training takes 1,000 steps instead of 20,000, and texts are cut after 1,024
bytes, to save time. The accuracy therefore does not show what a full training would reach.

Command: `python -m fourier_attn.main --config=configs/imdb_bytes.py:fnet`.

Expected: docs/texts.md has the accuracies, each with one seed and on a GPU. Not run to their end: `linear`
(expected cost: 4 core-hours) and `attention` (expected cost: 8 core-hours).
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default, fit_length

MODELS = {
    "attention": ("attention", {"heads": 4, "head_width": "split"}),
    "fnet": ("fourier", {"norm": "tokens", "padding": "zero"}),
    "lambda": ("lambda", {"heads": 4}),
    "linear": ("linear", {}),
    "long_conv": ("long_conv", {}),
}
BATCH, STEPS = 32, 1000


def get_config(name: str = "fnet") -> Config:
    check_choice("model", name, MODELS)
    mixer, fields = MODELS[name]
    config = default(mixer, "imdb")
    config.model.mixer.update(fields)
    config.data.tokenizer, config.data.length, config.data.buckets = "bytes", 1024, ()
    config.data.batch, config.data.holdout = BATCH, 0.1
    config.data.train_examples = BATCH * STEPS // 2
    config.model.positions, config.model.depth, config.model.d, config.model.mlp = 1024, 4, 256, 1024
    config.train.epochs, config.train.patience = 2, 0
    return fit_length(config)
