"""Attention whose queries, keys and values are circular correlations of each token (Optalysys' articles).

The string argument is TASK-VARIANT, for example `configs/circular.py:reviews-3x3`; of either of them the
first is the default:

    reviews, imdb, and of images, whose tokens are patches, fashion_mnist, mnist, cifar10, shapes and others
    1d      over all features
    2d      each token as an image, 16 x 8 features (8 x 8 where tokens are 64 wide, as for the reviews)
    11x11   each token as an image of 11 x 11 features, as on an optical chip of that size
    3x3     as "2d", with kernels of 3 x 3 and zeros outside, as on an optical engine without wrap

`python -m fourier_attn.main --config=configs/circular.py`. On IMDb with the articles' recipe (rate 1e-4, 20
epochs) and the sizes, Adam and batches of 4 of the code that they built on: they give 84 % validation
accuracy for "1d", find 16 x 8 very close to it and 11 x 11 very close to 16 x 8.

What it reaches: the tables of docs/mixers.md, from results/. On IMDb not yet run.
"""

from fourier_attn.choices import check_choice
from fourier_attn.config import Config, default

VARIANTS = ("1d", "2d", "11x11", "3x3")


def get_config(argument: str = "reviews") -> Config:
    task, variant = [*argument.split("-", 1), VARIANTS[0]][:2]
    check_choice("variant", variant, VARIANTS)
    imdb = task == "imdb"
    config = default("circular", task, recipe="articles" if imdb else "default")
    config.model.mixer.heads = 8 if imdb else 4
    patches = config.model.inputs == "patches"
    if not patches:
        config.train.epochs = 20 if imdb else 8
    if variant == "11x11":
        config.model.d, config.model.mlp = 121, 484
        config.model.mixer.shape = (11, 11)
        if patches:
            config.model.positions_kind = "learned"  # sinusoids of rows and columns need a multiple of 4
    elif variant != "1d":
        config.model.mixer.shape = (config.model.d // 8, 8)
    if variant == "3x3":
        config.model.mixer.kernel, config.model.mixer.boundary = (3, 3), "zero"
    return config
