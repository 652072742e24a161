"""Time and memory of the mixers against the number of tokens, as a table and a log-log plot.

`python -m benchmarks.growth`; part of `python -m benchmarks.mixers`.
"""

import statistics
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.timing import RESULTS, interleave, report
from evidence.pages.timings import draw_growth
from fourier_attn import style
from fourier_attn.model import MIXERS

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


def main(quick: bool = False) -> None:
    lengths = (128, 256) if quick else (128, 256, 512, 1024, 2048, 4096, 8192)
    rows = [row for t in lengths for row in measure(t, 2 if quick else 9 if t <= 1024 else 3)]
    name = "growth-quick" if quick else "growth"
    report(name, rows)
    path = RESULTS / f"{name}-{jax.default_backend()}.png"
    style.save(draw_growth({"rows": rows}), path)
    print(f"drawn in results/benchmarks/{path.name}")


if __name__ == "__main__":
    main()
