"""Times layers on images: `python -m benchmarks.images`.

Compares patches as one product with a convolution with stride; lambdas of small neighbourhoods with large
ones; and their banded matrix from a skewed table with skewed scores.
"""

import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from benchmarks.timing import compare, random_cotangent, report, with_backward
from fourier_attn import command
from fourier_attn.layers.embed import PatchEmbedding
from fourier_attn.layers.lambdas import LambdaLayer
from fourier_attn.ops.relative_position import by_matrix
from fourier_attn.studies.side_by_side import interleave

SIZES = {  # images, patch, stride, width
    "(128, 28, 28, 1), patch 4 -> 128": ((128, 28, 28, 1), 4, 4, 128),
    "(128, 32, 32, 3), patch 4 -> 128": ((128, 32, 32, 3), 4, 4, 128),
    "(8, 224, 224, 3), patch 16 -> 768": ((8, 224, 224, 3), 16, 16, 768),
    "(128, 32, 32, 3), patch 4, stride 2 -> 128": ((128, 32, 32, 3), 4, 2, 128),
}
GRIDS = ((8, 8), (16, 16), (32, 32))  # of the lambdas
NEAR, FAR = 3, 23  # patches, to a side
B, D, K = 8, 128, 16
BANDS = (  # batch, positions, taps to a side, heads
    (B, (8, 8), 7, 4),
    (64, (8, 8), 7, 4),
    (B, (16, 16), 7, 4),
    (B, (16, 16), FAR, 4),
    (1, (32, 32), FAR, 1),
    (B, (32, 32), FAR, 1),
    (B, (32, 32), FAR, 4),
    (B, (512,), 63, 4),
    (B, (512,), 1023, 4),
    (64, (256,), 511, 4),
)


class Convolution(nn.Module):
    """Computes the same embedding with Flax's convolution."""

    d: int
    patch: int
    stride: int

    @nn.compact
    def __call__(self, pixels: jax.Array) -> jax.Array:
        x = pixels.astype(jnp.float32) / 255
        size = (self.patch, self.patch)
        return nn.Conv(self.d, size, self.stride, padding="VALID", name="patches")(x)


def passes(
    sides: dict[str, tuple[Callable[..., jax.Array], tuple[Any, ...]]], by: tuple[int, ...] = (0,)
) -> Iterator[dict[str, Any]]:
    """Yields comparisons of two functions, each with its arguments: forward, and with the gradient by some.

    Args:
      sides: name -> function and its arguments.
      by: indices of the arguments that the gradient is taken by.
    """
    one, other = sides
    for what in ("forward", "forward + backward"):
        calls = {}
        for side, (function, arguments) in sides.items():
            if what == "forward":
                calls[side] = partial(jax.jit(function), *arguments)
            else:
                cotangent = random_cotangent(function, *arguments)
                calls[side] = partial(jax.jit(with_backward(function, by)), cotangent, *arguments)
        yield {"pass": what} | compare(interleave(calls, rounds=31), one, other)


def patches() -> Iterator[dict[str, Any]]:
    for name, (shape, patch, stride, d) in SIZES.items():
        pixels = jax.random.randint(jax.random.key(0), shape, 0, 256).astype(jnp.uint8)
        product = PatchEmbedding(d, shape[1:], patch, stride, positions_kind="none")
        convolution: Any = Convolution(d, patch, stride)
        arguments = product.init(jax.random.key(1), pixels), pixels

        def embedded(params: Any, pixels: jax.Array, product: PatchEmbedding = product) -> jax.Array:
            return product.apply(params, pixels)[0]

        sides = {"product": (embedded, arguments), "convolution": (convolution.apply, arguments)}
        for row in passes(sides):
            yield {"what": "patches by a product / by a convolution", "size": name} | row


def neighbourhoods() -> Iterator[dict[str, Any]]:
    for grid in GRIDS:
        x, sides = jax.random.normal(jax.random.key(0), (B, math.prod(grid), D)), {}
        for taps in (NEAR, FAR):
            layer: Any = LambdaLayer(context=taps, grid=grid)
            sides[f"{taps} x {taps}"] = layer.apply, (layer.init(jax.random.key(1), x), x)
        for row in passes(sides):
            size = f"b{B} {grid[0]} x {grid[1]} d{D}"
            yield {"what": f"lambda of {NEAR} x {NEAR} / of {FAR} x {FAR} patches", "size": size} | row


def bands() -> Iterator[dict[str, Any]]:
    for b, axes, taps, heads in BANDS:
        shapes = (b, *axes, heads, K), (b, *axes, 1, D // heads), (*(taps,) * len(axes), K, 1)
        arguments = tuple(jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate(shapes))
        sides = {
            name: (partial(by_matrix, before=(taps // 2,) * len(axes), placing=placing), arguments)
            for name, placing in {"table": True, "scores": False}.items()
        }
        size = f"b{b} {' x '.join(map(str, axes))} d{D} h{heads}, {' x '.join([str(taps)] * len(axes))} taps"
        for row in passes(sides, by=(0, 1, 2)):
            yield {"what": "lambda's matrix: table skewed / scores skewed", "size": size} | row


def main() -> None:
    report("images", [*patches(), *neighbourhoods(), *bands()])


if __name__ == "__main__":
    sys.exit(command.run(main))
