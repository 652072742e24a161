"""Measures programs on an engine that they know nothing of: errors, derivatives, compile time and cost.

    python -m fourier_attn.studies.engine.programs [--engine=PRESET] [--programs=NAME,..] [--out=NAME]

The programs are those of `fourier_attn.studies.engine.foreign`, and networks of this package with an exact
mixer. `fourier_attn.optics.through` computes their call sites on the engine. Call sites of weights alone stay
exact. --out=NAME writes NAME.json, all numbers, and NAME.png.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from matplotlib.figure import Figure

from fourier_attn import command, config, model, paths, provenance, style
from fourier_attn.choices import check_choices
from fourier_attn.columns import aligned
from fourier_attn.optics import Engine, report, site_errors, through
from fourier_attn.optics.components import CORNERS
from fourier_attn.optics.presets import preset
from fourier_attn.studies.engine import foreign
from fourier_attn.studies.engine.foreign import Program

DATA = 1  # the argument that is data; argument 0 are the weights
OWN = ("fourier", "afno", "global_filter", "long_conv", "circular")
# Points on each axis: 11^s is s stages, 33 and 242 leave a digital remainder, and others need chirps.
TOKENS = {"circular": 11}
SIZES = {"FNO": 33, "S4D": 121, "GFNet": 14, "Poisson": 121, "fluid": 33, "Wiener": 121, "CNN": 32}


def network(mixer: str, tokens: int = 121, width: int = 24) -> Program:
    """Returns a network of one block with its initial weights, and random texts.

    Args:
      mixer: name of the mixer, which gets its default options. Only "circular" gets tokens of 11 x 11, and
        the method "literal": "auto" has products with matrices instead of transforms here.
      tokens: number of tokens of a text.
      width: number of features of a token; of "circular" 121.
    """
    asked: Any = config.default(mixer, "reviews")
    asked.data.length = asked.model.positions = tokens
    if mixer == "circular":
        width = 121
        asked.model.mixer.update(method="literal", shape=(11, 11), heads=2)
    asked.model.update(depth=1, d=width, mlp=2 * width, vocab=100)
    built = model.build(config.fit_length(asked).model)
    texts = np.random.default_rng(0).integers(2, 100, (4, tokens))
    texts = jnp.asarray(texts, jnp.int32)
    weights = jax.jit(built.init)(jax.random.key(0), texts)
    return Program(lambda weights, x: built.apply(weights, x), weights, texts)


PROGRAMS: Mapping[str, Callable[[], Program]] = {
    **{name: partial(foreign.PROGRAMS[name], size) for name, size in SIZES.items()},
    **{name: partial(network, name, tokens=TOKENS.get(name, 121)) for name in OWN},
}


def measure(name: str, engine: Engine) -> dict[str, Any]:
    """Returns all numbers of a program.

    Args:
      name: key of `PROGRAMS`.
      engine: the engine.
    """
    program = PROGRAMS[name]()
    args = (program.weights, program.x)
    light = through(program.f, engine, key=jax.random.key(1), argnums=DATA)
    plain_s, plain = _compiled(program.f, args)
    light_s, optical = _compiled(light, args)
    sites = site_errors(program.f, args, engine, key=jax.random.key(1), argnums=DATA)
    costs = report(program.f, args, engine, argnums=DATA)
    numbers = {name: costs.total(name) for name in ("seconds", "joules")}
    return {
        "program": name,
        "shape": list(program.x.shape),
        "call_sites": len(costs.rows),
        "optical": len(costs.optical),
        "passes": sum(row.passes for row in costs.rows),
        "stages": sum(row.stages for row in costs.rows),
        "output_db": ratio_db(plain(*args), optical(*args)),
        "sites_db": sites,
        "gradient_error": gradient_error(program, engine.shape),
        "compile_s": {"plain": plain_s, "through": light_s},
        "electronic_j": sum(row.electronic_j for row in costs.optical),
        **numbers,
    }


def _compiled(f: Callable[..., Any], args: Sequence[Any]) -> tuple[float, Callable[..., Any]]:
    """Returns the seconds of tracing and compiling a function, and the compiled function."""
    begun = time.perf_counter()
    compiled = jax.jit(f).lower(*args).compile()
    return time.perf_counter() - begun, compiled


def ratio_db(exact: Any, other: Any) -> float:
    """Returns the power of the exact result over that of the error, in dB."""
    exact, other = (np.asarray(y).astype(np.complex128) for y in (exact, other))
    error = float(np.sum(np.abs(other - exact) ** 2))
    return 10 * math.log10(float(np.sum(np.abs(exact) ** 2)) / error) if error else math.inf


def gradient_error(program: Program, shape: tuple[int, int]) -> float:
    """Returns the largest error of the derivatives on an ideal engine, relative to the largest value.

    The derivatives are those of a sum of sines of the results, by the weights, and by the data if these are
    real.

    Args:
      program: the program.
      shape: aperture of the engine.
    """
    real = jnp.issubdtype(program.x.dtype, jnp.floating)

    def derivatives(f: Callable[..., Any]) -> list[Any]:
        loss = jax.grad(lambda *args: jnp.sum(jnp.sin(f(*args))), (0, 1) if real else 0)
        return jax.tree.leaves(jax.jit(loss)(program.weights, program.x))

    pairs = zip(derivatives(program.f), derivatives(through(program.f, Engine(shape=shape))), strict=True)
    return max(float(jnp.abs(y - x).max() / jnp.maximum(jnp.abs(x).max(), 1e-6)) for x, y in pairs)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats one line for each program."""
    head = ["program", "shape", "sites", "passes", "stages", "output dB", "worst site dB", "gradient"]
    lines = [[*head, "compile s", "through s", "us", "uJ"]]
    return "\n".join(aligned([*lines, *map(_cells, rows)], right=True))


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [
        row["program"],
        "x".join(map(str, row["shape"])),
        f"{row['optical']} of {row['call_sites']}",
        f"{row['passes']:,}",
        str(row["stages"]),
        f"{row['output_db']:.1f}",
        f"{min(row['sites_db'].values()):.1f}",
        f"{row['gradient_error']:.0e}",
        *(f"{seconds:.1f}" for seconds in row["compile_s"].values()),
        *(_range(row[what]) for what in ("seconds", "joules")),
    ]


