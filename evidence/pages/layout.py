"""Arranges the tables of pages: a few rows in view, the whole table folded, one link to its provenance.

`TABLES` (in fill.py) makes whole tables. `arrange` decides which rows a reader sees first. Rows without a
result are listed once, by `open_questions.py`. The sources of all tables are listed once, by `provenance`.
"""

import posixpath
import re
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import NamedTuple

from evidence.pages.markdown import NOT_RUN, Results, table

IN_VIEW = 6  # rows of a longer table that are not folded
PARAMETERS = tuple(f"parameters-{group}" for group in ("engine", "modulator", "device", "laser", "receiver"))
FIELD = ("field-link", "field-published", "field-stages")
WHOLE = (
    "articles",
    "claims",
    "all-claims",
    "configurations",
    *PARAMETERS,
    "engine-kinds",
    "engine-presets",
    "programs",
    "skills",
    "skill-predictions",
    "pretrained",
    *FIELD,
)  # never folded
PROVENANCE = "docs/provenance.md"
SOURCE = re.compile(r"^<sub>(.*)</sub>$", re.MULTILINE)
DOCUMENT = re.compile(r"(`[^`]+`|command unknown) \((results/\S+\.json)\)")  # a command and its file
ORIGIN_OF = re.compile(rf"(?P<files>(?:{DOCUMENT.pattern}(?:, )?)+|results/\S+\.json, [^:]+): (?P<origin>.*)")

