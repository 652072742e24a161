"""Trains the small networks of `configs/imdb_small.py` on SST-2.

The argument is a model of `MODELS`. The score is the accuracy on the 1,821 test sentences, with the weights
of the best validation epoch. It needs the test labels of the original SST, because GLUE hides them. Without
them, the score is the validation accuracy after the last epoch.

Command: `python -m fourier_attn.main --config=configs/sst2_small.py:attention`. To train all models with
three seeds: `python -m evidence.suite.train --tier=sst2`.

Expected: the table of docs/texts.md, with core-hours.
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default

MODELS = {
    "attention": ("attention", {"heads": 4}),
    "circular-1d": ("circular", {"heads": 4}),
    "lambda": ("lambda", {}),
    "fnet": ("fourier", {"norm": "tokens"}),
    "identity": ("identity", {}),
}


def get_config(name: str = "fnet") -> Config:
    check_choice("model", name, MODELS)
    mixer, fields = MODELS[name]
    config = default(mixer, "sst2")
    config.model.mixer.update(fields)
    config.data.tokenizer, config.data.vocab = "words", 20_000
    config.data.length, config.data.buckets = 64, (16, 32)
    config.model.positions, config.model.depth, config.model.d, config.model.mlp = 64, 2, 64, 256
    config.model.dropout = config.model.mixer_dropout = config.model.token_dropout = 0.3
    config.train.epochs, config.train.patience = 4, 0
    return config
