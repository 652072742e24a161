"""FNet whose Fourier transforms an emulated optical engine computes, in training and in evaluation.

The parameters are those of the preset `chip_11x11` (8 bit converters, noise, crosstalk), on 8 x 8 pixels: 64
tokens by 64 features are 8^2 by 8^2 points, two stages.
`--config.model.mixer.engine.receiver.adc_bits=6` sets one parameter.
`python -m fourier_attn.main --config=configs/optical_fnet.py` (synthetic reviews) or
`configs/optical_fnet.py:imdb` (two blocks, 256 words).

What it reaches: not yet run.
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
