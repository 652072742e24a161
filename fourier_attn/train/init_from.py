"""Weights to go on with: of another run's directory, or of a file of published ones."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fourier_attn import config, data, model, pretrained
from fourier_attn.config import Config
from fourier_attn.data.text import check_file, tokenizer_file
from fourier_attn.train import workdir
from fourier_attn.train.checkpoint import Checkpoints
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.step import make_init, make_keys

# of the model part: what a task or a training sets, whatever the weights come from; and how a mixer computes
TASK_KEYS = ("head", "classes", "dropout", "mixer_dropout", "token_dropout", "dtype")
COMPUTE_KEYS = ("method", "implementation")


def restore(directory: Path) -> tuple[Config, model.Model, Any]:
    """The configuration, the network and its best parameters of the run in `directory`.

    Raises: ValueError where there is no run, no checkpoint, or a damaged one.
    """
    settings = config.from_dict(workdir.load(directory))
    network = model.build(settings.model)
    objective = OBJECTIVES[settings.model.head]
    init = make_init(network, build_optimizer(settings.optim), objective, settings.train.seeds)
    like = jax.eval_shape(init, make_keys(settings.seed, settings.train.seeds)[0], {})
    state = None
    if (directory / "checkpoints").is_dir():
        checkpoints = Checkpoints(directory, read_only=True)
        state = checkpoints.restore(like)
        checkpoints.close()
    if state is None:
        raise ValueError(f"workdir={directory} has no checkpoint yet; train it further first")
    trained = np.isfinite(state.best_score).all()  # before the first validation there is no best one
    return settings, network, state.best_params if trained else state.params


def read(source: str) -> pretrained.Weights:
    """The model part of the configuration and the parameters behind `init`; of several seeds the first.

    Raises: ValueError for weights that cannot be used.
    """
    path = Path(source)
    if not path.exists():
        raise ValueError(
            f"init_from={source} does not exist; name the directory of a run, or a file of weights"
        )
    if not is_run(path):
        return pretrained.read(path)
    settings, _, params = restore(path.resolve())
    if settings.train.seeds > 1:
        params = jax.tree.map(lambda p: p[0], params)
    return pretrained.Weights(settings.model, params, ())


def is_run(path: Path) -> bool:
    """Whether a directory is a run's; a folder of published weights has a config.json of another form."""
    return (path / "metrics.jsonl").exists() or (path / "checkpoints").is_dir()


def adopt(settings: Config, directory: Path) -> Config:
    """The configuration with the architecture of the weights it starts from.

    A run that has begun has it already, so that `init` need not be there any longer.
    """
    if not settings.init_from:
        return settings
    if (directory / "config.json").exists():
        part = workdir.load(directory)["model"]
    else:
        part = read(settings.init_from).config.to_dict()
        _check_lengths(settings, part)
    adopted = settings.copy_and_resolve_references()
    kept = {key: adopted.model[key] for key in TASK_KEYS}
    with adopted.unlocked():
        adopted.model = config.from_dict({**part, **kept})
        for name, mixer in _mixers(adopted.model).items():
            if "padding" in mixer and settings.init_padding:
                mixer.padding = settings.init_padding
            given = _mixers(settings.model).get(name, {})
            mixer.update({key: given[key] for key in COMPUTE_KEYS if key in given})
    return adopted


def check_overrides(settings: Config, names: Iterable[str]) -> None:
    """Refuses knobs, as "model.depth", that beside `init` would have no effect. Raises: ValueError."""
    for name in names if settings.init_from else ():
        part, *others = name.split(".")
        kept = COMPUTE_KEYS if len(others) > 1 else TASK_KEYS
        if part == "model" and others[-1] not in kept:
            hint = "; use --config.init_padding" if others[-1] == "padding" else ""
            raise ValueError(
                f"{name} cannot be set beside init_from={settings.init_from}, whose architecture is used; "
                f"leave it out{hint}"
            )


def _mixers(part: Any) -> dict[str, Any]:
    return {part["mixer"]["name"]: part["mixer"], **part["others"]}


def _check_lengths(settings: Config, part: Any) -> None:
    """Published weights that mix padding like tokens have seen one length only."""
    lengths, positions = data.padded_lengths(settings.data), part["positions"]
    mixes = any(mixer.get("padding") == "tokens" for mixer in _mixers(part).values())
    if (
        mixes
        and lengths != (positions,)
        and not settings.init_padding
        and not is_run(Path(settings.init_from))
    ):
        raise ValueError(
            f"init_from={settings.init_from} mixes padding with the tokens and was trained padded to "
            f"{positions}, not to {', '.join(map(str, lengths))}; add --config.data.length={positions} "
            "--config.data.buckets='()', or --config.init_padding=invariant to leave padding out, or =tokens "
            "to keep it nevertheless"
        )


def start(settings: Config) -> tuple[Any, tuple[str, ...]]:
    """The parameters of `init` that a run starts from, all but a head of another kind, and notes on them."""
    if not settings.init_from:
        return {}, ()
    part, params, notes = read(settings.init_from)
    same = part.head == settings.model.head == "pretraining"
    return {name: value for name, value in params.items() if name != "head" or same}, notes


def tokenizer(settings: Config) -> Path | None:
    """The file with the tokenizer that belongs to `init`; None where the data part names one.

    Raises: ValueError where there is none.
    """
    if settings.data.tokenizer.endswith((".json", ".model")):
        check_file(settings.data.tokenizer)
    if not settings.init_from or settings.data.tokenizer.endswith((".json", ".model")):
        return None
    if not is_run(Path(settings.init_from)):
        raise ValueError(
            f"init_from={settings.init_from} has no tokenizer; name the one of its vocabulary, "
            "--config.data.tokenizer=FILE.model (SentencePiece) or FILE.json"
        )
    return tokenizer_file(Path(settings.init_from))