# The rows in view, by how their line begins after "| ". A table without an entry shows its first rows.
ROWS: dict[str, tuple[str, ...]] = {
    "evidence": ("`fnet`", "`circular-1d`", "`linear`", "`attention`", "`lambda`", "`identity`"),
    "starts": ("`fnet`", "`attention`", "`circular-1d`", "`circular-3x3`", "`lambda`", "`identity`"),
    "matrices": ("`attention`", "`circular`", "`lambda`", "`fourier`", "`global_filter`", "`identity`"),
    "properties": ("`attention`", "`circular`", "`lambda`", "`fourier`", "`global_filter`", "`token_conv`"),
    "images-fashion_mnist": (
        *("`global_filter`", "`lambda-3`", "`token_conv`"),
        *("`identity`", "`attention`", "`fourier`"),
    ),
    "images-cifar10": (
        *("`global_filter`", "`lambda-3`", "`token_conv`"),
        *("`identity`", "`attention`", "`fourier`"),
    ),
    "reviews": (
        *("`configs/attention.py`", "`configs/circular.py:reviews-1d`", "`configs/fnet.py`"),
        *("`configs/lambda.py`", "`configs/mixer.py:global_filter-reviews`"),
        "`configs/mixer.py:identity-reviews`",
    ),
    "speed-fourier": (
        "ours / fftn().real | b8 t512 d768 | forward |",
        "ours / fftn().real | b8 t512 d768 | forward + backward |",
        "ours / published complex matrices | b8 t512 d768 | forward |",
        "rfft / matmul | b8 t512 d768 float32 |",
        "rfft / monarch | b8 t512 d768 float32 |",
        "chirps / plain | b8 t512 d768 |",
    ),
    "speed-mixers": (
        "attention: fused / literal | b4 t256 d128 h8, full heads | forward + backward |",
        "convolutional attention / articles' form | b4 t256 d128 h8 | forward + backward |",
        "convolutional attention / our dense attention | b4 t256 d128 h8 | forward + backward |",
        "lambda / grouped convolution | b4 n1024 d128 k16 r23 | forward + backward |",
        "lambda: causal / not causal | b4 n1024 d128 k16 r23 | forward + backward |",
        "dense layer / Flax's | MLP in, (32, 256, 128) -> 512 |",
    ),
    "speed-ops": (
        "attention / scaled_dot_product_attention | b4 t512 h12 k64 | forward |",
        "attention / scaled_dot_product_attention | b4 t512 h12 k64 | forward + backward |",
        "attention, dropout 0.1 / scaled_dot_product_attention |",
        "Fourier mixing / fft.fft2().real | b8 t512 d768 | forward |",
        "Fourier mixing / fft.fft2().real | b8 t512 d768 | forward + backward |",
        "Fourier mixing / fft.fft2().real | b32 t256 d128 | forward + backward |",
    ),
    "aot-mixers": (
        *("attention | float32 |", "circular | float32 |", "lambda | float32 |"),
        *("fourier | float32 |", "global_filter | float32 |", "long_conv | float32 |"),
    ),
    "aot-training": (
        *(
            "fnet | 2 blocks, batch 32, 512 tokens | 4 x H100 | data |",
            "bert | 2 blocks, batch 32, 512 tokens | 4 x H100 | data |",
        ),
        *(
            "fnet | 2 blocks, batch 32, 512 tokens | 4 x H100 | fsdp |",
            "bert | 2 blocks, batch 32, 512 tokens | 4 x H100 | fsdp |",
        ),
        *("fnet | 12 blocks,", "bert | 12 blocks,"),
    ),
    "aot-methods": (
        *("rfft, float32 |", "matmul, float32 |", "monarch, float32 |"),
        *("chirps, float32 |", "matmul, bfloat16 |", "monarch, bfloat16 |"),
    ),
    "speed-torch": (
        "attention / PyTorch |",
        "convolutional attention 1-D / PyTorch |",
        "convolutional attention 16 x 8 / PyTorch |",
        "lambda n1024 r3 / PyTorch |",
        "lambda 32 x 32 r3 x 3 / PyTorch |",
        "fourier / PyTorch |",
    ),
    "growth": (
        "attention | ms |",
        "circular | ms |",
        "lambda, context 3 | ms |",
        "fourier | ms |",
        "attention | MB |",
        "fourier | MB |",
    ),
    "speed-encoder": (
        "fnet / bert | 12 layers, d768 b2 t512 |",
        "hybrid / bert | 12 layers, d768 b2 t512 |",
        "linear / bert | 12 layers, d768 b2 t512 |",
        "fnet / bert with attention dropout | 12 layers, d768 b2 t512 |",
        "fnet / bert | 4 layers, d256 b1 t4096 |",
        "fnet / bert with attention dropout | 4 layers, d256 b1 t4096 |",
    ),
    "speed-images": (
        "patches by a product / by a convolution | (8, 224, 224, 3), patch 16 -> 768 | forward + backward |",
        "lambda of 3 x 3 / of 23 x 23 patches | b8 8 x 8 d128 | forward + backward |",
        "lambda of 3 x 3 / of 23 x 23 patches | b8 32 x 32 d128 | forward |",
        "lambda of 3 x 3 / of 23 x 23 patches | b8 32 x 32 d128 | forward + backward |",
        "lambda's matrix: table skewed / scores skewed | b8 32 x 32 d128 h4, 23 x 23 taps | forward |",
        "lambda's matrix: table skewed / scores skewed | b8 512 d128 h4, 1023 taps | forward |",
    ),
    "speed-loop": (
        "loop over bare step",
        "share of the loop's time spent waiting for data",
        "a checkpoint holds up the loop",
        "an epoch in buckets",
        "command to first step on IMDb, first start, wall",
        "command to first step on IMDb, second start, wall",
    ),
    "speed-optics": (
        "optical_fourier_mix / fourier_mix, 4 x 64 x 64 on 64 x 64 | ideal engine | forward + backward |",
        "chip_11x11 / floor with our draws |",
        "chip_11x11 / floor with jax.random.normal |",
        "256 apertures at once / in a Python loop |",
        "static device of 11 x 11, 1,024: one matrix / its stages |",
        "optical training step / exact, 11 x 11 circular classifier |",
    ),
    "plans": tuple(f"{size} | 1 |" for size in ("64 x 64", "100 x 37", "256 x 64", "512 x 128")),
    "speedup": (
        *("chip_11x11 |", "chip_11x11_4bit |", "demonstrator_5x5 |", "hostile |"),
        *("none: A100", "none: processor"),
    ),
    "frames": ("whole frame", "dac,", "hold,", "laser,", "link,", "hbm,"),
    "components": (
        *("`dac.level_j`", "`adc.level_j`", "`thermo_optic.hold_w_per_pi`"),
        *("`laser.wall_plug`", "`link.bit_j`", "`hbm.bit_j`"),
    ),
    "field-units": (
        *("detected photons per MAC, signal", "optical aJ per MAC, detected signal"),
        *("electrical fJ per MAC, all", "TOPS, overlapped", "TOPS/W, all", "TOPS/mm^2"),
    ),
    "pareto-fnet": ("1 |", "3 |", "7 |", "10 |", "12 |", " | exact transform"),
    "calibration": (
        "0.3 rad, 0.1 | hybrid90 | 10,000 |",
        "0.3 rad, 0.1 | psi4 | 10,000 |",
        "0.3 rad, 0.1 | linear3 | 10,000 |",
        "0.02 rad, 0.01 | hybrid90 | 10,000 |",
        "0.02 rad, 0.01 | psi4 | 10,000 |",
        "0.02 rad, 0.01 | linear3 | 10,000 |",
    ),
}


