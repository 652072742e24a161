"""A process that has imported everything, and forks a child for each run, which may kill itself on the way.

A child counts what Python is about to do to files in the run's directory (every thread's audit events), and
the polls for a signal, which stand between all steps and before all batches of an evaluation.

Standard input, a line of JSON for each child: workdir, and any of `event` (the number of the file event
before which it is killed), `place` ("train", "validation" or "test", and the step) with `signum`, `line` (the
split after whose line of metrics it is killed). Standard output, a line of JSON: `code`, and the `events`.
"""

import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from fourier_attn import atomic, config, train
from fourier_attn.train import report, training_run
from fourier_attn.train.distributed import signals
from fourier_attn.train.rundir import metrics_log

for heavy in ("tensorboardX", "tensorflow_datasets"):
    importlib.import_module(heavy)  # once, for all children
gc.freeze()  # nor need they collect it
gc.set_threshold(50_000, 20, 10)  # as in conftest

CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.truncate", "shutil.rmtree")


def watch(directory: Path, log: Path, event: int | None) -> None:
    """Writes each file event in `directory` to `log`; kills the process before number `event`."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    count, prefix = 0, str(directory)

    def hook(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        writes = name == "open" and len(arguments) > 2 and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)
        if not writes and name not in CHANGES:
            return
        path = str(arguments[0])
        if not path.startswith(prefix):
            return
        if count == event:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        os.write(file, f"{name} {path.removeprefix(prefix)}\n".encode())

    sys.addaudithook(hook)


def signal_at(place: str, step: int, signum: int) -> None:
    """Sends the process a signal at its first poll from that step on, in that part of the run."""
    part, sent = "train", False
    evaluate, poll = training_run.Run.evaluate, training_run.Run.poll

    def enter(run: training_run.Run, title: str, *arguments: Any) -> Any:
        nonlocal part
        part = title
        result = evaluate(run, title, *arguments)
        part = "train"
        return result

    def send(run: training_run.Run) -> None:
        nonlocal sent
        if not sent and part == place and getattr(run, "step", -1) >= step:
            sent = True
            os.kill(os.getpid(), signum)
        poll(run)

    patch(training_run.Run, "evaluate", enter)
    patch(training_run.Run, "poll", send)


def kill_after_line(split: str) -> None:
    """Kills the process when the line of metrics of that split is in the file."""
    write = metrics_log.Writer.write

    def written(self: metrics_log.Writer, name: str, *arguments: Any) -> None:
        write(self, name, *arguments)
        if name == split:
            os.kill(os.getpid(), signal.SIGKILL)

    patch(metrics_log.Writer, "write", written)


def patch(owner: Any, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)


def child(settings: dict[str, Any], order: dict[str, Any]) -> int:
    directory = Path(order["workdir"])
    if "place" in order:
        signal_at(*order["place"], order["signum"])
    if "line" in order:
        kill_after_line(order["line"])
    # Atomic, as the real one: its file events are places to be killed at; the drawing would be slow.
    patch(training_run, "plot_curves", lambda workdir, *_: atomic.write(workdir / "curves.png", b""))
    patch(report, "plot_confusion", lambda path, *_: atomic.write(path, b""))
    watch(directory, Path(f"{directory}.events"), order.get("event"))
    try:
        train.run(config.from_dict(settings), directory)
    except signals.Interrupted as stop:
        return 128 + stop.signum
    return 0


def serve() -> None:
    settings = json.loads(sys.argv[1])
    assert not jax._src.xla_bridge._backends  # a child must be the first to start one
    for line in sys.stdin:
        order = json.loads(line)
        if not (pid := os.fork()):
            output = os.open(f"{order['workdir']}.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(output, 1)
            os.dup2(output, 2)
            code = 99
            try:
                code = child(settings, order)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        events = Path(f"{order['workdir']}.events").read_text().splitlines()
        print(json.dumps({"code": code, "events": events}), flush=True)


if __name__ == "__main__":
    serve()
