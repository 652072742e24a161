"""Long sequences: IMDb as 1,024 bytes, the text task of Long Range Arena: `configs/imdb_bytes.py:MODEL`.

Four layers of width 256 with four heads, batches of 32, as in the benchmark, but 1,000 steps instead of
20,000, and texts that are cut after 1,024 bytes: what two CPU cores can pay for says little about the end.

Not yet run.
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default, fit_length

MODELS = {
    "attention": ("attention", {"heads": 4, "head_width": "split"}),
    "fnet": ("fourier", {"norm": "tokens", "padding": "zero"}),
    "lambda": ("lambda", {"heads": 4}),
    "linear": ("linear", {}),
    "long_conv": ("long_conv", {}),
}
BATCH, STEPS = 32, 1000


def get_config(name: str = "fnet") -> Config:
    check_choice("model", name, MODELS)
    mixer, fields = MODELS[name]
    config = default(mixer, "imdb")
    config.model.mixer.update(fields)
    config.data.tokenizer, config.data.length, config.data.buckets = "bytes", 1024, ()
    config.data.batch, config.data.holdout = BATCH, 0.1
    config.data.train_examples = BATCH * STEPS // 2
    config.model.positions, config.model.depth, config.model.d, config.model.mlp = 1024, 4, 256, 1024
    config.train.epochs, config.train.patience = 2, 0
    return fit_length(config)
