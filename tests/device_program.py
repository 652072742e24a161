"""Trains as one process of several, or alone: python device_program.py ORDER, which is JSON.

    config    the whole configuration
    workdir   the run's directory
    port      at which `processes` processes meet, of which this is number `process`; without it: alone
    at, signum  the process gives itself this signal after step `at`, if it is number `who`
    at, error   it raises an error with this text instead
    unseen    the process does not find checkpoints with this in their names, if it is number `blind`

It prints a hash of the parameters it ends with, and what the program of a training step communicates.
"""

import contextlib
import hashlib
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from fourier_attn import command, config, train
from fourier_attn.train import loop, training_run
from fourier_attn.train.distributed import processes, sharding
from fourier_attn.train.target.program import ARRAY, COLLECTIVE, collectives


def main(word: str) -> None:
    order = json.loads(word)
    settings = config.from_dict(order["config"])
    meeting = (f"127.0.0.1:{order['port']}", order["processes"], order["process"]) if "port" in order else ()
    if order.get("who") == order["process"]:
        stop_after(order["at"], order.get("signum"), order.get("error"))
    if order.get("blind") == order["process"]:
        hide(order["unseen"])
    # drawing is slow
    patch(training_run, "plot_curves", lambda workdir, *_: (workdir / "curves.png").touch())
    runs, said = remember(), io.StringIO()
    with processes.joined(*meeting):
        with contextlib.redirect_stdout(said):
            train.run(settings, order["workdir"])
        print(json.dumps((facts(runs[-1]) if runs else {}) | {"said": said.getvalue()}), flush=True)


def stop_after(step: int, signum: int | None, error: str | None) -> None:
    """Has this process give itself a signal, or raise an error."""
    poll, sent = training_run.Run.poll, []

    def send(run: training_run.Run) -> None:
        if not sent and getattr(run, "step", -1) == step and run.validated:
            sent.append(step)
            if signum is None:
                raise RuntimeError(error)
            os.kill(os.getpid(), signum)
        poll(run)

    patch(training_run.Run, "poll", send)


def hide(name: str) -> None:
    """Has this process not find checkpoints: one of a file system's machines may see a file later."""
    restore = ocp.Checkpointer.restore

    def find(checkpointer: Any, directory: Path, *arguments: Any, **named: Any) -> Any:
        if name in directory.name:
            raise FileNotFoundError(f"{directory.name} is not there")
        return restore(checkpointer, directory, *arguments, **named)

    patch(ocp.Checkpointer, "restore", find)


def patch(owner: Any, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)


def remember() -> list[training_run.Run]:
    """The runs that will be made."""
    runs, train_epochs = [], loop.train_epochs

    def train_it(run: training_run.Run) -> None:
        runs.append(run)
        train_epochs(run)

    patch(loop, "train_epochs", train_it)
    return runs


def facts(run: training_run.Run) -> dict[str, Any]:
    text = program(run)
    parameters = jax.tree.leaves(sharding.to_host(run.state.params))
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(p).tobytes() for p in parameters))
    results = [m["result"] for m in COLLECTIVE.finditer(text) if m["kind"] == "all-gather"]
    return {
        "hash": digest.hexdigest(),
        "neighbours": processes.neighbours(),
        "shapes": sorted({text_of(p) for p in parameters}),
        "split": sorted({text_of(p) for p in jax.tree.leaves(run.state.params) if not p.is_fully_replicated}),
        "collectives": collectives(text),
        "gathered": sorted({m["sizes"] for result in results for m in ARRAY.finditer(result)}),
    }


def text_of(array: Any) -> str:
    return ",".join(map(str, array.shape))


def program(run: training_run.Run) -> str:
    """The compiled training step."""
    batch = run.placement.shard_batch(run.splits.train[0])
    return run.train_step.lower(run.state, batch, run.keys).compile().as_text()


if __name__ == "__main__":
    sys.exit(command.run(main, arguments=True))
