"""Waits for other processes.

A limit here ends a test that would hang. It is far above the time that any machine needs, so that a slow or a
busy machine fails no test. A program that a test has to end sleeps longer still.
"""

import time
from collections.abc import Callable

HANG_S = 900.0  # seconds after which a test fails
ENDLESS_S = 4 * HANG_S  # seconds that a program sleeps which the test has to end


def wait_for(ready: Callable[[], object]) -> None:
    """Returns once `ready` answers with a true value."""
    deadline = time.monotonic() + HANG_S
    while not ready():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)
