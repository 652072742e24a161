"""Runs all combinations of options of a grid.

    python -m launch.sweep --grid=seed=0,1,2 --directory=runs/sweep -- --config=FILE

Each run has a directory in --directory, named after its values, with its output next to it. Finished runs are
skipped. At the end the sweep prints a table with the best run first, and saves it in summary.json.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags

from fourier_attn import command, paths
from launch import cluster, program
from launch.devices import Share, shares
from launch.program import Program
from launch.running import Running, handing_on
from launch.task import POLL, Task

ASK = 5.0  # seconds between queries of SLURM
GRACE = 60.0  # seconds until a run is killed after SIGTERM


def define_flags() -> None:
    define_run_flags("runs/sweep")
    flags.DEFINE_multi_string("grid", [], "OPTION=VALUE,VALUE,...; repeat the flag for each further option")


def define_run_flags(directory: str) -> None:
    """Defines the flags of a command that starts several runs.

    Args:
      directory: the default of --directory.
    """
    program.define_flags()
    cluster.define_flags()
    flags.adopt_module_key_flags(program)
    flags.adopt_module_key_flags(cluster)
    flags.DEFINE_string("directory", directory, "directory for the runs and the table")
    flags.DEFINE_enum("executor", "local", ["local", "slurm"], "this machine, or one SLURM job per run")
    flags.DEFINE_integer("jobs", None, "number of runs at once; default: 1 on this machine, all on SLURM")


def main(*words: str) -> int:
    """Returns the exit code: 0 if all runs are done, 1 if one failed, 128 + n after signal n."""
    options = flags.FLAGS
    with on_cpu():
        from launch import grid, results
    points = grid.points(options.grid)
    configs = grid.check(words, points, options.module)
    directory = paths.given(options.directory)
    runs = [
        Run(program.program((*grid.arguments(words, p), f"--workdir={directory / grid.name(p)}")), p)
        for p in points
    ]

    def report() -> bool:
        rows = [results.row(run.program.workdir, run.point, run.code, run.error) for run in runs]
        results.write(directory, rows)
        print(f"{results.table(rows)}\nThe table is in {directory / results.FILE}")
        return all(r.state == "done" for r in rows)

    return run_all(runs, configs, directory, report)


def run_all(
    runs: Sequence["Run"], configs: Sequence[Any], directory: Path, report: Callable[[], bool]
) -> int:
    """Runs the unfinished runs according to --executor, --jobs and --dry_run, and reports.

    Args:
      runs: all runs.
      configs: configurations of the runs; () if they are unknown.
      directory: of the output, to be printed.
      report: a function that prints and writes the results; returns whether all runs are done.
    Returns: the exit code: 0 if all runs are done, 1 if one failed, 128 + n after signal n.
    Raises: ValueError for options that cannot be used, and for a finished run of another configuration.
    """
    with on_cpu():
        from fourier_attn.train.summary import is_finished
    options = flags.FLAGS
    on_slurm, jobs = options.executor == "slurm", options.jobs
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs={jobs} must be at least 1")
    asked = cluster.parameters() if on_slurm else {}
    parts = [] if on_slurm else shares(jobs or 1)
    waiting = [run for run in runs if not is_finished(run.program.workdir)]
    for run, config in zip(runs, configs, strict=False):
        if run not in waiting:
            check_same(run.program.workdir, config)
    for run in runs:
        print(f"{'run     ' if run in waiting else 'finished'}    {run.program}")
    if on_slurm:
        print(f"slurm       {cluster.describe(asked)}")
    for part in parts:
        print(f"at once     {part}")
    print(f"output      {directory}{os.sep}*.launch", flush=True)
    if options.dry_run:
        return 0
    if on_slurm:
        cluster.check()
    received = run_on_slurm(waiting, asked, jobs) if on_slurm else run_here(iter(waiting), parts)
    done = report()
    return 128 + received if received else int(not done)


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Imports JAX for CPUs inside `with`, so that checks and summaries take no GPU from the runs.

    The runs get the original environment.
    """
    before = os.environ.get("JAX_PLATFORMS")
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        yield
    finally:
        del os.environ["JAX_PLATFORMS"]
        os.environ.update({"JAX_PLATFORMS": before} if before is not None else {})


