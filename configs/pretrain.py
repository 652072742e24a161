"""Pre-training of an FNet family's encoder: masked tokens, and the order of two segments.

The string argument is ARCHITECTURE-SIZE: fnet, hybrid, bert, linear, random or ff; tiny, mini, base or large.
Texts: IMDb's unlabelled reviews without those that repeat a test text, and WikiText-2
(`python -m fourier_attn.data.prepare --dataset=imdb_reviews --source=..`, and `--dataset=wikitext2`); others
by `--config.data.corpora="('texts/*.txt',)" --config.data.exclude="()"`. They are some 20 million tokens,
a small part of what base and large were published with. Tiny and mini read windows of 128 tokens: what is
fine-tuned from them should be no longer, since the positions after these are not trained.
`python -m fourier_attn.main --config=configs/pretrain.py:fnet-mini`

Not yet run.
"""

from fourier_attn.config import Config
from fourier_attn.family import family


def get_config(name: str = "fnet-mini") -> Config:
    architecture, size = [*name.split("-", 1), "mini"][:2]
    config = family(architecture, size, "pretraining")
    config.data.corpora = ("imdb_reviews:unsupervised", "wikitext2")
    config.data.exclude = ("imdb_reviews:test",)
    config.data.fit_examples = 20_000
    config.optim.schedule, config.optim.warmup_steps = "linear", 500
    config.optim.eps = 1e-6
    config.train.patience = 0
    if size in ("base", "large"):
        config.data.length, config.data.batch = 512, 256
        config.train.accumulate = 16  # parts, so that a step of base fits into 24 GB
        config.optim.learning_rate, config.train.epochs = 1e-4, 40
    else:
        config.data.length, config.data.batch, config.data.vocab = 128, 32, 8_000
        config.optim.learning_rate, config.train.epochs = 1e-3, 1
    return config
