"""Computes fingerprints of data, tokenizer, devices, code and settings, and compares them with a run's."""

import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax

from fourier_attn import paths, plugins, provenance
from fourier_attn.config import Config, device_files
from fourier_attn.data.text import tokenizer_file
from fourier_attn.train.rundir.config_file import flat, record, write_record

PACKAGE = Path(__file__).parents[2]
# The fingerprints that a resumed run compares.
DRIFT = ("data", "tokenizer", "device", "code", "settings")
# JAX's settings that change random numbers and results, without those of the compiler.
SETTINGS = (
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_random_seed_offset",
    "jax_default_matmul_precision",
    "jax_softmax_custom_jvp",
)
# Source files that do not affect training.
COMMANDS = (
    "configs/",
    "config/__main__.py",
    "config/describe.py",
    "config/overrides.py",
    "studies/",
    "main.py",
    "export.py",
    "command.py",
    "allocator.py",
    "style.py",
    "inference/",
    "train/rundir/curves.py",
    "train/summary.py",
    "data/prepare.py",
    "pretrained/convert.py",
)


def training_sources(package: Path = PACKAGE) -> dict[str, Path]:
    """Returns the source files that affect training, by their names within the package."""
    files = {path.relative_to(package).as_posix(): path for path in sorted(package.rglob("*.py"))}
    return {name: path for name, path in files.items() if not name.startswith(COMMANDS)}


def code_fingerprint(package: Path = PACKAGE) -> dict[str, str]:
    """Returns a hash of the source that affects training, versions of packages, and hashes of plug-ins."""
    digest = hashlib.sha256()
    for name, path in training_sources(package).items():
        digest.update(name.encode() + path.read_bytes())
    return {"source": digest.hexdigest()[:16], **provenance.versions(), **plugins.digests()}


def settings_fingerprint() -> dict[str, str]:
    """Returns the values of JAX's settings that change results."""
    return {name: str(getattr(jax.config, name)) for name in SETTINGS if hasattr(jax.config, name)}


def device_fingerprint(config: Config) -> dict[str, str]:
    """Returns a hash of each file of a measured device, by the option that names it."""
    return {knob: paths.digest(paths.given(file)) for knob, file in device_files(config).items()}


def check_drift(workdir: Path, fingerprints: Mapping[str, Any], allowed: Iterable[str] = ()) -> list[str]:
    """Checks that data, tokenizer, devices, code and settings have not changed since the run started.

    Args:
      workdir: directory of the run.
      fingerprints: the current fingerprints.
      allowed: names of fingerprints that may have changed, among `DRIFT`; default none.
    Returns: the names of the fingerprints that have changed.
    Raises: ValueError that lists the changes that are not allowed.
    """
    differing = _changes(record(workdir)["fingerprints"], fingerprints)
    if refused := sorted(differing.keys() - set(allowed)):
        changes = _describe({name: differing[name] for name in refused})
        raise ValueError(
            f"workdir={workdir} was started with other {' and '.join(refused)} ({changes}), so the result "
            "would differ from the original run; restore them, or resume with "
            f"--allow_drift={','.join(refused)}"
        )
    return sorted(differing)


def check_same(primary: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Checks that this process has the same fingerprints as the primary process.

    Raises: ValueError that lists the differences.
    """
    if differing := _changes(primary, ours):
        raise ValueError(
            f"this process has other {' and '.join(sorted(differing))} than process 0 "
            f"({_describe(differing)}); start all processes with the same"
        )


def data_changes(workdir: Path, fingerprints: Mapping[str, Any]) -> dict[str, str]:
    """Returns the splits and files that have changed since the run started, and how they differ."""
    return _changes(record(workdir)["fingerprints"], {"data": fingerprints["data"]}).get("data", {})


def check_files(workdir: Path, config: Config) -> None:
    """Checks that the tokenizer and the files of measured devices are those of the training.

    A file that registered the run's mixer or task may have changed, which a note reports. Runs of early
    versions without fingerprints are not checked.

    Raises: ValueError.
    """
    before = record(workdir)["fingerprints"]
    now: dict[str, Any] = {"device": device_fingerprint(config)} if before.get("device") else {}
    if "tokenizer" in before:
        file = tokenizer_file(workdir)
        now["tokenizer"] = paths.digest(file)
        if now["tokenizer"] != before["tokenizer"]:
            raise ValueError(
                f"{file} differs from the tokenizer that the run was trained with ({before['tokenizer']} -> "
                f"{now['tokenizer']}), which would change its predictions; restore the original file"
            )
    if changes := _changes(before, now):
        raise ValueError(
            f"workdir={workdir} was trained with other measured devices ({_describe(changes)}); restore the "
            f"original files, or give their new paths: {_moved(config)}"
        )
    code = before.get("code", {}) if isinstance(before.get("code"), Mapping) else {}
    for name, digest in plugins.digests().items():
        if code.get(name, digest) != digest:
            print(f"note: {name} has changed since the run was trained with it", file=sys.stderr)


def _moved(config: Config) -> str:
    """Returns the flags that give new paths of measured devices."""
    flags = " ".join(f"--config.{knob}=FILE" for knob in device_files(config))
    return f"{flags}, or edit it in config.json"


def note_drift(
    workdir: Path, differing: list[str], config: Config, fingerprints: Mapping[str, Any], at: tuple[int, bool]
) -> None:
    """Records changed fingerprints in config.json, and replaces the old ones.

    Args:
      workdir: directory of the run.
      differing: names of the changed fingerprints; []: nothing is written.
      config: the configuration, fitted to the current data.
      fingerprints: the current fingerprints; the record keeps the old ones as well.
      at: the step of the restored state, and whether it is validated.
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
    """Returns whether the validation set has changed since a state.

    Args:
      workdir: directory of the run.
      at: the step of the state, and whether it is validated.
    Raises: ValueError for a damaged record.
    """
    facts = record(workdir)
    try:
        notes = [note for note in facts.get("allowed_drift", []) if "data" in note["what"]]
        after = [note["before"]["data"] for note in notes if list(at) <= note["at"]]
        now = facts["fingerprints"].get("data", {}).get("validation")
        return any(before.get("validation") != now for before in after)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{workdir / 'config.json'} is damaged (allowed_drift); give another workdir"
        ) from error


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Returns the common fingerprints that differ, with a description of each difference."""
    changes = {}
    for name in before.keys() & now.keys():
        old, new = (flat({name: prints[name]}) for prints in (before, now))
        a, b = _contents(old), _contents(new)
        if differing := [key for key in a | b if a.get(key) != b.get(key)]:
            values = {key: (old.get(key, a.get(key)), new.get(key, b.get(key))) for key in differing}
            changes[name] = {key: f"{then} -> {present}" for key, (then, present) in values.items()}
    return changes


def _contents(fingerprints: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fingerprints without names of files, because a renamed file has the same contents.

    The fingerprints of all plug-in files become a single one.
    """
    contents, plugged = {}, []
    for key, value in fingerprints.items():
        if key.startswith("code.") and key.endswith(".py"):
            plugged.append(str(value))
        else:
            contents[key] = value.split()[-1] if key.startswith("data.files.") else value
    return contents | ({"code.plug-ins": "-".join(sorted(plugged))} if plugged else {})


def _describe(changes: Mapping[str, Mapping[str, str]]) -> str:
    return "; ".join(
        ", ".join(f"{key} {how}" for key, how in changes[name].items()) for name in sorted(changes)
    )
