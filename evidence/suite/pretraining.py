"""Lists the networks that are pre-trained: trials of learning rates, then the networks that GLUE starts from.

python -m evidence.suite.train --tier=stability
python -m evidence.suite.train --tier=pretrain,glue
"""

from evidence.suite.models import Model

# Architectures in size tiny, and the expected core-hours of a pass over WikiText-2.
ARCHITECTURES = {"ff": 0.05, "fnet": 0.05, "linear": 0.05, "hybrid": 0.06, "hybrid-3": 0.08, "bert": 0.07}
# "hybrid" has one Fourier block below its attention, and "hybrid-3" has two.
BLOCKS = {"hybrid-3": (("model.depth", "3"), ("model.layout", "('fourier','fourier','attention')"))}
TRIED = ("5e-4", "1e-3", "2e-3", "4e-3")  # learning rates
TRAINED = 0.25  # accuracy on masked tokens from which a network counts as trained
# The best rate of each architecture in the tier `stability`. It has no trials of "random", which gets
# the rate of "linear".
RATES = {
    "ff": "2e-3",
    "fnet": "2e-3",
    "linear": "2e-3",
    "random": "2e-3",
    "hybrid-3": "1e-3",
    "bert": "1e-3",
    "bert-half": "5e-4",  # half of that of "bert", at which bert-tiny did not train
}
# Networks that GLUE starts from, and the expected core-hours of their pre-training. The hybrid of size mini
# has two Fourier blocks, as "hybrid-3" in size tiny. A "wiki" network reads WikiText-2 alone.
NETWORKS = {
    "ff-tiny": 0.14,
    "fnet-tiny": 0.15,
    "linear-tiny": 0.16,
    "random-tiny": 0.16,
    "hybrid-3-tiny": 0.21,
    "bert-tiny": 0.21,
    "bert-half-tiny": 0.21,
    "ff-wiki-tiny": 0.14,
    "fnet-wiki-tiny": 0.15,
    "linear-wiki-tiny": 0.16,
    "random-wiki-tiny": 0.16,
    "hybrid-3-wiki-tiny": 0.21,
    "bert-wiki-tiny": 0.21,
    "fnet-mini": 0.64,
    "hybrid-mini": 0.8,
    "bert-mini": 0.97,
}
SCRATCH = "fnet-mini-scratch"  # fnet-mini without pre-training, which shows what pre-training brings
# Tasks of GLUE, and the expected core-hours of a network of size mini.
GLUE = {"rte": 0.055, "mrpc": 0.06, "stsb": 0.06, "cola": 0.055, "sst2": 0.16}
SHARES = {"tiny": 0.25, "mini": 1.0}  # costs in proportion to those of size mini


def on_wikitext(network: str) -> bool:
    """Returns whether a network is pre-trained on WikiText-2 alone."""
    return "-wiki" in network


def start(network: str) -> str:
    """Returns the name of the cell that pre-trains a network."""
    return f"pretrain-{network}-0"


# Windows of 64 tokens of WikiText-2, and a number of passes with about as many steps as the other texts have.
WIKI = (
    ("data.corpora", "('wikitext2',)"),
    ("data.exclude", "()"),
    ("data.length", "64"),
    ("model.positions", "64"),
    ("optim.warmup_steps", "100"),
)
PASSES = (("train.epochs", "3"),)
# Published cells have matrices for 512 tokens, and windows use the first 64. Keep 512 to repeat them.
MATRICES = ("linear", "random")


def wikitext(architecture: str) -> tuple[tuple[str, str], ...]:
    """Returns the options of an architecture for windows of 64 tokens of WikiText-2."""
    return (*WIKI, *((("model.mixer.length", "512"),) if architecture in MATRICES else ()))


def stability() -> tuple[Model, ...]:
    """Returns the trials of learning rates: one pass over windows of 64 tokens of WikiText-2."""
    return tuple(
        Model(
            f"{architecture}-rate-{rate}",
            core_hours,
            f"configs/pretrain.py:{architecture.partition('-')[0]}-tiny",
            knobs=(
                *wikitext(architecture),
                ("data.test_examples", "1"),
                ("optim.learning_rate", rate),
                *BLOCKS.get(architecture, ()),
            ),
            task="pretraining",
        )
        for architecture, core_hours in ARCHITECTURES.items()
        for rate in TRIED
    )


def pretrained() -> tuple[Model, ...]:
    """Returns the networks that GLUE starts from, pre-trained with one seed.

    Size mini is twice as wide as tiny, and trains at half its learning rate.
    """
    return tuple(_pretrained(network, core_hours) for network, core_hours in NETWORKS.items())


def rate(network: str) -> str:
    """Returns the learning rate of a network in pre-training."""
    name, _, size = network.replace("-wiki", "").rpartition("-")
    if size == "tiny":
        return RATES[name]
    return f"{float(RATES.get(name) or RATES[f'{name}-3']) / 2:g}"


def _pretrained(network: str, core_hours: float) -> Model:
    name, _, size = network.replace("-wiki", "").rpartition("-")
    blocks = BLOCKS.get(name, ()) if size == "tiny" else ()
    texts = (*wikitext(name), *PASSES) if on_wikitext(network) else ()
    config = f"configs/pretrain.py:{name.partition('-')[0]}-{size}"
    knobs = (("optim.learning_rate", rate(network)), *blocks, *texts)
    return Model(network, core_hours, config, 1, knobs, task="pretraining")


def glue() -> tuple[Model, ...]:
    """Returns each pre-trained network on each task of GLUE, and fnet-mini from random weights."""
    return tuple(
        Model(
            f"{task}-{name}",
            SHARES["tiny" if "tiny" in name else "mini"] * core_hours,
            f"configs/finetune.py:{task}",
            knobs=(("data.length", "64"), ("data.buckets", "(32,)")) if on_wikitext(name) else (),
            task=task,
            start=start(name) if name in NETWORKS else "",
        )
        for task, core_hours in GLUE.items()
        for name in (SCRATCH, *NETWORKS)
    )
