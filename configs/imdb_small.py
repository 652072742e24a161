"""Trains small networks on IMDb that differ only in their mixer, with several seeds on two CPU cores.

The argument is a model of `MODELS`. All models have two blocks of width 64, 192 tokens, 20,000 words, four
epochs, the same dropout and the same optimizer. This is not the articles' recipe, which
`configs/imdb_articles.py` has. Models on engines have other sizes. Each has an exact twin of the same size.

Command: `python -m fourier_attn.main --config=configs/imdb_small.py:attention`. To train all models with all
seeds: `python -m evidence.suite.train --tier=1`.

Expected: the tables of docs/texts.md, with core-hours.
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default, fit_length

# name -> mixer, its fields
MODELS = {
    "attention": ("attention", {"heads": 4}),
    "circular-1d": ("circular", {"heads": 4}),
    "circular-16x4": ("circular", {"heads": 4, "shape": (16, 4)}),
    "circular-8x8": ("circular", {"heads": 4, "shape": (8, 8)}),
    "circular-3x3": ("circular", {"heads": 4, "shape": (8, 8), "kernel": (3, 3), "boundary": "zero"}),
    "hybrid": ("fourier", {"norm": "tokens"}),
    "lambda": ("lambda", {}),
    "fnet": ("fourier", {"norm": "tokens"}),
    "linear": ("linear", {}),
    "random": ("random", {}),
    "identity": ("identity", {}),
    "fnet-exact": ("fourier", {"norm": "tokens", "padding": "zero"}),
    "fnet-engine": ("fourier", {"norm": "tokens"}),
    "circular-3x3-exact": ("circular", {"shape": (6, 6), "heads": 2, "kernel": (3, 3), "boundary": "zero"}),
    "circular-3x3-engine": ("circular", {"shape": (6, 6), "heads": 2, "kernel": (3, 3), "boundary": "zero"}),
    "lambda-exact": ("lambda", {}),
    "lambda-engine": ("lambda", {}),
}
ENGINES = {
    "fnet-engine": "chip_11x11",
    "circular-3x3-engine": "demonstrator_5x5",
    "lambda-engine": "chip_11x11",
}


def get_config(name: str = "fnet") -> Config:
    check_choice("model", name, MODELS)
    mixer, fields = MODELS[name]
    hybrid = name == "hybrid"
    config = default(mixer, "imdb", "small", ENGINES.get(name), others=("attention",) if hybrid else ())
    config.model.mixer.update(fields)
    if hybrid:
        config.model.others.attention.heads = 4
        config.model.layout = ("fourier", "attention")
    if name.startswith("fnet-"):  # 4 x 8^2 tokens
        config.data.length, config.data.buckets = 256, ()
    if name == "fnet-engine":
        config.model.mixer.engine.shape = (8, 8)
    if name.startswith(("circular-3x3-", "lambda-")):
        config.data.length, config.data.buckets = 128, ()
        config.data.train_examples, config.model.depth = 4000, 1
    if name.startswith("circular-3x3-"):  # four tiles of 3 x 3 useful pixels
        config.model.d, config.model.mlp = 36, 144
    config.model.positions = config.data.length
    return fit_length(config)
