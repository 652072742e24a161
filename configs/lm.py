"""Trains a next-token model: `configs/lm.py:MIXER-CORPUS`, or CORPUS alone for attention.

MIXER is any mixer that can be causal. CORPUS is wikitext2 (`python -m fourier_attn.data.prepare
--dataset=wikitext2 --source=DIR`) or files, for your own texts: `--config.data.corpora="('my.txt',)"`. The
network has two pre-norm blocks of width 128, 8,000 word pieces and windows of 128 tokens. An epoch on
WikiText-2 takes some minutes on two CPU cores.

Command: `python -m fourier_attn.main --config=configs/lm.py:attention-wikitext2`.

Expected: docs/language_models.md has results of one epoch on WikiText-2, at the best of four learning rates.
With the three epochs of this file, `attention-wikitext2` has a test perplexity of 37.6 (1 seed).
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default


def get_config(argument: str = "attention-wikitext2") -> Config:
    mixer, corpus = ["attention", *argument.rsplit("-", 1)][-2:]
    check_choice("CORPUS", corpus, ("wikitext2", "files"))
    config = default(mixer, "lm")
    if "causal" in config.model.mixer:
        config.model.mixer.causal = True
    if mixer == "attention":
        config.model.mixer.heads, config.model.mixer.head_width = 4, "split"
    config.data.corpora = () if corpus == "files" else (corpus,)
    return config
