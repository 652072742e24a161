"""Dense layers as one matrix product against Flax's own: `python -m benchmarks.dense`."""

import sys
from functools import partial

import flax.linen as nn
import jax

from benchmarks.timing import compare, random_cotangent, report, with_backward
from fourier_attn import command
from fourier_attn.ops.dense import matrix_dot_general
from fourier_attn.studies.side_by_side import interleave

LAYERS = {
    "MLP in, (32, 256, 128) -> 512": (nn.Dense, {"features": 512}, (32, 256, 128)),
    "MLP out, (32, 256, 512) -> 128": (nn.Dense, {"features": 128}, (32, 256, 512)),
    "query, (32, 256, 128) -> (8, 128)": (
        nn.DenseGeneral,
        {"features": (8, 128), "use_bias": False},
        (32, 256, 128),
    ),
    "out, (32, 256, 8, 128) -> 128": (  # a layer that keeps Flax's product, because it is faster
        nn.DenseGeneral,
        {"features": 128, "axis": (-2, -1)},
        (32, 256, 8, 128),
    ),
}


def main() -> None:
    rows = []
    for name, (layer, fields, shape) in LAYERS.items():
        x = jax.random.normal(jax.random.key(0), shape)
        params = layer(**fields).init(jax.random.key(1), x)
        sides = {}
        for side, product in (("ours", matrix_dot_general), ("flax", None)):
            module = layer(**fields, dot_general=product)
            step = jax.jit(with_backward(module.apply, by=(0, 1)))
            sides[side] = partial(step, random_cotangent(module.apply, params, x), params, x)
        seconds = interleave(sides, rounds=15)
        row = {"what": "dense layer / Flax's", "size": name, "pass": "forward + backward"}
        rows.append(row | compare(seconds, "ours", "flax"))
    report("dense", rows)


if __name__ == "__main__":
    sys.exit(command.run(main))
