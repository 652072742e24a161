"""Makes the tables of programs on an engine."""

from collections.abc import Mapping

from evidence.pages.markdown import Results, Row, listed
from evidence.pages.projected import spread


def programs_table(results: Results, name: str) -> str:
    """Lists call sites, passes, errors, compile time, time and energy of each program.

    Args:
      results: the files of results.
      name: of the file of `fourier_attn.studies.engine.programs`.
    """
    head = ["program", "data", "call sites", "passes", "output, dB", "worst site, dB", "gradient"]
    head += ["compile, s", "time, us", "energy, uJ"]
    return listed(results, name, head, _program)


def _program(row: Row) -> list[str]:
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


def bounds_table(results: Results, name: str) -> str:
    """Lists each published speed-up with the share that it implies, and our bound for this share.

    Args:
      results: the files of results.
      name: of the file of `fourier_attn.studies.engine.bounds`.
    """
    return listed(results, name, ["program", "published", "implied share, %", "our bound"], _bound)


def _bound(row: Row) -> list[str]:
    return [row["program"], f"{row['published']:g}", f"{100 * row['share']:.2f}", f"{row['bound']:.4g}"]


def predictions_table(results: Results, name: str) -> str:
    """Lists the measured and the predicted error of each call site.

    Args:
      results: the files of results.
      name: of the file of `fourier_attn.studies.engine.predictions`.
    """
    head = ["program", "trained steps", "call site", "stages", "measured, dB", "predicted, dB", "agrees"]
    return listed(results, name, head, _prediction)


def _prediction(row: Row) -> list[str]:
    low, high = row["predicted_db"]
    return [
        row["program"],
        f"{row['steps']:,}" if "steps" in row else "-",
        row["site"],
        str(row["stages"]),
        f"{row['measured_db']:.1f}",
        f"{low:.1f} to {high:.1f}",
        "yes" if row["inside"] else "no",
    ]
