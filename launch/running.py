"""Runs jobs on this machine through submitit's local executor.

The launcher prints their output, forwards signals to them, and waits for them.
"""

import codecs
import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from submitit import LocalExecutor

from fourier_attn import atomic
from launch.task import HANDED_ON, Task

FOREVER = 60 * 24 * 365  # minutes: submitit requires a time limit


class Running:
    """A job of one or several processes, as `Task` runs them.

    Args:
      task: the command and its processes.
      folder: for the output files, `ID_PROCESS_log.out` and `.err`.
      grace: seconds from the failure of one process to SIGTERM for the others, and from there to SIGKILL.
      show: whether to print the output of process 0.
    """

    def __init__(self, task: Task, folder: Path, grace: float, show: bool = False):
        os.environ.setdefault("SUBMITIT_LOG_LEVEL", "ERROR")
        self.task, self.folder, self.grace = task, folder, grace
        self.processes = len(task.shares)
        atomic.make_folder(folder)
        self.lock = task.lock_file(folder).open("w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        executor = LocalExecutor(folder)
        executor.update_parameters(timeout_min=FOREVER, tasks_per_node=self.processes)
        # Submitit's processes inherit the blocked signals. A signal that a terminal or a process manager
        # sends to all processes therefore acts only in this one, which forwards it once.
        previous = signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON)
        try:
            self.job = executor.submit(task)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous)
        names = ("out", "err") if show else ()
        streams = {"out": sys.stdout, "err": sys.stderr}
        self.shown = [(Shown(self.log(0, name)), streams[name]) for name in names]
        self.ended_since = self.signalled_since = 0.0
        self.killed = False

    def log(self, process: int, name: str) -> Path:
        """Returns the file with the output of a process, by stream: "out" or "err"."""
        return self.folder / f"{self.job.job_id}_{process}_log.{name}"

    def done(self) -> bool:
        """Prints new output, stops processes if one has failed, and returns whether all have ended."""
        done = self.job.done()
        if done:
            self.lock.close()
        for shown, stream in self.shown:
            stream.write(shown.read())
            stream.flush()
        if not done and self.codes():
            self.look_after()
        return done

    def look_after(self) -> None:
        """Ends the remaining processes after one of them has failed or was stopped."""
        now = time.monotonic()
        if not self.ended_since and any(code for _, code in self.codes()):
            self.ended_since = now
        if not self.ended_since or now - self.ended_since < self.grace:
            return
        if not self.signalled_since:
            self.signalled_since = now
            self.hand_on(signal.SIGTERM)
        elif now - self.signalled_since > self.grace and not self.killed:
            self.killed = True
            self.hand_on(signal.SIGKILL)

    def hand_on(self, signum: int) -> None:
        """Forwards a signal to the command of every process.

        SIGUSR2 is sent as SIGUSR1, because submitit uses SIGUSR2 itself.
        """
        signum = signal.SIGUSR1 if signum == signal.SIGUSR2 else signum
        with self.task.orders_file(self.folder).open("a") as file:
            file.write(f"{int(signum)}\n")

    def codes(self) -> list[tuple[int, int]]:
        """Returns (process, exit code) of the processes that have ended, in the order of their ends."""
        ended = []
        for process in range(self.processes):
            path = self.task.code_file(self.folder, process)
            with contextlib.suppress(FileNotFoundError):
                ended.append((path.stat().st_mtime_ns, process, int(path.read_text())))
        return [(process, code) for _, process, code in sorted(ended)]

    def exit_code(self, received: int = 0) -> int:
        """Returns the exit code of the job, after the signal `received` (0: none)."""
        codes = [code for _, code in self.codes()]
        codes += [128 + signal.SIGKILL] * (self.processes - len(codes))  # A killed process leaves no code.
        return exit_code(codes, received)

    def error(self, process: int) -> str:
        """Returns the last line that a process wrote to standard error."""
        path = self.log(process, "err")
        lines = path.read_text(errors="replace").split("\n") if path.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def exit_code(codes: Sequence[int], received: int) -> int:
    """Returns one exit code for several processes.

    It is 128 + n after signal n, otherwise 2 if a process returned 2, otherwise the first code that is not 0.

    Args:
      codes: of the processes, in the order of their ends.
      received: the signal; 0: none.
    """
    failed = [code for code in codes if code]
    if not failed:
        return 0
    if received:
        return 128 + received
    return 2 if 2 in failed else failed[0]


class Shown:
    """Reads the text that was appended to a file since the last read."""

    def __init__(self, path: Path):
        self.path, self.offset = path, 0
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self) -> str:
        if not self.path.exists():
            return ""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            added = file.read()
        self.offset += len(added)
        return self.decoder.decode(added)


class Signals:
    """Forwards the signals of `HANDED_ON` to all added jobs. `received` is the first one, or 0."""

    def __init__(self) -> None:
        self.jobs: list[Running] = []
        self.received = 0

    def add(self, job: Running) -> None:
        """Adds a job, and forwards a signal that arrived while the job was starting."""
        self.jobs.append(job)
        if self.received:
            job.hand_on(self.received)

    def receive(self, signum: int, frame: object) -> None:
        self.received = self.received or signum
        for job in self.jobs:
            job.hand_on(signum)


@contextlib.contextmanager
def handing_on() -> Iterator[Signals]:
    """Forwards signals inside `with`, and kills jobs that still run at its end."""
    signals = Signals()
    stopping = [s for s in HANDED_ON if signal.getsignal(s) is not signal.SIG_IGN]  # nohup ignores SIGHUP
    previous = {signum: signal.signal(signum, signals.receive) for signum in stopping}
    try:
        yield signals
    finally:
        for job in signals.jobs:
            if not job.job.done():
                os.kill(int(job.job.job_id), signal.SIGKILL)  # Its tasks then end by themselves.
        for signum, handler in previous.items():
            signal.signal(signum, handler)
