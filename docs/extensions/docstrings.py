"""Docstrings of this project, plain text, as reStructuredText.

A docstring is paragraphs, indented blocks that are shown as they stand, and sections at its end: `Args:` and
`Parameters:` name things, `Returns:`, `Shapes:`, `Units:`, `Masking:`, `Raises:` and `Source:` say something.
In its text, dollar signs surround an equation in plain notation, which `evidence/pages/equations.py` reads.
"""

import itertools
import re
from typing import Any

from sphinx.application import Sphinx

from evidence.pages.equations import around

SECTION = re.compile(r"(Args|Returns|Raises|Shapes|Units|Masking|Source|Parameters): ?(.*)")
ENTRY = re.compile(r"([\w.*]+(?:, [\w.*]+)*): (.*)")


def escape(text: str) -> str:
    """Returns text in which only `code`, and an equation between dollar signs, has a meaning."""
    return around(text, lambda part: re.sub(r"([*|\\]|_(?=\W|$))", r"\\\1", part), ":math:`{}`")


def to_rst(lines: list[str]) -> list[str]:
    """The lines of a docstring, its common indentation taken away, as reStructuredText."""
    heads = [i for i, line in enumerate(lines) if SECTION.match(line)]
    result = flow(lines[: heads[0]] if heads else lines)
    for begin, end in itertools.pairwise([*heads, len(lines)]):
        name, first = SECTION.match(lines[begin]).groups()
        result += ["", *section(name, first, dedent(lines[begin + 1 : end]))]
    return [*result, ""]


def section(name: str, first: str, lines: list[str]) -> list[str]:
    """A field with its text, or with a list of what it names."""
    if name != "Args" and first:
        return [f":{name}:", *indent(flow([first, *lines]))]
    entries: list[tuple[str, list[str]]] = []
    for line in [first, *lines] if first else lines:
        match = ENTRY.match(line)
        if match:
            entries.append((match[1], [match[2]]))
        elif entries:  # more on the thing above
            entries[-1][1].append(line)
        else:
            return [f":{name}:", *indent(flow(lines))]
    result = [f":{name}:"]
    for names, text in entries:
        said = flow([text[0], *dedent(text[1:])])
        result += ["", f"   ``{names}``", *indent(indent(said))]
    return result


def flow(lines: list[str]) -> list[str]:
    """Returns paragraphs, and literal blocks: lines that are indented after an empty line.

    An example, which begins with `>>>`, is a block of its own even where it follows an equation directly.
    """
    result: list[str] = []
    block = ""  # the kind of the block that the line before belongs to
    for i, line in enumerate(lines):
        text = line.strip()
        if text and not line.startswith("  "):
            if block:
                result.append("")
            block = ""
        elif block == "equation" and text.startswith(">>>"):
            result += ["", "::", ""]
            block = "example"
        elif text and not block and (i == 0 or not lines[i - 1].strip()):
            result += ["::", ""]
            block = "example" if text.startswith(">>>") else "equation"
        result.append(f"  {line}" if block else escape(text))
    return result


def indent(lines: list[str]) -> list[str]:
    return [f"   {line}" if line else "" for line in lines]


def dedent(lines: list[str]) -> list[str]:
    depth = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[depth:] for line in lines]


def process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = to_rst(lines)


def short_signature(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Returns a signature without the fields that all of Flax's modules have, and with short types."""
    signature = signature and re.sub(r", parent: .*\)$", ")", signature)
    return signature and short(signature), returns and short(returns)


def short(signature: str) -> str:
    """Returns a signature with types as the code writes them, for example Float[Array, 'b t d']."""
    signature = signature.replace("jaxlib._jax.Array", "Array").replace("MappingProxyType({})", "{}")
    signature = re.sub(r"dtype\('(\w+)'\)", r"\1", signature)
    return re.sub(r"(: ~?(?:\w+\.)*)(\w+) = <factory>", r"\1\2 = \2()", signature).replace("<factory>", "...")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", short_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
