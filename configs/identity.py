"""Feed-forward only: the control without any mixing of tokens. It must fail where mixing is necessary.

`python -m fourier_attn.main --config=configs/identity.py` (synthetic reviews), or `configs/identity.py:imdb`.

What it reaches: the tables of docs/mixers.md, from results/. On IMDb not yet run.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    return default("identity", task)
