"""Tables of timings from the files of benchmarks."""

from evidence.pages.markdown import NOT_RUN, Results, Row, listed, notes, significant, table

SPEED = {  # tables of comparisons, and the files of results that each has
    "speed-fourier": (
        "benchmarks/fourier-complex-cpu",
        "benchmarks/fourier-methods-cpu",
        "benchmarks/fourier-lengths-cpu",
    ),
    "speed-mixers": (
        "benchmarks/mixers-circular-cpu",
        "benchmarks/mixers-lambda-cpu",
        "benchmarks/mixers-others-cpu",
        "benchmarks/mixers-methods-cpu",
        "benchmarks/dense-cpu",
    ),
    "speed-ops": ("benchmarks/peer-ops-cpu",),
    "speed-torch": ("benchmarks/mixers-torch-cpu",),
    "speed-encoder": ("benchmarks/encoder-depth-cpu", "benchmarks/encoder-growth-cpu"),
    "speed-images": ("benchmarks/images-cpu",),
    "speed-optics": (
        "benchmarks/optics-ideal-cpu",
        "benchmarks/optics-chip-cpu",
        "benchmarks/optics-parts-cpu",
        "benchmarks/optics-train-cpu",
        "benchmarks/optics-through-cpu",
    ),
    "speed-predictor": ("benchmarks/predictor-cpu",),
    "peer": ("benchmarks/peer-huggingface-cpu", "benchmarks/peer-crossbar-cpu"),
}
SIDES = ("kept", "given back")
EQUAL = "equal within the range"


def speed(results: Results, *names: str) -> str:
    """Tabulates comparisons: times of both sides, and how many times faster the first one is.

    A difference of the two results is followed by the standard deviation of the results.

    Args:
      results: the files of results.
      names: files with comparisons.
    """
    documents = {name: results.document(name) for name in names}
    head = ["first / second side", "size", "pass", "first, ms", "second, ms"]
    head += ["times faster (lowest to highest)", "temporary memory", "largest difference"]
    lines = [
        [
            row["what"],
            " ".join(row[key] for key in ("size", "dtype") if key in row),
            row.get("pass", ""),
            significant(row["ours_ms"]) if "ours_ms" in row else "",
            significant(row["other_ms"]) if "other_ms" in row else "",
            times_faster(row),
            times(row["temporary_memory"]) if "temporary_memory" in row else "",
            f"{row['difference']} of {row['deviation']}" if "difference" in row else "",
        ]
        for document in documents.values()
        for row in document["rows"]
    ]
    return table(head, lines) + notes(documents)


def times_faster(row: Row) -> str:
    """Returns the ratio with its range, and which side is faster if it is below 1, or that neither is."""
    if "times_faster" not in row:
        return value(row)
    text = f"{significant(row['times_faster'])} ({span(row)})"
    if row["lowest"] <= 1 <= row["highest"]:
        return f"{text}; {EQUAL}"
    return text if row["times_faster"] >= 1 else f"{text}; second is faster"


def value(row: Row) -> str:
    """Returns a measured number with its unit and, if it has one, its range."""
    text = f"{significant(row['value'])} {row['unit']}".strip()
    if "lowest" not in row:
        return text
    equal = row["unit"] == "times faster" and row["lowest"] <= 1 <= row["highest"]
    return f"{text} ({span(row)}){f'; {EQUAL}' if equal else ''}"


def span(row: Row) -> str:
    """Formats the lowest and highest ratio of a row."""
    return f"{significant(row['lowest'])} to {significant(row['highest'])}"


def times(ratio: int | float) -> str:
    """Formats a ratio with an x."""
    return f"{significant(ratio)} x"


def values(results: Results, *names: str) -> str:
    """Tabulates files with single numbers as rows.

    Args:
      results: the files of results.
      names: the files.
    """
    documents = {name: results.document(name) for name in names}
    lines = [[row["what"], value(row)] for document in documents.values() for row in document["rows"]]
    return table(["what", "measured"], lines) + notes(documents)


def kept(results: Results, name: str) -> str:
    """Tabulates training steps with freed memory kept and returned: time, page faults and most memory.

    Args:
      results: the files of results.
      name: the file.
    """
    document = results.document(name)
    head = ["first / second side", "size", "first, ms", "second, ms", "times faster (lowest to highest)"]
    head += ["page faults per step: first", "second", "most memory: first", "second"]
    lines = []
    for row in document["rows"]:
        line = [row["what"], row["size"], significant(row["ours_ms"]), significant(row["other_ms"])]
        line += [times_faster(row), *(f"{row[f'faults, {side}']:,}" for side in SIDES)]
        lines.append(line + [f"{row[f'most memory, {side}, MB']:,} MB" for side in SIDES])
    return table(head, lines) + notes({name: document})


def fixed_parts(results: Results) -> str:
    """Tabulates time and temporary memory of ordinary training steps and of steps by fixed parts."""
    head = ["step", "size", "ordinary, ms", "8 parts, ms", "ratio (lowest to highest)"]
    head += ["temporary memory, ordinary", "8 parts"]

    def cells(row: Row) -> list[str]:
        line = [
            row["what"].partition(":")[0],
            row["size"],
            *(significant(row[f"{side}_ms"]) for side in ("ours", "other")),
        ]
        ratio = f"{times(row['times_faster'])} ({span(row)})"
        return [*line, ratio, *(f"{significant(row[f'{side}_mb'])} MB" for side in ("whole", "parts"))]

    return listed(results, "benchmarks/fixed-parts-cpu", head, cells)


def generation(results: Results) -> str:
    """Tabulates the time of continuing a text with cached state, and with the whole network each time."""
    head = [
        "mixer",
        "cached, ms",
        "whole network, ms",
        "times faster (lowest to highest)",
        "ms per token, cached",
    ]

    def cells(row: Row) -> list[str]:
        line = [row["mixer"], *(significant(row[f"{side}_ms"]) for side in ("ours", "other"))]
        return [*line, times_faster(row), significant(row["ms_per_token"])]

    return listed(results, "benchmarks/generate-cpu", head, cells)


def growth(results: Results, name: str) -> str:
    """Tabulates time and memory of each mixer over the number of tokens, and their growth."""
    document = results.document(name)
    rows = document["rows"]
    lengths = sorted({row["t"] for row in rows})
    first = lengths[max(len(lengths) - 4, 0)]
    lines = []
    for mixer in dict.fromkeys(row["mixer"] for row in rows):
        for key, unit in (("ms", "ms"), ("temporary_mb", "MB")):
            mine = {row["t"]: row[key] for row in rows if row["mixer"] == mixer}
            cells = [significant(mine[t]) if t in mine else NOT_RUN for t in lengths]
            both = mine.get(first) and lengths[-1] in mine
            ratio = times(mine[lengths[-1]] / mine[first]) if both else NOT_RUN
            lines.append([mixer, unit, *cells, ratio])
    head = ["mixer", "", *(f"{t:,}" for t in lengths), f"{lengths[-1]:,} over {first:,}"]
    return table(head, lines) + notes({name: document})
