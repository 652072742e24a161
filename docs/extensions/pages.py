"""Pages that are made from the code when the site is built, and links from pages to the code's own page."""

import ast
import importlib
import inspect
import posixpath
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "ops": "The mathematics: pure functions of arrays",
    "layers": "Weights: Flax modules",
    "optics": "The Fourier-optical engine",
    "": "The model and its configuration",
    "data": "Data",
    "train": "Training",
    "inference": "A trained model in use",
    "pretrained": "Published weights",
    "studies": "Studies",
}


def write_reference(app: Sphinx) -> None:
    """docs/api/: a page for each room and one for each module in it; only files that change are written."""
    folder = ROOT / "docs" / "api"
    folder.mkdir(exist_ok=True)
    pages: dict[str, str] = {}
    rooms = []
    for room, title in ROOMS.items():
        names = []
        for file in sorted((ROOT / "fourier_attn" / room).glob("**/*.py" if room else "*.py")):
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            if file.stem == "__init__" or module == "fourier_attn.main":
                continue
            summary = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n")[0]
            names.append(module)
            name = module.removeprefix("fourier_attn.")
            pages[module] = f"# {name}\n\n" + directive("automodule", module, "members")
            assert summary, f"{file} has no docstring"
        index = room or "package"
        pages[index] = f"# {title}\n\n" + public(".".join(filter(None, ["fourier_attn", room])))
        pages[index] += "## Modules\n\n```{toctree}\n:maxdepth: 1\n\n" + "\n".join(names) + "\n```\n"
        rooms.append(index)
    pages["index"] = (
        "# Reference\n\nThe names that each package exports, and every module, from its docstrings. What a "
        "room may import: [architecture](../architecture.md).\n\n```{toctree}\n:maxdepth: 2\n\n"
        + "\n".join(rooms)
        + "\n```\n"
    )
    keep(folder, pages)


def public(package: str) -> str:
    """Returns a table of the names that a package exports, "" where it exports none."""
    face = importlib.import_module(package)
    rows = []
    for name in getattr(face, "__all__", ()):
        value = getattr(face, name)
        if callable(value):
            summary = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split()).replace("|", "\\|")
            rows.append(f"| {{py:obj}}`{name} <{value.__module__}.{name}>` | {summary} |")
    head = f"{inspect.getdoc(face)}\n\n`from {package} import NAME`:\n\n| name | |\n|---|---|\n"
    return head + "\n".join(rows) + "\n\n" if rows else ""


def directive(kind: str, name: str, *options: str) -> str:
    """One of Sphinx's autodoc."""
    lines = [f".. {kind}:: {name}", *(f"   :{option}:" for option in options)]
    return "\n".join(["```{eval-rst}", *lines, "```", "", ""])


def keep(folder: Path, pages: dict[str, str]) -> None:
    """Writes pages that have changed, and deletes those that are no more."""
    for old in folder.glob("*.md"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        file = folder / f"{name}.md"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


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
        if path != room and room in ROOMS:
            return f"]({posixpath.relpath(f'docs/api/{room}.md', here)})"
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


def lead_back(app: Sphinx, env: BuildEnvironment) -> None:
    """From source to the reference, not to the page of a mixer, which shows the same without anchors."""
    for module, entry in getattr(env, "_viewcode_modules", {}).items():
        if entry:
            documented = entry[2]
            documented.update(dict.fromkeys(documented, f"docs/api/{module}"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_reference)
    app.connect("source-read", lead_to_pages)
    app.connect("env-updated", lead_back)
    app.connect("html-page-context", open_one_branch, priority=100)  # before the theme
    app.connect("html-page-context", level_headings, priority=900)  # after the theme
    return {"parallel_read_safe": True, "parallel_write_safe": True}
