"""Checks a configuration and its directory, locks the directory, and trains."""

import contextlib
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from fourier_attn import config as configuration
from fourier_attn import data, paths
from fourier_attn.config import Config
from fourier_attn.train import class_loss, init_from, loop, memory, monitor
from fourier_attn.train.distributed import processes, sharding, shared_tokens
from fourier_attn.train.distributed.signals import Interrupted, StopSignals
from fourier_attn.train.evaluate import summary
from fourier_attn.train.rundir import config_file, trackers, workdir
from fourier_attn.train.summary import finished
from fourier_attn.train.training_run import Run


def run(
    config: Config, directory: str | Path, allow_drift: Iterable[str] = (), tracker: str = "tensorboard"
) -> dict[str, Any]:
    """Trains the network that a configuration describes, and returns its metrics on the test set.

        result = run(config.default("fourier", "imdb"), "runs/fnet-imdb")
        result["accuracy"]

    If the directory contains an unfinished run of the same configuration, the run is resumed, and its result
    is bitwise the same as without the interruption. A finished run is not changed. With
    `train.self_pretrain` a masked language model is trained first, in a subfolder.

    The run saves config.json, the tokenizer, metrics.jsonl, curves.png, predictions.jsonl, TensorBoard events
    and checkpoints. Tasks with classes also get report.json, confusion.csv and confusion.png, and GLUE its
    submission files. With several processes, only the primary one writes and prints, except that each
    process writes its part of the checkpoints.

    Args:
      config: the configuration, see `fourier_attn.config.default`.
      directory: directory of the run, new or existing.
      allow_drift: fingerprints that may have changed when a run is resumed: "data", "tokenizer", "device",
        "code", "settings"; default none.
      tracker: where to log metrics as well: "tensorboard" (default), "wandb" or "none".
    Returns: the metrics by name; for a run with several seeds means and deviations.
    Raises:
      ValueError: for a configuration, a data set or a directory that cannot be used.
      Diverged: if updates become non-finite again after a return to an earlier checkpoint.
      Interrupted: after SIGTERM, SIGHUP, Ctrl-C, SIGUSR1, SIGUSR2 or SIGXCPU; the state has been saved.
    """
    directory = paths.folder(directory, "workdir")
    try:
        return _run(config, directory, allow_drift, tracker)
    except Interrupted:
        if processes.is_primary():
            how, again = "give", " again"
            if not (directory / "config.json").exists():  # the directory alone is not enough
                how, again = "repeat the command with", ""
            tqdm.write(f"Stopped. To resume, {how} --workdir={directory}{again}.")
        raise


def _run(config: Config, directory: Path, allow_drift: Iterable[str], tracker: str) -> dict[str, Any]:
    """Trains like `run`, with the same arguments, but prints nothing on how to resume."""
    # hash before paths become absolute, because machines may have different folders
    same = f"workdir={directory} and {_hash(config)}"
    config = configuration.with_absolute_paths(config)
    if config.train.self_pretrain and not (directory / "config.json").exists():
        _self_pretrain(config, directory, allow_drift, tracker)

    def prepare() -> init_from.InitialWeights:
        trackers.check(tracker)
        configuration.check(config)  # first, because pretrained weights may replace its architecture
        initial = init_from.load(config, directory)
        check(initial.config)
        workdir.check(directory, initial.config)
        data.check_available(initial.config.data)
        return initial

    with contextlib.ExitStack() as stack:
        if not processes.is_primary():
            stack.enter_context(contextlib.redirect_stdout(None))
        initial = processes.barrier(prepare, same=same)
        result = processes.broadcast(lambda: finished(directory))
        if result is not None:
            _say_finished(directory, config, result)
            return result

        def take() -> None:
            if processes.is_primary():
                stack.enter_context(workdir.lock(directory))
                workdir.check(directory, initial.config)  # another run may have used it in the meantime
                workdir.clear(directory)

        processes.barrier(take)
        signals = stack.enter_context(StopSignals())
        try:
            return loop.train(Run(initial, directory, signals, tracker), allow_drift)
        except ValueError:
            if processes.is_primary():
                workdir.undo(directory)
            raise


def _say_finished(directory: Path, config: Config, result: dict[str, Any]) -> None:
    """Prints the result of a finished run, and a note on tables that it has not read."""
    tqdm.write(f"{directory} is finished. {summary(result)}")
    if unread := config_file.moved_tables(directory, config):
        tqdm.write(
            f"note        {unread} was not read, because the run is finished; for other data, give a new "
            "workdir, or use --mode=eval"
        )


def _self_pretrain(config: Config, directory: Path, allow_drift: Iterable[str], tracker: str) -> None:
    """Trains the masked language model that a run starts from, in a subfolder.

    The options of the run itself are checked first. Weights & Biases logs only the run itself, because its
    files belong next to the directory of a run, not inside.

    Args:
      config, directory, allow_drift, tracker: see `run`.
    """

    def prepare() -> None:
        trackers.check(tracker)
        check(config)
        workdir.check(directory, config)
        data.check_available(config.data)

    processes.barrier(prepare)
    inner = "none" if tracker == "wandb" else tracker
    _run(configuration.masked(config), directory / workdir.SELF_PRETRAINED, allow_drift, inner)


def check(config: Config) -> None:
    """Checks a configuration without reading data: options, metric, mesh and memory. Raises: ValueError.

    Args:
      config: the complete configuration.
    """
    configuration.check(config)
    monitor.check(config)
    class_loss.check(config)
    mesh = sharding.place(config.train, config.data.batch).mesh.shape
    shared_tokens.check(config, mesh)
    memory.check(config, mesh)


def _hash(config: Config) -> str:
    text = json.dumps(config.to_dict(), sort_keys=True, default=str)
    return f"config {hashlib.sha256(text.encode()).hexdigest()[:8]}"
