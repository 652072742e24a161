"""Several processes that train one network: how they find each other, agree, and notice that one is lost."""

import atexit
import contextlib
import itertools
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
from jax._src import distributed  # the one way to the table of keys and values that processes share

T = TypeVar("T")
PATIENCE_S = 50.0  # for the others to come
BEAT_S = 1.0  # between signs of life
SILENCE_S = 30.0  # after which a process counts as lost
VARIABLES = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
_questions = itertools.count()


def lead() -> bool:
    """Whether this is the process that writes files and speaks."""
    return jax.process_index() == 0


@contextlib.contextmanager
def joined(
    coordinator: str | None = None, count: int | None = None, index: int | None = None
) -> Iterator[None]:
    """Inside `with`, this process is one of several, if there are any.

    SLURM and TPU slices are found by JAX itself; elsewhere the arguments say it, or the variables
    JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID. Where another process ends before its time,
    or is silent for half a minute, this one says so and ends with exit code 1: what they compute together
    can no longer be finished.

    Args:
      coordinator: host:port of process 0.
      count, index: number of processes, and which one this is.
    Raises: ValueError where they do not fit each other.
    """
    given = _given(coordinator, count, index)
    if given is None and not _detected():
        yield
        return
    _connect(given)
    watch = Watch()
    try:
        yield
        agree(lambda: None)
        watch.stop()
    except BaseException as error:
        atexit.unregister(jax.distributed.shutdown)  # which would wait for processes that may be gone
        watch.leave(str(error) or type(error).__name__)
        raise
    jax.distributed.shutdown()


def agree(work: Callable[[], T], same: str = "") -> T:
    """Does something in every process, and goes on in none before all have done it.

    Args:
      same: a text that must be that of process 0, or nothing has been done together.
    Raises: ValueError in all processes where the text is another one in one of them, or `work` raised one;
      any other error of `work` in the process where it was raised.
    """
    if jax.process_count() == 1:
        return work()
    result: Any = None
    said = {"error": "", "same": same}
    try:
        result = work()
    except ValueError as error:
        said["error"] = str(error)
    number, client = next(_questions), _client()
    client.key_value_set(f"agree/{number}/{jax.process_index()}", json.dumps(said))
    answers = [json.loads(_get(f"agree/{number}/{i}")) for i in range(jax.process_count())]
    for i, answer in enumerate(answers):
        if answer["error"]:
            raise ValueError(answer["error"] if i == 0 else f"{answer['error']} (process {i})")
    for i, answer in enumerate(answers):
        if answer["same"] != answers[0]["same"]:
            raise ValueError(
                f"the processes were not given the same: {answers[0]['same']} in process 0, {answer['same']} "
                f"in process {i}; start all with one command line"
            )
    return result


def first(work: Callable[[], T]) -> T:
    """Like `agree`; process 0 does it before the others begin."""
    if lead():
        result = agree(work)
        agree(lambda: None)
        return result
    agree(lambda: None)
    return agree(work)


def _client() -> Any:
    """The table of keys and values that the processes share."""
    return distributed.global_state.client


def _get(key: str) -> str:
    """Waits for it; a signal is handled within a second."""
    while True:
        try:
            return _client().blocking_key_value_get(key, 1000)
        except RuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise


def _given(coordinator: str | None, count: int | None, index: int | None) -> tuple[str, int, int] | None:
    """What the arguments and the variables say, None if nothing. Raises: ValueError."""
    named = [os.environ.get(name) for name in VARIABLES]
    coordinator = coordinator or named[0]
    values = []
    for value, text, name in ((count, named[1], VARIABLES[1]), (index, named[2], VARIABLES[2])):
        if value is None and text is not None and not text.isdigit():
            raise ValueError(f"{name}={text!r} must be a number")
        values.append(int(text) if value is None and text is not None else value)
    count, index = values
    if coordinator is None and count is None and index is None:
        return None
    if coordinator is None or count is None or index is None:
        raise ValueError("--coordinator, --num_processes and --process_id belong together; give all three")
    if not 0 <= index < count:
        raise ValueError(f"--process_id={index} must lie between 0 and --num_processes={count} less 1")
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise ValueError(f"--coordinator={coordinator!r} must be host:port")
    try:
        socket.getaddrinfo(host.strip("[]"), int(port))
    except OSError as error:
        raise ValueError(
            f"--coordinator={coordinator} cannot be found ({error.strerror}); name a host"
        ) from error
    return coordinator, count, index


