"""Time and memory of the mixers against the number of tokens, as a table and a log-log plot.

`python -m benchmarks.growth [--quick]`; part of `python -m benchmarks.mixers`.
"""

import itertools
import statistics
import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from absl import flags
from matplotlib.figure import Figure

from benchmarks.timing import RESULTS, report
from fourier_attn import command, style
from fourier_attn.model import MIXERS
from fourier_attn.studies.side_by_side import interleave

NAMES = {  # d = 128; 8 heads as wide as the model, where nothing else is said
    "attention": ("attention", {}),
    "attention, 8 heads of 16": ("attention", {"head_width": "split"}),
    "circular": ("circular", {}),
    "lambda, context 3": ("lambda", {}),
    "lambda, global": ("lambda", {"context": 0, "length": 8192}),
    "fourier": ("fourier", {}),
}
WIDE = {  # those of models of size base
    "attention, d = 768, 12 heads of 64": ("attention", {"heads": 12, "head_width": "split"}),
    "fourier, d = 768": ("fourier", {}),
}


def measure(t: int, rounds: int) -> list[dict[str, Any]]:
    """Milliseconds and temporary megabytes of forward + backward for one sequence of t tokens."""
    rows = []
    for label, (name, fields) in (NAMES | WIDE).items():  # large ones would slow their neighbours
        x = jax.random.normal(jax.random.key(0), (1, t, 768 if label in WIDE else 128))
        mixer = MIXERS[name](**fields)
        params = mixer.init(jax.random.key(1), x[:, :2])

        def loss(params, x, mixer=mixer):
            y: Any = mixer.apply(params, x)
            return jnp.sum(jnp.square(y))

        step = jax.jit(jax.value_and_grad(loss, (0, 1))).lower(params, x).compile()
        (times,) = interleave({label: partial(step, params, x)}, rounds=rounds).values()
        analysis: Any = step.memory_analysis()
        row = {"mixer": label, "t": t, "ms": round(1e3 * statistics.median(times), 2)}
        rows.append(row | {"temporary_mb": round(analysis.temp_size_in_bytes / 1e6, 1)})
    return rows


@style.styled()
def plot(document: dict[str, Any]) -> Figure:
    """Plots time and memory over the number of tokens, for mixers of the commonest width."""
    rows = [row for row in document["rows"] if "d = " not in row["mixer"]]
    figure = style.figure(height=5.6)
    lengths = sorted({row["t"] for row in rows})
    labels = {"ms": "time, ms", "temporary_mb": "temporary memory, MB"}
    for axes, (key, label) in zip(figure.subplots(2, 1, sharex=True), labels.items(), strict=True):
        names = dict.fromkeys(row["mixer"] for row in rows)
        for marker, name in zip(itertools.cycle(style.MARKERS), names, strict=False):
            points = [(row["t"], row[key]) for row in rows if row["mixer"] == name]
            axes.loglog(*zip(*points, strict=True), marker=marker, label=name)
        axes.set(ylabel=label)
        axes.set_xticks(lengths, [f"{t:,}" for t in lengths])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    figure.axes[1].set_xlabel("tokens")
    figure.suptitle("forward and backward of one mixer, one sequence, d = 128")
    figure.align_ylabels()
    style.label_ends(*figure.axes)
    return figure


def grow(quick: bool) -> None:
    """Measures and plots all lengths; with `quick`, two short ones."""
    lengths = (128, 256) if quick else (128, 256, 512, 1024, 2048, 4096, 8192)
    rows = [row for t in lengths for row in measure(t, 2 if quick else 9 if t <= 1024 else 3)]
    name = "growth-quick" if quick else "growth"
    report(name, rows)
    path = RESULTS / f"{name}-{jax.default_backend()}.png"
    style.save(plot({"rows": rows}), path)
    print(f"plotted in results/benchmarks/{path.name}")


def define_flags() -> None:
    flags.DEFINE_bool("quick", False, "two short lengths and few rounds, as a quick test")


def main() -> None:
    grow(flags.FLAGS.quick)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
