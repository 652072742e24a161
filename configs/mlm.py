"""Trains a masked language model: `configs/mlm.py:MIXER-CORPUS`, or CORPUS alone for attention.

MIXER is any mixer, in its bidirectional form. CORPUS and the sizes are those of configs/lm.py. All mixers get
the same masks for validation and test, so you can compare their perplexities.

Command: `python -m fourier_attn.main --config=configs/mlm.py:fourier-wikitext2`.

Expected: a test perplexity of 66.7 for `fourier-wikitext2` (1 seed). docs/language_models.md has results of
one epoch, at the best of four learning rates.
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default


def get_config(argument: str = "fourier-wikitext2") -> Config:
    mixer, corpus = ["attention", *argument.rsplit("-", 1)][-2:]
    check_choice("CORPUS", corpus, ("wikitext2", "files"))
    config = default(mixer, "mlm")
    if mixer == "attention":
        config.model.mixer.heads, config.model.mixer.head_width = 4, "split"
    config.data.corpora = () if corpus == "files" else (corpus,)
    return config
