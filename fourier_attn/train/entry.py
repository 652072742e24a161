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
from fourier_attn.train.distributed import processes, sharding
from fourier_attn.train.distributed.signals import Interrupted, StopSignals
from fourier_attn.train.evaluate import summary
from fourier_attn.train.rundir import trackers, workdir
from fourier_attn.train.summary import finished


def run(
    config: Config, directory: str | Path, allow_drift: Iterable[str] = (), tracker: str = "tensorboard"
) -> dict[str, Any]:
    """Trains what the configuration describes and returns its metrics on the test set.

    The directory receives config.json, the tokenizer, metrics.jsonl, curves.png, predictions.jsonl, of
    classes report.json, confusion.csv and confusion.png, for GLUE the files to hand in, TensorBoard events
    and checkpoints. If it holds an unfinished run of the same configuration, that run is resumed, with
    bitwise the same result; a finished one is left as it is. With `train.self_pretrain` a masked language
    model is trained first, in a folder of the directory. Of several processes, the primary one writes and
    prints; the others write their parts of checkpoints.

    Args:
      allow_drift: fingerprints that may have changed since the run began: "data", "tokenizer", "device",
        "code", "settings".
      tracker: what else shows the metrics: "tensorboard", "wandb" or "none".
    Raises:
      ValueError: for a configuration, a data set or a directory that cannot be used.
      Diverged: where updates are not finite, twice.
      Interrupted: after SIGTERM, SIGHUP, Ctrl-C, SIGUSR1, SIGUSR2 or SIGXCPU; the state has been saved.
    """
    directory = paths.folder(directory, "workdir")
    same = f"workdir={directory} and {_hash(config)}"  # with names as given: machines have their own folders
    config = configuration.with_absolute_paths(config)
    if config.train.self_pretrain and not (directory / "config.json").exists():
        _self_pretrain(config, directory, allow_drift, tracker)

    def prepare() -> init_from.InitialWeights:
        trackers.check(tracker)
        configuration.check(config)  # alone: the architecture of given weights may replace its own
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
            tqdm.write(f"{directory} is finished. {summary(result)}")
            return result

        def take() -> None:
            if processes.is_primary():
                stack.enter_context(workdir.lock(directory))
                workdir.check(directory, initial.config)  # another run may have come first
                workdir.clear(directory)

        processes.barrier(take)
        signals = stack.enter_context(StopSignals())
        try:
            return loop.train(loop.Run(initial, directory, signals, tracker), allow_drift)
        except Interrupted:
            tqdm.write(f"Stopped. To resume, give --workdir={directory} again.")
            raise
        except ValueError:
            if processes.is_primary():
                workdir.undo(directory)
            raise


def _self_pretrain(config: Config, directory: Path, allow_drift: Iterable[str], tracker: str) -> None:
    """Trains the masked language model that a run begins with, in a folder of its directory.

    What would stop the run itself is checked before. W&B gets the run alone: its own files lie next to a
    directory, not within one.
    """

    def prepare() -> None:
        trackers.check(tracker)
        check(config)
        workdir.check(directory, config)
        data.check_available(config.data)

    processes.barrier(prepare)
    try:
        inner = "none" if tracker == "wandb" else tracker
        run(configuration.masked(config), directory / workdir.SELF_PRETRAINED, allow_drift, inner)
    except Interrupted:
        if processes.is_primary():
            tqdm.write(f"That was the self-pretraining: give the same command with --workdir={directory}.")
        raise


def check(config: Config) -> None:
    """Checks a configuration without touching any data: knobs, metric, mesh and memory.

    Raises: ValueError.
    """
    configuration.check(config)
    monitor.check(config)
    class_loss.check(config)
    memory.check(config, sharding.place(config.train, config.data.batch).mesh.shape)


def _hash(config: Config) -> str:
    text = json.dumps(config.to_dict(), sort_keys=True, default=str)
    return f"config {hashlib.sha256(text.encode()).hexdigest()[:8]}"
