"""Makes the table of programs on an engine."""

from collections.abc import Mapping

from evidence.pages.markdown import NOT_RUN, Results, Row, notes, table
from evidence.pages.projected import spread


def programs_table(results: Results, name: str) -> str:
    """Lists call sites, passes, errors, compile time, time and energy of each program.

    Args:
      results: the files of results.
      name: of the file of `fourier_attn.studies.engine.programs`.
    """
    documents = results.runs(name)
    if not documents:
        return table(["program"], [[NOT_RUN]])
    head = ["program", "data", "call sites", "passes", "output, dB", "worst site, dB", "gradient"]
    head += ["compile, s", "time, us", "energy, uJ"]
    return table(head, [_cells(row) for row in documents[name]["rows"]]) + notes(documents)


def _cells(row: Row) -> list[str]:
    plain, through = row["compile_s"]["plain"], row["compile_s"]["through"]
    return [
        row["program"],
        " x ".join(map(str, row["shape"])),
        f"{row['optical']} of {row['call_sites']}",
        f"{row['passes']:,}",
        f"{row['output_db']:.1f}",
        f"{min(row['sites_db'].values()):.1f}",
        f"{row['gradient_error']:.0e}",
        f"{through:.1f} (plain {plain:.1f})",
        _range(row["seconds"]),
        _range(row["joules"]),
    ]


def _range(values: Mapping[str, float]) -> str:
    return spread(dict(values), 1e6) if values else "no converters"


def predictions_table(results: Results, name: str) -> str:
    """Lists the measured and the predicted error of each call site.

    Args:
      results: the files of results.
      name: of the file of `fourier_attn.studies.engine.predictions`.
    """
    documents = results.runs(name)
    if not documents:
        return table(["program"], [[NOT_RUN]])
    lines = []
    for row in documents[name]["rows"]:
        low, high = row["predicted_db"]
        steps = f"{row['steps']:,}" if "steps" in row else "-"
        words = [row["program"], steps, row["site"], str(row["stages"]), f"{row['measured_db']:.1f}"]
        lines.append([*words, f"{low:.1f} to {high:.1f}", "yes" if row["inside"] else "no"])
    head = ["program", "trained steps", "call site", "stages", "measured, dB", "predicted, dB", "agrees"]
    return table(head, lines) + notes(documents)
