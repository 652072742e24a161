"""Equations in plain text become MathML, and nothing else does: evidence/pages/equations.py.

What is shown is compared with the text by its value: both are computed with whole numbers modulo a prime, in
which every name stands for a number of its own, and every function for an arbitrary one.
"""

import ast
import contextlib
import hashlib
import importlib
import json
import re
import sys
import textwrap
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from conftest import ROOT

from evidence.pages import equations
from evidence.pages.engines import parameters
from evidence.pages.markdown import Results
from fourier_attn.config.describe import every_option
from fourier_attn.optics import Engine
from fourier_attn.optics.engine_spec import every_parameter

nodes = pytest.importorskip("docutils.nodes")
publish_doctree = pytest.importorskip("docutils.core").publish_doctree
MarkdownIt = pytest.importorskip("markdown_it").MarkdownIt
pytest.importorskip("latex2mathml")

PRIME = 2**61 - 1
TOKEN = re.compile(r"[A-Za-z]+\d*'?|\d+(?:\.\d+)?(?:e-?\d+)?|\.\.\.?|//|<=|>=|->|\S")
SIGNS = {
    "∼": "~",
    "≤": "<=",
    "≥": ">=",
    "→": "->",
    "…": "..",
    "∑": "sum",
    "⋆": "*",
    "·": ".",
    "⋅": ".",
    "−": "-",
}
RELATIONS = (",", ";", "=", "<", ">", "<=", ">=", "->", "~")
Value = int | tuple


