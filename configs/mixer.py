"""Trains any mixer with its default options in the default network of a task: `configs/mixer.py:NAME-TASK`.

NAME is any mixer, also fourier, attention, circular or lambda. Two such networks differ only in their mixer.
The default task is reviews. Image tasks are fashion_mnist, mnist and cifar10. These mixers have no other
configuration file. The percentages are test accuracies on the synthetic reviews:

    identity        no mixing, only feed-forward layers. This control must fail where mixing is necessary.
                    61.37 ± 1.17 % (3 seeds), 12 s
    linear          two learned matrices, over tokens and features: the "Linear" control of the FNet paper.
                    99.28 ± 0.38 % (3 seeds), 29 s
    random          two fixed random matrices, over tokens and features: its "Random" control.
                    95.42 ± 0.51 % (3 seeds), 26 s
    global_filter   a learned transfer function for each feature, over both axes of an image (GFNet; Rao et
                    al., arXiv 2107.00645). 99.93 ± 0.08 % (3 seeds), 30 s
    afno            adaptive Fourier neural operators, a small network at every frequency (Guibas et al.,
                    arXiv 2111.13587). 99.95 % (1 seed, 6 epochs), 26 min
    long_conv       for each feature a kernel as long as the sequence (Fu et al., arXiv 2302.06646).
                    100.00 % (1 seed, 6 epochs), 33 s
    token_conv      a filter of three tokens or 3 x 3 patches, the same for all features. It shows what
                    neighbours alone can do. 85.85 % (1 seed, 8 epochs), 32 s

Command: `python -m fourier_attn.main --config=configs/mixer.py:linear`, or
`--config=configs/mixer.py:global_filter-cifar10`.

Times are for two CPU cores. docs/images.md has the tables of the image tasks. The accuracies of token_conv on
images are from an earlier initial value. Not run to their end: `NAME-imdb` (expected cost: 0.54 core-hours
each), `NAME-mnist` (expected cost: 0.17 core-hours each). `configs/imdb_small.py` was run on IMDb instead.
`global_filter-pathfinder_patches` stays at chance, with a test accuracy of 48.75 % (1 seed).
"""

from fourier_attn.config import Config, default

# Epochs on the synthetic reviews of the mixers that have no other configuration file.
EPOCHS = {
    "identity": 3,
    "linear": 8,
    "random": 8,
    "global_filter": 8,
    "afno": 8,
    "long_conv": 8,
    "token_conv": 8,
}


def get_config(argument: str = "identity-reviews") -> Config:
    name, _, task = argument.partition("-")
    config = default(name, task or "reviews")
    if config.data.task == "reviews":
        config.train.epochs = EPOCHS.get(name, config.train.epochs)
    return config
