"""Fourier mixing: its methods, and the complex forms of the definition: `python -m benchmarks.fourier`.

--only=NAME times one of `complex` (against `jnp.fft.fftn` and the published product with complex matrices),
`methods`, `lengths` and `short`.
"""

import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from jaxtyping import Array, Float, Int

from benchmarks.timing import compare, random_cotangent, report, temporary_bytes, with_backward
from fourier_attn import command
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.studies.side_by_side import interleave

SIZES = [(8, 512, 128), (8, 512, 768), (2, 2048, 256), (32, 256, 128)]
LONG = [
    (32, 128, 128),
    (32, 256, 128),
    (8, 512, 128),
    (8, 512, 768),
    (4, 1024, 256),
    (2, 2048, 256),
    (2, 4096, 256),
]


def plain(x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
    return jnp.fft.fftn(x, axes=(1, 2)).real


def published(x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
    """Mixes by products with complex matrices, as the FNet paper's code does on TPUs; real part last."""

    def matrix(n: int) -> Array:
        k = np.arange(n)
        return jnp.asarray(np.exp(-2j * np.pi * np.outer(k, k) / n), jnp.complex64)

    tokens, features = matrix(x.shape[1]), matrix(x.shape[2])
    transform = jax.vmap(lambda x: jnp.einsum("ij,jk,ni->nk", x, features, tokens))
    return transform(x.astype(jnp.complex64)).real


def side_by_side(
    facts: dict[str, str], functions: dict[str, Any], *arguments: Array, calls: int = 3
) -> list[dict[str, Any]]:
    """Returns a row for the first function against each of the others.

    Args:
      facts: size and pass, for the rows.
      functions: the functions, by name.
      arguments: their arguments.
      calls: calls per round.
    """
    compiled = {name: jax.jit(function) for name, function in functions.items()}
    sides = {name: lambda f=f: f(*arguments) for name, f in compiled.items()}
    ours, *others = functions
    seconds, rows = interleave(sides, rounds=25, calls=calls), []
    memory = {name: temporary_bytes(function, *arguments) for name, function in functions.items()}
    for other in others:
        row = {"what": f"{ours} / {other}"} | facts | compare(seconds, ours, other)
        if memory[other]:
            row["temporary_memory"] = round(memory[ours] / memory[other], 2)
        rows.append(row)
    return rows


def written(b: int, t: int, d: int) -> str:
    """Formats batch size b, tokens t and width d."""
    return f"b{b} t{t} d{d}"


def complex_forms() -> list[dict[str, Any]]:
    rows = []
    for size in SIZES:
        x = jax.random.normal(jax.random.key(0), size)
        facts = {"size": written(*size), "pass": "forward"}
        rows += side_by_side(facts, {"ours": fourier_mix, "fftn().real": plain}, x)
        functions = {"ours": fourier_mix, "published complex matrices": published}
        rows += side_by_side(facts, functions, x, calls=1)
        functions = {"ours": with_backward(fourier_mix), "fftn().real": with_backward(plain)}
        both = {"size": written(*size), "pass": "forward + backward"}
        rows += side_by_side(both, functions, random_cotangent(plain, x), x)
    return rows


def methods() -> list[dict[str, Any]]:
    rows = []
    names = ("rfft", "fft", "matmul", "monarch")
    for size in SIZES:
        for dtype in ("float32", "bfloat16"):
            x = jax.random.normal(jax.random.key(0), size).astype(dtype)
            functions = {name: partial(fourier_mix, method=name) for name in names}
            facts = {"size": written(*size), "pass": "forward", "dtype": dtype}
            rows += side_by_side(facts, functions, x, calls=1)
    return rows


def random_lengths(size: tuple[int, int, int]) -> Int[Array, " b"]:
    """Samples lengths from half to all of the tokens."""
    return jax.random.randint(jax.random.key(1), size[:1], size[1] // 2, size[1] + 1)


def lengths() -> list[dict[str, Any]]:
    """Times arbitrary lengths, and lengths of a quarter, a half and all of the padded one."""
    rows = []
    for b, t, d in LONG:
        x, any_length = jax.random.normal(jax.random.key(0), (b, t, d)), random_lengths((b, t, d))
        sizes = (t // 4, t // 2, t)
        common = jnp.asarray(sizes)[jax.random.randint(jax.random.key(1), (b,), 0, 3).at[0].set(1)]
        facts = {"size": written(b, t, d), "pass": "forward"}
        functions = {"chirps": lambda x, n: fourier_mix(x, lengths=n), "plain": lambda x, n: fourier_mix(x)}
        rows += side_by_side(facts, functions, x, any_length)
        functions = {
            "common lengths": lambda x, n, sizes=sizes: fourier_mix(x, lengths=n, sizes=sizes),
            "plain": lambda x, n: fourier_mix(x),
        }
        rows += side_by_side(facts, functions, x, common)
    return rows


def short() -> list[dict[str, Any]]:
    """Times the methods that `auto` chooses from, on short sequences."""
    rows = []
    functions = {
        "rfft": lambda x, n: fourier_mix(x, method="rfft"),
        "matmul": lambda x, n: fourier_mix(x, method="matmul"),
        "chirps": lambda x, n: fourier_mix(x, lengths=n, method="rfft"),
        "masked": lambda x, n: fourier_mix(x, lengths=n, method="matmul"),
    }
    for b, d in ((32, 64), (8, 128), (32, 256)):
        for t in (4, 8, 16, 32, 64, 128):
            x, n = jax.random.normal(jax.random.key(0), (b, t, d)), random_lengths((b, t, d))
            for dtype in ("float32", "bfloat16"):
                facts = {"size": written(b, t, d), "pass": "forward", "dtype": dtype}
                rows += side_by_side(facts, functions, x.astype(dtype), n, calls=20)
    return rows


PARTS = {"complex": complex_forms, "methods": methods, "lengths": lengths, "short": short}


def define_flags() -> None:
    flags.DEFINE_enum("only", None, list(PARTS), "run one part")


def main() -> None:
    only = flags.FLAGS.only
    for part in [only] if only else PARTS:
        report(f"fourier-{part}", PARTS[part]())


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
