"""Fills in the generated parts of the pages in docs/mixers, one for each mixer.

A page is written by hand. A line `<!-- mixer: PART -->` stands for a part from another owner: `equation`,
`padding` and `sources` are from the layer's docstring, `matrix` and `measurements` from results/, and
`reference` is the layer, the op and the standalone file.
"""

import functools
import inspect
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from api_pages import ROOT, directive
from reference_pages import escaped
from sphinx.application import Sphinx

from evidence.pages.markdown import significant, table
from evidence.suite.cells import TWINS
from evidence.suite.ledger import interval, published, score
from fourier_attn import config, style
from fourier_attn.model import MIXERS
from fourier_attn.optics import components, cost, preset
from fourier_attn.standalone import standalone
from fourier_attn.standalone.inline import brief, sections
from fourier_attn.studies.engine.workload import work
from fourier_attn.studies.inside import matrix_layers, matrix_views
from fourier_attn.studies.inside.matrix_layers import D, T

MATRICES = ROOT / "results" / "studies" / "matrices.json"
GROWTH = ROOT / "results" / "benchmarks" / "growth-cpu.json"
BUILT = ROOT / "build" / "mixers"  # pictures and standalone files
TIERS = {  # tier of the suite: test set, and where its report is
    "1": ("IMDb", "imdb"),
    "sst2": ("SST-2", "sst2"),
    "listops": ("ListOps", "listops"),
    "fashion_mnist": ("Fashion-MNIST", "fashion_mnist"),
    "cifar10": ("CIFAR-10", "cifar10"),
    "recall": ("synthetic recall", "recall"),
}
OTHERS = (*TWINS, "hybrid", "conv_attention")  # endings of models with engines, or with several mixers
TIMED = {
    "attention": "attention",
    "circular": "circular",
    "fourier": "fourier",
    "lambda": "lambda, context 3",
}
TOKENS = 512  # of the timing, and of the passes of light
ENGINE = "chip_11x11"
COST = re.compile(r"^\| \[`(\w+)`\]\([^|]*\|([^|]*)\|([^|]*)\|", flags=re.MULTILINE)  # in docs/mixers.md
MARK = re.compile(r"^<!-- mixer: (\w+) -->$", flags=re.MULTILINE)


def documented(name: str) -> dict[str, str]:
    """Returns the sections of the docstring of a mixer's layer."""
    return sections(inspect.getdoc(MIXERS[name]) or "")


def equation(name: str) -> str:
    """Returns the equations of a layer as an indented block."""
    return brief(documented(name)[""]).partition("\n\n")[2]


def section(name: str, title: str) -> str:
    """Returns a section of a layer's docstring as a paragraph that begins with a capital letter."""
    text = escaped(" ".join(documented(name)[title].split()))
    return text[0].upper() + text[1:]


def matrix(name: str) -> str:
    """Returns the figure of a mixer as a matrix; the picture is drawn anew where its sources are newer."""
    document = json.loads(MATRICES.read_text())
    [row] = [row for row in document["rows"] if row["layer"] == name]
    file = BUILT / f"{name}.png"
    sources = (MATRICES, *(Path(module.__file__) for module in (matrix_layers, matrix_views, style)))
    if not file.exists() or file.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        BUILT.mkdir(parents=True, exist_ok=True)
        style.save(matrix_views.plot_layer(document, name), file)
    kinds = ", ".join(matrix_views.structures(row)) or "none"
    words = f"rank {row['rank']} of {row['rows']}, {row['distinct']:,} distinct entries, structure: {kinds}"
    width = 26 if "weights" in row else 13
    return (
        f"```{{figure}} /build/mixers/{name}.png\n:alt: The matrix of {name}: {words}\n:width: {width}em\n\n"
        "The figure shows the derivative of every output with respect to every input, for "
        f"{T} random tokens of {D} features and initial parameters. Red is positive and blue is negative. "
        f"Rank: {row['rank']} of {row['rows']}. "
        f"Distinct entries: {row['distinct']:,}. Structure: {kinds}. "
        "[All layers, and how they are drawn](../chapter.md#matrices-section-1-8)\n```"
    )


def measurements(name: str) -> str:
    """Returns one table with what a mixer costs and how accurate its networks are."""
    parameters, cost = costs()[name]
    lines = [["parameters of one layer", parameters, "d = 128, default options"]]
    if cost:
        lines.append(
            ["multiplications for one sequence, up to a constant factor", cost, "[symbols](../mixers.md)"]
        )
    lines += timed(name) + optical(name)
    for tier, (title, folder) in TIERS.items():
        for model, findings in published(ROOT, tier).items():
            if findings[0]["mixer"] == name and not model.endswith(OTHERS):
                report = f"[report](../../results/evidence/{folder}/report.md), `{model}`"
                lines.append([f"test accuracy on {title}, %", accuracy(findings), report])
    return table(["Measure", "Value", "Setting and source"], lines) + (
        "\nEach accuracy is a mean, followed by its 95 % interval and, in parentheses, the number of seeds. "
        "The interval covers the variation between seeds. If single predictions are stored, it also covers "
        "the variation between test examples. [Results](../evidence.md) compares all mixers.\n"
        if len(lines) > 3
        else ""
    )


