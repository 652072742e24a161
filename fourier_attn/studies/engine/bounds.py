"""Compares published bounds of the speed-up by an ideal engine with those of `fourier_attn.optics.report`.

    python -m fourier_attn.studies.engine.bounds [--out=NAME]

Meech, Tsoutsouras and Stanley-Marbell (arXiv 2308.01719) give speed-ups for 27 programs, in which transforms
and convolutions take no time. A speed-up S implies the share $f = 1 - 1 / S$ of the program's time. The
report gets this share as if it were measured, and its bound must be S again. --out=NAME writes NAME.json.
"""

import sys
from typing import Any

import jax
import jax.numpy as jnp
from absl import flags

from fourier_attn import command, paths, provenance
from fourier_attn.columns import aligned
from fourier_attn.optics import report

SOURCE = "arXiv 2308.01719"
PUBLISHED = {  # speed-ups with an ideal engine
    "mean of 27 programs": 9.4,
    "median of 27 programs": 1.9,
    "Fourier transform alone": 45.3,
    "convolution alone": 159.4,
}


def row(program: str, speedup: float) -> dict[str, Any]:
    """Returns the share that a published speed-up implies, and our bound for this share.

    Args:
      program: as the publication names it.
      speedup: that it publishes.
    """
    share = 1 - 1 / speedup
    x = jax.ShapeDtypeStruct((11, 11), jnp.float32)  # the bound depends on the share alone
    bound = report(jnp.fft.fft2, (x,), "chip_11x11", share=share).bound
    return {"program": program, "published": speedup, "share": share, "bound": bound}


def define_flags() -> None:
    flags.DEFINE_string("out", None, "path of the results without a suffix; .json is added")


def main() -> None:
    stem = paths.stem(flags.FLAGS.out, "--out") if flags.FLAGS.out else None
    rows = [row(program, speedup) for program, speedup in PUBLISHED.items()]
    lines = [["program", "published", "share %", "bound"]]
    for each in rows:
        numbers = f"{each['published']:g}", f"{100 * each['share']:.2f}", f"{each['bound']:.4g}"
        lines.append([each["program"], *numbers])
    print("\n".join(aligned(lines, right=True)))
    if stem:
        document = provenance.record() | {"source": SOURCE, "rows": rows}
        provenance.write(stem.with_name(f"{stem.name}.json"), document)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
