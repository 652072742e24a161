"""A command that a launcher can start: python -m stand_in --workdir=DIR --steps=N [--code=C] ...

It counts steps in DIR/PROCESS/step, ten in a second; a signal is noticed between two of them, as in training,
and the count goes on from there in the next call.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

SEEN = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "CUDA_VISIBLE_DEVICES", "XLA_FLAGS")


def main() -> int:
    options = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
    rank = os.environ.get("JAX_PROCESS_ID") or os.environ.get("SLURM_PROCID") or "0"
    received: list[int] = []

    def receive(signum: int, frame: object) -> None:
        if received:
            os._exit(99)  # a second signal: it should have been one
        received.append(signum)

    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(signum, receive)
    folder = Path(options["workdir"]) / rank
    folder.mkdir(parents=True, exist_ok=True)
    counter = folder / "step"
    step = int(counter.read_text()) if counter.exists() else 0
    (folder / "process").write_text(str(os.getpid()))
    seen = {name: os.environ.get(name) for name in SEEN} | {"cores": len(os.sched_getaffinity(0))}
    print(f"process {rank} from step {step}: {json.dumps(seen)}", flush=True)
    fails = rank == options.get("who", rank) and "code" in options
    while step < int(options.get("steps", 5)) or ("endless" in options and not fails):
        time.sleep(0.1)
        step += 1
        counter.write_text(str(step))
        if received and "deaf" not in options:
            print(f"process {rank} saved step {step}", flush=True)
            return 128 + received[0]
    if fails:
        print("error: as told", file=sys.stderr)
        return int(options["code"])
    print(f"process {rank} done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
