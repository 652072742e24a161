"""Connects the processes that train one network: start, barriers, broadcasts, and loss of a process."""

import atexit
import contextlib
import itertools
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax

from fourier_attn import causes, command
from fourier_attn.train.distributed import coordinator, gpus
from fourier_attn.train.distributed.coordinator import table
from fourier_attn.train.distributed.signals import Interrupted
from fourier_attn.train.distributed.watch import Watch, end

T = TypeVar("T")
PATIENCE_S = 50.0  # default seconds to wait for all processes
PATIENCE = "FOURIER_ATTN_PATIENCE_S"  # environment variable with another time
RETRY_S = 1.0  # seconds between look-ups of the name of process 0's machine
VARIABLES = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
_questions = itertools.count()


def is_primary() -> bool:
    """Returns whether this is the process that writes files and prints."""
    return jax.process_index() == 0


def neighbours() -> int:
    """Returns the number of processes on this machine, or in this container, including this one."""
    if jax.process_count() == 1:
        return 1
    hosts = [_get(f"host/{i}") for i in range(jax.process_count())]
    return hosts.count(socket.gethostname())


@contextlib.contextmanager
def joined(address: str | None = None, count: int | None = None, index: int | None = None) -> Iterator[None]:
    """Joins the other processes of a run, if there are any, for the duration of the context.

    JAX detects SLURM, Open MPI and TPU slices. Elsewhere give the arguments, or set the environment variables
    JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID.

    If another process ends early, or sends no sign of life for half a minute, this process prints a message
    and exits as well, because their common computation cannot be finished. Its exit code is 2 if that of the
    other process is 2, else 1.

    If a computation fails in this process, it waits half a minute for such a message before it reports its
    own error. After an error, `command.run` ends the process without Python's exit handlers.

    The caller must disable JAX's preemption service, which would handle SIGTERM and ignore it.

    Args:
      address: host:port of process 0; default None: detected.
      count: number of processes; default None: detected.
      index: index of this process, from 0; default None: detected.
    Raises: ValueError for arguments that do not fit each other.
    """
    arguments = _given(address, count, index)
    if arguments is None and not _detected():
        yield
        return
    _connect(arguments)
    watch = Watch()
    table().key_value_set(f"host/{jax.process_index()}", socket.gethostname())
    atexit.unregister(jax.distributed.shutdown)  # it would wait for processes that may have ended
    try:
        yield
        _leave(watch)
    except Interrupted:  # in all processes at the same step
        _leave(watch)
        raise
    except BaseException as error:
        command.AT_ONCE.set()  # Python would wait for computations in which the others no longer take part
        try:
            # A computation fails before the loss of a process is noticed, whose message says more.
            if any(map(causes.of_a_computation, causes.chain(error))):
                watch.wait_for_a_loss()
        finally:
            watch.leave(str(error) or type(error).__name__, command.exit_code(error))
        raise


def _leave(watch: Watch) -> None:
    """Waits for all processes, then leaves with them."""
    barrier(lambda: None)
    watch.stop()
    jax.distributed.shutdown()


def barrier(work: Callable[[], T], same: str = "") -> T:
    """Runs a function in every process, and waits until all processes have finished it.

    The function must not wait for other processes if it may fail in one of them.

    Args:
      work: the function.
      same: a text that must be equal in all processes; default "".
    Returns: the result of `work` in this process.
    Raises: ValueError in all processes if `work` raised it in one of them (OSError if the system caused it),
      or if the texts differ; any other error of `work` only in the process that raised it.
    """
    if jax.process_count() == 1:
        return work()
    result: Any = None
    outcome = {"error": "", "of_the_system": False, "same": same}
    try:
        result = work()
    except ValueError as error:
        outcome |= {"error": str(error), "of_the_system": causes.of_the_system(error)}
    number, client = next(_questions), table()
    client.key_value_set(f"barrier/{number}/{jax.process_index()}", json.dumps(outcome))
    answers = [json.loads(_get(f"barrier/{number}/{i}")) for i in range(jax.process_count())]
    for i, answer in enumerate(answers):
        if answer["error"]:
            kind = OSError if answer["of_the_system"] else ValueError
            raise kind(answer["error"] if i == 0 else f"{answer['error']} (process {i})")
    for i, answer in enumerate(answers):
        if answer["same"] != answers[0]["same"]:
            raise ValueError(
                f"the processes differ: {answers[0]['same']} in process 0, {answer['same']} in process {i}; "
                "start all with the same command line"
            )
    return result


