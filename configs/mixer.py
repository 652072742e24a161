"""A mixer as its layer's defaults have it, in the default network of a task: `configs/mixer.py:NAME-TASK`.

NAME is any mixer, also fourier, attention, circular or lambda: two such networks differ in it alone. Without
a task it is trained on the synthetic reviews. Tasks of images are fashion_mnist, mnist and cifar10. Mixers
with no other configuration file:

    identity        no mixing, feed-forward layers only: the control that must fail where mixing is necessary
    linear          two learned matrices, over tokens and features: the "Linear" control of the FNet paper
    random          two fixed random matrices, over tokens and features: its "Random" control
    global_filter   a learned transfer function for each feature, of both axes of an image (GFNet; Rao et al.,
                    arXiv 2107.00645)
    afno            adaptive Fourier neural operators, a small network at every frequency (Guibas et al.,
                    arXiv 2111.13587)
    long_conv       for each feature a kernel as long as the sequence (Fu et al., arXiv 2302.06646); not yet
                    run on texts
    token_conv      a filter of three tokens or 3 x 3 patches, the same for all features: what neighbours
                    alone can do; not yet run on texts

`python -m fourier_attn.main --config=configs/mixer.py:linear`, or `configs/mixer.py:global_filter-cifar10`.

What they reach: the tables of docs/mixers.md and docs/images.md, from results/. On IMDb not yet run.
(The small networks of `configs/imdb_small.py` were.) On mnist not yet run. The accuracies of token_conv on
images are from an earlier initial value; from today's it is not yet run.
"""

from fourier_attn.config import Config, default

# The mixers that have no file of their own, and the epochs that they train on the synthetic reviews.
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
