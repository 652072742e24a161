"""Reads equations in the plain notation of docstrings, and writes them as LaTeX.

An equation is plain text, as in

    y[i] = sum_{j < t} softmax_j(q[i] . k[j] / sqrt(k)) v[j]

`to_latex` reads this notation: `name[..]` and `name_x` are indices, `name_{..}` and `name^x` are subscripts
and superscripts, name(..) is a function of the bracket, |..| is an absolute value, / makes a fraction of its
two neighbours, and // rounds it down. Names of the code, such as frame_rate_hz, stay as they are. Text after
an equation and three or more blanks is a remark. After a comma it is another equation. A line that begins
with "+ " or "= " continues the line above. In the running text of a docstring or of an option, dollar signs
surround an equation in this notation, which `around` reads.
"""

import re
from collections.abc import Callable

GREEK = "alpha beta gamma delta eta lambda mu pi sigma tau phi omega"
FUNCTIONS = "exp sin cos log max min Re Im"
RELATIONS = {"<=": r"\le", ">=": r"\ge", "<": "<", ">": ">", "=": "=", "->": r"\to", "~": r"\sim"}
TOKEN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<name>[A-Za-z]{2,}(?:_[A-Za-z]{2,})+|[A-Za-z]+\d*'?)"
    r"|(?P<dots>\.\.\.?)|(?P<relation><=|>=|->|[<>=~])|(?P<blank>\s+)|(?P<other>.)"
)


class Reader:
    """A recursive reader of one equation."""

    def __init__(self, text: str) -> None:
        self.tokens = [(match.lastgroup or "", match.group()) for match in TOKEN.finditer(text)]
        self.place = 0

    def look(self, ahead: int = 0) -> str:
        place = self.place + ahead
        return self.tokens[place][1] if 0 <= place < len(self.tokens) else ""

    def take(self) -> tuple[str, str]:
        self.place += 1
        return self.tokens[self.place - 1]

    def until(self, end: str) -> str:
        """LaTeX of all up to a closing bracket, which is taken, too; "" is the end of the text."""
        parts: list[str] = []
        while self.place < len(self.tokens) and self.look() != end:
            if self.look() == "/" or (self.look().isspace() and self.look(1) == "/"):
                self._fraction(parts)
            elif self.look() == " " and self._beside_words():
                self.take()
                parts.append(r"\ ")
            else:
                parts.append(self.item())
        if end:
            if self.look() != end:
                raise ValueError(f"a bracket is not closed: {end!r} is missing")
            self.take()
        return " ".join(part for part in parts if part)

    def _beside_words(self) -> bool:
        """Whether the blank at hand parts words, or a word and what it stands beside."""
        signs = {self.look(-1), self.look(1)} & {*"+-,;", *RELATIONS}
        return not signs and (self._word(-1) or self._word(1))

    def _word(self, ahead: int) -> bool:
        """Whether a token is a word of a sentence, which needs blanks around it."""
        text = self.look(ahead)
        named = {*GREEK.split(), *FUNCTIONS.split(), "sum", "sqrt", "conj"}
        alone = self.look(ahead - 1) not in ("_", "^") and self.look(ahead + 1) not in ("_", "^", "(", "[")
        return len(text) > 1 and text.isalpha() and text not in named and alone

    def _fraction(self, parts: list[str]) -> None:
        slashes = 0
        while self.look() == "/" or self.look().isspace():
            slashes += self.take()[1] == "/"
        while parts and not parts[-1].strip("\\ "):
            parts.pop()
        if not parts:
            raise ValueError("nothing stands above a fraction")
        above, below = parts.pop(), self.item()
        fraction = rf"\frac{{{bare(above)}}}{{{bare(below)}}}"
        parts.append(rf"\left\lfloor {fraction} \right\rfloor" if slashes > 1 else fraction)

    def item(self) -> str:
        """A number, a name or a bracket with its indices and powers."""
        kind, text = self.take()
        if kind == "blank":
            return r"\quad" if len(text) > 1 else ""
        if kind == "relation":
            return RELATIONS[text]
        if kind == "dots":
            return r"\ldots"
        if kind == "number":
            return self.raised(text)
        if kind == "name":
            return self.name(text)
        if text in "([":
            end = {"(": ")", "[": "]"}[text]
            return self.raised(rf"\left{text} {self.until(end)} \right{end}")
        if text == "|":
            return self.raised(rf"\left| {self.until('|')} \right|")
        if text == "{":
            return rf"\left\{{ {self.until('}')} \right\}}"
        return {".": r"\cdot", "*": r"\star", "&": r"\&", "%": r"\%", "#": r"\#"}.get(text, text)

    def name(self, text: str) -> str:
        if text == "sqrt" and self.look() == "(":
            self.take()
            return self.raised(rf"\sqrt{{{self.until(')')}}}")
        prime, word = "'" * text.endswith("'"), text.rstrip("'")
        if word in ("sum", "max", "min") and self.look() == "_":
            self.take()
            return rf"\{word}_{{{self.argument()}}}"
        if word in GREEK.split() or word in FUNCTIONS.split():
            latex = rf"\{word}" if word != "Re" and word != "Im" else rf"\operatorname{{{word}}}"
        elif len(word) == 1 or re.fullmatch(r"[A-Za-z]\d", word):
            latex = word if len(word) == 1 else f"{word[0]}_{word[1]}"
            if len(word) == 2 and self.look() in ("_", "["):
                latex = rf"{{{latex}}}"
        elif self.look() == "(" and "_" not in word:
            latex = rf"\operatorname{{{word}}}"
        else:
            latex = rf"\text{{{word}}}"
        named = self.raised(latex + prime)
        return f"{named} {self.item()}" if self.look() == "(" else named  # with what it is a function of

    def raised(self, base: str) -> str:
        """The base with what stands below it, [..] or _x, and above it, ^x."""
        below, above = [], ""
        while True:
            if self.look() == "[" and not base.startswith(r"\left"):
                self.take()
                below.append(self.until("]"))
            elif self.look() == "_":
                self.take()
                below.append(self.argument())
            elif self.look() == "^":
                self.take()
                above = self.argument()
            else:
                break
        if below:
            base = f"{{{base}}}_{{{', '.join(below)}}}"
        return f"{{{base}}}^{{{above}}}" if above else base

    def argument(self) -> str:
        """What belongs to _ or ^: one token, a bracket, or a number with its sign."""
        if self.look() == "{":
            self.take()
            return self.until("}")
        if self.look() == "(":
            self.take()
            return self.until(")")
        if self.look() == "-":
            self.take()
            return "-" + self.take()[1]
        text = self.take()[1]
        return rf"\{text}" if text in GREEK.split() else text if len(text) == 1 else rf"\text{{{text}}}"


