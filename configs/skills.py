"""One skill at a time, learned from sequences of random tokens: `configs/skills.py:MIXER-TASK`.

MIXER is any mixer, for both blocks; `conv_MIXER` has `token_conv` as the first block, in which keys meet
their values, and the mixer as the second. TASK is recall, fuzzy_recall, noisy_recall, selective_copy,
compress, memorise, induction or sort; docs/skills.md defines them. Two blocks of width 64, 2,000 steps of 64
sequences.

`python -m fourier_attn.main --config=configs/skills.py:conv_attention-recall`

What was run is in docs/skills.md. (Zoology, arXiv 2312.04927, and MAD, arXiv 2403.17844, have other mixers
and settings.)
"""

from fourier_attn.config import Config, default


def get_config(argument: str = "conv_attention-recall") -> Config:
    name, _, task = argument.partition("-")
    mixer = name.removeprefix("conv_")
    behind = mixer != name
    config = default(mixer, task or "recall", others=("token_conv",) if behind else ())
    if behind:
        config.model.layout = ("token_conv", mixer)
    return config
