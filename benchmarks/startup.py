"""What an import costs beyond jax and flax: `python -m benchmarks.startup`."""

import statistics
import subprocess
import sys
import time

from benchmarks.timing import report

BASE = "import jax, flax"
SIDES = {"fourier_attn": "import fourier_attn", "fourier_attn.model": "import fourier_attn.model"}


def seconds(program: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return time.perf_counter() - begin


def main() -> None:
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
    report("startup", rows)


if __name__ == "__main__":
    main()
