"""Long sequences: CIFAR-10 as 1,024 grey values, Long Range Arena's image task: `configs/pixels.py:MODEL`.

Four layers of width 128, batches of 32 and 600 steps, without batch 5, which is held out: what two CPU
cores can pay for says little about the end.

`python -m fourier_attn.main --config=configs/pixels.py:fnet`.

What it reaches: the tables of docs/images.md, from results/.
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default, fit_length

MODELS = {
    "attention": ("attention", {"heads": 4, "head_width": "split"}),
    "fnet": ("fourier", {"norm": "tokens", "padding": "zero"}),
    "lambda": ("lambda", {"heads": 4}),
    "long_conv": ("long_conv", {}),
}
BATCH, STEPS = 32, 600


def get_config(name: str = "fnet") -> Config:
    check_choice("model", name, MODELS)
    mixer, fields = MODELS[name]
    config = default(mixer, "pixels")
    config.model.mixer.update(fields)
    config.data.batch, config.data.train_examples = BATCH, BATCH * STEPS // 2
    config.train.epochs = 2
    return fit_length(config)
