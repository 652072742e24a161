"""A run's directory: whose configuration made it, with which versions, and who uses it now."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax

from fourier_attn import atomic, paths, plugins, provenance
from fourier_attn.config import Config, device_files, from_dict, with_absolute_paths
from fourier_attn.data.corpus import names_files
from fourier_attn.data.tasks import task_of
from fourier_attn.data.text import tokenizer_file

# What another machine may have otherwise.
MACHINE = ("data.dir", "data.train", "data.validation", "data.test", "train.mesh")
# Knobs of the data that decide what a network is given, and what its answers are called.
ENCODING = ("task", "length", "buckets", "image_size", "text", "text_pair", "labels")
# Set by the run itself, as the mixers' `lengths` are, and their `grid` where it was empty.
FOUND = (
    "model.vocab",
    "model.classes",
    "model.head",
    "model.inputs",
    "model.image",
    "model.pixel_mean",
    "model.pixel_deviation",
    "optim.steps",
    "model.mixer.lengths",
)
FROM_DATA = ("data.text", "data.text_pair", "data.label", "data.labels")  # found where they are empty
FREE = (*MACHINE, *FOUND)  # what two parts of a run may have otherwise
# The fingerprints that a resumed run compares.
DRIFT = ("data", "tokenizer", "device", "code", "settings")
# Of JAX, those that change what is drawn and computed; the compiler's are not among them.
SETTINGS = (
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_random_seed_offset",
    "jax_default_matmul_precision",
    "jax_softmax_custom_jvp",
)
PACKAGES = ("orbax-checkpoint", "safetensors", "tensorflow-datasets", "grain", "tokenizers")
# Source that no training depends on.
COMMANDS = (
    "configs/",
    "studies/",
    "main.py",
    "command.py",
    "allocator.py",
    "style.py",
    "inference/",
    "train/rundir/curves.py",
    "train/summary.py",
    "data/prepare.py",
    "pretrained/convert.py",
)
LARGEST = 10_000_000  # bytes of a config.json
LOCK = ".lock"
# What a run writes before config.json.
EARLY = ("config.json.tmp", "tokenizer.json", "tokenizer.json.tmp", "tokenizer.model", "tokenizer.model.tmp")


def check(workdir: Path, config: Config) -> None:
    """Checks that the directory is new, empty, or of a run with this configuration, and holds no links.

    A run that was killed before it wrote config.json has left its lock there, and no more than `EARLY`.

    Raises: ValueError that lists the differences, or for a directory that is no run's.
    """
    if not workdir.exists():
        return
    if not workdir.is_dir():
        raise ValueError(f"workdir={workdir} is a file; name a directory")
    refuse_links(workdir)
    if not (workdir / "config.json").exists():
        there = {path.name for path in workdir.iterdir()}
        if there - {LOCK, *EARLY} or (there and LOCK not in there):
            raise ValueError(
                f"workdir={workdir} holds files but no config.json, so it is no run's; name a new directory"
            )
        return
    if found := differing(workdir, config):
        listed = "; ".join(f"{key} is {a!r} there, {b!r} now" for key, (a, b) in [*found.items()][:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise ValueError(
            f"workdir={workdir} was made by another configuration: {listed}{more}.  "
            "Name a new workdir, or give its values"
        )


def differing(workdir: Path, config: Config) -> dict[str, tuple[Any, Any]]:
    """Returns the knobs that a configuration has otherwise than the run: their values there, and now.

    Places, what the data determine, and files of the same contents are left out.
    """
    there, given = (
        flat(json.loads(json.dumps(with_absolute_paths(c).to_dict()))) for c in (load(workdir), config)
    )  # earlier versions wrote names as given
    free = {*FREE, *_same_files(workdir, there, given)}
    found = {key: (there.get(key), given.get(key)) for key in sorted(there.keys() | given.keys())}
    return {
        key: (a, b) for key, (a, b) in found.items() if a != b and key not in free and not _fitted(key, given)
    }


def _same_files(workdir: Path, there: Mapping[str, Any], given: Mapping[str, Any]) -> set[str]:
    """Returns the knobs whose file has another name now and the contents that the run noted."""
    prints, found = record(workdir)["fingerprints"], set()
    noted = {"data.tokenizer": prints.get("tokenizer"), **flat(prints.get("device") or {})}
    for key, digest in noted.items():
        names = [str(knobs.get(key)) for knobs in (there, given)]
        if all(name.endswith((".json", ".model", ".npz", ".npy")) for name in names):
            found |= {key} if digest == _file_digest(Path(names[1])) else set()
    for key in ("data.corpora", "data.exclude"):  # whose rows the data's fingerprint has
        was, now = (knobs.get(key, []) for knobs in (there, given))
        if len(was) == len(now) and all(map(names_files, [*was, *now])):
            found.add(key)
    return found


def _fitted(key: str, given: Mapping[str, Any]) -> bool:
    """Whether a mixer's knob was left to the run."""
    if key in FROM_DATA and not given.get(key):
        return True
    images, name = given.get("model.inputs") == "patches", key.rpartition(".")[2]
    return images and ((name == "grid" and not given.get(key)) or name == "length")


