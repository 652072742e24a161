"""Adaptive Fourier neural operators (Guibas et al., arXiv 2111.13587): a small network at every frequency.

`python -m fourier_attn.main --config=configs/afno.py` (synthetic reviews), or `configs/afno.py:imdb`.

What it reaches: the tables of docs/mixers.md, from results/. On IMDb not yet run.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("afno", task)
    config.train.epochs = 8 if task == "reviews" else 3
    return config
