"""Formats rows of cells as text in columns, for terminals."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], right: bool = False) -> list[str]:
    """Returns a line for each row, in columns as wide as their widest cell.

    Rows with fewer cells than the longest do not count for the widths.

    Args:
      right: whether all columns but the first are aligned to the right, as numbers are.
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
