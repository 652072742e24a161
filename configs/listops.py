"""ListOps, shortened to at most 512 tokens, nested lists that have a value: `configs/listops.py:MODEL`.

Four layers of width 64, the same dropout and optimiser for all. Long Range Arena's own have 500 to 2,000.

`python -m fourier_attn.main --config=configs/listops.py:fnet`. What it reaches, and the core-hours: the table
of docs/evidence.md, from results/evidence/listops.
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default, fit_length

MODELS = {
    "attention": ("attention", {"heads": 4}),
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
