"""Adaptive Fourier neural operators (Guibas et al., arXiv 2111.13587): one small network for every frequency.

`python -m fourier_attn.main --config=configs/afno.py` (synthetic reviews), or `configs/afno.py:imdb`
(6 blocks, d = 128; not yet run).
Measured on 2 CPU cores, one seed: synthetic reviews 99.95 % test accuracy, stopped after six epochs.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("afno", task)
    config.train.epochs = 8 if task == "reviews" else 3
    return config
