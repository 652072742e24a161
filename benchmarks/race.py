"""Races between libraries: each side in its own process, so that no thread pool disturbs the other's.

In one process the OpenMP threads of one library spin after each call and take the cores from the other. Here
a side's process waits at a pipe, and its threads wait passively, while the other side computes.
"""

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

Step = Callable[[], list[Any]]  # returns arrays, of any library, when they are computed

ENVIRONMENT = {
    "OMP_WAIT_POLICY": "passive",
    "KMP_BLOCKTIME": "0",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # the other side needs memory of a GPU, too
}
SETTING = "each side in a process of its own, OMP_WAIT_POLICY=passive, KMP_BLOCKTIME=0"


class Side:
    """One side in its process; `result` are the arrays of its first call, which warms it up.

    Raises: RuntimeError where the side's process has failed.
    """

    def __init__(self, name: str, make: Callable[[], Step]):
        self.name = name
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=serve, args=(there, make), daemon=True)
        with environment():
            self.process.start()
        there.close()
        self.result: list[np.ndarray] = self.receive()

    def seconds(self, calls: int) -> float:
        """Returns the seconds per call, over this many calls."""
        self.pipe.send(calls)
        return self.receive()

    def receive(self) -> Any:
        try:
            return self.pipe.recv()
        except EOFError as error:
            raise RuntimeError(f"the side {self.name!r} has failed; its error is above") from error

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.pipe.send(0)
        self.process.join()


@contextlib.contextmanager
def started(sides: dict[str, Callable[[], Step]]) -> Iterator[dict[str, Side]]:
    """Starts the sides one after the other, in this order; yields them warmed up and waiting.

    Args:
      sides: functions that build a side inside its process: they can be pickled, and import what they need.
    """
    running: dict[str, Side] = {}
    try:
        for name, make in sides.items():
            running[name] = Side(name, make)
        yield running
    finally:
        for side in running.values():
            side.close()


def race(sides: dict[str, Side], rounds: int, calls: int = 1) -> dict[str, list[float]]:
    """Returns the seconds per call of each side in every round. Only one side computes at a time.

    Args:
      sides: the processes, by name.
      rounds: number of rounds.
      calls: calls of a side per round.
    """
    seconds = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            seconds[name].append(side.seconds(calls))
    return seconds


def serve(pipe: Connection, make: Callable[[], Step]) -> None:
    """Runs a side's process: builds the side, sends its result, then times calls on request.

    A call before the timed ones wakes the threads and fills the caches, which the other side has emptied.
    """
    step = make()
    pipe.send([numpy_of(array) for array in step()])
    while calls := pipe.recv():
        step()
        begin = time.perf_counter()
        for _ in range(calls):
            step()
        pipe.send((time.perf_counter() - begin) / calls)


def numpy_of(array: Any) -> np.ndarray:
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)  # PyTorch's may lie on a GPU


@contextlib.contextmanager
def environment() -> Iterator[None]:
    """Sets `ENVIRONMENT` for processes that start inside `with`."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
