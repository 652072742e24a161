"""Jobs on this machine, by submitit's local executor: started, shown, handed signals, waited for."""

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

FOREVER = 60 * 24 * 365  # minutes


class Running:
    """A job of one or several processes, as `Task` runs them.

    Args:
      folder: of its output, `ID_PROCESS_log.out` and `.err`.
      grace: seconds for the others to end when one has failed, before they get a signal, and then killed.
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
        # Blocked here, they are blocked in submitit's processes, too: what a terminal, or a process manager,
        # sends to all of them acts in this one alone, which hands it on once.
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
        """Shows what is new, and whether all processes have ended; keeps an eye on those that do not."""
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
        """Ends processes whose peers have failed, or have been stopped."""
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
        """Has every process send its command a signal; SIGUSR2 as SIGUSR1, since it is submitit's own."""
        signum = signal.SIGUSR1 if signum == signal.SIGUSR2 else signum
        with self.task.orders_file(self.folder).open("a") as file:
            file.write(f"{int(signum)}\n")

    def codes(self) -> list[tuple[int, int]]:
        """Returns (process, exit code) of those that have ended, in the order in which they did."""
        ended = []
        for process in range(self.processes):
            path = self.task.code_file(self.folder, process)
            with contextlib.suppress(FileNotFoundError):
                ended.append((path.stat().st_mtime_ns, process, int(path.read_text())))
        return [(process, code) for _, process, code in sorted(ended)]

    def exit_code(self, received: int = 0) -> int:
        """Returns the exit code of the whole, after a signal if one was received."""
        codes = [code for _, code in self.codes()]
        codes += [128 + signal.SIGKILL] * (self.processes - len(codes))  # killed before it could note them
        return exit_code(codes, received)

    def error(self, process: int) -> str:
        """Returns the last line that a process wrote to standard error."""
        path = self.log(process, "err")
        lines = path.read_text(errors="replace").split("\n") if path.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def exit_code(codes: Sequence[int], received: int) -> int:
    """Returns one code for several processes' codes, which are in the order in which they ended.

    It is 128 + n after signal n, else 2 if there is one, else that of the first that failed.
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
    """Hands the signals of `HANDED_ON` on to all jobs that were added; `received` is the first of them."""

    def __init__(self) -> None:
        self.jobs: list[Running] = []
        self.received = 0

    def add(self, job: Running) -> None:
        """Adds a job, which gets a signal that came while it was being started."""
        self.jobs.append(job)
        if self.received:
            job.hand_on(self.received)

    def receive(self, signum: int, frame: object) -> None:
        self.received = self.received or signum
        for job in self.jobs:
            job.hand_on(signum)


@contextlib.contextmanager
def handing_on() -> Iterator[Signals]:
    """Hands signals on inside `with`; no job is left after it."""
    signals = Signals()
    stopping = [s for s in HANDED_ON if signal.getsignal(s) is not signal.SIG_IGN]  # as nohup has SIGHUP
    previous = {signum: signal.signal(signum, signals.receive) for signum in stopping}
    try:
        yield signals
    finally:
        for job in signals.jobs:
            if not job.job.done():
                os.kill(int(job.job.job_id), signal.SIGKILL)  # its tasks notice it, and end
        for signum, handler in previous.items():
            signal.signal(signum, handler)
