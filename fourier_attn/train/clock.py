"""How fast a run goes."""

import contextlib
import time
from collections.abc import Iterator


class Clock:
    """Rows of batches a second since `step`, and which share of the time went to waiting for data."""

    def __init__(self, step: int):
        self.first, self.begin, self.waited = step, time.perf_counter(), 0.0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.waited += time.perf_counter() - begin

    def steps(self, step: int) -> int:
        return step - self.first

    def read(self, step: int, batch: int) -> dict[str, float]:
        """Both; neither before a step, as where a run goes on with the validation that it was stopped in."""
        if not self.steps(step):
            return {}
        elapsed = time.perf_counter() - self.begin
        return {"examples_per_s": self.steps(step) * batch / elapsed, "data_wait": self.waited / elapsed}