def check_same(workdir: Path, config: Any) -> None:
    """Checks that a finished run has this configuration.

    Raises: ValueError with the differences.
    """
    from fourier_attn.train import init_from
    from fourier_attn.train.rundir.workdir import check

    try:
        check(workdir, init_from.load(config, workdir).config)
    except ValueError as error:
        raise ValueError(f"{error}; for a sweep, give another --directory") from error


class Run:
    """One of several runs.

    Args:
      program: its command, with its run directory.
      point: its point of the grid, if any.
    """

    def __init__(self, program: Program, point: Mapping[str, str] | None = None):
        self.program, self.point = program, dict(point or {})
        self.code: int | None = None
        self.error = ""

    def end(self, job: Running) -> None:
        """Saves the exit code and the error of `job`, and prints how the run ended."""
        self.code = job.exit_code()
        self.error = job.error(0) if self.code else ""
        self.announce()

    def announce(self) -> None:
        """Prints how the run ended."""
        print(
            f"{self.program.workdir.name}: " + (f"exit code {self.code}" if self.code else "done"), flush=True
        )


def run_here(waiting: Iterator[Run], parts: Sequence[Share]) -> int:
    """Runs all runs on this machine, one at a time on each share of its devices.

    Args:
      waiting: yields the next run when a share is free.
      parts: the shares.
    Returns: the signal that stopped the runs, or 0.
    """
    slots: list[tuple[Run, Running] | None] = [None] * len(parts)
    ended = False
    with handing_on() as signals:
        while any(slots) or not (ended or signals.received):
            for i, slot in enumerate(slots):
                if slot and slot[1].done():
                    slot[0].end(slot[1])
                    slots[i] = None
                run = None if slots[i] or ended or signals.received else next(waiting, None)
                if run:
                    task = Task(run.program.command, (parts[i],), watched=True)
                    job = Running(task, run.program.output, GRACE)
                    signals.add(job)
                    slots[i] = (run, job)
                elif slots[i] is None:
                    ended = True
            time.sleep(POLL)
    return signals.received


def run_on_slurm(waiting: Sequence[Run], asked: dict[str, Any], most: int | None) -> int:
    """Submits a job for each run that does not have one yet, and waits for all jobs.

    A signal ends the waiting, but the jobs keep running.

    Args:
      waiting: the runs.
      asked: submitit's parameters.
      most: number of jobs at once; None: all.
    Returns: the signal that was received, or 0.
    """
    left, jobs, queue = list(waiting), {}, cluster.Queue()
    known = {run: cluster.submitted(run.program.output) for run in waiting}
    earlier = [job for numbers in known.values() for job in numbers]
    while (jobs_known := queue.ask(earlier)) is None:
        time.sleep(ASK)
    for run, numbers in known.items():
        if going := jobs_known & set(numbers):
            jobs[run] = going.pop()
            left.remove(run)
            print(f"{run.program.workdir.name}: is job {jobs[run]} already", flush=True)
    with handing_on() as signals:
        while (left or jobs) and not signals.received:
            while left and len(jobs) < (most or len(waiting)):
                run = left.pop(0)
                folder = run.program.output
                jobs[run] = cluster.submit(run.program.command, folder, asked, run.program.workdir.name)
                print(f"{run.program.workdir.name}: job {jobs[run]}", flush=True)
            time.sleep(ASK)
            going = queue.ask(jobs.values())
            for run in [run for run, job in jobs.items() if going is not None and job not in going]:
                run.code, run.error = cluster.ending(run.program.output, jobs.pop(run))
                run.announce()
    if signals.received:
        print("The jobs keep running; give the same command again to wait for them.")
    return signals.received


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main, arguments=True))
