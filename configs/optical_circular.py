"""Trains circular attention, with 3 x 3 kernels and zeros outside, on an emulated 5 x 5 optical demonstrator.

Command: `python -m fourier_attn.main --config=configs/optical_circular.py:TASK`. TASK is reviews (default) or
imdb. The articles ran this network on IMDb with the device in the loop, and report a bit above 84 %
validation accuracy.

Not run to their end: `reviews` (expected cost: 0.6 core-hours), `imdb` (expected cost: 580 core-hours).
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    recipe = "articles" if task == "imdb" else "default"
    config = default("circular", task, recipe, engine="demonstrator_5x5")
    config.model.mixer.kernel, config.model.mixer.boundary = (3, 3), "zero"
    if task == "imdb":
        config.model.mixer.shape = (16, 8)
        return config
    config.model.d, config.model.mlp = 36, 144  # four tiles of 3 x 3 useful pixels
    config.model.mixer.shape, config.model.mixer.heads = (6, 6), 2
    config.train.epochs = 8
    return config
