"""Loads weights: pretrained weights for a new run, and the weights of a trained run."""

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
    """Holds the configuration and the weights that a run starts with.

    Args:
      config: the configuration, with the architecture of the weights.
      params: parameters that replace randomly initialised ones; None: none.
      notes: lines about the weights for the user.
      tokenizer: tokenizer file of the weights; None: the one that `data.tokenizer` names.
      fingerprints: for weights of the hub, their commit and the hashes of their files.
    """

    config: Config
    params: Any = None
    notes: tuple[str, ...] = ()
    tokenizer: Path | None = None
    fingerprints: Mapping[str, str] = MappingProxyType({})


def load(config: Config, directory: Path) -> InitialWeights:
    """Loads the weights that `init_from` names, or those of the self-pretraining.

    A run with a checkpoint has their architecture already, and does not need the weights again.

    Args:
      config: the configuration.
      directory: directory of the run.
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
        labels = () if trained.data.masked else tuple(trained.data.labels)  # a masked model has no classes
        if trained.train.seeds > 1:
            params = jax.tree.map(lambda p: p[0], params)
            notes = (*notes, f"only the first of its {trained.train.seeds} networks is used")
    else:
        part, params, notes = pretrained.read(source)
        if not images:
            _check_lengths(config, part)
        if tokenizer:
            notes = (*notes, f"tokenizer: {tokenizer}, next to the weights")
    if data.task_of(config.data).inputs != part.inputs:
        raise ValueError(
            f"init_from={config.init_from} reads {part.inputs}, but data.task={config.data.task} gives "
            f"{data.task_of(config.data).inputs}; choose other weights"
        )
    params, head = _with_head(config, part, params, task, labels)
    adopted, params, longer = _for_longer_texts(
        configuration.with_architecture(config, part.to_dict()), params
    )
    adopted = configuration.fit_padded_lengths(adopted)  # those of the weights are of other data
    return InitialWeights(adopted, params, (*notes, *longer, head), tokenizer, fingerprints)


def _self_pretrained(config: Config, directory: Path) -> InitialWeights:
    """Loads the weights of the run's self-pretraining; the configuration does not name their folder."""
    epochs, folder = config.train.self_pretrain, str(directory / SELF_PRETRAINED)
    found = load(
        configuration.with_values(config, {"init_from": folder, "train.self_pretrain": 0}), directory
    )
    own = configuration.with_values(found.config, {"init_from": "", "train.self_pretrain": epochs})
    return found._replace(config=own)


def _source(name: str) -> tuple[Path, dict[str, str]]:
    """Returns the path that `init_from` names, and the fingerprints of a folder on the hub.

    Raises: ValueError if it does not exist.
    """
    if hub.is_hub_name(name):
        return hub.fetch(name)
    source = paths.given(name)
    if not source.exists():
        raise ValueError(
            f"init_from={name} does not exist; give a run's directory, a file of weights, or hf:owner/name"
        )
    return source, {}


def _tokenizer(config: Config, source: Path) -> Path | None:
    """Returns the tokenizer file next to the weights; None for tasks without a tokenizer.

    Raises: ValueError if texts need the file and it does not exist.
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
    """Adapts the configuration and the weights to texts that are longer than those of the pretraining.

    A learned position table is interpolated, as for images, and a note says so. Networks with mixers that
    have position-dependent weights are not changed, and refuse longer texts.

    Returns: the configuration, the weights, and notes for the user.
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
    """Returns the parameters with the position table interpolated to another image size.

    Args:
      params: parameters of the pretrained network; None or {}: returned unchanged.
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
    """Returns the parameters, without their head if the new task differs, and a note about it.

    A custom dataset is the same task if `data.labels` lists the classes of the weights.

    Args:
      config: configuration of the new run.
      part: the `model` part of the weights.
      params: parameters of the pretrained network.
      task: task of the weights; "": unknown.
      labels: classes of the weights; (): unknown.
    """
    head, classes = data.task_of(config.data).head, max(len(data.task_of(config.data).labels), 1)
    if config.data.task in OWN:
        if labels and tuple(config.data.labels) == labels:
            return params, "the head is kept: it has the same classes"
        hint = f"; data.labels={labels!r} keeps it" if labels else ""
        rest = {name: value for name, value in params.items() if name != "head"}
        return rest, f"the head is new: that of the weights is for {task or part.head!r}{hint}"
    if data.task_of(config.data).corpora:
        same = part.head == head
    else:
        same = task == config.data.task and (part.head, part.classes) == (head, classes)
    if same:
        return params, "the head is kept: it has the same task"
    rest = {name: value for name, value in params.items() if name != "head"}
    return rest, f"the head is new: that of the weights is for {task or part.head!r}"


def restore_state(
    directory: Path, *, on_device: bool = True, devices: Mapping[str, str] = MappingProxyType({})
) -> tuple[Config, model.Model, CheckpointId, State]:
    """Returns the configuration, the network, and the newest intact checkpoint of a run.

    Args:
      directory: directory of the run.
      on_device: whether to put the state onto the first device, which must have enough memory; if not, its
        arrays are NumPy arrays, also for runs that need several devices. Default True.
      devices: files of measured devices that replace those of the training, by option.
    Raises: ValueError for a directory without a run or without an intact checkpoint.
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
        raise ValueError(f"workdir={directory} has no checkpoint yet; resume its training first")
    return config, network, *restored


