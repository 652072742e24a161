"""Trains networks that answer questions about synthetic images of coloured shapes, or label their patches.

The argument is a model:

    answers        answers "what colour is the circle?" or "how many squares?" with one of eight answers. A
                   question token attends to the patches. Chance is 1/4 with the question alone and 1/8 with
                   the image alone (fourier_attn/data/sources/shapes.py)
    separate       as "answers", without mixing: patches do not exchange information before the question token
    segmentation   predicts the shape in each patch. The metric is the mean IoU

Command: `python -m fourier_attn.main --config=configs/shapes.py`.

Expected: the tables of docs/images.md.
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default

MODELS = {
    "answers": ("attention", "shapes"),
    "separate": ("identity", "shapes"),
    "segmentation": ("attention", "shapes_patches"),
}


def get_config(name: str = "answers") -> Config:
    check_choice("model", name, MODELS)
    mixer, task = MODELS[name]
    config = default(mixer, task)
    if mixer == "attention":
        config.model.mixer.heads, config.model.mixer.head_width = 4, "split"
    return config
