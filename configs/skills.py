"""Trains one skill on sequences of random tokens: `configs/skills.py:MIXER-TASK`.

MIXER is any mixer, for both blocks, or `FIRST+SECOND` for two mixers. `conv_MIXER` is `token_conv+MIXER`: the
first block combines keys with their values. TASK is recall, fuzzy_recall, noisy_recall, selective_copy,
compress, memorise, induction or sort. docs/skills.md defines the tasks. The network has two blocks of width
64, and trains for 2,000 steps of 64 sequences.

Command: `python -m fourier_attn.main --config=configs/skills.py:conv_attention-recall`.

Expected: the tables of docs/skill_results.md, with the learning rates in `TUNED` of
evidence/suite/skills.py. Set them by `--config.optim.learning_rate`. Zoology (arXiv 2312.04927) and MAD
(arXiv 2403.17844) use other mixers and settings.
"""

from fourier_attn.config import Config, default


def get_config(argument: str = "conv_attention-recall") -> Config:
    name, _, task = argument.partition("-")
    mixer = name.removeprefix("conv_")
    layout = ("token_conv", mixer) if mixer != name else tuple(name.split("+"))
    config = default(layout[-1], task or "recall", others=layout[:-1])
    if len(layout) > 1:
        config.model.layout = layout
    return config
