"""Makes tables and numbers of programs that were compiled for devices that were not there."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from evidence.pages.markdown import NOT_RUN, Results, Row, listed, notes, significant, table

TARGETS = {"benchmarks/aot-v5e": "v5e", "benchmarks/aot-h100": "H100"}  # files of results
SHARED = {"benchmarks/aot-shared-h100": "H100"}
LENGTHS = {"benchmarks/aot-length-h100": "H100", "benchmarks/aot-length-v5e": "v5e"}


def compiled_mixers(results: Results) -> str:
    """Tabulates every mixer and method on four devices of each kind: forward and gradient."""
    documents = _documents(results)
    rows = {name: _by(document, "mixer", ("what", "dtype")) for name, document in documents.items()}
    head = ["mixer", "dtype"]
    for name in documents:
        device = TARGETS[name]
        head += [f"{device}: communication", f"{device}: temporary MB", f"{device}: thousand cycles"]
    lines = []
    for key in _keys(rows):
        cells: list[str] = []
        for name in documents:
            row = rows[name].get(key)
            cells += [_moved(row), _megabytes(row), _cycles(row)]
        lines.append([*map(str, key), *cells])
    return table(head, lines) + notes(documents)


def compiled_lengths(results: Results) -> str:
    """Tabulates the temporary memory of FNet's mixing and of attention over the number of tokens, in MB."""
    return _over_length(results, LENGTHS, "length", "mixer", _megabytes, ("what", "dtype"), "MB")


def compiled_methods(results: Results) -> str:
    """Tabulates thousands of estimated cycles of the methods of `fourier_mix` over the number of tokens."""
    return _over_length(results, TARGETS, "method", "method", _cycles, ("what", "dtype"), "thousand cycles")


def compiled_training(results: Results) -> str:
    """Tabulates training steps of encoders of size base."""
    documents = _documents(results)
    lines = []
    for name, document in documents.items():
        for row in _part(document, "training"):
            place = f"{row['devices']} x {TARGETS[name]}"
            by = row["mesh"] if row["devices"] > 1 else ""
            size = row["size"] + (", remat" if "remat" in row else "")
            lines.append([row["what"], size, place, by, _megabytes(row), _moved(row)])
    head = ["encoder", "size", "devices", "mesh", "temporary MB", "communication"]
    return table(head, lines) + notes(documents)


def targets(results: Results, name: str = "benchmarks/targets") -> str:
    """Tabulates `--mode=compile` of shipped configurations for several targets.

    Args:
      results: the results.
      name: of the file with the rows.
    """
    head = ["configuration", "target", "verdict", "memory of each device: needed", "available"]
    head += ["collectives", "lower bound, ms", "CPU s", "seconds"]

    def cells(row: Row) -> list[str]:
        memory = [
            f"{significant(row[name] / 1e9)} GB" if name in row else "" for name in ("needed", "memory")
        ]
        bound = significant(1e3 * row["bound_s"]) if "bound_s" in row else ""
        seconds = [significant(row[name]) if name in row else "" for name in ("cpu_s", "seconds")]
        moved = _moved({"compiles": row["verdict"] != "refused"} | row)
        return [f"`{row['config']}`", row["target"], row["verdict"], *memory, moved, bound, *seconds]

    return listed(results, name, head, cells)


def compiled_shared(results: Results) -> str:
    """Tabulates the temporary memory of a block on one device, and with its tokens on four, in MB."""
    documents = _documents(results, SHARED)
    head = ["mixer", "device", "one device", "four devices", "ratio", "communication of four devices"]
    lines = []
    for name, document in documents.items():
        rows = _by(document, "shared", ("what", "devices"))
        for what in dict.fromkeys(what for what, _ in rows):
            if not {(what, 1), (what, 4)} <= rows.keys():  # not yet compiled
                continue
            one, four = rows[what, 1], rows[what, 4]
            fewer = f"{one['temporary_mb'] / four['temporary_mb']:.1f}"
            lines.append([what, SHARED[name], _megabytes(one), _megabytes(four), fewer, _moved(four)])
    return table(head, lines or [[NOT_RUN, *[""] * 5]]) + notes(documents)


def ratio(results: Results, name: str, quantity: str, above: Row, below: Row) -> str:
    """Returns the ratio of a quantity of two programs, with two digits.

    Args:
      name: file of the results, below results/.
      quantity: key of a row, "temporary_mb" or "cycles".
      above: the values that the row of the numerator has; it is the first such row.
      below: the values that differ in the row of the denominator.
    """
    rows = results.document(name)["rows"]

    def find(wanted: Row) -> float:
        return next(row for row in rows if wanted.items() <= row.items())[quantity]

    return f"{float(f'{find(above) / find(above | below):.2g}'):g}"


