"""Reads and writes a run's config.json: its configuration, versions, commit and fingerprints."""

import hashlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fourier_attn import atomic, paths, plugins, provenance
from fourier_attn.config import Config, field_source, from_dict, with_absolute_paths, with_values
from fourier_attn.data.corpus import names_files
from fourier_attn.data.knobs import SPAN_KNOBS
from fourier_attn.layers.fields import GRID, LENGTHS, POSITIONS
from fourier_attn.train.monitor import metric_of

# Options that may differ on another machine.
MACHINE = ("data.dir", "data.train", "data.validation", "data.test", "train.mesh")
RESUMABLE = (*MACHINE, "train.remat")  # may also differ when a run is resumed or extended
# Options of the data that determine the inputs of a network and the names of its answers.
ENCODING = (
    "task",
    "length",
    "buckets",
    "image_size",
    "text",
    "text_pair",
    "labels",
    *SPAN_KNOBS,
)
# Options that the run sets itself. It also sets fields of mixers that are declared so.
SET_BY_RUN = (
    "model.vocab",
    "model.classes",
    "model.head",
    "model.inputs",
    "model.image",
    "model.pixel_mean",
    "model.pixel_deviation",
    "optim.steps",
)
DETECTED = (
    "data.text",
    "data.text_pair",
    "data.label",
    "data.labels",
    "data.unanswerable",
)  # where they are empty
FREE_KEYS = (*MACHINE, *SET_BY_RUN)  # may differ when a run is resumed
PACKAGES = ("orbax-checkpoint", "safetensors", "tensorflow-datasets", "grain", "tokenizers")
LARGEST = 10_000_000  # bytes of a config.json


def record(workdir: Path) -> dict[str, Any]:
    """Reads config.json: the configuration as it was written, versions, commit and fingerprints.

    Raises: ValueError if it does not exist or is damaged.
    """
    path = workdir / "config.json"
    if not path.exists():
        raise ValueError(
            f"workdir={workdir} contains no run (config.json is missing); train one first, or give another "
            "directory"
        )
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise ValueError("not a regular file, or too large")
        facts = json.loads(path.read_text())
        if not isinstance(facts, dict) or not isinstance(facts.setdefault("fingerprints", {}), dict):
            raise ValueError("not the record of a run")
        written = facts["fingerprints"].get("config", _digest(facts))
        if written != _digest(facts):
            raise ValueError(
                "its network or labels have changed since the run wrote them; restore the file from a copy, "
                "or delete fingerprints.config in it to accept the changes"
            )
        return facts
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}); give another workdir") from error


def write_record(workdir: Path, facts: Mapping[str, Any]) -> None:
    """Writes config.json, with a fingerprint of the network and the labels in it."""
    fingerprints = {**facts["fingerprints"], "config": _digest(facts)}
    text = json.dumps({**facts, "fingerprints": fingerprints}, indent=2)
    atomic.write(workdir / "config.json", text + "\n")


