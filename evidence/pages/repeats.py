"""Tabulates cells that were trained again (`evidence.report.repeat`)."""

from evidence.pages.markdown import Results, Row, listed

REPEATED = "evidence/repeated"


def repeats_table(results: Results) -> str:
    """Lists each cell that was trained again, with the values that were compared and those that differ."""

    def cells(row: Row) -> list[str]:
        trained = [f"{row[which]['commit'][:9]}, {row[which]['date'][:10]}" for which in ("first", "second")]
        counts = [
            f"{row[what]:,} ({row[f'{what}_different']:,})" if row[what] else ""
            for what in ("metrics", "answers")
        ]
        largest = f"{row['largest_relative']:.0e}" if row["metrics_different"] else ""
        return [f"`{row['cell']}`", *trained, counts[0], largest, counts[1]]

    head = ["cell", "published", "again", "metrics", "largest relative difference", "answers"]
    return listed(results, REPEATED, head, cells)


def repeats(results: Results) -> str:
    """Returns how many of the cells that were trained again are bitwise the same, in words."""
    rows = results.document(REPEATED)["rows"]
    same = sum(not row["metrics_different"] and not row["answers_different"] for row in rows)
    return f"{same} of {len(rows)} cells in {len({row['tier'] for row in rows})} tiers"


def different_answers(results: Results) -> str:
    """Returns how many of the test answers of these cells differ, in words."""
    rows = results.document(REPEATED)["rows"]
    different, compared = (sum(row[name] for row in rows) for name in ("answers_different", "answers"))
    return f"{different:,} of {compared:,}"
