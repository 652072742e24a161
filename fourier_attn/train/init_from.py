"""Weights to start from: of another run's directory, or of a file of published ones; and a run's own."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from fourier_attn import config as configuration
from fourier_attn import data, hub, model, paths, pretrained
from fourier_attn.config import Config
from fourier_attn.data.tasks import OWN
from fourier_attn.data.text import check_file, tokenizer_file
from fourier_attn.layers.fields import LENGTHS, PADDING, POSITIONS, named
from fourier_attn.model import ModelConfig
from fourier_attn.ops import positions
from fourier_attn.pretrained import folder
from fourier_attn.train import memory
from fourier_attn.train.distributed import sharding
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.rundir import config_file
from fourier_attn.train.rundir.checkpoint import CheckpointId, Checkpoints, checkpoint_ids
from fourier_attn.train.rundir.fingerprints import check_files
from fourier_attn.train.rundir.workdir import SELF_PRETRAINED
from fourier_attn.train.step import State, earlier_form, make_init, make_keys


class InitialWeights(NamedTuple):
    """The configuration and the weights that a run begins with.

    Args:
      config: the configuration, with the architecture of the weights.
      params: parameters that replace those drawn from the key.
      notes: lines about the weights for the user.
      tokenizer: the weights' tokenizer file; None: the one that the data part names.
      fingerprints: of weights of the hub, their commit and the sums of their files.
    """

    config: Config
    params: Any = None
    notes: tuple[str, ...] = ()
    tokenizer: Path | None = None
    fingerprints: Mapping[str, str] = MappingProxyType({})


def load(config: Config, directory: Path) -> InitialWeights:
    """Reads the weights that `init_from` names, or those of a self-pretrained run, once.

    A run that has begun has their architecture already, so that they need not be there any longer.

    Raises: ValueError for weights, or a tokenizer, that cannot be used.
    """
    if config.train.self_pretrain:
        return _self_pretrained(config, directory)
    has_tokenizer = config.data.tokenizer.lower().endswith((".json", ".model"))
    begun = (directory / "config.json").exists()
    if has_tokenizer and not tokenizer_file(directory).exists():
        check_file(config.data.tokenizer)
    if not config.init_from:
        return InitialWeights(config)
    images = data.task_of(config.data).images
    if begun and (images or tokenizer_file(directory).exists()) and checkpoint_ids(directory):
        return InitialWeights(
            configuration.with_architecture(config, config_file.load(directory).model.to_dict())
        )
    source, fingerprints = _source(config.init_from)
    task, labels = "", ()
    tokenizer = None if has_tokenizer else _tokenizer(config, source)
    if is_run(source) or folder.is_export(source):
        trained, params = _trained(source)
        params = sharding.to_host(params)
        task, part, notes = trained.data.task, trained.model, _differing_lengths(config, trained)
        labels = () if trained.data.masked else tuple(trained.data.labels)  # which a masked model lacks
        if trained.train.seeds > 1:
            params = jax.tree.map(lambda p: p[0], params)
            notes = (*notes, f"of its {trained.train.seeds} networks the first is taken")
    else:
        part, params, notes = pretrained.read(source)
        if not images:
            _check_lengths(config, part)
        if tokenizer:
            notes = (*notes, f"tokenizer: {tokenizer}, next to the weights")
    if data.task_of(config.data).inputs != part.inputs:
        raise ValueError(
            f"init_from={config.init_from} reads {part.inputs}, and data.task={config.data.task} gives "
            f"{data.task_of(config.data).inputs}; name other weights"
        )
    params, head = _with_head(config, part, params, task, labels)
    adopted, params, longer = _for_longer_texts(
        configuration.with_architecture(config, part.to_dict()), params
    )
    return InitialWeights(adopted, params, (*notes, *longer, head), tokenizer, fingerprints)


def _self_pretrained(config: Config, directory: Path) -> InitialWeights:
    """Reads the weights of the masked language model that the run began with, whose place stays unnamed."""
    epochs, folder = config.train.self_pretrain, str(directory / SELF_PRETRAINED)
    found = load(
        configuration.with_values(config, {"init_from": folder, "train.self_pretrain": 0}), directory
    )
    own = configuration.with_values(found.config, {"init_from": "", "train.self_pretrain": epochs})
    return found._replace(config=own)


def _source(name: str) -> tuple[Path, dict[str, str]]:
    """Returns the path that `init_from` names, and its fingerprints if it is a name of the hub.

    Raises: ValueError where it does not exist.
    """
    if hub.is_hub_name(name):
        return hub.fetch(name)
    source = paths.given(name)
    if not source.exists():
        raise ValueError(
            f"init_from={name} does not exist; name a run's directory, a file of weights, or hf:owner/name"
        )
    return source, {}


def _tokenizer(config: Config, source: Path) -> Path | None:
    """Returns the tokenizer next to the weights; None for images without questions, whose task has none.

    Raises: ValueError for texts where that file does not exist.
    """
    task = data.task_of(config.data)
    file = tokenizer_file(source if source.is_dir() else source.parent)
    if file.is_file() or is_run(source):
        return file if task.fitted else None
    if task.images:
        return None
    raise ValueError(
        f"init_from={config.init_from} has no tokenizer next to its weights; give the tokenizer they "
        "were trained with, --config.data.tokenizer=FILE.model (SentencePiece) or FILE.json"
    )


def _trained(source: Path) -> tuple[Config, Any]:
    """Returns the configuration and the parameters of a run, or of a folder that was exported from one."""
    if is_run(source):
        config, _, params = restore(source.resolve())
        return config, params
    return folder.load(source)[:2]


def _for_longer_texts(config: Config, params: Any) -> tuple[Config, Any, tuple[str, ...]]:
    """Returns the configuration and the weights for texts longer than those that they were trained with.

    A learned table of positions is interpolated, as that of images is, and a note says so. Mixers whose own
    weights have a length stay as they are, and refuse longer texts.
    """
    part, length = config.model, config.data.length
    stored = part.positions
    sized = any(named(model.find_mixer(mixer), POSITIONS) for mixer in model.mixers(part))
    if part.inputs != "tokens" or length <= stored or sized:
        return config, params, ()
    config = configuration.with_values(config, {"model.positions": length})
    if "positions" not in params["encoder"]:
        return config, params, ()
    table = positions.interpolate(jnp.asarray(params["encoder"]["positions"]), (stored,), (length,))
    params = params | {"encoder": params["encoder"] | {"positions": np.asarray(table)}}
    return config, params, (f"its table of {stored} positions is interpolated to {length}",)


def at_resolution(params: Any, then: ModelConfig, now: ModelConfig) -> Any:
    """Returns the parameters for images of another size, with their table of positions interpolated.

    Args:
      then, now: the `model` part of the weights, and of the run.
    """
    grids = model.grid(then), model.grid(now)
    if not params or grids[0] == grids[1] or "positions" not in params["encoder"]:
        return params
    table = np.asarray(positions.interpolate(jnp.asarray(params["encoder"]["positions"]), *grids))
    return params | {"encoder": params["encoder"] | {"positions": table}}


def _with_head(
    config: Config, part: ModelConfig, params: Any, task: str, labels: tuple[str, ...]
) -> tuple[Any, str]:
    """Returns the parameters, with their head if it answers the same question, and a note about it.

    A custom dataset asks the same question if `data.labels` names the classes of the weights.
    """
    head, classes = data.task_of(config.data).head, max(len(data.task_of(config.data).labels), 1)
    if config.data.task in OWN:
        if labels and tuple(config.data.labels) == labels:
            return params, "the head is kept: it answers the same classes"
        hint = f", data.labels={labels!r} would keep it" if labels else ""
        rest = {name: value for name, value in params.items() if name != "head"}
        return rest, f"the head is new: that of the weights is for {task or part.head!r}{hint}"
    if data.task_of(config.data).corpora:
        same = part.head == head
    else:
        same = task == config.data.task and (part.head, part.classes) == (head, classes)
    if same:
        return params, "the head is kept: it answers the same task"
    rest = {name: value for name, value in params.items() if name != "head"}
    return rest, f"the head is new: that of the weights is for {task or part.head!r}"


def restore_state(
    directory: Path, *, on_device: bool = True, devices: Mapping[str, str] = MappingProxyType({})
) -> tuple[Config, model.Model, CheckpointId, State]:
    """Returns the configuration, the network and the newest sound state of the run in `directory`.

    Args:
      on_device: whether the state is to be used on the first device, which has to have room for the run; if
        not, its arrays are NumPy's, and it may be of a run that needs several.
      devices: files of measured devices that have moved, by their knobs.
    Raises: ValueError for a directory without a run, or without a sound checkpoint.
    """
    directory = paths.given(directory).resolve()
    config = config_file.load(directory, devices)
    configuration.check(config)
    if on_device:
        memory.check(config)
    network, objective = model.build(config.model), OBJECTIVES[config.model.head]
    optimizer, example = build_optimizer(config.optim), model.example(config.model)
    init = make_init(network, optimizer, objective, example, config.train.seeds)
    shapes = jax.eval_shape(init, make_keys(config.seed, config.train.seeds)[0], {})
    like = sharding.here(config.train.seeds).abstract(shapes) if on_device else jax.tree.map(_numpy, shapes)
    checkpoints = Checkpoints(directory, read_only=True)
    restored = checkpoints.restore(like, earlier=earlier_form)
    checkpoints.close()
    if restored is None:
        raise ValueError(f"workdir={directory} has no checkpoint yet; train it further first")
    return config, network, *restored


def _numpy(leaf: jax.ShapeDtypeStruct) -> np.ndarray:
    """Returns an array of this form that takes no memory.

    Given shapes only, Orbax would ask for the devices that saved them.
    """
    return np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape)


def restore(
    directory: Path, devices: Mapping[str, str] = MappingProxyType({})
) -> tuple[Config, model.Model, Any]:
    """Returns the configuration, the network and the best parameters of the run in `directory`.

    Args:
      devices: files of measured devices that have moved, by their knobs.
    Raises: ValueError for a directory without a run, or without a sound checkpoint.
    """
    directory = Path(directory).resolve()
    check_files(directory, config_file.load(directory, devices))
    config, network, name, state = restore_state(directory, devices=devices)
    if name.step == 0:
        raise ValueError(f"workdir={directory} has made no training step yet; train it further first")
    if not validated(state):
        note = f"{directory} has not been validated yet: its weights after {name.step} steps are used."
        tqdm.write(note, file=sys.stderr)
    return config, network, best_or_latest(state)


def validated(state: State) -> bool:
    """Returns whether a validation has chosen the best parameters; before the first one there are none."""
    return bool(np.isfinite(state.best_score).all())


def best_or_latest(state: State) -> Any:
    """Returns the best parameters, or the latest if no validation has chosen any yet."""
    return state.best_params if validated(state) else state.params


def is_run(path: Path) -> bool:
    """Returns whether a directory holds a run. A folder of published weights has a config.json, too."""
    return (path / "metrics.jsonl").exists() or (path / "checkpoints").is_dir()


def check_overrides(config: Config, names: Iterable[str]) -> None:
    """Checks that knobs of a command, as "model.depth", have an effect. Raises: ValueError."""
    for name in names:
        part, *others = name.split(".")
        source = configuration.field_source(config, name)
        if name in config_file.SET_BY_RUN or source == LENGTHS:
            raise ValueError(f"{name} cannot be set: the data determine it; leave it out")
        if part != "model" or not config.init_from:
            continue
        mixer = configuration.mixer_name(config, name)
        kept = configuration.free_fields(mixer) if mixer else configuration.TASK_KEYS
        if not set(others) & set(kept):
            hint = "; use --config.init_padding" if source == PADDING else ""
            raise ValueError(
                f"{name} cannot be set together with init_from={config.init_from}, whose architecture is "
                f"used; leave it out{hint}"
            )


def _differing_lengths(config: Config, source: Config) -> tuple[str, ...]:
    """Returns a note if mixers were trained at other common lengths than they will be used at."""
    now, then = data.padded_lengths(config.data), data.padded_lengths(source.data)
    shared = "invariant" in _paddings(source.model)
    return (
        (f"its mixers were trained at the lengths {then}, and now have {now}",)
        if shared and now != then
        else ()
    )


def _paddings(part: Any) -> set[str]:
    """Returns what padding is for the mixers of a `model` part."""
    mixers = model.mixers(part).items()
    return {fields[name] for mixer, fields in mixers for name in named(model.find_mixer(mixer), PADDING)}


def _check_lengths(config: Config, part: Any) -> None:
    """Checks that published weights that mix padding like tokens get the one length that they have seen.

    Raises: ValueError.
    """
    lengths, positions = data.padded_lengths(config.data), part["positions"]
    if "tokens" in _paddings(part) and lengths != (positions,) and not config.init_padding:
        raise ValueError(
            f"init_from={config.init_from} mixes padding with the tokens and was trained padded to "
            f"{positions}, not to {', '.join(map(str, lengths))}; add --config.data.length={positions} "
            "--config.data.buckets='()', or --config.init_padding=invariant to leave padding out, or =tokens "
            "to keep it nevertheless"
        )
