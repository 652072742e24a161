"""Times starts: `python -m benchmarks.startup [--data_dir=DIR]`.

Measures an import, beyond jax and flax; the refusal of an invalid configuration; and the command up to the
first step on IMDb, with an empty cache in the data directory, and again with the cache of the first start.
The command is stopped after that step.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from absl import flags
from tensorflow_datasets.core import constants

from benchmarks.timing import report
from fourier_attn import command

BASE = "import jax, flax"
SIDES = {"fourier_attn": "import fourier_attn", "fourier_attn.model": "import fourier_attn.model"}

REFUSED = {  # by what, and a word of the answer
    "a flag": ("--config=configs/fnet.py --config.model.d=nan", "invalid literal"),
    "the file": ("--config=configs/none.py", "none.py"),
    "a range": ("--config=configs/fnet.py --config.model.depth=100000", "model.depth=100000"),
    "the mixer": ("--config=configs/attention.py --config.model.mixer.name=bogus", "'bogus'"),
    "the memory": ("--config=configs/fnet.py --config.model.d=100000000", "memory"),
}


def define_flags() -> None:
    flags.DEFINE_string("data_dir", "", "directory of TFDS data sets; default: that of TFDS")
    flags.DEFINE_integer("rounds", 3, "number of rounds; each has a first and a second start", lower_bound=1)


def seconds(program: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return time.perf_counter() - begin


def imports() -> list[dict[str, Any]]:
    programs = {"jax, flax": BASE, **{name: f"{BASE}; {program}" for name, program in SIDES.items()}}
    taken = {name: [] for name in programs}
    for round_ in range(12):
        for name, program in programs.items():
            elapsed = seconds(program)
            if round_:
                taken[name].append(elapsed)
    rows = []
    for name, values in taken.items():
        rows.append({"what": f"import {name}", "unit": "ms", "value": round(1e3 * statistics.median(values))})
        if name in SIDES:
            ratios = [value / base for value, base in zip(values, taken["jax, flax"], strict=True)]
            over = round(100 * (statistics.median(ratios) - 1), 1)
            rows.append({"what": f"import {name}, over jax and flax alone", "unit": "%", "value": over})
    return rows


def answers() -> list[dict[str, Any]]:
    """Times the refusal of invalid configurations; returns the slowest of the medians of 5."""
    taken = {}
    for name, (words, part) in REFUSED.items():
        values = []
        for _ in range(5):
            with tempfile.TemporaryDirectory() as folder:
                program = [
                    sys.executable,
                    "-m",
                    "fourier_attn.main",
                    f"--workdir={folder}/run",
                    *words.split(),
                ]
                before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
                done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=60)
                elapsed, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
            if done.returncode != 2 or part not in done.stderr:
                raise ValueError(f"{words} was not refused by {name}: {done.stderr[-500:]}")
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            values.append((elapsed, used))
        taken[name] = tuple(map(statistics.median, zip(*values, strict=True)))
    return [
        {
            "what": f"answer to a wrong configuration, the slowest of {len(taken)}, {kind}",
            "unit": "s",
            "value": round(max(values), 1),
        }
        for kind, values in zip(("wall", "processors"), zip(*taken.values(), strict=True), strict=True)
    ]


def start(data_dir: Path, run: Path) -> tuple[float, float]:
    """Returns wall and CPU seconds from the command to the log line of the first training step."""
    words = [sys.executable, "-m", "fourier_attn.main", "--config=fnet:imdb", f"--workdir={run}"]
    words += [f"--config.data.dir={data_dir}", "--config.train.log_every=1"]
    begin = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    lines = run / "metrics.jsonl"
    while process.poll() is None and not (lines.exists() and '"train"' in lines.read_text()):
        time.sleep(0.02)
    taken = time.perf_counter() - begin
    if process.returncode is not None:
        raise ValueError(f"{' '.join(words)} has ended before its first step")
    process.kill()
    _, _, used = os.wait4(process.pid, 0)
    return taken, used.ru_utime + used.ru_stime


def starts(options: Path) -> list[dict[str, Any]]:
    taken = {"first start": [], "second start": []}
    for round_ in range(flags.FLAGS.rounds):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "data"
            place.mkdir()
            (place / "imdb_reviews").symlink_to(options / "imdb_reviews")
            for name, values in taken.items():
                values.append(start(place, Path(folder) / f"{name}{round_}"))
    return [
        {"what": f"command to first step on IMDb, {name}, {kind}", "unit": "s", "value": round(value, 1)}
        for name, values in taken.items()
        for kind, value in zip(
            ("wall", "processors"), map(statistics.median, zip(*values, strict=True)), strict=True
        )
    ]


def main() -> None:
    given = Path(flags.FLAGS.data_dir or constants.DATA_DIR).expanduser().resolve()
    report("startup", [*imports(), *answers(), *starts(given)])


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
