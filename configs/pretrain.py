"""Pre-trains an encoder of the FNet family: it predicts masked tokens and the order of two segments.

The argument is ARCHITECTURE-SIZE. ARCHITECTURE is fnet, hybrid, bert, linear, random or ff. SIZE is tiny,
mini, base or large. Tiny and mini read windows of 128 tokens. Fine-tune them on at most 128 tokens, because
later positions are not trained.

The texts are IMDb's unlabelled reviews, without those that repeat a test text, and WikiText-2. Prepare them
with `python -m fourier_attn.data.prepare --dataset=imdb_reviews --source=DIR`, and with
`--dataset=wikitext2`. You can use other texts with `--config.data.corpora="('texts/*.txt',)"
--config.data.exclude="()"`. The texts have about 20 million tokens. The
published base and large models used far more.

Command: `python -m fourier_attn.main --config=configs/pretrain.py:fnet-mini`.

Expected: results/evidence/pretraining/report.md has the accuracies on masked tokens, in sizes tiny and mini.
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