def _range(values: Mapping[str, float]) -> str:
    low, typical, high = (f"{1e6 * values[corner]:.3g}" if values else "-" for corner in CORNERS)
    return f"{typical} ({low} to {high})"


@style.styled()
def plot(document: Mapping[str, Any]) -> Figure:
    """Plots the error of each program's output and call sites, and its energy on the engine and on a GPU.

    Args:
      document: the file of results.
    """
    rows = document["rows"]
    places = range(len(rows))
    figure = style.figure(height=0.24 * len(rows) + 1.0)
    errors, energies = figure.subplots(1, 2, sharey=True)
    for place, row in zip(places, rows, strict=True):
        sites = list(row["sites_db"].values())
        errors.plot(sites, [place] * len(sites), "|", color=style.GREY, markersize=9, zorder=1)
    errors.plot([row["output_db"] for row in rows], places, "o", color=style.BLUE)
    errors.set_yticks(places, [row["program"] for row in rows])
    errors.invert_yaxis()
    errors.set_xlabel("Signal over error, dB\ndots: output, bars: call sites")
    low, typical, high = ([1e6 * row["joules"][corner] for row in rows] for corner in CORNERS)
    bars = [np.subtract(typical, low), np.subtract(high, typical)]
    energies.errorbar(typical, places, xerr=bars, fmt="o", color=style.BLUE, label="engine, low to high")
    electronic = [1e6 * row["electronic_j"] for row in rows]
    energies.plot(electronic, places, "s", color=style.VERMILION, label="GPU, estimate")
    energies.set(xscale="log")
    energies.set_xlabel("Energy of the optical call sites, uJ")
    figure.legend(loc="outside upper right", ncols=2)
    return figure


def define_flags() -> None:
    flags.DEFINE_string("engine", "chip_11x11", "preset, or file of a measured device")
    flags.DEFINE_list("programs", list(PROGRAMS), "names of the programs")
    flags.DEFINE_string("out", None, "path of the results without a suffix; .json and .png are added")


def main() -> None:
    stem = paths.stem(flags.FLAGS.out, "--out") if flags.FLAGS.out else None
    engine = preset(flags.FLAGS.engine)
    check_choices("--programs", flags.FLAGS.programs, PROGRAMS)
    rows = []
    for name in flags.FLAGS.programs:
        rows.append(measure(name, engine))
        print(f"{name}: {rows[-1]['output_db']:.1f} dB", flush=True)
    print(f"\n{table(rows)}")
    if stem:
        document = provenance.record() | {"setting": flags.FLAGS.engine, "rows": rows}
        provenance.write(stem.with_name(f"{stem.name}.json"), document)
        style.save(plot(document), stem.with_name(f"{stem.name}.png"))


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