def _over_length(
    results: Results,
    targets: dict[str, str],
    part: str,
    what: str,
    cell: Any,
    keys: tuple[str, ...],
    unit: str,
) -> str:
    present = _documents(results, targets)
    documents = {name: document for name, document in present.items() if _part(document, part)}
    if not documents:
        return table([part], [[NOT_RUN]]) + notes(present)
    lengths = sorted({row["t"] for document in documents.values() for row in _part(document, part)})
    lines = []
    for name, document in documents.items():
        rows = _by(document, part, (*keys, "t"))
        for key in dict.fromkeys(key[:-1] for key in rows):
            cells = [cell(rows[*key, t]) if (*key, t) in rows else "" for t in lengths]
            lines.append([", ".join(map(str, key)), f"{targets[name]}, {unit}", *cells])
    return table([what, "device, unit", *(f"t = {t:,}" for t in lengths)], lines) + notes(documents)


def _documents(results: Results, targets: Iterable[str] = tuple(TARGETS)) -> dict[str, dict[str, Any]]:
    documents: dict[str, dict[str, Any]] = {}
    for name in targets:
        documents |= results.runs(name)
    return documents


def _part(document: dict[str, Any], part: str) -> list[Row]:
    return [row for row in document["rows"] if row["part"] == part]


def _by(document: dict[str, Any], part: str, keys: tuple[str, ...]) -> dict[tuple[Any, ...], Row]:
    return {tuple(row[key] for key in keys): row for row in _part(document, part)}


def _keys(rows: dict[str, dict[tuple[Any, ...], Row]]) -> list[tuple[Any, ...]]:
    return list(dict.fromkeys(key for by_key in rows.values() for key in by_key))


def _moved(row: Row | None) -> str:
    """Returns the collectives of a program, with the bytes of their results."""
    if row is None:
        return NOT_RUN
    if not row["compiles"]:
        return "does not compile"
    kinds = [f"{kind['count']} {name}, {_kilobytes(kind)}" for name, kind in row["collectives"].items()]
    return "; ".join(kinds) or "nothing"


def _kilobytes(kind: dict[str, int]) -> str:
    return f"{significant(kind['bytes'] / 1e3)} kB"


def _megabytes(row: Row | None) -> str:
    if row is None:
        return NOT_RUN
    return significant(row["temporary_mb"]) if row["compiles"] else "does not compile"


def _cycles(row: Row | None) -> str:
    """Returns thousands of cycles; nothing where the compiler gives none."""
    if row is None or not row["compiles"] or "cycles" not in row:
        return ""
    return significant(row["cycles"] / 1e3)


V5E, H100 = TARGETS
H100_LENGTHS, _ = LENGTHS
LONGEST = {"part": "length", "what": "attention", "dtype": "bfloat16", "t": 32768}
WHOLE = {"part": "training", "what": "bert", "devices": 1}
MIXER = {"part": "mixer", "what": "attention", "dtype": "float32"}
SCAN = {"part": "scan", "what": "fourier", "remat": "none"}
METHOD = {"part": "method", "what": "rfft", "dtype": "float32", "t": 512}

COMPILED_VALUES: dict[str, Callable[[Results], str]] = {
    "aot-attention-memory": partial(
        ratio, name=H100_LENGTHS, quantity="temporary_mb", above=LONGEST, below={"what": "fourier"}
    ),
    "aot-bert-memory": partial(
        ratio, name=H100, quantity="temporary_mb", above=WHOLE, below={"what": "fnet"}
    ),
    "aot-scan-compilation": partial(
        ratio,
        name="benchmarks/aot-scan-h100",
        quantity="compile_s",
        above=SCAN | {"form": "unrolled"},
        below={"form": "scan"},
    ),
    "aot-scan-memory": partial(
        ratio,
        name="benchmarks/aot-scan-h100",
        quantity="temporary_mb",
        above=SCAN | {"form": "scan"},
        below={"form": "unrolled"},
    ),
    "aot-lambda-cycles": partial(ratio, name=V5E, quantity="cycles", above=MIXER, below={"what": "lambda"}),
    "aot-monarch-cycles": partial(
        ratio, name=V5E, quantity="cycles", above=METHOD, below={"what": "monarch"}
    ),
}