def _detected() -> bool:
    """Whether this is a step of several tasks under SLURM, or one of several hosts of a TPU slice."""
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1")
    hosts = os.environ.get("TPU_WORKER_HOSTNAMES", "")
    return (tasks.isdigit() and int(tasks) > 1) or "," in hosts


def _connect(given: tuple[str, int, int] | None) -> None:
    """Meets the others. Where they do not come, JAX would abort with a C++ stack, so it is given longer."""
    where = f"{given[1]} processes at {given[0]}" if given else "processes"
    message = (
        f"the {where} did not all come within {PATIENCE_S:.0f} s; see that each runs and reaches process 0"
    )
    late = threading.Timer(PATIENCE_S, _end, (message, 2))
    late.daemon = True
    late.start()
    address, count, index = given or (None, None, None)
    jax.distributed.initialize(
        address, count, index, initialization_timeout=600, heartbeat_timeout_seconds=600
    )
    late.cancel()


class Watch:
    """Gives signs of life, looks for those of the others, and ends this process where one of them is lost."""

    def __init__(self) -> None:
        self.client, self.index = _client(), jax.process_index()
        self.others = set(range(jax.process_count())) - {self.index}
        self.stopped, self.heard = threading.Event(), time.monotonic()
        for work in (self.beat, self.listen):
            threading.Thread(target=work, daemon=True).start()

    def beat(self) -> None:
        """Tells the others, and reads what they tell. A process that cannot do that any more is not heard."""
        seen: dict[int, tuple[str, float]] = {}
        for number in itertools.count():
            if self.stopped.wait(BEAT_S):
                return
            try:
                self.client.key_value_set(f"alive/{self.index}", str(number), allow_overwrite=True)
                told = {
                    int(key.rsplit("/", 1)[1]): value
                    for key, value in self.client.key_value_dir_get("alive/")
                }
            except RuntimeError:
                continue
            now = self.heard = time.monotonic()
            for i in self.others:
                value = told.get(i, "")
                if value.startswith("left: "):
                    self.lost(f"process {i} has ended ({value.removeprefix('left: ')})")
                if seen.get(i, ("", 0.0))[0] != value or i not in seen:
                    seen[i] = value, now
                elif now - seen[i][1] > SILENCE_S:
                    self.lost(f"process {i} has not been heard of for {SILENCE_S:.0f} s")

    def listen(self) -> None:
        """Ends this process where process 0, which holds the table, does not answer."""
        while not self.stopped.wait(BEAT_S):
            if time.monotonic() - self.heard > SILENCE_S:
                self.lost(f"process 0 has not answered for {SILENCE_S:.0f} s")

    def lost(self, what: str) -> None:
        if not self.stopped.is_set():
            _end(f"{what}; the run can go on from its last checkpoint: give --workdir again", 1)

    def leave(self, reason: str) -> None:
        """Tells the others that this process ends, and gives them the time to read it."""
        self.stopped.set()
        with contextlib.suppress(RuntimeError):
            self.client.key_value_set(f"alive/{self.index}", f"left: {reason[:300]}", allow_overwrite=True)
        if self.index == 0:
            time.sleep(3 * BEAT_S)

    def stop(self) -> None:
        self.stopped.set()


def _end(message: str, code: int) -> None:
    """Ends this process from another thread than that which hangs."""
    sys.stdout.flush()
    os.write(2, f"error: {message}\n".encode())
    os._exit(code)
