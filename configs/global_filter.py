"""Global filters (GFNet; Rao et al., arXiv 2107.00645): a learned transfer function for each feature.

`python -m fourier_attn.main --config=configs/global_filter.py` (synthetic reviews), or
`configs/global_filter.py:imdb`.

What it reaches: the tables of docs/mixers.md, from results/. On IMDb not yet run.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("global_filter", task)
    config.train.epochs = 8 if task == "reviews" else 3
    return config
