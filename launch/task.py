"""Runs one process of a job under submitit: starts the command, forwards signals to it, and resumes it."""

import ctypes
import dataclasses
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from types import FrameType

from submitit import JobEnvironment
from submitit.core.utils import DelayedSubmission

from fourier_attn import atomic
from launch.devices import Share

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
HANDED_ON = (*STOPPING, signal.SIGUSR2)  # SIGUSR2 is forwarded as SIGUSR1, because submitit uses it.
LIBC = ctypes.CDLL(None)
PARENT_DEATH = 1  # Linux: PR_SET_PDEATHSIG
POLL = 0.1  # seconds between checks
LINGER = 120.0  # seconds in which SLURM must end or requeue a job after a signal


@dataclasses.dataclass
class Task:
    """Runs a command as each process of a job.

    A time-out or a preemption (submitit's signal) stops the command of process 0, which saves and exits
    together with its peers. The job is then queued again, and the same command resumes the run. Under SLURM
    this also happens after a kill. An exit code is saved in a file as soon as the command has ended.

    Args:
      command: the words of the command.
      shares: this machine's devices, one share for each process; () under SLURM, which assigns its own.
      coordinator: host:port at which these processes meet; "" for one process, and under SLURM.
      watched: whether a launcher waits and holds a lock; the command is stopped if the launcher ends.
      requeues: how often the job may be queued again because the command was killed.
      name: prefix of the files through which it and its launcher communicate.
    """

    command: tuple[str, ...]
    shares: tuple[Share, ...] = ()
    coordinator: str = ""
    watched: bool = False
    requeues: int = 0
    name: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex[:8])
    child: subprocess.Popen | None = dataclasses.field(default=None, init=False, compare=False)
    stopping: bool = dataclasses.field(default=False, init=False, compare=False)  # a signal has arrived
    warned: bool = dataclasses.field(default=False, init=False, compare=False)  # submitit's signal came

    def __call__(self) -> int:
        """Runs the command to its end.

        Raises: SystemExit with its exit code, if that is not 0.
        """
        job, parent = JobEnvironment(), os.getppid()
        folder, rank = job.paths.folder, job.global_rank
        self.code_file(folder, rank).unlink(missing_ok=True)
        for signum in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(signum, self.receive)
        self.note_usr2()
        share = self.shares[rank] if self.shares else Share()
        if share.cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, share.cores)
        environment = self.environment(share, rank)
        self.child = subprocess.Popen(
            self.command, env=environment, preexec_fn=prepare, start_new_session=self.watched
        )
        orders, obeyed, abandoned = self.orders_file(folder), 0, 0.0
        while self.running():
            time.sleep(POLL)
            obeyed = self.obey(orders, obeyed)
            if self.watched and (os.getppid() != parent or not held(self.lock_file(folder))):
                abandoned = self.abandon(abandoned)
        code = self.child.wait()
        code = code if code >= 0 else 128 - code
        atomic.write(self.usage_file(folder, rank), json.dumps(usage()) + "\n")
        atomic.write(self.code_file(folder, rank), f"{code}\n")
        if code and not self.watched:
            self.leave_to_slurm(folder, code)
        if code:
            sys.exit(code)
        return code

    def environment(self, share: Share, rank: int) -> dict[str, str]:
        """Returns the environment of process `rank`, in which Python prints without buffering."""
        changes = {"PYTHONUNBUFFERED": "1", **(share.environment or {})}
        if self.coordinator:
            changes["JAX_COORDINATOR_ADDRESS"] = self.coordinator
            changes["JAX_NUM_PROCESSES"], changes["JAX_PROCESS_ID"] = str(len(self.shares)), str(rank)
        merged = {**os.environ, **changes}
        return {key: value for key, value in merged.items() if value is not None}

    def running(self) -> bool:
        """Returns whether the command is running. Signal handlers can call it, because it takes no lock."""
        assert self.child
        try:
            return os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def receive(self, signum: int, frame: FrameType | None) -> None:
        """Remembers a signal. SLURM also sends it to the command, like to every process of the step."""
        self.stopping = True

    def note_usr2(self) -> None:
        """Remembers submitit's signal, and then calls submitit's handler, which acts only in process 0."""
        act = signal.getsignal(signal.SIGUSR2)

        def note(signum: int, frame: FrameType | None) -> None:
            self.warned = True
            if callable(act):
                act(signum, frame)

        signal.signal(signal.SIGUSR2, note)

    def obey(self, orders: Path, done: int) -> int:
        """Forwards the signals that the launcher wrote to `orders`, and returns their number.

        Args:
          orders: the file with one signal per line.
          done: number of signals that were already forwarded.
        """
        numbers = orders.read_text().split() if orders.exists() else []
        for number in numbers[done:]:
            self.stopping = True
            if self.running() and self.child:
                self.child.send_signal(int(number))
        return len(numbers)

    def abandon(self, since: float) -> float:
        """Stops the command after its launcher has ended; returns the time of the first call."""
        assert self.child
        if not since:
            self.child.send_signal(signal.SIGTERM)
        elif time.monotonic() - since > LINGER:
            self.child.kill()
        return since or time.monotonic()

    def checkpoint(self) -> DelayedSubmission:
        """Returns the submission for submitit to requeue, once the command has saved and exited."""
        if self.child and self.running() and not self.stopping:
            self.child.send_signal(signal.SIGTERM)
        while self.child and self.running():
            time.sleep(POLL)
        return DelayedSubmission(dataclasses.replace(self))

    def leave_to_slurm(self, folder: Path, code: int) -> None:
        """Requeues the job if its command was killed, or waits for SLURM if it has announced a signal."""
        if code <= 128:
            return
        if self.stopping or self.warned:
            time.sleep(LINGER)
            return
        restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        ended = f"process ended by signal {code - 128}"
        if restarts >= self.requeues:
            print(f"{ended}; the job was queued again {restarts} times already", file=sys.stderr, flush=True)
        elif created(folder / f"{self.name}_requeue_{restarts}"):
            print(f"{ended}; the job is queued again", file=sys.stderr, flush=True)
            subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=True, timeout=60)

    def code_file(self, folder: Path, process: int) -> Path:
        """Returns the file with the exit code of a process that has ended."""
        return folder / f"{self.name}_{process}_code"

    def usage_file(self, folder: Path, process: int) -> Path:
        """Returns the file with the time and memory of a process that has ended."""
        return folder / f"{self.name}_{process}_usage.json"

    def orders_file(self, folder: Path) -> Path:
        """Returns the file with the signals for every process, one number per line."""
        return folder / f"{self.name}_signals"

    def lock_file(self, folder: Path) -> Path:
        """Returns the file that the launcher keeps locked while it runs."""
        return folder / f"{self.name}_lock"


def usage() -> dict[str, float]:
    """Returns the CPU time, in seconds of all cores, and the peak memory, in MiB, of the command."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    scale = 2**20 if sys.platform == "darwin" else 2**10  # macOS reports bytes, others KiB
    return {"cpu_seconds": spent.ru_utime + spent.ru_stime, "peak_memory_mib": spent.ru_maxrss / scale}


def created(path: Path) -> bool:
    """Creates a file; returns whether this process was the first to do so."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def held(path: Path) -> bool:
    """Returns whether another process holds a lock on a file. The lock is released when that process ends."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def prepare() -> None:
    """Resets the signals of the new process to the defaults, and requests SIGTERM if the parent dies."""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    for signum in STOPPING:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDED_ON)
    if sys.platform == "linux":
        LIBC.prctl(PARENT_DEATH, signal.SIGTERM)
