"""A process that has imported everything, and forks a child for each call of the command.

Standard input, a line of JSON for each: `arguments`, and `folder`, where it runs. Standard output, a line of
JSON: `code` (None: no answer in 20 seconds), `out`, `err`, `seconds`.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import matplotlib.backends.backend_agg  # noqa: F401
import tensorflow_datasets  # noqa: F401

from fourier_attn import command, main, predict, train  # noqa: F401

PATIENCE = 20


def child(arguments: list[str], folder: str) -> int:
    os.chdir(folder)
    sys.argv = ["main", *arguments]
    main.define_flags()
    signal.alarm(PATIENCE)
    return command.run(main.main)


def serve() -> None:
    out, err = (Path(f"{sys.argv[1]}/{name}") for name in ("out", "err"))
    for line in sys.stdin:
        order, begin = json.loads(line), time.perf_counter()
        if not (pid := os.fork()):
            for path, number in ((out, 1), (err, 2)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            code = 99
            try:
                code = child(order["arguments"], order["folder"])
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        answer = {"code": None if code == -signal.SIGALRM else code, "out": out.read_text()}
        answer |= {"err": err.read_text(errors="replace"), "seconds": time.perf_counter() - begin}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
