"""Pages of the mixers, one for each, that are made when the site is built."""

import ast
import functools
import json
import re
import runpy
from pathlib import Path

from api_pages import ROOT, directive, keep
from sphinx.application import Sphinx

from fourier_attn import style
from fourier_attn.studies.inside import matrix_layers, matrix_views
from fourier_attn.studies.inside.matrix_layers import D, T

MATRICES = ROOT / "results" / "studies" / "matrices.json"


def write_mixers(app: Sphinx) -> None:
    """docs/mixers/: of each mixer its layer, its op, its matrix and what all tables say of it."""
    layers = mixers()
    measured_matrices = json.loads(MATRICES.read_text())
    folder = ROOT / "docs" / "mixers"
    folder.mkdir(exist_ok=True)
    names = "\n".join(layers)
    pages = {"index": f"# Mixers, one by one\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"}
    for name, (module, layer) in layers.items():
        op = module.replace(".layers.", ".ops.")
        text = f"# {name}\n\n"
        text += f"`--config.model.mixer.name={name}`; all mixers side by side: [mixers](../mixers.md).\n\n"
        text += picture(name, measured_matrices, folder)
        text += "## Layer\n\n" + directive("autoclass", f"{module}.{layer}", "no-index")
        if (ROOT / f"{op.replace('.', '/')}.py").exists():
            text += f"## Op\n\nThe mathematics, [`{op.removeprefix('fourier_attn.')}`](../api/{op}.md).\n\n"
            text += directive("automodule", op, "members", "no-index")
        pages[name] = text + measured(name)
    keep(folder, pages)


def picture(name: str, document: dict, folder: Path) -> str:
    """Of a mixer as a matrix, which is drawn where what it is drawn from is newer."""
    rows = [row for row in document["rows"] if row["layer"] == name]
    if not rows:
        return ""
    file = folder / f"{name}.png"
    sources = (MATRICES, *(Path(module.__file__) for module in (matrix_layers, matrix_views, style)))
    if not file.exists() or file.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        style.save(matrix_views.plot_layer(document, name), file)
    [row] = rows
    kinds = ", ".join(matrix_views.structures(row)) or "no structure"
    words = f"rank {row['rank']} of {row['rows']}, {row['distinct']:,} distinct entries, {kinds}"
    width = 26 if "weights" in row else 13
    return (
        f"```{{figure}} {name}.png\n:alt: The matrix of {name}: {words}\n:width: {width}em\n\n"
        f"Every output against every input, around {T} random tokens of {D} features, with "
        f"initial parameters; red above zero, blue below: {words}. "
        "[All layers, and how they are drawn](../chapter.md#matrices-section-1-8)\n```\n\n"
    )


@functools.cache
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
            # A row in view is also among the folded ones.
            rows = list(dict.fromkeys(line for line in lines[2:] if mixer_of(line) == name))
            if rows:
                title = f"From [{page.stem}](../{page.name}), table {table}:"
                found.append("\n".join([title, "", *lines[:2], *rows]))
    return "## Measured\n\n" + "\n\n".join(sorted(found)) + "\n" if found else ""


def mixer_of(row: str) -> str | None:
    """The mixer that a row of a table is about: by name, or by a model's or file's."""
    first = row.strip("|").split("|")[0].strip(" `")
    if match := re.fullmatch(r"(configs/\w+\.py)(?::([\w-]+))?", first):
        return configured(*match.groups())
    named = re.split(r"[`\s,]", first)[0]
    return models().get(first, named if named in mixers() else None)


@functools.cache
def configured(file: str, argument: str | None) -> str:
    """The mixer of a configuration file."""
    get_config = runpy.run_path(str(ROOT / file))["get_config"]
    config = get_config(argument) if argument else get_config()
    return config.model.mixer.name


@functools.cache
def models() -> dict[str, str]:
    """The mixer of each model of the study on IMDb."""
    small = runpy.run_path(str(ROOT / "configs" / "imdb_small.py"))
    return {name: mixer for name, (mixer, _) in small["MODELS"].items()}


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_mixers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
