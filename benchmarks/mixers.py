"""Every op and layer against its source's form, and how cost grows.

`python -m benchmarks.mixers [--quick] [--only=PART]`.

Both sides run in turn in one process; rows give medians, the ratio with its range, and how temporary
memory and compilation time compare. With PyTorch installed, the layers are also raced against it, each side
in its own process.
"""

import importlib.util
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from benchmarks import growth, literal, ours
from benchmarks.inputs import LAYERS, B, D, H, K
from benchmarks.race import SETTING, Step, race, started
from benchmarks.timing import compare, report
from fourier_attn import command
from fourier_attn.layers.attention import Attention
from fourier_attn.ops.circular import circular_attention, circular_correlate
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.ops.token_conv import token_convolve
from fourier_attn.studies.side_by_side import interleave

LOCAL = [  # grid, width, taps, rounds of the slow side
    ((256,), 64, (3,), 15),
    ((256,), 64, (23,), 7),
    ((1024,), 128, (3,), 7),
    ((1024,), 128, (23,), 3),
    ((16, 16), 64, (3, 3), 5),
    ((32, 32), 64, (3, 3), 3),
    ((32, 32), 64, (23, 23), 1),
]
DENSE = [  # examples, tokens, width, width of heads
    (4, 256, 128, "full"),
    (32, 64, 128, "full"),
    (1, 128, 128, "full"),
    (4, 256, 512, "full"),
    (4, 256, 128, "split"),
]


def normal(seed: int, *shape: int, scale: float = 1.0) -> jax.Array:
    return scale * jax.random.normal(jax.random.key(seed), shape)


