"""Detects the loss of another process of the run, and ends this one, which would otherwise wait forever."""

import contextlib
import itertools
import os
import sys
import threading
import time

import jax

from fourier_attn.train.distributed.coordinator import dismiss, table

BEAT_S = 1.0  # seconds between signs of life
SILENCE = 30  # number of missing signs of life after which a process counts as lost
MARGIN = 5  # beats to wait beyond these, so that a loss is reported first
LEFT = "left: "  # prefix of exit code and reason, which replace a sign of life


class Watch:
    """Publishes signs of life, checks those of the others, and ends this process if one of them is lost.

    Silence is counted in this process's own beats, so that others do not count as lost while it is suspended.
    """

    def __init__(self) -> None:
        self.client, self.index = table(), jax.process_index()
        self.others = set(range(jax.process_count())) - {self.index}
        self.stopped, self.unanswered = threading.Event(), 0
        self.beating = threading.Thread(target=self.beat, daemon=True)
        self.beating.start()
        threading.Thread(target=self.listen, daemon=True).start()

    def beat(self) -> None:
        """Publishes this process's signs of life, and reads those of the others, until `stop` is called."""
        seen: dict[int, tuple[str, int]] = dict.fromkeys(self.others, ("", 0))
        for number in itertools.count():
            if self.stopped.wait(BEAT_S):
                return
            try:
                self.client.key_value_set(f"alive/{self.index}", str(number), allow_overwrite=True)
                published = {
                    int(key.rsplit("/", 1)[1]): value
                    for key, value in self.client.key_value_dir_get("alive/")
                }
            except RuntimeError:
                continue
            self.unanswered = 0
            for i in self.others:
                value = published.get(i, "")
                if value.startswith(LEFT):
                    code, _, reason = value.removeprefix(LEFT).partition(" ")
                    self.lost(f"process {i} has ended ({reason})", int(code))
                if seen[i][0] != value:
                    seen[i] = value, number
                elif number - seen[i][1] > SILENCE:
                    self.lost(f"process {i} has sent no sign of life for {SILENCE * BEAT_S:.0f} s")

    def listen(self) -> None:
        """Ends this process if process 0, which has the table, does not answer."""
        while not self.stopped.wait(BEAT_S):
            self.unanswered += 1
            if self.unanswered > SILENCE:
                self.lost(f"process 0 has not answered for {SILENCE * BEAT_S:.0f} s", answers=False)

    def lost(self, reason: str, code: int = 1, answers: bool = True) -> None:
        """Ends this process, after informing the others.

        Args:
          reason: the message.
          code: exit code; default 1.
          answers: whether the table answers, so that others can be informed; default True.
        """
        if not self.stopped.is_set():
            if answers:
                self.leave(reason, code)
            cure = "; to resume the run from its last checkpoint, give --workdir again" if code == 1 else ""
            end(reason + cure, code)

    def wait_for_a_loss(self) -> None:
        """Waits for as long as it takes to notice the loss of another process, which ends this one."""
        time.sleep((SILENCE + MARGIN) * BEAT_S)
        while self.stopped.is_set():  # `lost` is about to end this process
            time.sleep(BEAT_S)

    def leave(self, reason: str, code: int) -> None:
        """Informs the others that this process ends.

        Args:
          reason: the message.
          code: exit code of this process, and of the others.
        """
        self.stopped.set()
        with contextlib.suppress(RuntimeError):
            self.client.key_value_set(
                f"alive/{self.index}", f"{LEFT}{code} {reason[:300]}", allow_overwrite=True
            )
        dismiss("leave")

    def stop(self) -> None:
        """Stops watching, after all processes have finished."""
        self.stopped.set()
        self.beating.join()


def end(message: str, code: int) -> None:
    """Prints an error, and ends this process with an exit code, while its main thread may be blocked."""
    if sys.stdout:  # only process 0 has it
        sys.stdout.flush()
    os.write(2, f"error: {message}\n".encode())
    dismiss("end" if code == 2 else "leave")
    os._exit(code)