def clear(workdir: Path) -> None:
    """Removes what a run left that was killed before it had a config.json, and so is none yet."""
    if not (workdir / "config.json").exists():
        for name in EARLY:
            (workdir / name).unlink(missing_ok=True)


def undo(workdir: Path) -> None:
    """Removes a directory in which no run has begun, if there is nothing else in it."""
    if (workdir / "config.json").exists():
        return
    clear(workdir)
    if {path.name for path in workdir.iterdir()} == {LOCK}:
        (workdir / LOCK).unlink()
        workdir.rmdir()


def refuse_links(workdir: Path) -> None:
    """Checks that there are files and folders only: a run writes nowhere else, and waits for no pipe.

    Raises: ValueError.
    """
    for folder, folders, files in os.walk(workdir):
        for name in (*folders, *files):
            path = Path(folder) / name
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                raise ValueError(f"{path} is a link, which a run does not follow; remove it")
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise ValueError(f"{path} is neither a file nor a folder; remove it")


def record(workdir: Path) -> dict[str, Any]:
    """What config.json holds: the configuration as it was written, versions, commit, fingerprints.

    Raises: ValueError where there is none, or it is not readable.
    """
    path = workdir / "config.json"
    if not path.exists():
        raise ValueError(f"workdir={workdir} holds no run (no config.json); train one first or name another")
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            raise ValueError("no file of a run")
        facts = json.loads(path.read_text())
        if not isinstance(facts, dict) or not isinstance(facts.setdefault("fingerprints", {}), dict):
            raise ValueError("no record of a run")
        written = facts["fingerprints"].get("config", _digest(facts))
        if written != _digest(facts):
            raise ValueError(
                "its network or labels have changed since the run wrote them; restore the file from a copy, "
                "or delete fingerprints.config in it to accept the changes"
            )
        return facts
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}); name another workdir") from error


def write_record(workdir: Path, facts: Mapping[str, Any]) -> None:
    """Writes config.json, with a fingerprint of the network and the labels in it."""
    fingerprints = {**facts["fingerprints"], "config": _digest(facts)}
    text = json.dumps({**facts, "fingerprints": fingerprints}, indent=2)
    atomic.write(workdir / "config.json", text + "\n")


