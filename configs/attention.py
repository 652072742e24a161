"""Standard attention, every head as wide as the model (Vaswani et al., arXiv 1706.03762; P. Bloem).

`python -m fourier_attn.main --config=configs/attention.py` (synthetic reviews), or
`configs/attention.py:imdb` with the articles' recipe (rate 1e-4, 20 epochs) and the sizes, Adam and batches
of 4 of the code that they built on; they give 83 % validation accuracy.

What it reaches: the tables of docs/mixers.md, from results/. On IMDb not yet run.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("attention", task, recipe="articles" if task == "imdb" else "default")
    config.model.mixer.heads = 8 if task == "imdb" else 4
    return config