def forward_and_backward(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of the sum of squared moduli of all results, with its gradient by all arguments."""

    def loss(*arguments: jax.Array) -> Any:
        return sum(jnp.vdot(y, y).real for y in jax.tree.leaves(function(*arguments)))

    def both(*arguments: jax.Array) -> Any:
        return jax.value_and_grad(loss, range(len(arguments)))(*arguments)

    return both


def fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the same function as one that has not been compiled yet."""
    return lambda *arguments: function(*arguments)


def side_by_side(
    what: str, size: str, sides: dict[str, tuple[Callable[..., Any], tuple]], rounds: int, same: bool = True
) -> list[dict[str, Any]]:
    """Returns rows for forward and forward + backward of two functions.

    Args:
      what, size: names of the comparison and the size, for the rows.
      sides: the two functions and their arguments, by name; the first one is ours.
      rounds: number of rounds.
      same: whether to check that the results are equal within a tolerance.
    """
    rows = []
    first, second = sides
    for name, wrap in (("forward", fresh), ("forward + backward", forward_and_backward)):
        compiled, compile_s = {}, {}
        for side, (function, arguments) in sides.items():
            begin = time.perf_counter()
            compiled[side] = jax.jit(wrap(function)).lower(*arguments).compile()
            compile_s[side] = time.perf_counter() - begin
        calls = {side: partial(compiled[side], *arguments) for side, (_, arguments) in sides.items()}
        if same and name == "forward":
            for a, b in zip(*(jax.tree.leaves(calls[side]()) for side in sides), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-4 * float(jnp.abs(b).max()), err_msg=what)
        ratio = compare(interleave(calls, rounds=rounds), first, second)
        memory = {side: c.memory_analysis().temp_size_in_bytes for side, c in compiled.items()}
        row = {"what": what, "size": size, "pass": name, "rounds": rounds}
        row |= ratio
        if memory[second]:
            row["temporary_memory"] = round(memory[first] / memory[second], 3)
        row["compile_time"] = round(compile_s[first] / compile_s[second], 1)
        print(f"  {what}, {size}, {name}: {row['times_faster']} times faster", flush=True)
        rows.append(row)
    return rows


def circular(rounds: int, t: int) -> list[dict[str, Any]]:
    """Times circular attention against the articles' form and dense attention.

    Args:
      rounds: number of rounds.
      t: number of tokens.
    """
    x = normal(0, B, t, D)
    dense = Attention(heads=H)
    params = dense.init(jax.random.key(0), x)
    rows = []
    for shape in ((D,), (16, 8)):
        arguments = x, *(normal(i, H, *shape, scale=D**-0.5) for i in (1, 2, 3))
        options = {"shape": shape if len(shape) == 2 else None}

        def project(x, *kernels, options=options):
            return [circular_correlate(x, kernel, **options) for kernel in kernels]

        size = f"b{B} t{t} d{' x '.join(map(str, shape))} h{H}"
        sides = {"ours": (project, arguments), "articles": (literal.three_projections, arguments)}
        rows += side_by_side("three projections / articles' form", size, sides, rounds)
        attention = partial(circular_attention, **options), arguments
        sides = {"ours": attention, "articles": (literal.circular_attention, arguments)}
        rows += side_by_side("convolutional attention / articles' form", size, sides, rounds)
        sides = {"ours": attention, "dense": (dense.apply, (params, x))}
        rows += side_by_side("convolutional attention / our dense attention", size, sides, rounds, same=False)
    return rows


def circular_methods(rounds: int, t: int, widths: tuple[int, ...]) -> list[dict[str, Any]]:
    """Times the methods of circular attention that `auto` selects from.

    Args:
      rounds: number of rounds.
      t: number of tokens.
      widths: widths of the model.
    """
    rows = []
    for boundary, shape, taps in (("circular", None, None), ("zero", (16, 8), (3, 3))):
        for d in widths:
            grid = shape and (d // 8, 8)
            options = {"shape": grid, "boundary": boundary}
            arguments = normal(0, B, t, d), *(normal(i, H, *(taps or (d,)), scale=d**-0.5) for i in (1, 2, 3))
            size = f"b{B} t{t} d{d} h{H} {boundary}" + (f", {taps[0]} x {taps[1]} taps" if taps else "")
            sides = {
                m: (partial(circular_attention, method=m, **options), arguments) for m in ("fused", "literal")
            }
            rows += side_by_side("convolutional attention: fused / literal", size, sides, rounds)
            arguments = arguments[0], jnp.concatenate(arguments[1:])
            for other in ("fft", "direct") if taps else ("fft",):
                sides = {
                    m: (partial(circular_correlate, method=m, **options), arguments)
                    for m in ("matmul", other)
                }
                rows += side_by_side(f"correlation: matmul / {other}", size, sides, rounds)
    return rows


def attention_methods(rounds: int, quick: bool) -> list[dict[str, Any]]:
    """Times the methods of dense attention that `auto` chooses from: products in one order or the other."""
    rows = []
    for b, t, d, width in DENSE[:1] if quick else DENSE:
        x = normal(0, b, t // 4 if quick else t, d)
        layer = Attention(heads=H, head_width=width)
        params = layer.init(jax.random.key(0), x)
        sides = {m: (layer.clone(method=m).apply, (params, x)) for m in ("fused", "literal")}
        size = f"b{b} t{x.shape[1]} d{d} h{H}, {width} heads"
        rows += side_by_side("attention: fused / literal", size, sides, rounds)
    return rows


def lambda_arguments(n: int, d: int, taps: tuple[int, ...], b: int = B) -> tuple[jax.Array, ...]:
    """Returns random queries, keys, values and a position table for a lambda layer.

    Args:
      n, d, b: positions, width and batch size.
      taps: shape of the context.
    """
    return normal(0, b, n, K), normal(1, b, n, K), normal(2, b, n, d), normal(3, *taps, K, scale=0.2)


def lambdas(rounds: int, quick: bool) -> list[dict[str, Any]]:
    rows = []
    for grid, d, taps, most in LOCAL[:1] if quick else LOCAL:
        arguments = lambda_arguments(math.prod(grid), d, taps)
        options = {"grid": grid if len(grid) == 2 else None}
        size = f"b{B} n{' x '.join(map(str, grid))} d{d} k{K} r{' x '.join(map(str, taps))}"
        layer = partial(ours.lambdas, **options), arguments
        sides = {"ours": layer, "grouped": (partial(literal.lambda_layer, grid=grid), arguments)}
        rows += side_by_side("lambda / grouped convolution", size, sides, min(rounds, most))
        if math.prod(taps) <= 25:
            sides = {m: (partial(ours.lambdas, method=m, **options), arguments) for m in ("shift", "matrix")}
            rows += side_by_side("lambda: shift / matrix", size, sides, rounds)
        if len(grid) == 1:
            sides = {"causal": (partial(ours.lambdas, causal=True), arguments), "not causal": layer}
            rows += side_by_side("lambda: causal / not causal", size, sides, rounds, same=False)
    n = 256 if quick else 1024
    arguments = lambda_arguments(n, 64, (2 * n - 1,), b=2)
    for method in ("matrix", "fft"):
        layer = partial(ours.lambdas, method=method), arguments
        sides = {"ours": layer, "materialised": (literal.global_lambda, arguments)}
        rows += side_by_side(f"global lambda, {method} / materialised", f"b2 n{n} d64 k{K}", sides, rounds)
    for n in (256,) if quick else (1024, 4096, 8192):
        arguments = lambda_arguments(n, 64, (2 * n - 1,), b=1)
        sides = {m: (partial(ours.lambdas, method=m), arguments) for m in ("matrix", "fft")}
        rows += side_by_side("global lambda: matrix / fft", f"b1 n{n} d64 k{K}", sides, min(rounds, 3))
    return rows


def others(rounds: int, t: int) -> list[dict[str, Any]]:
    """Times the other mixers against a plain form in JAX.

    Args:
      rounds: number of rounds.
      t: number of tokens.
    """
    x = normal(0, B, t, D)
    weights = (normal(1, t, t, scale=0.1), normal(2, D, D, scale=0.1))
    kernels = [normal(i, D, H, D, scale=D**-0.5) for i in (1, 2, 3)]
    pairs = {
        "attention / einsums and softmax": (
            ours.dense,
            literal.attention,
            (x, *kernels, normal(4, H, D, D) / 30),
        ),
        "fourier / fftn().real": (fourier_mix, lambda x: jnp.fft.fftn(x, axes=(1, 2)).real, (x,)),
        "linear / one einsum": (ours.linear, literal.linear, (x, *weights)),
        "token_conv / XLA's convolution": (token_convolve, literal.token_convolve, (x, normal(1, 3))),
    }
    rows = []
    for what, (mine, other, arguments) in pairs.items():
        sides = {"ours": (mine, arguments), "other": (other, arguments)}
        rows += side_by_side(what, f"b{B} t{t} d{D}", sides, rounds)
    return rows


def our_layer(what: str, t: int) -> Step:
    """Builds a training step of a layer in JAX, see `benchmarks.ours.step`."""
    return ours.step(what, t)


def torch_layer(what: str, t: int, device: str) -> Step:
    """Builds a training step of a layer in PyTorch, see `benchmarks.peer_torch.step`."""
    from benchmarks import peer_torch  # here, in the process of this side

    return peer_torch.step(what, t, device)


def peers(rounds: int, t: int) -> list[dict[str, Any]]:
    """Times forward + backward on JAX's device, after checking that both sides' gradients are equal."""
    if not importlib.util.find_spec("torch"):
        print("PyTorch is not installed: its side is skipped")
        return []
    device = "cuda" if jax.default_backend() == "gpu" else "cpu"
    rows = []
    for what in LAYERS:
        makers = {"ours": partial(our_layer, what, t), "torch": partial(torch_layer, what, t, device)}
        with started(makers) as sides:
            for a, b in zip(sides["ours"].result, sides["torch"].result, strict=True):
                np.testing.assert_allclose(a, b, atol=2e-4 * float(np.abs(b).max()), err_msg=what)
            ratio = compare(race(sides, rounds), "ours", "torch")
        size = f"b{B} d64 k{K}" if what.startswith("lambda") else f"b{B} t{t} d{D}"
        row = {"what": f"{what} / PyTorch", "size": size, "pass": "forward + backward"}
        row |= {"rounds": rounds} | ratio
        print(f"  {row['what']}: {row['times_faster']} times faster", flush=True)
        rows.append(row)
    return rows


PARTS = ("circular", "methods", "lambda", "others", "torch", "growth")


def define_flags() -> None:
    flags.DEFINE_bool("quick", False, "small sizes and few rounds, as a quick test")
    flags.DEFINE_enum("only", None, PARTS, "run one part")


def main() -> None:
    options = flags.FLAGS
    rounds, t, end = (2, 64, "-quick") if options.quick else (9, 256, "")
    parts = {
        "circular": lambda: circular(rounds, t),
        "methods": lambda: [
            *attention_methods(min(rounds, 5), options.quick),
            *circular_methods(min(rounds, 5), t, (64,) if options.quick else (64, 128, 256, 512)),
        ],
        "lambda": lambda: lambdas(rounds, options.quick),
        "others": lambda: others(rounds, t),
        "torch": lambda: peers(min(rounds, 7), t),
        "growth": lambda: growth.grow(options.quick),
    }
    for part in [options.only] if options.only else PARTS:
        raced = {"peers": ("torch",), "setting": SETTING} if part == "torch" else {}
        if rows := parts[part]():
            report(f"mixers-{part}{end}", rows, **raced)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