@pytest.fixture(scope="module")
def docstring_pages() -> ModuleType:
    """The site's extension that reads docstrings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "extensions")
        found = importlib.import_module("docstrings")
    sys.modules.pop("docstrings")
    return found


@pytest.fixture(scope="module")
def literal(docstring_pages: ModuleType) -> list[tuple[str, str]]:
    return list(blocks(docstring_pages))


class Evaluator:
    """The value of an equation, in the notation of the docstrings; {..} is a bracket that follows no name."""

    def __init__(self, text: str) -> None:
        self.tokens = [(match.group(), match.start(), match.end()) for match in TOKEN.finditer(text)]
        self.place = 0

    def look(self) -> str:
        return self.tokens[self.place][0] if self.place < len(self.tokens) else ""

    def touches(self) -> bool:
        """Whether there is no blank before the next token."""
        before = self.tokens[self.place - 1 : self.place + 1]
        return len(before) == 2 and before[0][2] == before[1][1]

    def take(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1][0]

    def listed(self, end: str) -> tuple:
        """Sums, and the signs of relations and commas between them."""
        parts: list[Value | str] = []
        while self.look() != end:
            assert self.look(), f"{end} is missing"
            parts.append(self.take() if self.look() in RELATIONS else self.sum(end))
        if end:
            self.take()
        return tuple(parts)

    def sum(self, end: str) -> int:
        total = 0
        while self.look() not in (end, *RELATIONS, ""):
            sign = {"+": 1, "-": -1}.get(self.look(), 0)
            if sign:
                self.take()
            total += (sign or 1) * self.product(end)
        return total % PRIME

    def product(self, end: str) -> int:
        result, last = 1, 1
        while self.look() not in (end, "+", "-", *RELATIONS, ""):
            if self.look() in ("/", "//"):
                whole, below = self.take() == "//", pow(self.factor(), -1, PRIME)
                share = last * below % PRIME
                result *= pow(last, -1, PRIME) * (drawn("floor", share) if whole else share)
            elif self.look() == ".":
                self.take()
            else:
                last = self.factor()
                result *= last
        return result % PRIME

    def factor(self) -> int:
        """A number, name or bracket with its indices, its power and what it is a function of."""
        token = self.take()
        named = token[0].isalpha() and token not in ("Re", "pi", "sum")
        if token in "([{":
            inner = self.listed({"(": ")", "[": "]", "{": "}"}[token])
            value = inner[0] if token != "[" and len(inner) == 1 else drawn(token, inner)
        elif token in ("|", "⌊"):
            value = drawn({"|": "abs", "⌊": "floor"}[token], self.listed({"|": "|", "⌊": "⌋"}[token])[0])
        else:
            value = drawn(token)
        while True:
            if self.look() == "_" or (self.look() == "[" and self.touches()):
                value = drawn("index", value, self.index())
            elif self.look() == "^":
                self.take()
                value = drawn("power", value, self.argument())
            elif self.look() == "(" and named:
                self.take()
                value, named = drawn("call", value, self.listed(")")), False
            else:
                return value

    def index(self) -> tuple:
        """All indices of a name, however they are written."""
        found: tuple = ()
        while self.look() == "_" or (self.look() == "[" and self.touches()):
            more = self.argument() if self.take() == "_" else self.listed("]")
            found += more if isinstance(more, tuple) else (more,)
        return tuple(part for part in found if part != ",")

    def argument(self) -> Value:
        """What belongs to _ or ^."""
        if self.look() in ("{", "("):
            inner = self.listed({"{": "}", "(": ")"}[self.take()])
            return inner if len(inner) > 1 else inner[0]
        sign = -1 if self.look() == "-" and self.take() else 1
        return sign * drawn(self.take()) % PRIME


def drawn(*what: object) -> int:
    """The number that stands for this; whole numbers are themselves."""
    if len(what) == 1 and str(what[0]).isdigit():
        return int(str(what[0]))
    if len(what) == 1 and isinstance(what[0], str) and (match := re.fullmatch(r"([A-Za-z])(\d)", what[0])):
        return drawn("index", drawn(match[1]), (int(match[2]),))  # x2 is shown as x_2
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:7], "big")


def written(element: ElementTree.Element) -> str:
    """MathML in the notation of the docstrings."""
    kind = element.tag.rpartition("}")[2]
    parts = [written(child) for child in element]
    if kind == "mfrac":
        return f" {{ {{ {parts[0]} }} / {{ {parts[1]} }} }} "
    if kind in ("msub", "munder"):
        return f"{parts[0].rstrip()}[{parts[1]}]"
    if kind == "msup":
        return f"{parts[0].strip()}'" if parts[1].strip() == "'" else f"{parts[0]}^({parts[1]})"
    if kind == "msubsup":
        return f"{parts[0].rstrip()}[{parts[1]}]^({parts[2]})"
    if kind == "msqrt":
        return f" sqrt( {parts[0]} ) "
    if parts:
        word = all(child.get("mathvariant") == "normal" for child in element)
        return ("" if word else " ").join(parts)
    text = (element.text or "").strip()
    if len(text) == 1 and unicodedata.name(text).startswith("GREEK SMALL LETTER"):
        text = unicodedata.name(text).rpartition(" ")[2].lower().replace("lamda", "lambda")
    return "'" if text == "′" else SIGNS.get(text, text)


CODE = ("python", ".venv", "pip ", "make ", "kubectl ", "<", "[CLS]", "[project")
FORMULA = re.compile(r"\S (=|~|<=) \S|\bsum_|\bsqrt\(|\bexp\(|\^|[\w)\]'] [+-] [\w(]")


def blocks(docstring_pages: ModuleType) -> Iterator[tuple[str, str]]:
    """Place and text of every literal block without a language: of docstrings, pages and notebooks."""
    for room in ("fourier_attn", "evidence", "launch"):
        texts = []
        for path in sorted((ROOT / room).rglob("*.py")):
            for name, docstring in docstrings_of(ast.parse(path.read_text())):
                text = "\n".join(docstring_pages.to_rst(docstring.splitlines()))
                if "::\n" in text:
                    texts.append(f"{path.relative_to(ROOT)}:{name}\n\n{text}")
        place = ""
        tree = publish_doctree("\n\n".join(texts), settings_overrides={"report_level": 5})
        for block in tree.children:
            place = block.astext() if block.astext().startswith(f"{room}/") else place
            yield from ((place, literal.astext()) for literal in block.findall(nodes.literal_block))
    for path in pages():
        for token in MarkdownIt().parse(markdown(path)):
            if token.type == "code_block" or (token.type == "fence" and token.info in ("", "text")):
                yield str(path.relative_to(ROOT)), textwrap.dedent(token.content).strip("\n")


def docstrings_of(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Name and docstring of a module, of its classes, and of functions that are not within another."""
    yield getattr(node, "name", ""), ast.get_docstring(node) or ""
    for each in node.body:
        if isinstance(each, ast.ClassDef):
            yield from docstrings_of(each)
        elif isinstance(each, ast.FunctionDef):
            yield each.name, ast.get_docstring(each) or ""


