"""A process that has imported everything, and forks a child for each call of the command.

Standard input, a line of JSON for each: `arguments`, and `folder`, where it runs. Standard output, a line of
JSON: `code` (None: no answer within `PATIENCE`), `out` and `err`.
"""

import gc
import importlib
import json
import os
import resource
import signal
import sys
from pathlib import Path

from fourier_attn import command, main

HEAVY = (
    "fourier_attn.inference.predictor",
    "matplotlib.backends.backend_agg",
    "tensorboardX",
    "tensorflow_datasets",
)
for heavy in HEAVY:
    importlib.import_module(heavy)  # once, for all children
gc.freeze()  # nor need they collect it

PATIENCE = 120  # seconds of computing, of which a command needs a few


def child(arguments: list[str], folder: str) -> int:
    os.chdir(folder)
    sys.argv = ["main", *arguments]
    main.define_flags()
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, 2 * PATIENCE))
    signal.alarm(5 * PATIENCE)  # one that waits does not compute
    return command.run(main.main)


def serve() -> None:
    out, err = (Path(f"{sys.argv[1]}/{name}") for name in ("out", "err"))
    for line in sys.stdin:
        order = json.loads(line)
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
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        answer = {"code": None if code in (-signal.SIGXCPU, -signal.SIGALRM) else code}
        answer |= {"out": out.read_text(), "err": err.read_text(errors="replace")}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