def _digest(facts: Mapping[str, Any]) -> str:
    """Returns a hash of the options that determine a run's answers: network, task, encoding and labels.

    All other options in config.json may be edited, for example paths of files.
    """
    names = {"train.seeds", *(f"data.{name}" for name in ENCODING)}
    knobs = {
        name: value
        for name, value in flat(facts.get("config", {})).items()
        if name in names or (name.startswith("model.") and not name.endswith(".device.file"))
    }
    text = json.dumps([knobs, facts.get("metric")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def save(workdir: Path, config: Config, fingerprints: Mapping[str, Any] | None = None) -> None:
    """Writes config.json: the resolved configuration, versions, commit and fingerprints.

    Args:
      workdir: directory of the run.
      config: the resolved configuration.
      fingerprints: see `fourier_attn.train.rundir.fingerprints`; default None: none.
    """
    facts = {
        "config": config.to_dict(),
        **provenance.record(*PACKAGES),
        "fingerprints": dict(fingerprints or {}),
    }
    mixers = {config.model.mixer.name, *config.model.others}
    names = {"mixers": mixers, "tasks": {config.data.task}, "optimizers": {config.optim.name}}
    if recorded := plugins.record(names):
        facts |= {"plugins": recorded, "metric": metric_of(config)}
    write_record(workdir, facts)


def load(workdir: Path, devices: Mapping[str, str] = MappingProxyType({})) -> Config:
    """Returns the resolved configuration of a run; options that the run did not have yet get their defaults.

    Args:
      workdir: directory of the run.
      devices: files of measured devices that replace those of the training, by option; default none.
    Raises: ValueError if config.json is missing or damaged.
    """
    facts = record(workdir)
    try:
        missing = plugins.recorded(facts.get("plugins", {}))
    except ValueError as error:
        raise ValueError(f"{workdir / 'config.json'} is damaged ({error}); give another workdir") from error
    for (kind, name), origin in missing.items():
        raise ValueError(
            f"the {kind.removesuffix('s')} {name!r} of {workdir} is defined in {origin.file}, which does not "
            "belong to an installed package; if you trust that file, add --allow_code to run it (in Python, "
            "Predictor.load(directory, allow_code=True))"
        )
    if "config" not in facts and ({"fourier_attn", "model_type"} & facts.keys()):
        raise ValueError(
            f"workdir={workdir} is a folder of weights, not a run; give the run, or train from these weights "
            f"in a new workdir with --config.init_from={workdir}"
        )
    try:
        return with_values(from_dict(facts["config"]), devices)
    except (KeyError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"{workdir / 'config.json'} is damaged ({error}); give another workdir") from error


def as_written(workdir: Path) -> tuple[dict[str, Any], str]:
    """Returns a run's options by dotted path, and the metric that chooses the best weights.

    The code of plug-ins is not executed.

    Raises: ValueError if config.json is missing or damaged.
    """
    facts = record(workdir)
    if not facts.get("plugins"):
        config = load(workdir)
        return flat(config.to_dict()), metric_of(config)
    if not isinstance(facts.get("config"), dict):
        raise ValueError(f"{workdir / 'config.json'} is damaged (config); give another workdir")
    knobs = flat(facts["config"])
    metric = str(facts.get("metric", "accuracy"))
    return {key: tuple(value) if isinstance(value, list) else value for key, value in knobs.items()}, metric


def allow_code(workdir: Path) -> list[str]:
    """Executes the files that registered the custom parts of the run in `workdir`, and returns their names.

    Call it only for trusted files. Plug-ins of installed packages are found without it.

    Raises: ValueError for a file that does not exist, or does not register these parts any more.
    """
    plugged = record(workdir).get("plugins", {})
    files = {origin.file: origin for origin in plugins.recorded(plugged).values()}
    for origin in files.values():
        plugins.run(origin)
    for (kind, name), origin in plugins.recorded(plugged).items():
        raise ValueError(
            f"{origin.file} does not register the {kind.removesuffix('s')} {name!r} any more; restore it"
        )
    return list(files)


def extended_at(workdir: Path) -> int | None:
    """Returns the step at which a run was last extended; None if it never was.

    Raises: ValueError for a damaged record.
    """
    try:
        entries = record(workdir).get("extended", [])
        return int(entries[-1]["step"]) if entries else None
    except (TypeError, KeyError, IndexError) as error:
        raise ValueError(f"{workdir / 'config.json'} is damaged (extended); give another workdir") from error


def differing(workdir: Path, config: Config) -> dict[str, tuple[Any, Any]]:
    """Returns the options that differ from those of the run in `workdir`: (the run's value, the given one).

    Paths, options that the data determine, and files with the same contents are left out.
    """
    recorded, current = (
        flat(json.loads(json.dumps(with_absolute_paths(c).to_dict()))) for c in (load(workdir), config)
    )  # earlier versions wrote relative paths
    free = {*FREE_KEYS, *RESUMABLE, *_same_files(workdir, recorded, current)}
    pairs = {key: (recorded.get(key), current.get(key)) for key in sorted(recorded.keys() | current.keys())}
    differing = {key: (a, b) for key, (a, b) in pairs.items() if a != b and key not in free}
    return {key: values for key, values in differing.items() if not _fitted(key, current, config)}


def moved_tables(workdir: Path, config: Config) -> str:
    """Returns the tables of a configuration that are not those of the run, as NAME=VALUE.

    Without such tables, it returns "".

    Args:
      workdir: directory of the run.
      config: the configuration, with absolute paths.
    """
    recorded = with_absolute_paths(load(workdir)).data  # earlier versions wrote relative paths
    given = {name: config.data[name] for name in ("train", "validation", "test")}
    names = [name for name, table in given.items() if table and table != recorded[name]]
    return ", ".join(f"data.{name}={config.data[name]}" for name in names)


def _same_files(workdir: Path, recorded: Mapping[str, Any], current: Mapping[str, Any]) -> set[str]:
    """Returns the options whose file was renamed, but has the contents that the run recorded.

    Args:
      workdir: directory of the run.
      recorded, current: options of the run and given ones, by dotted path.
    """
    prints, same = record(workdir)["fingerprints"], set()
    digests = {"data.tokenizer": prints.get("tokenizer"), **flat(prints.get("device") or {})}
    for key, digest in digests.items():
        names = [str(knobs.get(key)) for knobs in (recorded, current)]
        if all(name.endswith((".json", ".model", ".npz", ".npy")) for name in names):
            same |= {key} if digest == paths.digest(Path(names[1])) else set()
    for key in ("data.corpora", "data.exclude"):  # the data's fingerprint covers their rows
        was, now = (knobs.get(key, []) for knobs in (recorded, current))
        if len(was) == len(now) and all(map(names_files, [*was, *now])):
            same.add(key)
    return same


def _fitted(key: str, current: Mapping[str, Any], config: Config) -> bool:
    """Returns whether the run, not the user, chooses the value of an option.

    Args:
      key: dotted path of the option.
      current: the given options.
      config: the given configuration.
    """
    if key in DETECTED and not current.get(key):
        return True
    source, images = field_source(config, key), config.model.inputs == "patches"
    sized = source == POSITIONS or (source == GRID and not current.get(key))
    return source == LENGTHS or (images and sized)


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns a tree of dicts as one dict with dotted paths, for example "model.d", as keys."""
    result = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{key}.")
        else:
            result[prefix + key] = value
    return result
