"""Attention and Fourier mixing against PyTorch's own functions: `python -m benchmarks.peer_ops [--quick]`.

Each side runs in its own process, forward, and forward + backward for a given cotangent of the result;
first both sides' arrays are held equal. With dropout only times are compared.
"""

import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from benchmarks.race import SETTING, Step, race, started
from benchmarks.timing import compare, report, with_backward
from fourier_attn import command
from fourier_attn.ops.attention import attention
from fourier_attn.ops.fourier import fourier_mix

ATTENTION = [(8, 256, 8, 128), (4, 512, 8, 16), (4, 512, 12, 64), (2, 1024, 8, 32), (1, 2048, 8, 32)]
FOURIER = [(8, 512, 128), (8, 512, 768), (2, 2048, 256), (32, 256, 128), (32, 128, 512)]
RATE = 0.1


def arrays(size: tuple[int, ...]) -> list[np.ndarray]:
    """Arguments and the cotangent of the result: query, key, value for four axes, tokens for three."""
    random = np.random.default_rng(0)
    return [random.normal(size=size).astype(np.float32) for _ in range(4 if len(size) == 4 else 2)]


def ours(size: tuple[int, ...], passes: str, rate: float) -> Step:
    """Builds attention or Fourier mixing in JAX.

    Args:
      size: shape of the input: (b, t, h, k) for attention, (b, t, d) for Fourier mixing.
      passes: "forward" or "forward + backward".
      rate: dropout of attention weights.
    """
    *given, g = map(jnp.asarray, arrays(size))

    def forward(*given: jax.Array) -> jax.Array:
        if len(size) == 3:
            return fourier_mix(*given)
        return attention(*given, dropout=rate, dropout_key=jax.random.key(0))

    if passes == "forward":
        compiled = partial(jax.jit(forward), *given)
    else:
        compiled = partial(jax.jit(with_backward(forward, by=tuple(range(len(given))))), g, *given)
    return lambda: jax.tree.leaves(jax.block_until_ready(compiled()))


def theirs(size: tuple[int, ...], passes: str, rate: float, device: str) -> Step:
    """Builds the same function in PyTorch.

    Args:
      size, passes, rate: as for `ours`.
      device: device of PyTorch.
    """
    from benchmarks import peer_torch  # here, in the process of this side

    return peer_torch.op(arrays(size), passes, rate, device)


def row(what: str, size: tuple[int, ...], passes: str, rounds: int, rate: float = 0.0) -> dict[str, Any]:
    """Times one function in JAX and PyTorch, after a check that the results agree.

    Args:
      what: name of the comparison.
      size, passes, rate: as for `ours`.
      rounds: number of rounds.
    """
    device = "cuda" if jax.default_backend() == "gpu" else "cpu"
    makers = {"ours": partial(ours, size, passes, rate), "torch": partial(theirs, size, passes, rate, device)}
    with started(makers) as sides:
        for a, b in zip(sides["ours"].result, sides["torch"].result, strict=True):
            if not rate:
                np.testing.assert_allclose(a, b, atol=1e-4 * float(np.abs(b).max()), err_msg=what)
        ratio = compare(race(sides, rounds, calls=3), "ours", "torch")
    letters = "bthk" if len(size) == 4 else "btd"
    written = " ".join(f"{letter}{n}" for letter, n in zip(letters, size, strict=True))
    print(f"  {what}, {written}, {passes}: {ratio['times_faster']} times faster", flush=True)
    return {"what": what, "size": written, "pass": passes, "rounds": rounds} | ratio


def define_flags() -> None:
    flags.DEFINE_bool("quick", False, "one small size each and few rounds")


def main() -> None:
    quick = flags.FLAGS.quick
    rounds, what = 2 if quick else 15, "attention, dropout 0.1 / scaled_dot_product_attention"
    sizes = {
        "attention / scaled_dot_product_attention": [(2, 64, 2, 8)] if quick else ATTENTION,
        "Fourier mixing / fft.fft2().real": [(2, 64, 16)] if quick else FOURIER,
    }
    rows = [
        row(name, size, passes, rounds)
        for name, chosen in sizes.items()
        for passes in ("forward", "forward + backward")
        for size in chosen
    ]
    rows.append(row(what, (2, 64, 2, 8) if quick else ATTENTION[2], "forward + backward", rounds, RATE))
    report(f"peer-ops{'-quick' if quick else ''}", rows, peers=("torch",), setting=SETTING)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
