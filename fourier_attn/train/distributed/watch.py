"""Notices where another process of the same run is lost, and ends this one, which would wait for ever."""

import contextlib
import itertools
import os
import sys
import threading

import jax

from fourier_attn.train.distributed.coordinator import dismiss, table

BEAT_S = 1.0  # between signs of life
SILENCE = 30  # beats after which a process counts as lost
LEFT = "left: "  # before the exit code and the reason, instead of a sign of life


class Watch:
    """Gives signs of life, looks for those of the others, and ends this process where one of them is lost.

    Silence is counted in this process's own beats: where it was itself halted, none of the others is lost.
    """

    def __init__(self) -> None:
        self.client, self.index = table(), jax.process_index()
        self.others = set(range(jax.process_count())) - {self.index}
        self.stopped, self.unanswered = threading.Event(), 0
        self.beating = threading.Thread(target=self.beat, daemon=True)
        self.beating.start()
        threading.Thread(target=self.listen, daemon=True).start()

    def beat(self) -> None:
        """Publishes this process's sign of life, and reads those of the others.

        A process that can no longer do that counts as lost for the others.
        """
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
                    self.lost(f"process {i} has not been heard of for {SILENCE * BEAT_S:.0f} s")

    def listen(self) -> None:
        """Ends this process where process 0, which holds the table, does not answer."""
        while not self.stopped.wait(BEAT_S):
            self.unanswered += 1
            if self.unanswered > SILENCE:
                self.lost(f"process 0 has not answered for {SILENCE * BEAT_S:.0f} s", answers=False)

    def lost(self, reason: str, code: int = 1, answers: bool = True) -> None:
        """Ends this process; lets the others know, if the table answers."""
        if not self.stopped.is_set():
            if answers:
                self.leave(reason, code)
            cure = "; to resume the run from its last checkpoint, give --workdir again" if code == 1 else ""
            end(reason + cure, code)

    def leave(self, reason: str, code: int) -> None:
        """Tells the others that this process ends, and with which exit code they are to."""
        self.stopped.set()
        with contextlib.suppress(RuntimeError):
            self.client.key_value_set(
                f"alive/{self.index}", f"{LEFT}{code} {reason[:300]}", allow_overwrite=True
            )
        dismiss("leave")

    def stop(self) -> None:
        """Stops watching, since all processes have finished."""
        self.stopped.set()
        self.beating.join()


def end(message: str, code: int) -> None:
    """Ends this process from another thread than that which hangs."""
    if sys.stdout:  # which only process 0 has
        sys.stdout.flush()
    os.write(2, f"error: {message}\n".encode())
    dismiss("end" if code == 2 else "leave")
    os._exit(code)
