"""Makes tables of what trained networks and single layers look like inside."""

import statistics
from typing import Any

from evidence.pages.markdown import NOT_RUN, Results, notes, table
from fourier_attn.studies.inside.matrix_views import NONE, structures

# What the chapter's table says of its three layers.
CHAPTER = {
    "fc": "fixed input dim, N² parameters",
    "token_conv": "variable input dim, k parameters, commutes with translations",
    "attention": "variable input dim, parameters of query, key and value, commutes with permutations",
}


def attention_table(results: Results, name: str) -> str:
    """Lists where questions look, as mean and deviation over the runs of one kind."""
    documents = results.runs(name)
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for document in documents.values():
        for row in document["rows"]:
            groups.setdefault((row["network"], row["asked"]), []).append(row)
    columns = ("accuracy", "share", "best_head", "pointing", "chance")
    lines = [
        [*key, str(len(rows)), *(_in_percent([row[column] for row in rows]) for column in columns)]
        for key, rows in groups.items()
    ]
    head = ["network", "asked for", "seeds", "right, %", "weight on the asked shape, %", "of the best head"]
    head += ["its largest weight is there", "patches of that shape, %"]
    return table(head, lines or [[NOT_RUN, *[""] * 7]]) + notes(documents)


def _in_percent(values: list[float]) -> str:
    deviation = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.1f}{deviation}"


def matrix_table(results: Results, name: str) -> str:
    """Lists rank, distinct entries and structure of the matrix of each layer."""
    document = results.document(name)
    head = ["layer", "rank", "distinct entries", "products T ⊗ F", "structure", "depends on x"]
    lines = [
        [
            f"`{row['layer']}`",
            f"{row['rank']} of {row['rows']}",
            f"{row['distinct']:,}",
            str(row["products"]),
            ", ".join(structures(row)) or "none",
            "yes" if row["depends_on_x"] > NONE else "no",
        ]
        for row in document["rows"]
    ]
    return table(head, lines) + notes({name: document})


def property_table(results: Results, name: str) -> str:
    """Lists sizes, symmetries and cost of each layer next to what the chapter says."""
    document = results.document(name)
    head = [
        "layer",
        "lengths",
        "parameters",
        "translation",
        "cyclic",
        "permutation",
        "10⁶ operations",
        "growth",
    ]
    lines = [
        [
            f"`{row['layer']}`",
            row["lengths"],
            row["growth"] if row["growth"].isdigit() else f"{row['growth']} = {row['parameters']:,}",
            *(_exact(row[kind]) for kind in ("translation", "cyclic", "permutation")),
            f"{row['operations'] / 1e6:.2g}",
            f"$t^{{{row['power_of_t']:.1f}}}$" if row["operations"] else "",
            CHAPTER.get(row["layer"], ""),
        ]
        for row in document["rows"]
    ]
    return table([*head, "the chapter"], lines) + notes({name: document})


def _exact(residual: float) -> str:
    """Returns a residual, and says whether it is rounding alone."""
    if residual < NONE:
        return f"**yes** ({residual:.0e})" if residual else "**yes** (0)"
    return f"no ({residual:.2g})"
