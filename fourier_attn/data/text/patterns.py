"""Rejects regular expressions in a tokenizer file that can take exponential time, or nearly so.

The library tries one way of matching after another, and fails beyond a limit. The number of ways grows

    as a power of the text's length     with the number of unlimited repetitions in one branch
    as a product                        with the choices in one branch: (a|a)(a|a) has four ways, a?a? as well
    exponentially with the length       if a repeated group itself contains repetitions or choices

This module bounds all of these. A fixed number of repetitions is not a choice. Neither are alternatives that
begin with different letters, because at most one of them matches.
"""

import dataclasses
import re
from collections import Counter

# An escape, the begin of a group, options, a quantifier, or one letter. Classes are replaced beforehand.
PIECE = re.compile(
    r"\\[pP]\{[^}]*\}|\\[kg]<[^>]*>|\\.|\(\?<?[=!>]|\(\?[a-zA-Z-]*:|\(\?<\w+>|\(\?[a-zA-Z-]+\)|[()|]"
    r"|[*+?][?+]?|\{\d*,?\d*\}[?+]?|.",
    re.DOTALL,
)
BACKWARDS = re.compile(r"\\[1-9kg]")  # a backreference
OPTIONS = re.compile(r"\(\?[a-zA-Z-]+[:)]")
LINES = {r"\n": "\n", r"\r": "\r", r"\t": "\t"}
MOST = 3  # largest number of unlimited repetitions in one branch; each multiplies by the text's length
CHOICES = 2**14  # largest number of ways through one branch


@dataclasses.dataclass
class _Item:
    """Describes a letter, class or group.

    Args:
      ways: number of ways through it.
      unlimited: number of unlimited repetitions in one branch of it.
    """

    ways: int = 1
    unlimited: int = 0


class _Group:
    """Holds a group that is being read: its closed branches, and the current one."""

    def __init__(self) -> None:
        self.branches: Counter[str | None] = Counter()  # ways of closed branches by first letter; None: any
        self.deepest = 0  # largest number of unlimited repetitions in a branch
        self.options = False  # whether options were set; they also apply to later branches
        self.begin()

    def begin(self) -> None:
        """Opens a branch of the pattern at this place."""
        # all parts but the last one, the last one, and their number
        self.done, self.last, self.size = _Item(), _Item(), 0
        self.first: str | None = None

    def add(self, part: _Item, letter: str | None = None) -> None:
        """Appends a part to the current branch; `letter` is its first letter, or None if it is unknown."""
        if not self.size and not self.options:
            self.first = letter
        self.done, self.last, self.size = self.whole(), part, self.size + 1

    def whole(self) -> _Item:
        """Returns the current branch as one part."""
        ways = min(self.done.ways * self.last.ways, CHOICES + 1)
        return _Item(ways, self.done.unlimited + self.last.unlimited)

    def end(self) -> None:
        """Closes the current branch, and opens the next one."""
        item = self.whole()
        self.branches[self.first] += item.ways
        self.deepest = max(self.deepest, item.unlimited)
        self.begin()

    def closed(self) -> _Item:
        """Returns the closed group as one part; only branches with the same first letter can match."""
        self.end()
        anything = self.branches.pop(None, 0)
        return _Item(max(self.branches.values(), default=0) + anything, self.deepest)

    def repeat(self, least: int, most: int | None) -> str:
        """Repeats the last part, and returns a message if this is not allowed, else "".

        Args:
          least: smallest number of repetitions.
          most: largest number; None: unlimited.
        """
        if self.size == 1:
            self.first = None  # the part may be absent
        if most is None and (self.last.ways > 1 or self.last.unlimited):
            return (
                "repeats a group that contains repetitions or alternatives, which can take exponential time"
            )
        self.last = _repeated(self.last, least, most)
        return ""


def check_pattern(pattern: str) -> None:
    """Checks that a regular expression cannot take exponential time. Raises: ValueError."""
    groups = [_Group()]
    for piece in PIECE.findall(_without_classes(pattern)):
        if wrong := _forbidden(piece) or _take(piece, groups) or _excess(groups[-1].whole()):
            raise ValueError(f"its pattern {pattern[:40]!r} {wrong}; simplify it")


def _forbidden(piece: str) -> str:
    """Returns a message if a piece is not allowed at all, else ""."""
    if BACKWARDS.match(piece):
        return "has a backreference, which can take exponential time"
    if OPTIONS.match(piece) and "x" in piece:
        return "uses free spacing (?x), so that its running time cannot be bounded"
    return ""


def _take(piece: str, groups: list[_Group]) -> str:
    """Adds a piece to the innermost open group, and returns a message if it is not allowed, else ""."""
    group, count = groups[-1], _count(piece)
    if piece == "|":
        group.end()
    elif piece == ")" and len(groups) > 1:
        groups.pop()
        groups[-1].add(group.closed())
    elif OPTIONS.match(piece) and piece.endswith(")"):
        group.options = True
    elif piece.startswith("("):
        groups.append(_Group())
    elif count and group.size:
        return group.repeat(*count)
    else:
        group.add(_Item(), _letter(piece))
    return ""


def _excess(branch: _Item) -> str:
    """Returns a message if a branch has too many ways or repetitions, else ""."""
    if branch.unlimited > MOST:
        return f"has {MOST + 1} unbounded repetitions in one branch"
    if branch.ways > CHOICES:
        return f"has more than {CHOICES:,} ways through one branch, which can take exponential time"
    return ""


def _repeated(part: _Item, least: int, most: int | None) -> _Item:
    """Returns a part with its quantifier.

    Args:
      part: the part.
      least: smallest number of repetitions.
      most: largest number; None: unlimited.
    """
    if most is None:
        return _Item(1, 1)
    ways = most - least + 1
    for _ in range(most if part.ways > 1 else 0):
        ways = ways * part.ways
        if ways > CHOICES:
            break
    return _Item(ways, part.unlimited * most)


def _letter(piece: str) -> str | None:
    """Returns the first letter of a match of a piece, in lower case; None: several are possible."""
    if piece in LINES:
        return LINES[piece]
    if piece.startswith("\\"):
        return None if piece[1].isalnum() else piece[1]
    return None if piece in ".^$" else piece.casefold()[0]


def _count(piece: str) -> tuple[int, int | None] | None:
    """Returns the smallest and largest number of repetitions of a quantifier; None for other pieces."""
    if piece[0] in "*+?":
        return int(piece[0] == "+"), 1 if piece[0] == "?" else None
    counts = re.fullmatch(r"\{(\d*)(,?)(\d*)\}[?+]?", piece)
    if not counts or not (counts[1] or counts[3]):
        return None  # the brace is a literal
    least = int(counts[1] or 0)
    if not counts[2]:
        return least, least
    return least, max(least, int(counts[3])) if counts[3] else None


def _without_classes(pattern: str) -> str:
    """Returns the pattern with a dot instead of each class, for example of `[^\\s[:digit:]]`."""
    letters, depth, escaped = [], 0, False
    for letter in pattern:
        plain, escaped = not escaped, letter == "\\" and not escaped
        if plain and letter == "[":
            depth += 1
            letters += ["."] if depth == 1 else []
        elif plain and letter == "]" and depth:
            depth -= 1
        elif not depth:
            letters.append(letter)
    return "".join(letters)
