"""FNet-style text classifier: Fourier mixing instead of attention.

`python -m fourier_attn.main --config=configs/fnet.py` (synthetic reviews) or `configs/fnet.py:imdb`.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("fourier", task)
    config.model.mixer.norm = "tokens" if task == "imdb" else "none"
    return config
