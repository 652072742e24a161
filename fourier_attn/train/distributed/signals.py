"""Stops a run between two steps after a signal."""

import os
import signal
import threading
from collections import deque

import jax

from fourier_attn.train.distributed.sharding import Placement

# Batch systems announce the end of a job with one of these signals, some followed by SIGTERM.
NOTICES = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
MAY_BE_IGNORED = (signal.SIGHUP, *NOTICES)


class Interrupted(KeyboardInterrupt):
    """Raised after a signal has stopped the run and its state has been saved.

    Args:
      signum: number of the signal.
    """

    def __init__(self, signum: int):
        super().__init__(signum)
        self.signum = signum


class StopSignals:
    """Records SIGTERM, SIGHUP, Ctrl-C and `NOTICES` inside a context, so that a run stops between two steps.

    A second signal exits immediately, unless one of the two is a notice, which another signal may follow.
    Earlier checkpoints are safe, because a checkpoint gets its name only once it is complete. SIGHUP and
    notices that are ignored, as under `nohup`, stay ignored.
    """

    def __init__(self) -> None:
        self.received = 0

    def __enter__(self) -> "StopSignals":
        self.previous = {}
        if threading.current_thread() is threading.main_thread():  # Python allows handlers only there
            for signum in (signal.SIGTERM, signal.SIGINT, *MAY_BE_IGNORED):
                if signum in MAY_BE_IGNORED and signal.getsignal(signum) is signal.SIG_IGN:
                    continue
                self.previous[signum] = signal.signal(signum, self.receive)
        return self

    def __exit__(self, *exception: object) -> None:
        for signum, handler in self.previous.items():
            signal.signal(signum, handler)

    def receive(self, signum: int, frame: object) -> None:
        """Records the signal `signum`, or exits at a second one; `frame` is not used."""
        # os.write, because a handler may interrupt Python while it prints
        if self.received and signum in NOTICES:
            return
        if self.received and self.received not in NOTICES:
            os.write(2, b"\nerror: stopped by a second signal; earlier checkpoints are safe\n")
            os._exit(128 + signum)
        self.received = signum
        name = signal.Signals(signum).name
        os.write(2, f"\n{name}: saving after this step; a second signal exits immediately\n".encode())

    def poll(self) -> None:
        """Raises: Interrupted after a signal."""
        if self.received:
            raise Interrupted(self.received)


class SharedStopSignals:
    """Stops all processes of a run at the same step after a signal to any of them.

    Each poll starts a collective maximum, and reads the result of an earlier poll, so that no step waits.

    Args:
      ours: the signals of this process.
      placement: devices of the run.
    """

    def __init__(self, ours: StopSignals, placement: Placement):
        self.ours, self.placement = ours, placement
        self.alone = jax.process_count() == 1
        self.asked = deque[jax.Array]()

    def poll(self) -> None:
        """Raises: Interrupted after a signal to any process."""
        if self.alone:
            self.ours.poll()
            return
        self.asked.append(self.placement.highest(self.ours.received))
        if len(self.asked) > 2 and (signum := int(self.asked.popleft())):
            raise Interrupted(signum)