def pages() -> Iterator[Path]:
    """What the site shows besides docstrings; not what is made of these when it is built."""
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    for room, pattern in (("docs", "*.md"), ("results", "*.md"), ("notebooks", "*.ipynb")):
        yield from sorted(
            path for path in (ROOT / room).rglob(pattern) if not {"api", "mixers"} & {*path.parts}
        )


def markdown(path: Path) -> str:
    if path.suffix == ".md":
        return path.read_text()
    cells = json.loads(path.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def is_code(block: str) -> bool:
    """Whether a block is a command, quotes words, or has a line of Python, whatever remark follows it."""
    if ">>>" in block:
        return block.startswith(">>>")
    lines = [re.split(r"\s{3,}", line.strip())[0] for line in block.splitlines() if line.strip()]
    return '"' in block or any(line.startswith(CODE) for line in lines) or all(map(is_python, lines))


def is_python(line: str) -> bool:
    with contextlib.suppress(SyntaxError):
        ast.parse(line)
        return True
    return False


def same(text: str, latex: str) -> bool:
    """Whether what is shown has the value of the text."""
    convert = importlib.import_module("latex2mathml.converter").convert
    shown = written(ElementTree.fromstring(convert(latex)))
    text = "".join(SIGNS.get(letter, letter) for letter in text)
    return Evaluator(text).listed("") == Evaluator(shown).listed("")


def test_equations_become_latex() -> None:
    assert equations.to_latex("y[i] = x_j / sqrt(k)") == r"{y}_{i} = \frac{{x}_{j}}{\sqrt{k}}"
    assert equations.lines_of("y = F x      a remark") == [("y = F x", "a remark")]
    (both,) = equations.lines_of("y = F x,    z = G x")
    assert both == (r"y = F x , \quad z = G x", "")
    for text in ("python -m this --a=b", "CPU   rfft", "y = (x"):
        assert equations.lines_of(text) is None, text


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("y = softmax(x) / 2", r"y = \operatorname{softmax} \frac{x}{2}"),
        ("y = a / exp(x)", r"y = \frac{a}{\exp} \left( x \right)"),
        ("y = f_j(x)^2 / c", r"y = {f}_{j} \frac{{\left( x \right)}^{2}}{c}"),
        ("y = exp(-|t - s| / tau)", r"y = \exp \left( - \left| t - \frac{s}{\tau} \right| \right)"),
        ("y = x[p - r // 2]", r"y = {x}_{p - \frac{r}{2}}"),
    ],
)
def test_a_fraction_takes_whole_functions(text: str, wrong: str) -> None:
    """And the comparison sees where it does not."""
    assert same(text, equations.to_latex(text))
    assert not same(text, wrong)


def test_every_equation_means_what_its_text_says(literal: list[tuple[str, str]]) -> None:
    found = [(place, block) for place, block in literal if equations.lines_of(block)]
    assert len(found) > 60
    for place, block in found:
        texts = [equations.REMARK.split(line.strip(), maxsplit=1)[0] for line in block.splitlines()]
        for text, (latex, _) in zip(texts, equations.lines_of(block), strict=True):
            assert not re.search(r"/ sum\b|/ d [a-z]", text), f"{place}: {text}: bracket what is divided"
            assert same(text, latex), f"{place}: {text}\n{latex}"


SHOWN = re.compile(r":math:`([^`]*)`")
MOST = 44  # letters of an equation within a sentence; a longer one is a block


def test_every_equation_in_a_sentence_means_what_its_text_says(docstring_pages: ModuleType) -> None:
    found = 0
    for place, docstring in docstrings():
        texts = equations.INLINE.findall(re.sub(r"`[^`]*`", "", docstring))
        shown = SHOWN.findall("\n".join(docstring_pages.to_rst(docstring.splitlines())))
        assert len(texts) == len(shown), f"{place}: {texts}: keep an equation on one line, and code out of it"
        for text, latex in zip(texts, shown, strict=True):
            assert len(text) <= MOST, f"{place}: {text}: make it an indented block"
            assert same(text, latex), f"{place}: {text}\n{latex}"
        found += len(texts)
    assert found > 200


