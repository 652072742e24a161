"""FNet-style text classifier: Fourier mixing instead of attention.

`python -m fourier_attn.main --config=configs/fnet.py` (the synthetic reviews) or `configs/fnet.py:imdb`.
"""

from ml_collections import ConfigDict

from fourier_attn.config import default


def get_config(task: str = "reviews") -> ConfigDict:
    config = default("fourier", task)
    config.model.mixer.norm = "tokens" if task == "imdb" else "none"
    return config
