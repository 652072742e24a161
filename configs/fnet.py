"""FNet-style text classifier: Fourier mixing (Lee-Thorpe et al., arXiv 2105.03824) instead of attention.

`python -m fourier_attn.main --config=configs/fnet.py` (synthetic reviews) or `configs/fnet.py:imdb`: two
blocks, an embedding of the 20,000 most frequent words, and dropout, chosen on IMDb's validation split.

What it reaches: the tables of docs/mixers.md, from results/.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("fourier", task)
    if task == "imdb":
        config.model.mixer.norm = "tokens"
        config.model.depth = 2
        config.data.vocab = 20_000  # rarer words are mostly names, which do not carry over to other films
        config.model.dropout = config.model.mixer_dropout = config.model.token_dropout = 0.3
        config.optim.learning_rate = 1e-3
    return config
