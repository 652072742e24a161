"""Lists language models that have equally many parameters and read the same tokens.

python -m evidence.suite.train --tier=lm_rates     # trials
python -m evidence.suite.rates                     # prints the rates in RATES
python -m evidence.suite.train --tier=lm_equal

All networks pass once over WikiText-2. Causal ones predict the next token, masked ones the masked tokens.
"""

from evidence.suite.models import TRIAL_SEED, Model

# Width of the hidden layer of the MLP, and the expected core-hours. With this width, a network has as many
# parameters as that with attention, up to 0.02 %.
NETWORKS: dict[str, dict[str, tuple[int, float]]] = {
    "causal": {
        "attention": (512, 0.08),
        "circular": (756, 0.15),
        "lambda": (687, 0.08),
        "long_conv": (704, 0.08),
        "linear": (640, 0.07),
        "identity": (768, 0.07),
    },
    "masked": {
        "attention": (512, 0.08),
        "circular": (756, 0.15),
        "lambda": (687, 0.08),
        "long_conv": (640, 0.08),
        "linear": (640, 0.07),
        "fourier": (768, 0.07),
        "identity": (768, 0.07),
    },
}
TASKS = {"causal": "lm", "masked": "mlm"}
TRIED = ("1e-3", "2e-3", "4e-3", "8e-3")  # learning rates
# The rate with the lowest perplexity on validation, according to the trials.
RATES = {
    "causal": {
        "attention": "8e-3",
        "circular": "8e-3",
        "lambda": "8e-3",
        "long_conv": "8e-3",
        "linear": "4e-3",
        "identity": "4e-3",
    },
    "masked": {
        "attention": "1e-3",
        "circular": "4e-3",
        "lambda": "2e-3",
        "long_conv": "4e-3",
        "linear": "2e-3",
        "fourier": "8e-3",
        "identity": "2e-3",
    },
}


def trials() -> tuple[Model, ...]:
    """Returns the trials of each learning rate, which are scored on validation."""
    return tuple(
        _model(kind, network, f"{kind}-{network}-rate-{rate}", rate, 1, first=TRIAL_SEED)
        for kind, networks in NETWORKS.items()
        for network in networks
        for rate in TRIED
    )


def chosen() -> tuple[Model, ...]:
    """Returns each network at its best rate, with three seeds."""
    return tuple(
        _model(kind, network, f"{kind}-{network}", rate, 3)
        for kind, rates in RATES.items()
        for network, rate in rates.items()
    )


def _model(kind: str, network: str, name: str, rate: str, seeds: int, first: int = 0) -> Model:
    task, (mlp, core_hours) = TASKS[kind], NETWORKS[kind][network]
    knobs = [("train.epochs", "1"), ("model.mlp", str(mlp)), ("optim.learning_rate", rate)]
    if first == TRIAL_SEED:
        knobs.append(("data.test_examples", "1"))
    file = f"configs/{task}.py:{network}-wikitext2"
    return Model(name, core_hours, file, seeds, tuple(knobs), task, first=first)
