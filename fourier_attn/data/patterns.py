"""Which regular expressions of a tokenizer's file match in a time that does not explode.

The library tries one way after another. Where a group that repeats can match the same letters in several
ways, their number doubles with each letter; beyond a limit the library ends the process with a panic.
Published tokenizers repeat single letters and classes only.
"""

import re

# An escape, the begin of a group, a quantifier; else one letter. Classes of letters have been replaced.
PIECE = re.compile(
    r"\\[pP]\{[^}]*\}|\\[kg]<[^>]*>|\\.|\(\?<?[=!>]|\(\?[a-zA-Z-]*:|\(\?<\w+>|[()|]"
    r"|[*+?][?+]?|\{\d*,?\d*\}[?+]?|.",
    re.DOTALL,
)
BACKWARDS = re.compile(r"\\[1-9kg]")  # refers to what matched before
MOST = 3  # repetitions without a limit in one alternative: each multiplies by the length of the text


def check_pattern(pattern: str) -> None:
    """Checks that a pattern has no repeated group with repetitions or alternatives in it.

    Raises: ValueError.
    """
    told = f"its pattern {pattern[:40]!r}"
    choices, unlimited = (
        [0],
        [0],
    )  # of each open group: ways in it; unlimited repetitions in this branch
    closed = 0  # choices of the group that has just been closed
    for piece in PIECE.findall(_without_classes(pattern)):
        repeats, before, closed = _repeats(piece), closed, 0
        if BACKWARDS.match(piece):
            raise ValueError(f"{told} refers to what it has matched, which may take for ever; simplify it")
        if piece == "|":
            choices[-1] += 1
            unlimited[-1] = 0
        elif piece.startswith("("):
            choices.append(0)
            unlimited.append(0)
        elif piece == ")" and len(choices) > 1:
            closed = choices.pop()
            choices[-1] += closed
            unlimited[-2:] = [sum(unlimited[-2:])]
        elif repeats:
            if before and repeats != "once":
                raise ValueError(
                    f"{told} repeats a group that repeats or chooses, which may take for ever; simplify it"
                )
            choices[-1] += 1
            unlimited[-1] += repeats == "unlimited"
        if unlimited[-1] > MOST:
            raise ValueError(f"{told} repeats {MOST + 1} parts without a limit; simplify it")


def _repeats(piece: str) -> str:
    """Returns how often the part before may match: "once", "counted", "unlimited"; "" for another piece."""
    if piece[0] in "*+":
        return "unlimited"
    if piece[0] == "?":
        return "once"
    counts = re.fullmatch(r"\{(\d*)(,?)(\d*)\}[?+]?", piece)
    if not counts or not (counts[1] or counts[3]):
        return ""  # a brace is a letter
    if counts[2] and not counts[3]:
        return "unlimited"
    return "once" if int(counts[3] or counts[1]) < 2 else "counted"


def _without_classes(pattern: str) -> str:
    """Returns the pattern with one letter in place of each class, as [^\\s[:digit:]]."""
    found, depth, escaped = [], 0, False
    for letter in pattern:
        plain, escaped = not escaped, letter == "\\" and not escaped
        if plain and letter == "[":
            depth += 1
            found += ["x"] if depth == 1 else []
        elif plain and letter == "]" and depth:
            depth -= 1
        elif not depth:
            found.append(letter)
    return "".join(found)
