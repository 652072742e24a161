"""Two learned matrices, over tokens and over features: the "Linear" control of the FNet paper.

`python -m fourier_attn.main --config=configs/linear.py` (synthetic reviews), or `configs/linear.py:imdb`.

What it reaches: the tables of docs/mixers.md, from results/. On IMDb not yet run.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("linear", task)
    config.train.epochs = 8 if task == "reviews" else 3
    return config
