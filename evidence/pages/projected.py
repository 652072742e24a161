"""Tables of what an engine would take, and of the components that it is computed from."""

from typing import Any

from evidence.pages.markdown import NOT_RUN, Results, Row, notes, significant, table
from fourier_attn.optics.components import library

LINES = ("dac", "modulator", "hold", "laser", "receiver", "adc", "link", "sram", "hbm")


def speedup(results: Results, name: str) -> str:
    """Tabulates passes, time, speed-up and energy of an example on each preset, and energy without one."""
    documents = results.runs(name)
    if not documents:
        return table(["engine"], [[NOT_RUN]])
    document = documents[name]
    head = ["engine", "passes", "time, ms", "times faster, inference", "times faster, training", "energy, mJ"]
    lines = [_preset(row, document["batch"]) for row in _part(document, "preset")]
    lines += [
        [f"none: {row['name']}, {row['what']}", "", "", "", "", spread(row["joules"], 1e3)]
        for row in _part(document, "electronics")
    ]
    return table(head, lines) + notes(documents)


def frames(results: Results, name: str) -> str:
    """Tabulates the energy of one frame, and of its parts per point, on each preset.

    Args:
      results: the files of results.
      name: of the file of `fourier_attn.studies.engine.speedup`.
    """
    documents = results.runs(name)
    if not documents:
        return table(["engine"], [[NOT_RUN]])
    rows = _part(documents[name], "frame")
    totals = [{corner: at["total"] for corner, at in row["energy_j"].items()} for row in rows]
    lines = [["whole frame, nJ", *(spread(total, 1e9) for total in totals)]]
    for line in LINES:
        parts = [1e12 * row["energy_j"]["typical"][line] / row["points"] for row in rows]
        lines.append([f"{line}, pJ per point", *map(significant, parts)])
    head = ["energy", *(row["preset"] for row in rows)]
    return table(head, lines) + notes(documents)


def parts(_: Results) -> str:
    """Tabulates the component library, followed by notes from the sources."""
    head = ["component", "what", "low", "typical", "high", "unit", "source"]
    lines = []
    for name, part in library().items():
        values = [
            f"{getattr(part, corner):g} ({mark})"
            for corner, mark in zip(("low", "typical", "high"), part.marks, strict=True)
        ]
        lines.append([f"`{name}`", part.what, *values, part.unit, part.source])
    notes = [[f"`{name}`", *_by_corner(part.note)] for name, part in library().items() if part.note]
    remarks = table(["component", "low", "typical", "high", "remark"], notes)
    return f"{table(head, lines)}\nRemarks on the sources:\n\n{remarks}"


def _by_corner(note: str) -> list[str]:
    """Splits a component's note into remarks on its low, typical and high value, and general remarks."""
    remarks: dict[str, list[str]] = {"low": [], "typical": [], "high": [], "": []}
    for remark in note.split("; "):
        corners, colon, text = remark.partition(": ")
        named = corners.split(" and ")
        if colon and remarks.keys() >= set(named):
            for corner in named:
                remarks[corner].append(text)
        else:
            remarks[""].append(remark)
    return ["; ".join(each) for each in remarks.values()]


def _preset(row: Row, batch: int) -> list[str]:
    if "no_plan" in row:
        return [row["preset"], "no plan", "", "", "", ""]
    total = {corner: at["total"] for corner, at in row["inference"].items()}
    faster = [
        {corner: at["speedup"] for corner, at in row[mode].items()} for mode in ("inference", "training")
    ]
    energy = "no converters"
    if "energy_j" in row:
        energy = spread({corner: at["total"] for corner, at in row["energy_j"].items()}, 1e3 / batch)
    passes = f"{row['passes_per_example']:,.7g}"
    return [row["preset"], passes, spread(total, 1e3 / batch), *map(spread, faster), energy]


def spread(values: dict[str, float], scale: float = 1.0) -> str:
    """Returns the typical value, and in brackets the range if it is not a single value.

    Args:
      values: numbers by corner; one corner is "typical".
      scale: factor on all of them.
    """
    numbers = [scale * values["typical"], scale * min(values.values()), scale * max(values.values())]
    typical, low, high = (significant(number) for number in numbers)
    return typical if low == high else f"{typical} ({low} to {high})"


def _part(document: dict[str, Any], name: str) -> list[Row]:
    return [row for row in document["rows"] if row["part"] == name]
