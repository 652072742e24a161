"""Rejects regular expressions in a tokenizer file that can take exponential time, or nearly so.

The library tries one way after another, and gives up beyond a limit. The number of ways grows

    as a power of the text's length     with the repetitions without a limit in one branch
    as a product                        with the choices in one branch: (a|a)(a|a) has four ways, a?a? as well
    exponentially with the length       where a group repeats that itself repeats or chooses

These are bounded here. A part that is repeated a fixed number of times is not a choice, nor are alternatives
that begin with different letters, since at most one of them matches.
"""

import dataclasses
import re
from collections import Counter

# An escape, the begin of a group, options, a quantifier; else one letter. Classes have been replaced.
PIECE = re.compile(
    r"\\[pP]\{[^}]*\}|\\[kg]<[^>]*>|\\.|\(\?<?[=!>]|\(\?[a-zA-Z-]*:|\(\?<\w+>|\(\?[a-zA-Z-]+\)|[()|]"
    r"|[*+?][?+]?|\{\d*,?\d*\}[?+]?|.",
    re.DOTALL,
)
BACKWARDS = re.compile(r"\\[1-9kg]")  # refers to what matched before
OPTIONS = re.compile(r"\(\?[a-zA-Z-]+[:)]")
LINES = {r"\n": "\n", r"\r": "\r", r"\t": "\t"}
MOST = 3  # repetitions without a limit in one branch: each multiplies by the length of the text
CHOICES = 2**14  # ways through one branch


@dataclasses.dataclass
class _Item:
    """Describes a letter, class or group: the ways through it, and its unlimited repetitions."""

    ways: int = 1
    unlimited: int = 0


class _Group:
    """Holds an open group: its closed branches, and the one that is open."""

    def __init__(self) -> None:
        self.branches: Counter[str | None] = Counter()  # ways of those that begin with a letter; None: any
        self.deepest = 0  # repetitions without a limit in one branch
        self.options = False  # whether some were set in here: they hold for the branches that follow, too
        self.begin()

    def begin(self) -> None:
        """Opens a branch of the pattern at this place."""
        self.done, self.last, self.size = (
            _Item(),
            _Item(),
            0,
        )  # all parts but the last one, that, and how many
        self.first: str | None = None

    def add(self, part: _Item, letter: str | None = None) -> None:
        """Goes on with a part, which begins with a letter where that is known."""
        if not self.size and not self.options:
            self.first = letter
        self.done, self.last, self.size = self.whole(), part, self.size + 1

    def whole(self) -> _Item:
        """Returns the open branch as one part."""
        ways = min(self.done.ways * self.last.ways, CHOICES + 1)
        return _Item(ways, self.done.unlimited + self.last.unlimited)

    def end(self) -> None:
        """Closes a branch, and opens the next one."""
        item = self.whole()
        self.branches[self.first] += item.ways
        self.deepest = max(self.deepest, item.unlimited)
        self.begin()

    def closed(self) -> _Item:
        """Returns the group as a part of the one around it; at most one first letter matches."""
        self.end()
        anything = self.branches.pop(None, 0)
        return _Item(max(self.branches.values(), default=0) + anything, self.deepest)

    def repeat(self, least: int, most: int | None) -> str:
        """Repeats the last part (`most` None: without a limit); returns what is wrong with that."""
        if self.size == 1:
            self.first = None  # it may be absent
        if most is None and (self.last.ways > 1 or self.last.unlimited):
            return (
                "repeats a group that contains repetitions or alternatives, which can take exponential time"
            )
        self.last = _repeated(self.last, least, most)
        return ""


def check_pattern(pattern: str) -> None:
    """Checks that the ways through a pattern are few: choices, repetitions, and repeated groups with these.

    Raises: ValueError.
    """
    groups = [_Group()]
    for piece in PIECE.findall(_without_classes(pattern)):
        if wrong := _forbidden(piece) or _take(piece, groups) or _excess(groups[-1].whole()):
            raise ValueError(f"its pattern {pattern[:40]!r} {wrong}; simplify it")


def _forbidden(piece: str) -> str:
    """Returns what is wrong with a piece itself, if anything is."""
    if BACKWARDS.match(piece):
        return "has a backreference, which can take exponential time"
    if OPTIONS.match(piece) and "x" in piece:
        return "uses free spacing (?x), with which its running time cannot be bounded"
    return ""


def _take(piece: str, groups: list[_Group]) -> str:
    """Goes on with a piece in the groups that are open; returns what is wrong with it, if anything is."""
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
    """Returns what there is too much of in a branch, if anything is."""
    if branch.unlimited > MOST:
        return f"has {MOST + 1} unbounded repetitions in one branch"
    if branch.ways > CHOICES:
        return f"has more than {CHOICES:,} ways through one branch, which can take exponential time"
    return ""


def _repeated(part: _Item, least: int, most: int | None) -> _Item:
    """Returns a part with its quantifier; without a limit it is one part whose ways grow with the text."""
    if most is None:
        return _Item(1, 1)
    ways = most - least + 1
    for _ in range(most if part.ways > 1 else 0):
        ways = ways * part.ways
        if ways > CHOICES:
            break
    return _Item(ways, part.unlimited * most)


def _letter(piece: str) -> str | None:
    """Returns the letter with which a match of a piece begins, whatever its case; None: it may be several."""
    if piece in LINES:
        return LINES[piece]
    if piece.startswith("\\"):
        return None if piece[1].isalnum() else piece[1]
    return None if piece in ".^$" else piece.casefold()[0]


def _count(piece: str) -> tuple[int, int | None] | None:
    """Returns how often the part before is repeated, at least and at most; None: it is not a quantifier."""
    if piece[0] in "*+?":
        return int(piece[0] == "+"), 1 if piece[0] == "?" else None
    counts = re.fullmatch(r"\{(\d*)(,?)(\d*)\}[?+]?", piece)
    if not counts or not (counts[1] or counts[3]):
        return None  # a brace is a letter
    least = int(counts[1] or 0)
    if not counts[2]:
        return least, least
    return least, max(least, int(counts[3])) if counts[3] else None


def _without_classes(pattern: str) -> str:
    """Returns the pattern with a dot in place of each class, as [^\\s[:digit:]]."""
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
