"""Runs a command as a SLURM job.

    python -m launch.slurm --nodes=2 --gpus_per_node=8 -- --config=configs/fnet.py

Arguments after -- are for `fourier_attn.main`. After a preemption, a time-out or a kill, SLURM queues the job
again, and it resumes in its run directory. Each process writes its output to files in WORKDIR.launch.
"""

import sys

from absl import flags

from fourier_attn import command
from launch import cluster, program


def define_flags() -> None:
    program.define_flags()
    cluster.define_flags()
    flags.adopt_module_key_flags(program)
    flags.adopt_module_key_flags(cluster)


def main(*words: str) -> None:
    chosen, asked = program.program(words), cluster.parameters()
    print(f"command     {chosen}")
    print(f"slurm       {cluster.describe(asked)}")
    print(f"output      {chosen.output}", flush=True)
    if flags.FLAGS.dry_run:
        return
    cluster.check()
    job = cluster.submit(chosen.command, chosen.output, asked, chosen.workdir.name)
    print(f"job         {job}; `squeue --job={job}` shows it, `scancel {job}` ends it")


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main, arguments=True))
