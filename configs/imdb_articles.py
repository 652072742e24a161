"""Trains the articles' network on IMDb: six blocks of width 128 (121 for 11 x 11), 512 words, eight heads.

The argument is MODEL or MODEL-listing, for example `configs/imdb_articles.py:lambda-listing`. `MODELS` lists
the models.

    MODEL           uses AdamW, batches of 32 in buckets and two epochs, for two CPU cores. It is pre-norm
                    and drops only words, because some post-norm networks learned nothing
                    (results/evidence/imdb/comparisons.md)
    MODEL-listing   uses the articles' settings: learning rate 1e-4, a warm-up over 10,000 examples, 20
                    epochs, words split at white space, PyTorch's initial values, and no dropout. No layer
                    gets the mask, so the mean is over all positions. Adam, batches of 4, clipping at 1,
                    50,000 words and 512 tokens are defaults of the code that the articles started from

The articles report validation accuracies of 83 % for attention, 84 % for circular attention in 1-D and "very
close" values in 2-D. For 3 x 3 kernels on their engine and for lambda layers they report a bit above 84 %.
They trained one network each.

Command: `python -m fourier_attn.main --config=configs/imdb_articles.py:lambda`.

Expected: the table of results/evidence/imdb/findings.md. Not run to their end: `lambda-listing` and
`fnet-listing` (expected cost: 3 core-hours each).
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default

# name -> mixer, its fields
MODELS = {
    "attention": ("attention", {"heads": 8}),
    "circular-1d": ("circular", {"heads": 8}),
    "circular-16x8": ("circular", {"heads": 8, "shape": (16, 8)}),
    "circular-11x11": ("circular", {"heads": 8, "shape": (11, 11)}),
    "circular-3x3": ("circular", {"heads": 8, "shape": (16, 8), "kernel": (3, 3), "boundary": "zero"}),
    "lambda": ("lambda", {"heads": 1, "context": 3}),
    "fnet": ("fourier", {"norm": "tokens"}),
}


def get_config(argument: str = "lambda") -> Config:
    name, listing = argument.removesuffix("-listing"), argument.endswith("-listing")
    check_choice("model", name, MODELS, ", or one with -listing")
    mixer, fields = MODELS[name]
    config = default(mixer, "imdb", recipe="articles" if listing else "default")
    config.model.mixer.update(fields)
    if name == "circular-11x11":
        config.model.d, config.model.mlp = 121, 484
    if not listing:
        config.model.dropout = config.model.mixer_dropout = 0.0
        config.model.norm_position, config.model.token_dropout = "pre", 0.3
        config.train.epochs, config.train.patience = 2, 0
        return config
    config.data.tokenizer, config.model.initializer, config.model.masked = "whitespace", "torch", False
    if name == "attention":
        config.model.mixer.initializer = "torch"
    if name == "lambda":  # their listing: U(-0.5, 0.5), nothing normalised
        config.model.mixer.norm, config.model.mixer.initializer = "none", "uniform"
    return config