def _numpy(leaf: jax.ShapeDtypeStruct) -> np.ndarray:
    """Returns an array of this shape and type that takes no memory.

    Given only a shape, Orbax would need the devices that saved the array.
    """
    return np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape)


def restore(
    directory: Path, devices: Mapping[str, str] = MappingProxyType({})
) -> tuple[Config, model.Model, Any]:
    """Returns the configuration, the network, and the best parameters of a run.

    Before the first validation the parameters are the latest ones, and a note on stderr says so.

    Args:
      directory: directory of the run.
      devices: files of measured devices that replace those of the training, by option.
    Raises: ValueError for a directory without a run or without an intact checkpoint.
    """
    directory = Path(directory).resolve()
    check_files(directory, config_file.load(directory, devices))
    config, network, name, state = restore_state(directory, devices=devices)
    if name.step == 0:
        raise ValueError(f"workdir={directory} has made no training step yet; resume its training first")
    if not validated(state):
        note = f"{directory} has no validation yet: using its weights after {name.step} steps."
        tqdm.write(note, file=sys.stderr)
    return config, network, best_or_latest(state)


def validated(state: State) -> bool:
    """Returns whether a validation has chosen the best parameters of a state."""
    return bool(np.isfinite(state.best_score).all())


def best_or_latest(state: State) -> Any:
    """Returns the best parameters, or the latest if no validation has chosen any yet."""
    return state.best_params if validated(state) else state.params


def is_run(path: Path) -> bool:
    """Returns whether a directory contains a run. (A folder of published weights has a config.json, too.)"""
    return (path / "metrics.jsonl").exists() or (path / "checkpoints").is_dir()


def check_overrides(config: Config, names: Iterable[str]) -> None:
    """Checks that overrides of a command line, for example "model.depth", take effect. Raises: ValueError."""
    for name in names:
        part, *others = name.split(".")
        source = configuration.field_source(config, name)
        if name in config_file.SET_BY_RUN or source == LENGTHS:
            raise ValueError(f"{name} cannot be set because the data determine it; leave it out")
        if part != "model" or not config.init_from:
            continue
        mixer = configuration.mixer_name(config, name)
        kept = configuration.free_fields(mixer) if mixer else configuration.TASK_KEYS
        if not set(others) & set(kept):
            hint = "; use --config.init_padding" if source == PADDING else ""
            raise ValueError(
                f"{name} cannot be set together with init_from={config.init_from}, which determines the "
                f"architecture; leave it out{hint}"
            )


def _differing_lengths(config: Config, source: Config) -> tuple[str, ...]:
    """Returns a note if mixers were trained at other padded lengths than those of this run."""
    now, then = data.padded_lengths(config.data), data.padded_lengths(source.data)
    shared = "invariant" in _paddings(source.model)
    return (
        (f"its mixers were trained at the padded lengths {then}, this run uses {now}",)
        if shared and now != then
        else ()
    )


def _paddings(part: Any) -> set[str]:
    """Returns the padding options of all mixers of a `model` part."""
    mixers = model.mixers(part).items()
    return {fields[name] for mixer, fields in mixers for name in named(model.find_mixer(mixer), PADDING)}


def _check_lengths(config: Config, part: Any) -> None:
    """Checks that published weights that mix padding like tokens are used at their length of training.

    Raises: ValueError.
    """
    lengths, positions = data.padded_lengths(config.data), part["positions"]
    if "tokens" in _paddings(part) and lengths != (positions,) and not config.init_padding:
        raise ValueError(
            f"init_from={config.init_from} mixes padding like tokens and was trained with texts padded to "
            f"{positions}, not to {', '.join(map(str, lengths))}; add --config.data.length={positions} "
            "--config.data.buckets='()', or --config.init_padding=invariant to ignore padding, or "
            "--config.init_padding=tokens to allow it"
        )
