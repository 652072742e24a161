"""Questions about synthetic images of coloured shapes, answered by a question token that attends to patches.

The string argument is the model:

    answers        "what colour is the circle?", "how many squares?": one of eight answers; chance is 1/4 with
                   the question alone, and 1/8 with the image alone (shapes.py, in data/sources)
    separate       the same without mixing: no patch knows of another before the question looks at them
    segmentation   of each patch, which shape it shows; the metric is the mean IoU

`python -m fourier_attn.main --config=configs/shapes.py`. What is trained so far: docs/images.md.
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
