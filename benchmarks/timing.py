"""Compares timings of two sides, and writes the files of results."""

import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax

from fourier_attn import provenance
from fourier_attn.allocator import keep_memory
from fourier_attn.columns import aligned

keep_memory()  # for all sides, as in the programs; it must come before the first array
RESULTS = Path(__file__).parent.parent / "results" / "benchmarks"
Row = dict[str, Any]
Case = tuple[Row, Callable[[], Iterable[Row]]]  # what is measured; yields its results, each more complete
COMMIT = provenance.commit()  # now, since the sources may change while this process measures


def compare(seconds: dict[str, list[float]], ours: str, other: str) -> dict[str, Any]:
    """Returns median times in milliseconds and "times faster" (median and range over rounds).

    Args:
      seconds: seconds per call in each round, by side.
      ours, other: names of the two sides; the ratio is the time of `other` over that of `ours`.
    """
    ratios = [b / a for a, b in zip(seconds[ours], seconds[other], strict=True)]
    return {
        "ours_ms": round(1e3 * statistics.median(seconds[ours]), 3),
        "other_ms": round(1e3 * statistics.median(seconds[other]), 3),
        "times_faster": round(statistics.median(ratios), 2),
        "lowest": round(min(ratios), 2),
        "highest": round(max(ratios), 2),
    }


def with_backward(function: Callable[..., jax.Array], by: tuple[int, ...] = (0,)) -> Callable[..., Any]:
    """Returns a function of a cotangent and the arguments that computes the result and its gradients.

    A loss such as `sum(sin(y))` would add its own work, which takes longer than a fast layer.

    Args:
      function: a function of arrays.
      by: indices of the arguments that gradients are taken by.
    """

    def both(cotangent: jax.Array, *arguments: Any) -> tuple[jax.Array, Any]:
        def chosen(*given: Any) -> jax.Array:
            replaced = dict(zip(by, given, strict=True))
            return function(*(replaced.get(i, argument) for i, argument in enumerate(arguments)))

        y, pull_back = jax.vjp(chosen, *(arguments[i] for i in by))
        return y, pull_back(cotangent)

    return both


def random_cotangent(function: Callable[..., jax.Array], *arguments: Any) -> jax.Array:
    """Returns normal numbers with the shape and dtype of the function's result."""
    y = jax.eval_shape(function, *arguments)
    return jax.random.normal(jax.random.key(2), y.shape, y.dtype)


def milliseconds(seconds: list[float]) -> Row:
    """Returns the median and the range of the seconds per call of all rounds, in milliseconds."""
    values = {"ms": statistics.median(seconds), "lowest": min(seconds), "highest": max(seconds)}
    return {name: round(1e3 * value, 4) for name, value in values.items()}


def temporary_bytes(function: Callable[..., Any], *arguments: Any) -> int:
    """Returns the bytes that the compiled program needs in addition to its arguments and results."""
    analysis: Any = jax.jit(function).lower(*arguments).compile().memory_analysis()
    return analysis.temp_size_in_bytes


def report(
    name: str, rows: list[dict[str, Any]], peers: tuple[str, ...] = (), setting: str | None = None
) -> None:
    """Prints rows as a table and writes them, with their origin, to results/benchmarks/NAME-BACKEND.json.

    Args:
      name: name of the file.
      rows: the results.
      peers: packages in the comparison whose versions are recorded.
      setting: conditions that differ from an ordinary process, in words.
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns, *([str(row.get(key, "")) for key in columns] for row in rows)]
    print("\n".join(aligned(cells)))
    facts = provenance.record(*peers) | {"commit": COMMIT} | ({"setting": setting} if setting else {})
    path = RESULTS / f"{name}-{jax.default_backend()}.json"
    provenance.write(path, facts | {"rows": rows})
    print(f"written to results/benchmarks/{path.name}")


def facts_and_rows(path: Path, *packages: str, setting: str) -> tuple[Row, list[Row]]:
    """Returns the provenance of new rows, and the rows that a file already has from the same commit.

    Args:
      path: the file.
      packages: packages whose versions are recorded.
      setting: the conditions, in words.
    """
    before = json.loads(path.read_text()) if path.exists() else {}
    clean = COMMIT is not None and not COMMIT.endswith("+")  # else the commit does not identify the sources
    known = before["rows"] if clean and before.get("commit") == COMMIT else []
    return provenance.record(*packages) | {"commit": COMMIT, "setting": setting}, known


def complete(path: Path, facts: Row, known: list[Row], cases: Iterable[Case]) -> None:
    """Measures the cases that are not among known rows; writes all rows to a file after each measurement.

    Args:
      path: the file.
      facts: the origin of the rows.
      known: earlier rows. One with `finished` False is measured again.
      cases: the cases.
    """
    rows = list(known)
    for case, measure in cases:
        there = next((row for row in rows if case.items() <= row.items()), None)
        if there and there.get("finished", True):
            continue
        for result in measure():
            rows = [row for row in rows if not case.items() <= row.items()] + [case | result]
            provenance.write(path, facts | {"rows": rows})
        print({key: value for key, value in rows[-1].items() if key != "part"}, flush=True)
