"""Weights to go on with: of another run's directory, or of a file of published ones."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from fourier_attn import config, model, optim, pretrained, steps, workdir
from fourier_attn.checkpoint import Checkpoints
from fourier_attn.config import Config
from fourier_attn.data.text import check_file, tokenizer_file
from fourier_attn.objectives import OBJECTIVES

# of the model part: what a task or a training sets, whatever the weights come from
OWN = ("head", "classes", "dropout", "mixer_dropout", "token_dropout", "dtype")


def restore(directory: Path) -> tuple[Config, model.Model, Any]:
    """The configuration, the network and its best parameters of the run in `directory`.

    Raises: ValueError where there is no run, no checkpoint, or a damaged one.
    """
    settings = config.from_dict(workdir.load(directory))
    network = model.build(settings.model)
    objective = OBJECTIVES[settings.model.head]
    init = steps.make_init(network, optim.build(settings.optim), objective, settings.train.seeds)
    like = jax.eval_shape(init, steps.keys(settings.seed, settings.train.seeds)[0], {})
    state = None
    if (directory / "checkpoints").is_dir():
        checkpoints = Checkpoints(directory, read_only=True)
        state = checkpoints.restore(like)
        checkpoints.close()
    if state is None:
        raise ValueError(f"workdir={directory} has no checkpoint yet; train it further first")
    trained = np.isfinite(state.best_score).all()  # before the first validation there is no best one
    return settings, network, state.best_params if trained else state.params


def read(source: str) -> tuple[Any, Any]:
    """The model part of the configuration and the parameters behind `init`; of several seeds the first.

    Raises: ValueError for weights that cannot be used.
    """
    path = Path(source)
    if not path.exists():
        raise ValueError(f"init={source} does not exist; name the directory of a run, or a file of weights")
    if not is_run(path):
        return pretrained.load(path)
    settings, _, params = restore(path.resolve())
    if settings.train.seeds > 1:
        params = jax.tree.map(lambda p: p[0], params)
    return settings.model, params


def is_run(path: Path) -> bool:
    """Whether a directory is a run's; a folder of published weights has a config.json of another form."""
    return (path / "metrics.jsonl").exists() or (path / "checkpoints").is_dir()


def adopt(settings: Config, directory: Path) -> Config:
    """The configuration with the architecture of the weights it starts from.

    A run that has begun has it already, so that `init` need not be there any longer.
    """
    if not settings.init:
        return settings
    if (directory / "config.json").exists():
        part = workdir.load(directory)["model"]
    else:
        part = read(settings.init)[0].to_dict()
    adopted = settings.copy_and_resolve_references()
    kept = {key: adopted.model[key] for key in OWN}
    with adopted.unlocked():
        adopted.model = config.from_dict({**part, **kept})
        for mixer in (adopted.model.mixer, *adopted.model.others.values()):
            if "padding" in mixer and settings.init_padding:
                mixer.padding = settings.init_padding
    return adopted


def start(settings: Config) -> Any:
    """The parameters of `init` that a run starts from: all but the head, unless it is the same one."""
    if not settings.init:
        return {}
    part, params = read(settings.init)
    same = part.head == settings.model.head == "pretraining"
    return {name: value for name, value in params.items() if name != "head" or same}


def tokenizer(settings: Config) -> Path | None:
    """The file with the tokenizer that belongs to `init`; None where the data part names one.

    Raises: ValueError where there is none.
    """
    if settings.data.tokenizer.endswith((".json", ".model")):
        check_file(settings.data.tokenizer)
    if not settings.init or settings.data.tokenizer.endswith((".json", ".model")):
        return None
    if not is_run(Path(settings.init)):
        raise ValueError(
            f"init={settings.init} has no tokenizer; name the one of its vocabulary, "
            "--config.data.tokenizer=FILE.model (SentencePiece) or FILE.json"
        )
    return tokenizer_file(Path(settings.init))
