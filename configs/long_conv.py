"""Long convolutions (Fu et al., arXiv 2302.06646): for each feature a kernel as long as the sequence.

`python -m fourier_attn.main --config=configs/long_conv.py` (synthetic reviews), or
`configs/long_conv.py:imdb`.

What it reaches: not yet run.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("long_conv", task)
    config.train.epochs = 8 if task == "reviews" else 3
    return config
