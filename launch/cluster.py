"""Submits jobs to SLURM through submitit, and queries their states."""

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from absl import flags
from submitit import SlurmExecutor, SlurmJob

from fourier_attn import atomic
from launch.task import Task

NUMBERS = {
    "nodes": (1, "number of machines"),
    "processes_per_node": (1, "number of processes per machine; the GPUs are divided among them"),
    "gpus_per_node": (0, "number of GPUs per machine"),
    "cpus_per_task": (0, "number of CPU cores per process; 0: the cluster's default"),
    "requeues": (
        10,
        "how often the job is resumed after a time-out or a kill; preemptions do not count",
    ),
    "signal_delay": (120, "how many seconds before the time-out the run is asked to save"),
}
FAILURES = 60  # A sweep stops waiting after this many failed queries in a row.
ANSWER = 60.0  # Seconds that a query may take.
NAMES = ("partition", "account", "qos", "constraint", "mem")


def define_flags() -> None:
    for name, (default, meaning) in NUMBERS.items():
        flags.DEFINE_integer(name, default, meaning)
    for name in NAMES:
        flags.DEFINE_string(name, None, f"passed to sbatch as --{name}")
    flags.DEFINE_string("time", "24:00:00", "time limit of the job: minutes, H:MM:SS or D-H:MM:SS")


def parameters() -> dict[str, Any]:
    """Returns submitit's parameters from the flags.

    Raises: ValueError.
    """
    options = flags.FLAGS
    for name in NUMBERS:
        least = 1 if name in ("nodes", "processes_per_node") else 0
        value: Any = options[name].value
        if value < least:
            raise ValueError(f"--{name}={value} must be at least {least}")
    numbers = {
        "nodes": options.nodes,
        "ntasks_per_node": options.processes_per_node,
        "gpus_per_node": options.gpus_per_node or None,
        "cpus_per_task": options.cpus_per_task or None,
    }
    asked = numbers | {name: options[name].value for name in NAMES} | {"time": minutes(options.time)}
    return {name: value for name, value in asked.items() if value is not None} | {
        "signal_delay_s": options.signal_delay,
        "additional_parameters": {"requeue": True},
        "srun_args": ["--kill-on-bad-exit=1"],
    }


def minutes(text: str) -> int:
    """Returns the minutes of a time limit in sbatch's formats.

    Raises: ValueError.
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", text)
    if match:
        days, hours, whole, seconds = (int(part or 0) for part in match.groups())
        total = (days * 24 + hours) * 60 + whole + (seconds > 0)
    else:
        total = int(text) if text.isdecimal() else 0
    if not total:
        raise ValueError(f"--time={text!r} is not a time limit; give minutes, H:MM:SS or D-H:MM:SS")
    return total


def check() -> None:
    """Checks that SLURM is installed.

    Raises: ValueError.
    """
    for name in ("sbatch", "srun", "scontrol", "squeue"):
        if not shutil.which(name):
            raise ValueError(
                f"SLURM is not installed on this machine ({name} is not found); use launch.local"
            )


def submit(command: Iterable[str], folder: Path, asked: dict[str, Any], name: str) -> str:
    """Submits a command to SLURM.

    Args:
      command: the words of the command.
      folder: for the output of all processes.
      asked: submitit's parameters, as `parameters` returns them.
      name: of the job.
    Returns: the job's number.
    Raises: ValueError if sbatch rejects the job.
    """
    atomic.make_folder(folder)
    executor = SlurmExecutor(folder.resolve(), max_num_timeout=flags.FLAGS.requeues)
    executor.update_parameters(job_name=name, **asked)
    task = Task(tuple(command), requeues=flags.FLAGS.requeues)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # The error below has the same text.
            return executor.submit(task).job_id
    except RuntimeError as error:  # has the message of sbatch
        raise ValueError(f"SLURM rejected the job: {error}") from error


class Queue:
    """Queries the states of jobs, and tolerates failed queries for a while."""

    def __init__(self) -> None:
        self.failures = 0

    def ask(self, jobs: Iterable[str]) -> set[str] | None:
        """Returns those of `jobs` that still wait or run; None if squeue does not answer.

        Raises: RuntimeError after `FAILURES` queries in a row without an answer.
        """
        known = set(jobs)
        if not known:
            return known
        try:
            answer = subprocess.run(
                ["squeue", "--noheader", "--format=%A", f"--user={os.getuid()}"],
                capture_output=True,
                text=True,
                check=True,
                timeout=ANSWER,
            )
        except (subprocess.SubprocessError, OSError) as error:
            self.fail((getattr(error, "stderr", "") or str(error)).strip())
            return None
        self.failures = 0
        return known & set(answer.stdout.split())

    def fail(self, why: Any) -> None:
        """Prints a note at the first query without an answer. Raises: RuntimeError after several."""
        self.failures += 1
        if self.failures == FAILURES:
            raise RuntimeError(
                f"squeue has not answered {FAILURES} times in a row ({why}); the jobs keep running; give the "
                "same command again to wait for them"
            )
        if self.failures == 1:
            print(f"note: squeue does not answer ({why}); it is asked again", file=sys.stderr, flush=True)


def submitted(folder: Path) -> list[str]:
    """Returns the numbers of the jobs that were submitted with a folder."""
    return sorted((path.name.split("_")[0] for path in folder.glob("*_submitted.pkl")), key=int)


def ending(folder: Path, job: str) -> tuple[int, str]:
    """Returns the exit code and the last error message of job `job`, which has left the queue.

    If several processes of the job failed, exit code 2 has priority.
    """
    task: Any = SlurmJob(folder=folder, job_id=job).submission().function
    codes = [int(path.read_text()) for path in folder.glob(f"{task.name}_*_code")]
    failed = [code for code in codes if code] if codes else [128 + signal.SIGKILL]
    written = "".join(path.read_text(errors="replace") for path in sorted(folder.glob(f"{job}_*_log.err")))
    lines = [line for line in written.splitlines() if line.startswith("error:")]
    if not failed:
        return 0, ""
    return 2 if 2 in failed else failed[0], lines[-1] if lines else f"exit code {failed[0]}"


def describe(asked: dict[str, Any]) -> str:
    """Returns the requested resources in one line."""
    shown = {name: value for name, value in asked.items() if not isinstance(value, dict | list)}
    return ", ".join(f"{name} {value}" for name, value in shown.items())
