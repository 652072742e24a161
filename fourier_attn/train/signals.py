"""Signals that stop a run between two steps."""

import signal
import threading


class Interrupted(KeyboardInterrupt):
    """The run was told to stop by a signal and has saved its state."""

    def __init__(self, signum: int):
        super().__init__(signum)
        self.signum = signum


class StopSignals:
    """Notices SIGTERM and Ctrl-C inside `with`, to act between two steps; a second one acts at once."""

    def __init__(self) -> None:
        self.received = 0

    def __enter__(self) -> "StopSignals":
        self.previous = {}
        if threading.current_thread() is threading.main_thread():  # Python allows handlers there only
            for signum in (signal.SIGTERM, signal.SIGINT):
                self.previous[signum] = signal.signal(signum, self.receive)
        return self

    def __exit__(self, *exception: object) -> None:
        for signum, handler in self.previous.items():
            signal.signal(signum, handler)

    def receive(self, signum: int, frame: object) -> None:
        if self.received:
            raise KeyboardInterrupt
        self.received = signum

    def poll(self) -> None:
        if self.received:
            raise Interrupted(self.received)
