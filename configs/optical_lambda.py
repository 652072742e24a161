"""Trains lambda layers with position lambdas, convolutions of context 3, on an emulated 11 x 11 optical chip.

Command: `python -m fourier_attn.main --config=configs/optical_lambda.py:TASK`. TASK is reviews (default) or
imdb.

Not run to their end: `reviews` (expected cost: 0.44 core-hours), `imdb` (expected cost: 12 core-hours).
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("lambda", task, engine="chip_11x11")
    config.train.epochs = 3 if task == "imdb" else 6
    return config
