"""Trains one skill on sequences of random tokens: `configs/skills.py:MIXER-TASK`.

MIXER is any mixer, for both blocks. With `conv_MIXER`, the first block is `token_conv`, which combines keys
with their values, and the second block is the mixer. TASK is recall, fuzzy_recall, noisy_recall,
selective_copy, compress, memorise, induction or sort. docs/skills.md defines the tasks. The network has two
blocks of width 64, and trains for 2,000 steps of 64 sequences.

Command: `python -m fourier_attn.main --config=configs/skills.py:conv_attention-recall`.

Expected: the tables of docs/skills.md. Zoology (arXiv 2312.04927) and MAD (arXiv 2403.17844) use other mixers
and settings.
"""

from fourier_attn.config import Config, default


def get_config(argument: str = "conv_attention-recall") -> Config:
    name, _, task = argument.partition("-")
    mixer = name.removeprefix("conv_")
    conv_first = mixer != name
    config = default(mixer, task or "recall", others=("token_conv",) if conv_first else ())
    if conv_first:
        config.model.layout = ("token_conv", mixer)
    return config
