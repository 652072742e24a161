"""Tabulates cells that were trained again (`evidence.report.repeat`)."""

from evidence.pages.markdown import Results, Row, listed

REPEATED = "evidence/repeated"


def repeats_table(results: Results) -> str:
    """Lists each cell that was trained again, with the values that were compared and those that differ."""

    def cells(row: Row) -> list[str]:
        both = [row["first"], row["second"]]
        trained = [f"{each['commit'][:9]}, {each['date'][:10]}" for each in both]
        cores = ", ".join(str(each["hardware"]["cores"]) for each in both)
        scores = ["failed" if each["score"] is None else f"{each['score']:.4g}" for each in both]
        kinds = ("metrics", "answers")
        counts = [f"{row[kind]:,} ({row[f'{kind}_different']:,})" if row[kind] else "" for kind in kinds]
        return [f"`{row['cell']}`", *trained, cores, row["metric"], *scores, *counts]

    head = ["cell", "published", "again", "cores", "score", "first", "second", "metrics", "answers"]
    return listed(results, REPEATED, head, cells)


def repeats(results: Results) -> str:
    """Returns how many of the cells that were trained again have the same metrics and answers, in words."""
    rows = results.document(REPEATED)["rows"]
    same = sum(not row["metrics_different"] and not row["answers_different"] for row in rows)
    return f"{same} of {len(rows)} cells in {len({row['tier'] for row in rows})} tiers"


def largest_change(results: Results) -> str:
    """Returns the largest difference of the accuracies of two trainings of a cell, in points."""
    rows = [row for row in results.document(REPEATED)["rows"] if row["metric"] == "test accuracy"]
    changes = [abs(row["first"]["score"] - row["second"]["score"]) for row in rows]
    return f"{100 * max(changes):.2f}"
