"""Trains and evaluates FNet with Fourier transforms on an emulated optical engine.

The engine is the preset `chip_11x11` (8-bit converters, noise, crosstalk) with 8 x 8 pixels. 64 tokens by 64
features are 8^2 by 8^2 points, which take two stages. You can set any parameter, for example
`--config.model.mixer.engine.receiver.adc_bits=6`.

Command: `python -m fourier_attn.main --config=configs/optical_fnet.py:TASK`. TASK is reviews (default) or
imdb (two blocks, 256 words).

Expected: a test accuracy of 99.55 % (1 seed) on the synthetic reviews, in 64 s on two CPU cores, and of
85.79 % (1 seed) on IMDb, in 10 min.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "reviews") -> Config:
    config = default("fourier", task, engine="chip_11x11")
    config.model.mixer.engine.shape = (8, 8)
    if task == "reviews":
        config.data.length = config.model.positions = 64
    else:
        config.data.buckets, config.data.length = (), 256  # 4 x 8^2 tokens
        config.model.positions, config.model.d, config.model.mlp = 256, 64, 256
        config.model.mixer.norm = "tokens"
        config.model.depth = 2
        config.model.dropout = config.model.mixer_dropout = config.model.token_dropout = 0.2
    return config
