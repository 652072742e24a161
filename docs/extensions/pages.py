"""Pages that are made from the code when the site is built, and links from pages to the code's own page."""

import ast
import posixpath
import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "ops": "The mathematics: pure functions of arrays",
    "layers": "Weights: Flax modules",
    "optics": "The Fourier-optical engine",
    "": "The model and its configuration",
    "data": "Data",
    "train": "Training",
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
        for file in sorted((ROOT / "fourier_attn" / room).glob("*.py")):
            module = ".".join(["fourier_attn", *filter(None, [room]), file.stem])
            if file.stem == "__init__" or (room == "" and file.stem == "main"):
                continue
            summary = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n")[0]
            names.append(module)
            title = module.removeprefix("fourier_attn.")
            pages[module] = f"# {title}\n\n" + directive("automodule", module, "members")
            assert summary, f"{file} has no docstring"
        index = room or "package"
        pages[index] = f"# {title}\n\n```{{toctree}}\n:maxdepth: 1\n\n" + "\n".join(names) + "\n```\n"
        rooms.append(index)
    pages["index"] = (
        "# Reference\n\nEvery public function and module, from its docstring. What a room may import: "
        "[architecture](../architecture.md).\n\n```{toctree}\n:maxdepth: 2\n\n" + "\n".join(rooms) + "\n```\n"
    )
    keep(folder, pages)


def write_mixers(app: Sphinx) -> None:
    """docs/mixers/: a page for each mixer, its layer, its op and the rows of all measured tables about it."""
    layers = mixers()
    folder = ROOT / "docs" / "mixers"
    folder.mkdir(exist_ok=True)
    names = "\n".join(layers)
    pages = {"index": f"# Mixers, one by one\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"}
    for name, (module, layer) in layers.items():
        op = module.replace(".layers.", ".ops.")
        text = f"# {name}\n\n"
        text += f"`--config.model.mixer.name={name}`; all mixers side by side: [mixers](../mixers.md).\n\n"
        text += "## Layer\n\n" + directive("autoclass", f"{module}.{layer}", "no-index")
        if (ROOT / f"{op.replace('.', '/')}.py").exists():
            text += f"## Op\n\nThe mathematics, [`{op.removeprefix('fourier_attn.')}`](../api/{op}.md).\n\n"
            text += directive("automodule", op, "members", "no-index")
        pages[name] = text + measured(name)
    keep(folder, pages)


def directive(kind: str, name: str, *options: str) -> str:
    """One of Sphinx's autodoc."""
    lines = [f".. {kind}:: {name}", *(f"   :{option}:" for option in options)]
    return "\n".join(["```{eval-rst}", *lines, "```", "", ""])


def mixers() -> dict[str, tuple[str, str]]:
    """Module and name of the layer of each mixer, from the model's table."""
    model = ast.parse((ROOT / "fourier_attn" / "model.py").read_text())
    modules = {
        alias.name: node.module
        for node in model.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    [table] = [
        node.value
        for node in model.body
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "MIXERS"
    ]
    return {
        key.value: (modules[layer.id], layer.id) for key, layer in zip(table.keys, table.values, strict=True)
    }


TABLE = re.compile(r"<!-- table: (\S+) -->\n(.*?)<!-- /table -->", flags=re.DOTALL)


def measured(name: str) -> str:
    """The rows about a mixer in all tables that are made from results."""
    found = []
    for page in (ROOT / "docs").glob("*.md"):
        for table, body in TABLE.findall(page.read_text()):
            lines = [line for line in body.splitlines() if line.startswith("|")]
            rows = [line for line in lines[2:] if re.match(rf"\|\s*`?{name}`?[\s,|]", line)]
            if rows:
                title = f"From [{page.stem}](../{page.name}), table {table}:"
                found.append("\n".join([title, "", *lines[:2], *rows]))
    return "## Measured\n\n" + "\n\n".join(sorted(found)) + "\n" if found else ""


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
        if path == "README.md":
            return f"]({posixpath.relpath('docs/index.md', here)})"
        return match.group()

    source[0] = LINK.sub(replaced, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_reference)
    app.connect("builder-inited", write_mixers)
    app.connect("source-read", lead_to_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