def test_every_equation_of_an_option_means_what_its_text_says() -> None:
    found = 0
    for place, text in option_texts():
        for latex in SHOWN.findall(equations.around(text, str, ":math:`{}`")):
            plain = equations.INLINE.findall(text)
            assert any(same(each, latex) for each in plain), f"{place}: {plain}\n{latex}"
            found += 1
    assert found > 20


def option_texts() -> Iterator[tuple[str, str]]:
    """Yields name and description of all options, and of an engine's parameters without their units."""
    for title, options in every_option():
        if title != "model.mixer.engine":
            yield from ((option.name, option.text) for option in options)
    yield from ((name, what.text) for _, name, what, _ in every_parameter(Engine()))


def test_a_table_of_parameters_has_equations_as_latex() -> None:
    table = parameters(Results(ROOT), "modulator")
    assert r"$\sqrt{1 - {a}^{2}}$" in table


def docstrings() -> Iterator[tuple[str, str]]:
    """Yields place and text of the docstrings of all functions and classes, private ones included."""
    for room in ("fourier_attn", "evidence", "launch"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    place = f"{path.relative_to(ROOT)}:{getattr(node, 'name', '')}"
                    yield place, ast.get_docstring(node) or ""


# Code, marked equations, links and tags, in which a sign is no equation of a sentence.
OTHER = re.compile(r"`[^`]*`|\$\$.*?\$\$|\$[^$\n]*\$|\]\([^)]*\)|https?:\S+|<[^>\n]*>", re.DOTALL)
RAW = re.compile(
    r"[A-Za-z\])|] (?:=|~|<=|>=) [-(|]?[A-Za-z]|\bsum_|\bsqrt\(|[\w)\]}]\^[-({\w]|\b(?:exp|conj|cos|sin)\("
    r"|\b[A-Za-z]\[[^\]\n]{1,12}\]|\b[A-Za-z]_[a-z0-9]\b|\blog\d*\(|\b\d / (?:\(|[A-Za-z]\b)"
    r"|[A-Za-z] = \d+ [-+/] |\b[a-zA-Z] = [a-zA-Z] /"
)


def test_no_equation_of_a_sentence_stays_plain_text() -> None:
    """Generated tables are left out, and the README, which PyPI shows without LaTeX."""
    texts = [(place, sentences(docstring)) for place, docstring in docstrings()] + [*option_texts()]
    for path in pages():
        text = re.sub(r"(?s)<!-- table: .*?<!-- /table -->", "", markdown(path))
        tokens = MarkdownIt().enable("table").parse(text if path.name != "README.md" else "")
        texts += [(str(path.relative_to(ROOT)), token.content) for token in tokens if token.type == "inline"]
    raw = [
        f"{place}: {line.strip()}"
        for place, text in texts
        for line in OTHER.sub("", text).splitlines()
        if RAW.search(line)
    ]
    assert not raw, "\n".join(raw)


@pytest.mark.parametrize(
    "text",
    [
        *("y[i] = x", "sum_i", "by sqrt(k) if", "2^b - 1", "exp(-t)", "of x[i]", "W_q"),
        *("10 log10(s) dB", "1 / (1 - f)", "f = 1 - 1 / S", "1 / f", "k = d / h"),
    ],
)
def test_a_raw_equation_is_found(text: str) -> None:
    assert RAW.search(OTHER.sub("", text))
    assert not RAW.search(OTHER.sub("", f"one `{text}` or ${text}$ or none"))


def sentences(docstring: str) -> str:
    """Returns a docstring without its indented blocks; the entries of a section are no block."""
    kept: list[str] = []
    block = empty = False
    for line in docstring.splitlines():
        depth = len(line) - len(line.lstrip())
        block = block if not line.strip() else depth >= 2 and (block or empty)
        empty = not line.strip()
        kept += [] if block else [line]
    return "\n".join(kept)


def test_no_equation_stays_plain_text(literal: list[tuple[str, str]]) -> None:
    raw = [
        f"{place}:\n{block}"
        for place, block in literal
        if not equations.lines_of(block) and not is_code(block) and looks_like_one(block)
    ]
    assert not raw, "\n\n".join(raw)


def looks_like_one(block: str) -> bool:
    lines = (equations.REMARK.split(line.strip(), maxsplit=1)[0] for line in block.splitlines())
    return any(FORMULA.search(line) for line in lines)
