"""Times training steps with and without keeping freed memory: `python -m benchmarks.allocator`.

The steps are those of the default configurations for IMDb. `fourier_attn.allocator.keep_memory` acts on a
whole process, so each side of each round is a new process, in turn. `--step=MIXER` runs one of them.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import jax
from absl import flags

from benchmarks.timing import compare, report
from fourier_attn import command, config, model
from fourier_attn.allocator import TOLD
from fourier_attn.studies.engine.step_timing import step_functions

MIXERS = ("identity", "fourier", "lambda", "attention")
BATCH, TOKENS, STEPS, ROUNDS = 32, 256, 3, 3
GIVEN_BACK = {"MALLOC_KEEP": "no"}  # keep_memory respects this variable, and glibc does not know it


def step(mixer: str) -> None:
    """Prints the median seconds of a step, the page faults of one, and the most memory, kB."""
    c = config.default(mixer, "imdb")
    c.data.batch, c.data.length = BATCH, TOKENS
    _, train = step_functions(c, model.build(c.model))
    seconds, faults = [], []
    for _ in range(STEPS + 2):
        begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        jax.block_until_ready(train())
        seconds.append(time.perf_counter() - begin)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(statistics.median(seconds[2:]), statistics.median(faults[2:]), most)


def measure(mixer: str, kept: dict[str, str]) -> dict[str, Any]:
    sides = {"kept": kept, "given back": kept | GIVEN_BACK}
    taken = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, environment in sides.items():
            words = [sys.executable, "-m", "benchmarks.allocator", f"--step={mixer}"]
            answer = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            taken[name].append([float(word) for word in answer.stdout.split()])
    columns = {name: list(zip(*rows, strict=True)) for name, rows in taken.items()}
    size = f"{BATCH} x {TOKENS} tokens"
    row = {"what": f"{mixer}: memory kept / given back", "size": size, "pass": "training step"}
    row |= compare({name: list(seconds) for name, (seconds, _, _) in columns.items()}, "kept", "given back")
    for name, (_, faults, most) in columns.items():
        row[f"faults, {name}"] = round(statistics.median(faults))
        row[f"most memory, {name}, MB"] = round(statistics.median(most) / 1000)
    return row


def define_flags() -> None:
    flags.DEFINE_enum("step", None, MIXERS, "internal: run the steps of one mixer")


def main() -> None:
    if flags.FLAGS.step:
        step(flags.FLAGS.step)
        return
    with tempfile.TemporaryDirectory() as cache:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(TOLD)}
        environment |= {"JAX_COMPILATION_CACHE_DIR": cache}
        report("allocator", [measure(mixer, environment) for mixer in MIXERS])


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
