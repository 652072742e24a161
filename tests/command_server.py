"""A process that has imported everything, and forks a child for each call of the command.

Standard input, a line of JSON for each: `arguments`, and `folder`, where it runs. Standard output, a line of
JSON: `code` (None: no answer in 20 seconds), `out`, `err`, and `seconds` of computing, which do not depend on
who else uses the machine.
"""

import importlib
import json
import os
import signal
import sys
from pathlib import Path

from fourier_attn import command, main

for heavy in ("matplotlib.backends.backend_agg", "tensorflow_datasets", "fourier_attn.predict"):
    importlib.import_module(heavy)  # once, for all children

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
        _, status, used = os.wait4(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        answer = {"code": None if code == -signal.SIGALRM else code, "out": out.read_text()}
        answer |= {"err": err.read_text(errors="replace"), "seconds": used.ru_utime + used.ru_stime}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
