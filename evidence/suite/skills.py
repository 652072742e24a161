"""Lists the networks that learn the skills: equal trials for each mixer, then seeds at its best rate.

Some networks do not solve a task and were best at the highest rate. They have a trial at a higher one, and
seeds at this rate if the trial is better.

python -m evidence.suite.train --tier=skill_rates,hybrid_rates
python -m evidence.suite.rates    # prints the rates in TUNED and HYBRID_TUNED
python -m evidence.suite.train --tier=skills,recall_equal,recall_pairs,hybrids
python -m evidence.suite.train --tier=higher_rates
python -m evidence.suite.rates    # also prints the networks in BETTER
python -m evidence.suite.train --tier=higher
"""

from collections.abc import Collection, Mapping, Sequence

from evidence.suite.models import TRIAL_SEED, Model

# Networks of two blocks, and their core-hours on recall, for 2,000 steps on 64 tokens. In `conv_MIXER` the
# first block is a short convolution. In `FIRST+SECOND` the second block is attention.
NETWORKS = {
    "identity": 0.009,
    "token_conv": 0.009,
    "conv_fourier": 0.009,
    "conv_random": 0.009,
    "conv_global_filter": 0.010,
    "conv_long_conv": 0.011,
    "conv_afno": 0.012,
    "conv_linear": 0.010,
    "fourier+attention": 0.024,
    "long_conv+attention": 0.025,
    "conv_attention": 0.024,
    "conv_lambda": 0.011,
    "conv_circular": 0.023,
}
# Hybrids with another mixer than attention in the second block, a network with the same mixer in both, and
# their core-hours. Of the tasks that `long_conv+attention` solves, these are the four that most networks do
# not solve.
HYBRIDS = {"long_conv+circular": 0.025, "long_conv+lambda": 0.013, "long_conv": 0.011}
HYBRID_TASKS: tuple[str, ...] = ("recall", "fuzzy_recall", "noisy_recall", "selective_copy")
TRIED = ("8e-4", "2e-3", "5e-3")  # learning rates
SOLVED = 0.95  # accuracy from which a task counts as solved
# Pairs of keys and values, and the length of the sequence. Task `recall` has 8 pairs.
PAIRS = {4: 64, 16: 64, 32: 128, 64: 256}

# The learning rates on each task, in the order of NETWORKS: the best one in the trials of a network, and the
# smallest of equal ones.
TUNED = {
    "recall": "5e-3 5e-3 2e-3 5e-3 2e-3 5e-3 5e-3 5e-3 5e-3 8e-4 8e-4 5e-3 8e-4",
    "fuzzy_recall": "2e-3 5e-3 5e-3 8e-4 5e-3 5e-3 5e-3 5e-3 5e-3 8e-4 2e-3 2e-3 5e-3",
    "noisy_recall": "2e-3 2e-3 5e-3 5e-3 2e-3 8e-4 2e-3 8e-4 2e-3 8e-4 8e-4 8e-4 8e-4",
    "selective_copy": "2e-3 2e-3 5e-3 5e-3 5e-3 5e-3 5e-3 5e-3 2e-3 8e-4 5e-3 5e-3 5e-3",
    "compress": "2e-3 5e-3 5e-3 5e-3 5e-3 5e-3 5e-3 2e-3 5e-3 5e-3 5e-3 5e-3 5e-3",
    "memorise": "8e-4 8e-4 8e-4 8e-4 8e-4 8e-4 8e-4 8e-4 5e-3 8e-4 8e-4 8e-4 8e-4",
    "induction": "8e-4 5e-3 2e-3 5e-3 5e-3 2e-3 8e-4 2e-3 2e-3 8e-4 8e-4 8e-4 8e-4",
    "sort": "8e-4 8e-4 5e-3 5e-3 5e-3 2e-3 5e-3 2e-3 5e-3 8e-4 8e-4 5e-3 8e-4",
}
RATES = {task: dict(zip(NETWORKS, rates.split(), strict=True)) for task, rates in TUNED.items()}
# Those of HYBRIDS, in their order.
HYBRID_TUNED = {
    "recall": "8e-4 5e-3 5e-3",
    "fuzzy_recall": "5e-3 2e-3 5e-3",
    "noisy_recall": "8e-4 8e-4 5e-3",
    "selective_copy": "8e-4 2e-3 5e-3",
}
HYBRID_RATES = {task: dict(zip(HYBRIDS, rates.split(), strict=True)) for task, rates in HYBRID_TUNED.items()}

