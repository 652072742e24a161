"""Runs a command in several processes on this machine.

    python -m launch.local --processes=2 -- --config=configs/fnet.py

Arguments after -- are for `fourier_attn.main`. The launcher divides the devices among the processes and
forwards signals to all of them. Each process writes its output to files in WORKDIR.launch. The launcher also
prints the output of process 0.
"""

import socket
import sys
import time

from absl import flags

from fourier_attn import command
from launch import program
from launch.devices import shares
from launch.running import Running, handing_on
from launch.task import POLL, Task


def define_flags() -> None:
    program.define_flags()
    flags.adopt_module_key_flags(program)
    flags.DEFINE_integer("processes", 1, "number of processes")
    flags.DEFINE_integer("devices", 0, "number of virtual CPU devices per process; 0: real devices")
    flags.DEFINE_float("grace", 60.0, "seconds until the others are stopped after one process has failed")


def main(*words: str) -> int:
    """Returns the exit code.

    It is 128 + n after signal n, otherwise 2 if a process returned 2, otherwise the first code that is not 0.
    """
    options = flags.FLAGS
    chosen = program.program(words)
    parts = shares(options.processes, options.devices)
    if options.grace < 0:
        raise ValueError(f"--grace={options.grace} must be at least 0 seconds")
    print(f"command     {chosen}")
    for index, part in enumerate(parts):
        print(f"process {index:<4}{part}" + (f", {options.devices} devices" if options.devices else ""))
    print(f"output      {chosen.output}", flush=True)
    if options.dry_run:
        return 0
    coordinator = f"127.0.0.1:{free_port()}" if len(parts) > 1 else ""
    task = Task(chosen.command, tuple(parts), coordinator, watched=True)
    with handing_on() as signals:
        job = Running(task, chosen.output, options.grace, show=True)
        signals.add(job)
        while not job.done():
            time.sleep(POLL)
    for process, code in job.codes():
        if code and process:
            print(f"process {process} ended with exit code {code}: {job.error(process)}", file=sys.stderr)
    return job.exit_code(signals.received)


def free_port() -> int:
    """Returns a TCP port that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main, arguments=True))
