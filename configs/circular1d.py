"""Attention whose queries, keys and values are circular correlations of each token, over all its features.

`python -m fourier_attn.main --config=configs/circular1d.py` (synthetic reviews), or
`configs/circular1d.py:imdb` with the articles' sizes and recipe (Adam, rate 1e-4, batch 4, 20 epochs);
they give 84 % validation accuracy. On IMDb not yet run here.
Measured on 2 CPU cores, one seed: synthetic reviews 99.75 % test accuracy.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("circular", task, recipe="articles" if task == "imdb" else "default")
    config.model.mixer.heads = 8 if task == "imdb" else 4
    config.train.epochs = 20 if task == "imdb" else 8
    return config
