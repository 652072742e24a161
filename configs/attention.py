"""Trains standard attention, with heads as wide as the model (Vaswani et al., arXiv 1706.03762; P. Bloem).

Command: `python -m fourier_attn.main --config=configs/attention.py:TASK`. The default task is reviews. On
imdb it uses the articles' recipe (learning rate 1e-4, 20 epochs), and the sizes, Adam and batches of 4 of the
code that the articles started from. The articles report 83 % validation accuracy.

Expected on the synthetic reviews: 91.20 % test accuracy (1 seed), in 4 minutes on two CPU cores.
docs/mixers.md has the tables. Not run to their end: `imdb` (expected cost: 24 core-hours) and `pathfinder`
(expected cost: 6 core-hours).
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("attention", task, recipe="articles" if task == "imdb" else "default")
    config.model.mixer.heads = 8 if task == "imdb" else 4
    return config
