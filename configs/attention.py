"""The articles' standard self-attention: every head as wide as the model, scores divided by sqrt(d).

`python -m fourier_attn.main --config=configs/attention.py` (synthetic reviews), or
`configs/attention.py:imdb`.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("attention", task)
    config.model.mixer.heads = 8 if task == "imdb" else 4
    return config