def _digest(facts: Mapping[str, Any]) -> str:
    """Returns a hash of what decides the answers of a run: its network, task, encoding of inputs and labels.

    Everything else in config.json may be edited: places of files, and how the run is trained further.
    """
    names = {"train.seeds", *(f"data.{name}" for name in ENCODING)}
    knobs = {
        name: value
        for name, value in flat(facts.get("config", {})).items()
        if name in names or (name.startswith("model.") and not name.endswith(".device.file"))
    }
    text = json.dumps([knobs, facts.get("metric")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_files(workdir: Path, config: Config) -> None:
    """Checks that the files with which a run computes are those with which it was trained.

    Its tokenizer and the files of measured devices; a file that has registered its mixer or task may have
    changed, which a note says. A run made before there were fingerprints is not checked.

    Raises: ValueError.
    """
    before = record(workdir)["fingerprints"]
    now: dict[str, Any] = {"device": device_fingerprint(config)} if before.get("device") else {}
    if "tokenizer" in before:
        file = tokenizer_file(workdir)
        now["tokenizer"] = _file_digest(file)
        if now["tokenizer"] != before["tokenizer"]:
            raise ValueError(
                f"{file} differs from the tokenizer that the run was trained with ({before['tokenizer']} -> "
                f"{now['tokenizer']}), which would change its predictions; restore the original file"
            )
    if changes := _changes(before, now):
        raise ValueError(
            f"workdir={workdir} was trained with other measured devices ({_told(changes)}); restore the "
            f"original files, or name where they are now: {_moved(config)}"
        )
    code = before.get("code", {}) if isinstance(before.get("code"), Mapping) else {}
    for name, digest in plugins.digests().items():
        if code.get(name, digest) != digest:
            print(f"note: {name} has changed since the run was trained with it", file=sys.stderr)


def _moved(config: Config) -> str:
    """Returns the flag that names the new place of a measured device, in words."""
    flags = " ".join(f"--config.{knob}=FILE" for knob in device_files(config))
    return f"{flags}, or edit it in config.json"


def _file_digest(path: Path) -> str:
    """Returns the hash of a file, "none" where it does not exist."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else "none"


def load(workdir: Path, devices: Mapping[str, str] = MappingProxyType({})) -> Config:
    """The resolved configuration of the run in `workdir`; a knob it did not have is at its default.

    Args:
      devices: files of measured devices that are elsewhere now, by their knobs.
    Raises: ValueError where there is none, or it is not readable.
    """
    found = record(workdir)
    try:
        missing = plugins.recorded(found.get("plugins", {}))
    except ValueError as error:
        raise ValueError(f"{workdir / 'config.json'} is damaged ({error}); name another workdir") from error
    for (kind, name), origin in missing.items():
        raise ValueError(
            f"the {kind.removesuffix('s')} {name!r} of {workdir} is defined in {origin.file}, which does not "
            "belong to an installed package; if you trust that file, add --allow_code to run it (in Python, "
            "Predictor.load(directory, allow_code=True))"
        )
    if "config" not in found and ({"fourier_attn", "model_type"} & found.keys()):
        raise ValueError(
            f"workdir={workdir} is a folder of weights, not a run; name the run, or train from these weights "
            f"in a new workdir, with --config.init_from={workdir}"
        )
    try:
        config = from_dict(found["config"])
        config.update_from_flattened_dict(devices)
        return config
    except (KeyError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"{workdir / 'config.json'} is damaged ({error}); name another workdir") from error


def as_written(workdir: Path) -> tuple[dict[str, Any], str]:
    """The knobs of a run by their full names, and the metric that counts; without the code of plug-ins.

    Raises: ValueError where there is none, or it is not readable.
    """
    facts = record(workdir)
    if not facts.get("plugins"):
        config = load(workdir)
        return flat(config.to_dict()), task_of(config.data).metrics[0]
    if not isinstance(facts.get("config"), dict):
        raise ValueError(f"{workdir / 'config.json'} is damaged (config); name another workdir")
    knobs = flat(facts["config"])
    metric = str(facts.get("metric", "accuracy"))
    return {key: tuple(value) if isinstance(value, list) else value for key, value in knobs.items()}, metric


def allow_code(workdir: Path) -> list[str]:
    """Executes the files that have registered the mixers and tasks of the run in `workdir`; returns them.

    Only for somebody who trusts them. Installed packages' are found without it.

    Raises: ValueError for a file that is not there, or does not register what it had.
    """
    plugged = record(workdir).get("plugins", {})
    files = {origin.file: origin for origin in plugins.recorded(plugged).values()}
    for origin in files.values():
        plugins.run(origin)
    for (kind, name), origin in plugins.recorded(plugged).items():
        raise ValueError(f"{origin.file} does not register the {kind.removesuffix('s')} {name!r} any more")
    return list(files)


def save(workdir: Path, config: Config, fingerprints: Mapping[str, Any] | None = None) -> None:
    """Writes `config.json`: the resolved configuration, where it comes from, and fingerprints."""
    facts = {
        "config": config.to_dict(),
        **provenance.record(*PACKAGES),
        "fingerprints": dict(fingerprints or {}),
    }
    names = {"mixers": {config.model.mixer.name, *config.model.others}, "tasks": {config.data.task}}
    if found := plugins.record(names):
        facts |= {"plugins": found, "metric": task_of(config.data).metrics[0]}
    write_record(workdir, facts)


def extended_at(workdir: Path) -> int | None:
    """The step at which a run got more epochs, for the last time, if it ever did.

    Raises: ValueError for a damaged record.
    """
    try:
        entries = record(workdir).get("extended", [])
        return int(entries[-1]["step"]) if entries else None
    except (TypeError, KeyError, IndexError) as error:
        raise ValueError(f"{workdir / 'config.json'} is damaged (extended); name another workdir") from error


def code_fingerprint() -> dict[str, str]:
    """A hash of the source that a training depends on, and the versions of what computes it."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(COMMANDS):
            digest.update(name.encode() + path.read_bytes())
    return {"source": digest.hexdigest()[:16], **provenance.versions(), **plugins.digests()}


def settings_fingerprint() -> dict[str, str]:
    """Returns JAX's settings that change results, as flags and environment have set them."""
    return {name: str(getattr(jax.config, name)) for name in SETTINGS if hasattr(jax.config, name)}


def device_fingerprint(config: Config) -> dict[str, str]:
    """A hash of each file of a measured device that the configuration names."""
    found = {}
    for name, path in device_files(config).items():
        found[name] = _file_digest(paths.given(path))
    return found


def check_drift(workdir: Path, fingerprints: Mapping[str, Any], allowed: Iterable[str] = ()) -> list[str]:
    """Checks that data, tokenizer, devices, code and settings are those of the start; returns what is not.

    Raises: ValueError that names what is not, unless it is among `allowed`.
    """
    differing = _changes(record(workdir)["fingerprints"], fingerprints)
    if refused := sorted(differing.keys() - set(allowed)):
        told = _told({name: differing[name] for name in refused})
        raise ValueError(
            f"workdir={workdir} began with other {' and '.join(refused)} ({told}), so that the run "
            "would not be the one that was begun; restore them, or go on with "
            f"--allow_drift={','.join(refused)}"
        )
    return sorted(differing)


def check_same(first: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Checks that this process has the data, tokenizer, devices, code and settings of process 0.

    Raises: ValueError that names what is another one.
    """
    if differing := _changes(first, ours):
        raise ValueError(
            f"this process has other {' and '.join(sorted(differing))} than process 0 ({_told(differing)}); "
            "give the same to all"
        )


def data_changes(workdir: Path, fingerprints: Mapping[str, Any]) -> dict[str, str]:
    """Names of splits and files whose rows are not those with which the run began, and how they differ."""
    return _changes(record(workdir)["fingerprints"], {"data": fingerprints["data"]}).get("data", {})


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Of fingerprints of the same names, those that differ, and how."""
    found = {}
    for name in before.keys() & now.keys():
        old, new = (flat({name: prints[name]}) for prints in (before, now))
        a, b = _contents(old), _contents(new)
        if differing := [key for key in a | b if a.get(key) != b.get(key)]:
            said = {key: (old.get(key, a.get(key)), new.get(key, b.get(key))) for key in differing}
            found[name] = {key: f"{was} -> {present}" for key, (was, present) in said.items()}
    return found


def _contents(fingerprints: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fingerprints without the names of files: one that was renamed has the same bytes.

    Those of plug-ins, which go by the names of their files, become one.
    """
    found, plugged = {}, []
    for key, value in fingerprints.items():
        if key.startswith("code.") and key.endswith(".py"):
            plugged.append(str(value))
        else:
            found[key] = value.split()[-1] if key.startswith("data.files.") else value
    return found | ({"code.plug-ins": "-".join(sorted(plugged))} if plugged else {})


def _told(changes: Mapping[str, Mapping[str, str]]) -> str:
    """Changes in words."""
    return "; ".join(
        ", ".join(f"{key} {how}" for key, how in changes[name].items()) for name in sorted(changes)
    )


def note_drift(
    workdir: Path, differing: list[str], config: Config, fingerprints: Mapping[str, Any], at: tuple[int, bool]
) -> None:
    """Writes into config.json that the run is another one from here on, if anything is not what it was.

    Args:
      config: fitted to the data as they are now.
      fingerprints: as they are now; those before are kept with the note.
      at: the step of the state, and whether it has been validated.
    """
    if not differing:
        return
    facts = record(workdir)
    before = facts["fingerprints"]
    note = {"what": differing, "commit": provenance.commit(), "at": at}
    note["before"] = {name: before[name] for name in differing}
    now = {name: fingerprints[name] for name in differing}
    facts |= {"config": config.to_dict(), "fingerprints": before | now}
    facts["allowed_drift"] = [*facts.get("allowed_drift", []), note]
    write_record(workdir, facts)


def validated_differently(workdir: Path, at: tuple[int, bool]) -> bool:
    """Whether the validation of a run has been another one since a state, by its step and whether validated.

    Raises: ValueError for a damaged record.
    """
    facts = record(workdir)
    try:
        notes = [note for note in facts.get("allowed_drift", []) if "at" in note]  # earlier ones lack it
        after = [
            note["before"]["data"] for note in notes if "data" in note["what"] and list(at) <= note["at"]
        ]
        now = facts["fingerprints"].get("data", {}).get("validation")
        return any(before.get("validation") != now for before in after)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{workdir / 'config.json'} is damaged (allowed_drift); name another workdir"
        ) from error


@contextlib.contextmanager
def lock(workdir: Path) -> Iterator[None]:
    """Keeps the directory for this process; the system lets go of it when the process ends.

    Raises: ValueError if another process has it.
    """
    try:
        atomic.make_folder(workdir)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ValueError(f"workdir={workdir} cannot be made ({error.strerror}); name another") from error
    refuse_links(workdir)
    with os.fdopen(os.open(workdir / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(
                f"workdir={workdir} is in use by another run; wait for it or name another"
            ) from error
        yield


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A tree of dicts as one dict, whose keys are paths like "model.d"."""
    result = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{key}.")
        else:
            result[prefix + key] = value
    return result
