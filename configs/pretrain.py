"""Pre-training of an FNet family's encoder: masked tokens and the order of two segments.

The string argument is ARCHITECTURE-SIZE: fnet, hybrid, bert, linear, random or ff; tiny, mini, base or large.
Texts: IMDb's unlabelled reviews without those that repeat a test text, and WikiText-2
(`python -m fourier_attn.data.prepare --dataset=imdb_reviews --source=..`, `--dataset=wikitext2`); others with
`--config.data.corpora="('wiki40b/en',)"` or `"('texts/*.txt',)"`.
`python -m fourier_attn.main --config=configs/pretrain.py:fnet-mini`
"""

from fourier_attn.config import Config
from fourier_attn.family import family


def get_config(name: str = "fnet-mini") -> Config:
    architecture, _, size = name.partition("-")
    config = family(architecture, size or "mini", "pretraining")
    config.data.corpora = ("imdb_reviews:unsupervised", "wikitext2")
    config.data.exclude = ("imdb_reviews:test",)
    config.data.fit_examples = 20_000
    config.optim.schedule, config.optim.warmup_steps = "linear", 1000
    config.optim.eps = 1e-6
    config.train.patience = 0
    if size in ("base", "large"):
        config.data.length, config.data.batch = 512, 256
        config.optim.learning_rate, config.optim.warmup_steps = 1e-4, 10_000
        config.train.epochs = 40
    else:
        config.data.length, config.data.batch, config.data.vocab = 128, 32, 8_000
        config.optim.learning_rate, config.optim.warmup_steps = 1e-3, 500
        config.train.epochs = 1
    return config
