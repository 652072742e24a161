"""Formats rows of cells as text in columns, for terminals."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], right: bool = False) -> list[str]:
    """Returns one line per row, with columns as wide as their widest cell.

    Rows with fewer cells than the longest row do not affect the widths.

    Args:
      rows: cells of each row.
      right: whether to align all columns but the first to the right, for numbers.
    """
    most = max(map(len, rows), default=0)
    widths = [max(len(row[i]) for row in rows if len(row) == most) for i in range(most)]
    lines = []
    for row in rows:
        first, *rest = map(str.ljust, row, widths)
        if right and len(row) == most:
            rest = map(str.rjust, row[1:], widths[1:])
        lines.append("  ".join([first, *rest]).rstrip())
    return lines