def accuracy(findings: list[dict[str, Any]]) -> str:
    """Returns mean, 95 % interval and number of seeds."""
    mean = sum(map(score, findings)) / len(findings)
    low, high = interval(findings)
    between = "" if math.isnan(low) else f", {100 * low:.2f} to {100 * high:.2f}"
    return f"{100 * mean:.2f}{between} ({len(findings)})"


def timed(name: str) -> list[list[str]]:
    """Returns the row with a mixer's time, as a ratio to attention's."""
    rows = json.loads(GROWTH.read_text())["rows"]
    ms = {row["mixer"]: row["ms"] for row in rows if row["t"] == TOKENS}
    if name == "attention" or name not in TIMED:
        return []
    ratio = significant(ms[TIMED[name]] / ms["attention"])
    setting = f"{TOKENS} tokens, d = 128, CPU, [timings](../performance.md)"
    return [["time of forward and backward pass, relative to attention with full heads", ratio, setting]]


def optical(name: str) -> list[list[str]]:
    """Returns the rows with the cost of a mixer's transforms on an emulated engine, if it can use one."""
    if "engine" not in MIXERS[name].__dataclass_fields__:
        return []
    engine, fields = preset(ENGINE), config.default(name).model.mixer.to_dict()
    planned = work(fields | ({"length": TOKENS} if "length" in fields else {}), 1, TOKENS, 128).plan(engine)
    low, typical, high = (
        significant(1e3 * cost.energy(engine, **planned.load(), prices=components.prices(corner)).total)
        for corner in ("low", "typical", "high")
    )
    return [
        ["passes of light for one sequence", f"{planned.passes:,}", f"`{ENGINE}`, {TOKENS} tokens, d = 128"],
        [
            "estimated energy of these passes, mJ",
            f"{typical} ({low} to {high})",
            "typical components (best to worst), [energy and time](../optics/costs.md)",
        ],
    ]


@functools.cache
def costs() -> dict[str, tuple[str, str]]:
    """Returns parameters and multiplications of each mixer, from the table in docs/mixers.md."""
    text = (ROOT / "docs" / "mixers.md").read_text()
    return {name: (parameters.strip(), cost.strip()) for name, parameters, cost in COST.findall(text)}


def reference(name: str) -> str:
    """Returns the reference of the layer and of its op, and a link to the standalone file."""
    module, layer = MIXERS[name].__module__, MIXERS[name].__name__
    op = module.replace(".layers.", ".ops.")
    BUILT.mkdir(parents=True, exist_ok=True)
    file = BUILT / f"{name}_mixer.py"
    file.write_text(standalone(name))
    text = (
        f"Download {{download}}`{file.name} </build/mixers/{file.name}>`, this mixer as one file that needs "
        f"only JAX and Flax. It comes from `python -m fourier_attn.standalone {name}`.\n\n"
        "### Layer\n\n" + directive("autoclass", f"{module}.{layer}", "no-index")
    )
    if (ROOT / f"{op.replace('.', '/')}.py").exists():
        text += f"### Op\n\nThe functions of [`{op.removeprefix('fourier_attn.')}`](../api/{op}.md).\n\n"
        text += directive("automodule", op, "members", "no-index")
    return text.rstrip()


PARTS: dict[str, Callable[[str], str]] = {
    "equation": equation,
    "matrix": matrix,
    "measurements": measurements,
    "padding": functools.partial(section, title="Masking"),
    "sources": functools.partial(section, title="Source"),
    "reference": reference,
}


def filled(name: str, text: str) -> str:
    """Returns the text of a mixer's page with all its parts. Raises: KeyError for an unknown part."""
    return MARK.sub(lambda match: PARTS[match[1]](name), text)


def fill_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Fills in a page below docs/mixers, and notes what it depends on."""
    folder, _, name = page.rpartition("/")
    if folder != "docs/mixers":
        return
    source[0] = filled(name, source[0])
    evidence = (ROOT / "results" / "evidence").glob("*/cells/*.json")
    for path in (MATRICES, GROWTH, ROOT / "docs" / "mixers.md", inspect.getfile(MIXERS[name]), *evidence):
        app.env.note_dependency(str(path))


def leave_out(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Leaves out of a layer's docstring what its page says already: equations, padding and sources."""
    if what != "class" or not app.env.docname.startswith("docs/mixers/"):
        return
    parts = sections("\n".join(lines))
    text = parts.pop("")
    equations = brief(text).partition("\n\n")[2]
    kept = [
        text.replace(equations, "") if equations else text,
        *(f"{title}: {part}" for title, part in parts.items() if title not in ("Masking", "Source")),
    ]
    lines[:] = "\n".join(kept).splitlines()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", fill_page, priority=400)  # before links are changed
    app.connect("autodoc-process-docstring", leave_out, priority=400)  # before it is rewritten
    return {"parallel_read_safe": True, "parallel_write_safe": True}
