"""Writes the API reference when the site is built: a page for each package, and one for each module."""

import ast
import importlib
import inspect
from pathlib import Path

import reference_pages
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {  # packages with public names, in the order of the index; "" is the top level
    "": "Top level",
    "ops": "Operations",
    "layers": "Layers",
    "optics": "Optical engine",
    "optics.parts": "Parts of an engine",
    "data": "Data",
    "data.text": "Tokenizers",
    "config": "Configuration",
    "train": "Training",
    "pretrained": "Published weights",
}
INTERNAL = {  # folders of internal modules
    "": "Top level",
    "ops": "Operations",
    "layers": "Layers",
    "optics": "Optical engine",
    "data": "Data",
    "config": "Configuration",
    "train": "Training",
    "inference": "Prediction and export",
    "pretrained": "Published weights",
    "studies": "Studies",
}


def write_reference(app: Sphinx) -> None:
    """Writes the pages of docs/api/ that have changed."""
    folder = ROOT / "docs" / "api"
    folder.mkdir(exist_ok=True)
    pages = {"configuration": reference_pages.options_page(), "flags": reference_pages.flags_page()}
    index = [
        "# API reference",
        "The public names, under the package from which you import them. All other "
        "modules are [internal](internal.md). The [architecture](../architecture.md) says which package may "
        "import which.",
    ]
    for room, title in ROOMS.items():
        package = f"fourier_attn.{room}".rstrip(".")
        page = room or "package"
        pages[page] = package_page(package, title)
        index += [f"## [{title}]({page}.md)", f"`from {package} import ...`", name_table(package)]
    contents = [*(room or "package" for room in ROOMS), "internal"]
    index.append("\n".join(["```{toctree}", ":hidden:", "", *contents, "```"]))
    pages["index"] = "\n\n".join(index) + "\n"
    pages["internal"] = internal_page(pages)
    keep(folder, pages)


def package_page(package: str, title: str) -> str:
    """Returns the page of a package: its public names in one table, then the documentation of each."""
    face = importlib.import_module(package)
    about = (inspect.getdoc(face) or "").split("\n\n")[0]
    parts = [f"# {title}", f"`{package}`: {about}", name_table(package), ""]
    for name in public_names(package):
        if is_module(f"{package}.{name}"):
            continue
        kind = "autoclass" if inspect.isclass(getattr(face, name)) else "autofunction"
        options = ("members",) if kind == "autoclass" else ()
        parts.append(directive(kind, f"{package}.{name}", *options))
    return "\n\n".join(parts)


def name_table(package: str) -> str:
    """Returns a table of the names that a package exports, each with the first sentence of its docstring."""
    face = importlib.import_module(package)
    rows = []
    for name in public_names(package):
        full = f"{package}.{name}"
        target = f"{full}.{name}" if is_module(full) else full
        rows.append(f"| {{py:obj}}`{name} <{target}>` | {sentence(getattr(face, name))} |")
    return "\n".join(["| Name | Description |", "|---|---|", *rows])


def public_names(package: str) -> list[str]:
    """Returns the functions and classes that a package exports."""
    face = importlib.import_module(package)
    return [name for name in face.__all__ if callable(getattr(face, name))]


def is_module(name: str) -> bool:
    """Returns whether a public name is also that of a module, whose page then has its documentation."""
    return (ROOT / f"{name.replace('.', '/')}.py").exists()


def sentence(value: object) -> str:
    """Returns the first sentence of a docstring, for a cell of a table."""
    return first_sentence(inspect.getdoc(value) or "").replace("|", "\\|")


def first_sentence(docstring: str) -> str:
    """Returns the first sentence of a docstring as Markdown."""
    first = " ".join(docstring.split("\n\n")[0].split()).partition(". ")[0].rstrip(".:") + "."
    return reference_pages.escaped(first)


def internal_page(pages: dict[str, str]) -> str:
    """Adds a page for each module to `pages`, and returns the page that lists them.

    The pages are not in the navigation, which would repeat 240 links on each of them.
    """
    text = "# Internal modules\n\nEvery module, in the folders of the package. They may change at any time.\n"
    for room, title in INTERNAL.items():
        lines = []
        for file in sorted((ROOT / "fourier_attn" / room).glob("**/*.py" if room else "*.py")):
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            if file.stem == "__init__" or module == "fourier_attn.main":
                continue
            about = ast.get_docstring(ast.parse(file.read_text()))
            assert about, f"{file} has no docstring"
            name = module.removeprefix("fourier_attn.")
            lines.append(f"- [{name}]({module}.md): {first_sentence(about)}")
            head = f"---\norphan: true\n---\n\n# {name}\n\n"
            pages[module] = head + directive("automodule", module, "members")
        text += "\n".join(["", f"## {title}", "", *lines, ""])
    return text


def directive(kind: str, name: str, *options: str) -> str:
    """Returns one of Sphinx's autodoc directives."""
    lines = [f".. {kind}:: {name}", *(f"   :{option}:" for option in options)]
    return "\n".join(["```{eval-rst}", *lines, "```", "", ""])


def keep(folder: Path, pages: dict[str, str]) -> None:
    """Writes pages that have changed, and deletes pages that no longer exist."""
    for old in folder.glob("*.md"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        file = folder / f"{name}.md"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
