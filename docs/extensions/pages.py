"""Leads links and the navigation to the pages that are made when the site is built."""

import posixpath
import re

from api_pages import INTERNAL, ROOMS, ROOT
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

PLAIN = re.compile(r'<span class="(?:[nopw]|nn)">([^<]*)</span>')
LINK = re.compile(r"\]\((?P<path>(?:\.\./)+[^)\s#]+)(?P<anchor>#[^)]*)?\)")


def lead_to_pages(app: Sphinx, page: str, source: list[str]) -> None:
    """Links to modules lead to their page in the reference, and links to other files to the file as text."""
    here = posixpath.dirname(page)

    def replaced(match: re.Match) -> str:
        path = posixpath.normpath(posixpath.join(here, match["path"]))
        if path.startswith("fourier_attn/") and path.endswith(".py"):
            module = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            if (ROOT / "docs" / "api" / f"{module}.md").exists():
                return f"]({posixpath.relpath(f'docs/api/{module}.md', here)})"
        room = path.removeprefix("fourier_attn/")
        if path != room and room in (*ROOMS, *INTERNAL):
            name = room if room in ROOMS else "internal"
            return f"]({posixpath.relpath(f'docs/api/{name}.md', here)})"
        if path == "README.md":
            return f"]({posixpath.relpath('docs/index.md', here)})"
        return match.group()

    source[0] = LINK.sub(replaced, source[0])


def open_one_branch(app: Sphinx, page: str, template: str, context: dict, tree: object) -> None:
    """Of the navigation the branches around a page, not all pages of the site in each of them."""
    if whole := context.get("toctree"):
        context["toctree"] = lambda **options: whole(**options | {"collapse": True})


def level_headings(app: Sphinx, page: str, template: str, context: dict, tree: object) -> None:
    """Captions of the navigation are headings for a reader of screens, which asks of which level."""
    name = "furo_navigation_tree"
    context[name] = context.get(name, "").replace('role="heading"', 'role="heading" aria-level="2"')


def drop_plain_spans(app: Sphinx, page: str, template: str, context: dict, tree: object) -> None:
    """Gives names, operators, punctuation and white space in code the colour of all text.

    Without their spans the site is a sixth smaller.
    """
    context["body"] = PLAIN.sub(r"\1", context.get("body", ""))


def lead_back(app: Sphinx, env: BuildEnvironment) -> None:
    """From source to the reference, not to the page of a mixer, which shows the same without anchors."""
    modules = getattr(env, "_viewcode_modules", {})
    for module, entry in modules.items():
        if entry:
            own, public = f"docs/api/{module}", f"docs/api/{module.removeprefix('fourier_attn.')}"
            page = own if own in env.found_docs else public
            if page in env.found_docs:
                code, tags, documented, _ = entry
                modules[module] = (code, tags, dict.fromkeys(documented, page), module)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", lead_to_pages)
    app.connect("env-updated", lead_back)
    app.connect("html-page-context", open_one_branch, priority=100)  # before the theme
    app.connect("html-page-context", drop_plain_spans)
    app.connect("html-page-context", level_headings, priority=900)  # after the theme
    return {"parallel_read_safe": True, "parallel_write_safe": True}
