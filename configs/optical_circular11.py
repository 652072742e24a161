"""Trains circular attention, with tokens of 11 x 11 features, on an emulated 11 x 11 optical chip.

Command: `python -m fourier_attn.main --config=configs/optical_circular11.py:TASK`. TASK is reviews (default)
or imdb.

Not run to their end: `reviews` (expected cost: 1.7 core-hours), `imdb` (expected cost: 75 core-hours).
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    recipe = "articles" if task == "imdb" else "default"
    config = default("circular", task, recipe, engine="chip_11x11")
    config.model.d, config.model.mlp = 121, 484
    config.model.mixer.heads = 8 if task == "imdb" else 4
    config.train.epochs = 20 if task == "imdb" else 12
    config.model.mixer.shape = (11, 11)
    return config
