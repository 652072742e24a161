"""Side-by-side timing: both sides in turn, in one process, medians and ratios; and where it was measured."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

RESULTS = Path(__file__).parent / "results"


def interleave(
    sides: dict[str, Callable[[], Any]], rounds: int = 15, calls: int = 1
) -> dict[str, list[float]]:
    """Seconds per call of each side: a warm-up each, then `rounds` times `calls` calls, side after side."""
    for side in sides.values():
        jax.block_until_ready(side())
    seconds = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            begin = time.perf_counter()
            results = [side() for _ in range(calls)]
            jax.block_until_ready(results)
            seconds[name].append((time.perf_counter() - begin) / calls)
    return seconds


def compare(seconds: dict[str, list[float]], ours: str, other: str) -> dict[str, Any]:
    """Medians in milliseconds and how many times faster `ours` is: the median over rounds, with its range."""
    ratios = [b / a for a, b in zip(seconds[ours], seconds[other], strict=True)]
    return {
        f"{ours}_ms": round(1e3 * statistics.median(seconds[ours]), 3),
        f"{other}_ms": round(1e3 * statistics.median(seconds[other]), 3),
        "times_faster": round(statistics.median(ratios), 2),
        "lowest": round(min(ratios), 2),
        "highest": round(max(ratios), 2),
    }


def temporary_bytes(function: Callable[..., Any], *arguments: Any) -> int:
    """Memory that the compiled program needs besides its arguments and results."""
    analysis: Any = jax.jit(function).lower(*arguments).compile().memory_analysis()
    return analysis.temp_size_in_bytes


def report(name: str, rows: list[dict[str, Any]]) -> None:
    """Prints the rows as a table and writes them, with hardware and versions, to benchmarks/results."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns, *([str(row.get(key, "")) for key in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    device = jax.devices()[0]
    where = {
        "device": device.device_kind if device.platform != "cpu" else _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in ("jax", "jaxlib", "flax", "numpy")},
        "date": time.strftime("%Y-%m-%d"),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}-{device.platform}.json"
    path.write_text(json.dumps({"measured_on": where, "rows": rows}, indent=1) + "\n")
    print(f"written to {path.relative_to(RESULTS.parent.parent)}")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
