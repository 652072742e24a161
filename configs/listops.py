"""Trains on ListOps, nested lists that have a value, with at most 512 tokens.

The argument is a model of `MODELS`. All models have four layers of width 64, the same dropout and the same
optimizer. The lists of Long Range Arena are longer, with 500 to 2,000 tokens.

Command: `python -m fourier_attn.main --config=configs/listops.py:fnet`.

Expected: the table of docs/texts.md (results/evidence/listops).
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default, fit_length

MODELS = {
    "attention": ("attention", {"heads": 4}),
    "circular-1d": ("circular", {"heads": 4}),
    "fnet": ("fourier", {"norm": "tokens"}),
    "lambda": ("lambda", {"heads": 4}),
    "linear": ("linear", {}),
    "identity": ("identity", {}),
}


def get_config(name: str = "fnet") -> Config:
    check_choice("model", name, MODELS)
    mixer, fields = MODELS[name]
    config = default(mixer, "listops")
    config.model.mixer.update(fields)
    config.model.positions, config.model.depth, config.model.d, config.model.mlp = 512, 4, 64, 256
    config.model.dropout = config.model.mixer_dropout = 0.1
    config.train.epochs, config.train.patience = 4, 0
    return fit_length(config)