# A higher rate for networks that mix over long distances, do not solve a task with all seeds, and are best at
# the highest rate tried.
HIGHER = "1.25e-2"
AT_HIGHEST: dict[str, tuple[str, ...]] = {
    "recall": (
        *("conv_random", "conv_long_conv", "conv_afno", "conv_linear", "fourier+attention", "conv_lambda"),
        "long_conv",
    ),
    "fuzzy_recall": (
        *("conv_fourier", "conv_global_filter", "conv_long_conv", "conv_afno", "conv_linear"),
        *("fourier+attention", "conv_circular", "long_conv"),
    ),
    "noisy_recall": ("conv_fourier", "conv_random", "long_conv"),
    "selective_copy": (
        *("conv_fourier", "conv_random", "conv_global_filter", "conv_long_conv", "conv_afno", "conv_linear"),
        *("conv_attention", "conv_lambda", "conv_circular", "long_conv"),
    ),
    "compress": (
        *("conv_fourier", "conv_random", "conv_global_filter", "conv_long_conv", "conv_afno"),
        *("fourier+attention", "long_conv+attention", "conv_attention", "conv_lambda", "conv_circular"),
    ),
    "memorise": ("fourier+attention",),
    "induction": ("conv_global_filter",),
    "sort": ("conv_fourier", "conv_random"),
}
# Those of AT_HIGHEST that are better in the trial at the higher rate, on validation after the last step.
BETTER: dict[str, tuple[str, ...]] = {
    "recall": ("conv_long_conv", "conv_afno", "conv_linear", "conv_lambda"),
    "fuzzy_recall": (
        *("conv_fourier", "conv_global_filter", "conv_long_conv", "conv_afno", "conv_linear"),
        "conv_circular",
    ),
    "noisy_recall": ("conv_fourier",),
    "selective_copy": (
        *("conv_fourier", "conv_global_filter", "conv_long_conv", "conv_afno", "conv_linear"),
        *("conv_attention", "conv_lambda", "conv_circular", "long_conv"),
    ),
    "compress": (
        *("conv_fourier", "conv_random", "conv_global_filter", "conv_long_conv", "conv_afno"),
        *("long_conv+attention", "conv_attention", "conv_lambda", "conv_circular"),
    ),
    "sort": ("conv_fourier", "conv_random"),
}

EPOCHS = 8  # of every network, 250 steps each
# Epochs with the FLOPs that `conv_attention` has in 8, by the counts of evidence.suite.flops.
EPOCHS_AT_EQUAL_FLOPS = {
    "identity": 49,
    "token_conv": 48,
    "conv_fourier": 42,
    "conv_random": 43,
    "conv_global_filter": 46,
    "conv_long_conv": 42,
    "conv_afno": 43,
    "conv_linear": 40,
    "conv_lambda": 39,
    "conv_circular": 15,
}
# Networks with more parameters than the others. With heads of width 64 / 8 they have about as many.
WIDE_HEADS = ("conv_attention", "long_conv+attention", "fourier+attention")
NARROW = (("model.mixer.head_width", "split"),)


def trials(networks: Mapping[str, Collection[str]], rates: Sequence[str] = TRIED) -> tuple[Model, ...]:
    """Returns the trials of each learning rate, which are scored on validation.

    Args:
      networks: the networks of each task.
      rates: the learning rates.
    """
    return tuple(
        Model(
            f"{task}-{network}-rate-{rate}",
            (NETWORKS | HYBRIDS)[network],
            f"configs/skills.py:{network}-{task}",
            1,
            (("optim.learning_rate", rate), ("data.test_examples", "1")),
            task,
            first=TRIAL_SEED,
        )
        for task, members in networks.items()
        for network in members
        for rate in rates
    )


def chosen(best: Mapping[str, Mapping[str, str]] = RATES) -> tuple[Model, ...]:
    """Returns each network at its best rate, with several seeds.

    Args:
      best: the best rate of each network on each task.
    """
    return tuple(
        Model(
            f"{task}-{network}",
            (NETWORKS | HYBRIDS)[network],
            f"configs/skills.py:{network}-{task}",
            5 if task == "recall" else 3,
            (("optim.learning_rate", rate),),
            task,
        )
        for task, rates in best.items()
        for network, rate in rates.items()
    )


def harder() -> tuple[Model, ...]:
    """Returns recall of fewer and more pairs than in the task `recall`, at that task's rates."""
    return tuple(
        Model(
            f"{pairs}-{network}",
            NETWORKS[network] * (length / 64) ** 1.5,
            f"configs/skills.py:{network}-recall",
            3,
            (
                ("optim.learning_rate", rate),
                ("data.pairs", str(pairs)),
                ("data.length", str(length)),
                ("model.positions", str(length)),
            ),
            "recall",
        )
        for pairs, length in PAIRS.items()
        for network, rate in RATES["recall"].items()
    )


def equal() -> tuple[Model, ...]:
    """Returns recall with equal FLOPs, and with about equal parameters, at the rates of the task `recall`."""

    def model(name: str, network: str, core_hours: float, knobs: tuple[tuple[str, str], ...]) -> Model:
        rate = (("optim.learning_rate", RATES["recall"][network]),)
        return Model(
            f"{name}-{network}", core_hours, f"configs/skills.py:{network}-recall", 3, rate + knobs, "recall"
        )

    longer = (
        model("flops", network, NETWORKS[network] * epochs / EPOCHS, (("train.epochs", str(epochs)),))
        for network, epochs in EPOCHS_AT_EQUAL_FLOPS.items()
    )
    return (*longer, *(model("parameters", network, NETWORKS[network], NARROW) for network in WIDE_HEADS))