def bare(latex: str) -> str:
    """Without the brackets that a fraction makes needless."""
    match = re.fullmatch(r"\\left\( (.*) \\right\)", latex)
    return match[1] if match and match[1].count(r"\left(") == match[1].count(r"\right)") else latex


def to_latex(text: str) -> str:
    """Returns the LaTeX of an equation in plain text.

    Args:
      text: the equation, in the notation of this module.
    Raises: ValueError for a bracket that is not closed.
    """
    return Reader(text.strip()).until("")


def around(text: str, escape: Callable[[str], str], form: str) -> str:
    """Returns text with its equations as LaTeX, and all else but `code` escaped.

    Args:
      text: a line or paragraph of a docstring, with equations in plain notation between dollar signs.
      escape: what is done to text that is neither code nor an equation.
      form: how the result marks an equation; its LaTeX takes the place of {}.
    """
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        pieces = INLINE.split(parts[i])
        pieces[::2] = map(escape, pieces[::2])
        pieces[1::2] = [form.format(to_latex(piece)) for piece in pieces[1::2]]
        parts[i] = "".join(pieces)
    return "`".join(parts)


INLINE = re.compile(r"\$([^$\n]+)\$")
REMARK = re.compile(r"(?<![,;:\s])\s{3,}(?=\S)")


def lines_of(block: str) -> list[tuple[str, str]] | None:
    """Returns LaTeX and remark of each line of a block; None if one of its lines is not an equation."""
    found: list[tuple[str, str]] = []
    for line in block.splitlines():
        equation, *remark = REMARK.split(line.strip(), maxsplit=1)
        continued = equation.startswith(("+ ", "= ")) and found
        begins = re.match(r"[^=<>`~]{1,60} [=~] \S", equation)
        if not (continued or begins) or "`" in equation or "://" in line:
            return None
        try:
            found.append((to_latex(equation), " ".join(remark)))
        except (ValueError, IndexError):
            return None
    return found or None
