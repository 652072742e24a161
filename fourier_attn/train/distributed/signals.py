"""Stops a run between two steps when a signal comes."""

import os
import signal
import threading
from collections import deque

import jax

from fourier_attn.train.distributed.sharding import Placement

# Batch systems announce the end of a job's time by one of these, some with SIGTERM to follow.
NOTICES = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
MAY_BE_IGNORED = (signal.SIGHUP, *NOTICES)


class Interrupted(KeyboardInterrupt):
    """A signal has stopped the run, which has saved its state."""

    def __init__(self, signum: int):
        super().__init__(signum)
        self.signum = signum


class StopSignals:
    """Notices SIGTERM, SIGHUP, Ctrl-C and `NOTICES` inside `with`, to act between two steps.

    A second signal exits immediately, unless one of the two is a notice, which another signal may follow.
    Earlier checkpoints are safe: a checkpoint has its name only once it is complete. SIGHUP and notices that
    are ignored, as under `nohup`, stay ignored.
    """

    def __init__(self) -> None:
        self.received = 0

    def __enter__(self) -> "StopSignals":
        self.previous = {}
        if threading.current_thread() is threading.main_thread():  # Python allows handlers there only
            for signum in (signal.SIGTERM, signal.SIGINT, *MAY_BE_IGNORED):
                if signum in MAY_BE_IGNORED and signal.getsignal(signum) is signal.SIG_IGN:
                    continue
                self.previous[signum] = signal.signal(signum, self.receive)
        return self

    def __exit__(self, *exception: object) -> None:
        for signum, handler in self.previous.items():
            signal.signal(signum, handler)

    def receive(self, signum: int, frame: object) -> None:
        # os.write: a handler may interrupt Python while it is printing
        if self.received and signum in NOTICES:
            return
        if self.received and self.received not in NOTICES:
            os.write(2, b"\nerror: left at once, by a second signal; the checkpoints before are intact\n")
            os._exit(128 + signum)
        self.received = signum
        name = signal.Signals(signum).name
        os.write(2, f"\n{name}: saving after this step; a second signal leaves at once\n".encode())

    def poll(self) -> None:
        if self.received:
            raise Interrupted(self.received)


class SharedStopSignals:
    """Stops all processes of a run at the same step when a signal comes to any of them.

    Each poll asks the others, and reads the answer to the poll before the last, so that no step waits.
    """

    def __init__(self, ours: StopSignals, placement: Placement):
        self.ours, self.placement = ours, placement
        self.alone = jax.process_count() == 1
        self.asked = deque[jax.Array]()

    def poll(self) -> None:
        if self.alone:
            self.ours.poll()
            return
        self.asked.append(self.placement.highest(self.ours.received))
        if len(self.asked) > 2 and (signum := int(self.asked.popleft())):
            raise Interrupted(signum)
