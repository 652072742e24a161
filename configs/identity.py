"""Feed-forward only: the control without any mixing of tokens. It must fail where mixing is necessary.

`python -m fourier_attn.main --config=configs/identity.py` (the synthetic reviews) or `configs/identity.py:imdb`.
"""

from ml_collections import ConfigDict

from fourier_attn.config import default


def get_config(task: str = "reviews") -> ConfigDict:
    return default("identity", task)
