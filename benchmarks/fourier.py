"""Fourier mixing against the complex transform of the definition: `python -m benchmarks.fourier`."""

import jax
import jax.numpy as jnp

from benchmarks.timing import compare, interleave, report, temporary_bytes
from fourier_attn.ops.fourier import fourier_mix

SIZES = [(8, 512, 128), (8, 512, 768), (2, 2048, 256), (32, 256, 128)]


def plain(x: jax.Array) -> jax.Array:
    return jnp.fft.fftn(x, axes=(1, 2)).real


def forward_and_backward(mix):
    """Result and gradient of a nonlinear function of the mixed tokens, so that the forward pass is needed."""

    def both(x: jax.Array):
        return jax.value_and_grad(lambda x: jnp.sum(jnp.sin(mix(x))))(x)

    return both


def main() -> None:
    rows = []
    for size in SIZES:
        x = jax.random.normal(jax.random.key(0), size)
        for passes, wrap in (("forward", lambda mix: mix), ("forward + backward", forward_and_backward)):
            functions = {"ours": wrap(fourier_mix), "fftn": wrap(plain)}
            jitted = {name: jax.jit(function) for name, function in functions.items()}
            seconds = interleave(
                {name: lambda f=f, x=x: f(x) for name, f in jitted.items()}, rounds=25, calls=3
            )
            memory = {name: temporary_bytes(function, x) for name, function in functions.items()}
            row = {"b, t, d": str(size), "pass": passes} | compare(seconds, "ours", "fftn")
            rows.append(row | {"temporary_memory": f"{memory['ours'] / memory['fftn']:.2f}x"})
    report("fourier", rows)


if __name__ == "__main__":
    main()
