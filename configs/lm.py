"""A next-token model of a text: `configs/lm.py:MIXER-CORPUS`, or CORPUS alone for attention.

MIXER is any mixer that can be causal; CORPUS is wikitext2
(`python -m fourier_attn.data.prepare --dataset=wikitext2 --source=DIR`), or files for your own texts:
`--config.data.corpora="('my.txt',)"`. Two pre-norm blocks of width 128, 8,000 pieces of words, windows of 128
tokens. The results are perplexities, see docs/language_models.md.

`python -m fourier_attn.main --config=configs/lm.py:attention-wikitext2`

Not yet run.
"""

from fourier_attn.config import Config, default


def get_config(argument: str = "attention-wikitext2") -> Config:
    mixer, corpus = ["attention", *argument.rsplit("-", 1)][-2:]
    config = default(mixer, "lm")
    if "causal" in config.model.mixer:
        config.model.mixer.causal = True
    if "head_width" in config.model.mixer:
        config.model.mixer.head_width, config.model.mixer.heads = "split", 4
    config.data.corpora = () if corpus == "files" else (corpus,)
    return config
