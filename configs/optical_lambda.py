"""Lambda layers whose position lambdas, convolutions of context 3, an emulated 11 x 11 optical chip computes.

`python -m fourier_attn.main --config=configs/optical_lambda.py` (synthetic reviews) or
`configs/optical_lambda.py:imdb`.

What it reaches: not yet run.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("lambda", task, engine="chip_11x11")
    config.train.epochs = 3 if task == "imdb" else 6
    return config
