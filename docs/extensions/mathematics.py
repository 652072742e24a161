"""Equations as MathML, made when the site is built: no script, no font, no network.

`evidence/pages/equations.py` reads the plain notation of docstrings. If every line of an indented block is an
equation, the block is rendered, in docstrings and on pages alike. All other blocks stay plain text. In the
running text of a docstring, dollar signs surround an equation in this notation. On pages they surround LaTeX.
"""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

from evidence.pages.equations import lines_of


def show(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Puts equations in the place of the blocks that are some."""
    for block in list(doctree.findall(nodes.literal_block)):
        plain = block.get("language", "default") in ("default", "none", "text")
        equations = lines_of(block.astext()) if plain else None
        if equations:
            table = nodes.container(classes=["equations"])
            for latex, remark in equations:
                row = nodes.container(classes=["equation"])
                row += nodes.math_block("", latex, nowrap=True, number=None, label=None)
                row += remarks(remark)
                table += row
            block.replace_self(table)


def remarks(text: str) -> list[nodes.Node]:
    """A paragraph with the remark, of which `code` is shown as code."""
    if not text:
        return []
    paragraph = nodes.paragraph(classes=["remark"])
    for i, part in enumerate(text.split("`")):
        paragraph += nodes.literal("", part) if i % 2 else nodes.Text(part)
    return [paragraph]


def visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("doctree-resolved", show)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