def broadcast(work: Callable[[], T]) -> T:
    """Runs `work` on the primary process and returns its JSON result on every process."""
    if jax.process_count() == 1:
        return work()
    key = f"broadcast/{next(_questions)}"
    if is_primary():
        table().key_value_set(key, json.dumps(work()))
    return json.loads(_get(key))


def primary_first(work: Callable[[], T]) -> T:
    """Runs `work` as `barrier` does, but on the primary process before the others."""
    if is_primary():
        result = barrier(work)
        barrier(lambda: None)
        return result
    barrier(lambda: None)
    return barrier(work)


def _get(key: str) -> str:
    """Waits for the value of a key; signals are handled within a second."""
    while True:
        try:
            return table().blocking_key_value_get(key, 1000)
        except RuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise


def _given(address: str | None, count: int | None, index: int | None) -> tuple[str, int, int] | None:
    """Returns address, number of processes and index from arguments or the environment; None without them.

    Args:
      address, count, index: see `joined`.
    Raises: ValueError for incomplete or invalid values.
    """
    named = [os.environ.get(name) for name in VARIABLES]
    address = address or named[0]
    values = []
    for value, text, name in ((count, named[1], VARIABLES[1]), (index, named[2], VARIABLES[2])):
        if value is None and text is not None and not text.isdigit():
            raise ValueError(f"{name}={text!r} must be an integer")
        values.append(int(text) if value is None and text is not None else value)
    count, index = values
    if address is None and count is None and index is None:
        return None
    if address is None or count is None or index is None:
        raise ValueError("--coordinator, --num_processes and --process_id belong together; give all three")
    if not 0 <= index < count:
        raise ValueError(f"--process_id={index} must be at least 0 and less than --num_processes={count}")
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise ValueError(f"--coordinator={address!r} must be host:port")
    return address, count, index


def _detected() -> bool:
    """Returns whether JAX detects several processes, of Open MPI, a SLURM step or a TPU slice."""
    if os.environ.get("SLURM_STEP_NUM_TASKS") == "1":
        return False  # a shell inside a job of several tasks
    try:
        return coordinator.launched() > 1
    except OSError:  # a machine with TPUs without a metadata server
        return False


def _patience() -> tuple[float, int]:
    """Returns the seconds to wait for all processes, and the exit code if some do not connect.

    If the environment variable is set, processes may start at different times, for example in pods. The exit
    code is then 1, which means that a restart may help.

    Raises: ValueError for an invalid value of the variable.
    """
    text = os.environ.get(PATIENCE)
    if text is None:
        return PATIENCE_S, 2
    if not text.isdecimal() or not 0 < int(text) < 10**6:
        raise ValueError(f"{PATIENCE}={text!r} must be an integer number of seconds from 1 to 999999")
    return float(text), 1


def _connect(arguments: tuple[str, int, int] | None) -> None:
    """Connects to the other processes.

    JAX gets a longer timeout than this function, because it would abort with a C++ stack trace.
    """
    (patience, code), begin = _patience(), time.monotonic()
    if arguments:
        _find(arguments[0], begin + patience, code)
    where = f"{arguments[1]} processes at {arguments[0]}" if arguments else "processes"
    message = (
        f"the {where} did not all connect within {patience:.0f} s; check that each runs and reaches process 0"
    )
    late = threading.Timer(begin + patience - time.monotonic(), end, (message, code))
    late.daemon = True
    late.start()
    address, count, index = arguments or (None, None, None)
    longer = int(patience) + 550
    try:
        with coordinator.apart():
            jax.distributed.initialize(
                address,
                count,
                index,
                local_device_ids=gpus.share(),
                initialization_timeout=longer,
                heartbeat_timeout_seconds=600,
            )
    finally:
        late.cancel()


def _find(address: str, deadline: float, code: int) -> None:
    """Waits until the name of process 0's machine can be resolved, which for a pod takes until its start.

    Args:
      address: host:port of process 0.
      deadline: latest time, of `time.monotonic`.
      code: exit code if it cannot be resolved.
    Raises: ValueError if the exit code is 2, else TimeoutError.
    """
    host, _, port = address.rpartition(":")
    while True:
        try:
            socket.getaddrinfo(host.strip("[]"), int(port))
            return
        except OSError as error:
            if time.monotonic() + RETRY_S > deadline:
                kind = ValueError if code == 2 else TimeoutError
                raise kind(
                    f"--coordinator={address} cannot be resolved ({error.strerror}); give an existing host"
                ) from error
        time.sleep(RETRY_S)