class Parts(NamedTuple):
    """Holds the parts of a table's text.

    Args:
      head: the line of names and the line below it.
      rows: the lines with results.
      missing: the lines of what is not yet run.
      sources: where the numbers come from, one text for each origin.
      remark: what else follows the table, which may be another table.
    """

    head: list[str]
    rows: list[str]
    missing: list[str]
    sources: list[str]
    remark: str


def parts(text: str) -> Parts:
    """Splits the text of a table, as the functions in `TABLES` return it."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    kept = list(takewhile(lambda line: line.startswith("|"), lines[start:]))
    rows = [line for line in kept[2:] if not is_missing(line)]
    missing = [line for line in kept[2:] if is_missing(line)]
    rest = "\n".join(lines[:start] + lines[start + len(kept) :])
    return Parts(kept[:2], rows, missing, SOURCE.findall(rest), SOURCE.sub("", rest).strip())


def is_missing(row: str) -> bool:
    """Returns whether a row says nothing but "not yet run"."""
    *_, last = [cell for cell in row.strip("|").split("|") if cell.strip()]
    return last.strip() == NOT_RUN and row.count(NOT_RUN) == 1


def arrange(name: str, text: str, where: str, report: str | None = None) -> str:
    """Returns a table as its page shows it.

    Args:
      name: key of the table in `TABLES`.
      text: the whole table, with its sources in small print.
      where: path of the page, from which links lead.
      report: path of the report that has all seeds and the provenance; None if the text has the sources.
    Raises: ValueError if a row in `ROWS` is not in the table.
    """
    head, rows, _, sources, remark = parts(text)
    if not rows and name.startswith("gpu-"):  # no run on CPUs can fill it
        return "Not yet run.\n"
    if not rows:
        return f"Not yet run: see [open questions]({link('docs/evidence.md', where)}#open-questions).\n"
    blocks = ["\n".join([*head, *in_view(name, rows)])]
    if len(rows) > IN_VIEW and name not in WHOLE:
        blocks += [f"<details>\n<summary>All {len(rows)} rows</summary>", "\n".join([*head, *rows])]
        blocks += [remark] * bool(remark) + ["</details>"]
    elif remark:
        blocks.append(remark)
    if sources:
        blocks.append(f"[Provenance]({link(PROVENANCE, where)}#{name})")
    elif report:
        blocks.append(f"[All seeds and provenance]({link(report, where)})")
    return "\n\n".join(blocks) + "\n"


def in_view(name: str, rows: list[str]) -> list[str]:
    """Returns the rows of a table that are not folded.

    Args:
      name: key of the table.
      rows: its lines, without the head.
    Raises: ValueError if one of the rows in `ROWS` is not there.
    """
    if len(rows) <= IN_VIEW or name in WHOLE:
        return rows
    chosen = []
    for start in ROWS.get(name, ()):
        found = next((row for row in rows if row.startswith(f"| {start}")), None)
        if found is None:
            raise ValueError(f"table={name} has no row that begins with {start!r}; change layout.ROWS")
        chosen.append(found)
    return chosen or rows[:IN_VIEW]


def link(to: str, where: str) -> str:
    """Returns the relative path of a file `to` from the page `where`; both are relative to the root."""
    return posixpath.relpath(to, posixpath.dirname(where) or ".")


def provenance(tables: Mapping[str, Callable[[Results], str]], results: Results) -> str:
    """Makes a table of commands, machines, versions, commits and dates for each table that has them."""
    head = ["Result", "Runs", "Command", "Machine", "Versions", "Commit", "Date", "Remarks"]
    text = ""
    for name, make in tables.items():
        if sources := parts(make(results)).sources:
            text += f"## {name}\n\n{table(head, [line for source in sources for line in cells(source)])}\n"
    return text


def cells(source: str) -> list[list[str]]:
    """Splits one text of `markdown.notes` into cells, one row for each file of results.

    Args:
      source: the files or runs, a colon, and the parts of `markdown.origin` with semicolons between them.
    Raises: ValueError if the text has another form.
    """
    match = ORIGIN_OF.fullmatch(source)
    if match is None:
        raise ValueError(f"source={source!r} must name its files, a colon and their origin")
    files, rest = match["files"], match["origin"]
    machine, versions, commit, date, *remarks = rest.split("; ")
    shared = [machine, versions, commit.removeprefix("commit "), date, ", ".join(remarks)]
    if found := DOCUMENT.findall(files):
        return [
            [_linked(file), "", command.removesuffix("command unknown"), *shared] for command, file in found
        ]
    file, _, runs = files.partition(", ")
    return [[_linked(file), runs, "", *shared]]


def _linked(file: str) -> str:
    return f"[{posixpath.basename(file)}]({link(file, PROVENANCE)})"
