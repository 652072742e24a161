"""Patches as one product against a convolution with stride: `python -m benchmarks.patches`."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from benchmarks.timing import compare, interleave, report
from fourier_attn.layers.embed import PatchEmbedding

SIZES = {  # images, patch, stride, width
    "(128, 28, 28, 1), patch 4 -> 128": ((128, 28, 28, 1), 4, 4, 128),
    "(128, 32, 32, 3), patch 4 -> 128": ((128, 32, 32, 3), 4, 4, 128),
    "(8, 224, 224, 3), patch 16 -> 768": ((8, 224, 224, 3), 16, 16, 768),
    "(128, 32, 32, 3), patch 4, stride 2 -> 128": ((128, 32, 32, 3), 4, 2, 128),
}


class Convolution(nn.Module):
    """The same embedding with Flax's convolution."""

    d: int
    patch: int
    stride: int

    @nn.compact
    def __call__(self, pixels: jax.Array) -> jax.Array:
        x = pixels.astype(jnp.float32) / 255
        size = (self.patch, self.patch)
        return nn.Conv(self.d, size, self.stride, padding="VALID", name="patches")(x)


def main() -> None:
    rows = []
    for name, (shape, patch, stride, d) in SIZES.items():
        pixels = jax.random.randint(jax.random.key(0), shape, 0, 256).astype(jnp.uint8)
        product = PatchEmbedding(d, shape[1:], patch, stride, positions_kind="none")
        convolution = Convolution(d, patch, stride)
        params = product.init(jax.random.key(1), pixels)

        def one(params: Any, pixels: jax.Array, module: Any = product) -> jax.Array:
            vectors, _ = module.apply(params, pixels)
            return jnp.sin(vectors)

        def other(params: Any, pixels: jax.Array, module: Any = convolution) -> jax.Array:
            return jnp.sin(module.apply(params, pixels))

        for what in ("forward", "forward + backward"):
            sides = {}
            for side, function in (("product", one), ("convolution", other)):
                whole = function if what == "forward" else jax.grad(lambda p, x, f=function: jnp.sum(f(p, x)))
                step = jax.jit(whole)
                sides[side] = lambda step=step, params=params, pixels=pixels: step(params, pixels)
            seconds = interleave(sides, rounds=15)
            row = {"what": "patches by a product / by a convolution", "size": name, "pass": what}
            rows.append(row | compare(seconds, "product", "convolution"))
    report("patches", rows)


if __name__ == "__main__":
    main()
