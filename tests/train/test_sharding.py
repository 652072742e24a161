"""With the batch split over 8 devices no mixer and no engine moves activations: read from the programs."""

import json
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import on_devices
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from optical import changed

from fourier_attn.model import MIXERS
from fourier_attn.ops.circular import circular_correlate
from fourier_attn.optics import (
    Engine,
    optical_circular_correlate,
    optical_fourier_mix,
    optical_position_lambda,
)
from fourier_attn.train.target.program import collectives

VARIANTS = {  # what `auto` does not choose at these sizes
    "attention, literal": ("attention", {"method": "literal"}),
    "circular, literal": ("circular", {"method": "literal"}),
    "circular, zero": ("circular", {"shape": (4, 2), "kernel": (3, 1), "boundary": "zero"}),
    "lambda, whole length": ("lambda", {"context": 0, "length": 16, "method": "matrix"}),
    "lambda, transforms": ("lambda", {"context": 0, "length": 16, "method": "fft"}),
    "lambda, image": ("lambda", {"grid": (4, 4), "heads": 2}),
    "lambda, causal": ("lambda", {"causal": True}),
    "fourier, complex": ("fourier", {"method": "fft", "padding": "zero"}),
    "fourier, half": ("fourier", {"method": "rfft", "padding": "zero"}),
    "fourier, products": ("fourier", {"method": "matmul", "padding": "zero"}),
    "fourier, stages": ("fourier", {"method": "monarch", "padding": "zero"}),
    "fourier, chirps": ("fourier", {"method": "rfft"}),
    "fourier, common lengths": ("fourier", {"lengths": (8, 16)}),
    "global filter, own length": ("global_filter", {"length": 16}),
    "global filter, image": ("global_filter", {"grid": (4, 4)}),
    "afno, image": ("afno", {"grid": (4, 4), "modes": 0.5, "blocks": 2}),
    "long convolution, causal": ("long_conv", {"length": 16, "causal": True}),
    "long convolution, circular": ("long_conv", {"length": 16, "boundary": "circular"}),
}


IDEAL = Engine((16, 16))
NOISY = changed(IDEAL, detection="hybrid90", photons=1e4, adc_bits=8, phase_noise_rms=0.01)


def optical(engine: Engine) -> dict[str, Callable[[jax.Array, jax.Array], jax.Array]]:
    """Operations on an engine, of x (16, 16, 8) and a key: one frame, stages, tiles, and lambdas."""

    def lambdas(x: jax.Array, key: jax.Array) -> jax.Array:
        query, value = x.reshape(16, 16, 2, 4), x[..., None]
        return optical_position_lambda(query, value, jnp.ones((3, 4, 1)), engine, key)

    def wide(x: jax.Array) -> jax.Array:
        return jnp.tile(x, (1, 1, 4))

    return {
        "one frame": lambda x, key: optical_fourier_mix(jnp.tile(x, (1, 1, 2)), engine, key),
        "stages": lambda x, key: optical_fourier_mix(wide(x), engine, key),
        "vectors": lambda x, key: optical_circular_correlate(wide(x), jnp.ones((2, 3)), engine, key),
        "images": lambda x, key: optical_circular_correlate(
            x, jnp.ones((2, 2, 2)), engine, key, shape=(4, 2), boundary="zero"
        ),
        "lambdas": lambdas,
    }


def gathers() -> dict[str, list[int]]:
    """Collectives that move examples, in the forward and in the backward program of mixers and engines."""
    mesh = Mesh(np.array(jax.devices()), ("data",))
    split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    x, mask = jnp.ones((16, 16, 8)), jnp.ones((16, 16), bool)

    def count(function, *arguments) -> int:
        shardings = tuple(whole if i == 0 else split for i in range(len(arguments)))
        text = jax.jit(function, in_shardings=shardings).lower(*arguments).compile().as_text()
        return sum(kind["count"] for name, kind in collectives(text).items() if name != "all-reduce")

    def both(apply, params) -> list[int]:
        def loss(params, x, mask):
            return jnp.sum(apply(params, x, mask) ** 2)

        return [count(apply, params, x, mask), count(jax.grad(loss, (0, 1)), params, x, mask)]

    counts = {}
    for name, (key, fields) in ({name: (name, {}) for name in MIXERS} | VARIANTS).items():
        mixer = MIXERS[key](**fields)
        params = mixer.init(jax.random.key(0), x)
        counts[name] = both(lambda p, x, m, mixer=mixer: mixer.apply(p, x, mask=m), params)
    for method in ("fft", "matmul", "direct"):
        correlate = partial(circular_correlate, method=method)
        counts[f"correlate, {method}"] = both(lambda w, x, m, f=correlate: f(x, w), jnp.ones((3, 8)))
    for kind, engine in (("ideal", IDEAL), ("noisy", NOISY)):
        for name, function in optical(engine).items():
            counts[f"{kind} engine, {name}"] = both(lambda _, x, m, f=function: f(x, jax.random.key(0)), {})
    counts["a transform across examples"] = both(lambda _, x, m: jnp.fft.fftn(x).real, {})
    return counts


@pytest.mark.slow
def test_a_sharded_batch_stays_where_it_is() -> None:
    counts = json.loads(on_devices(__file__))
    assert min(counts.pop("a transform across examples")) > 0  # so this test would see one
    assert set(counts) >= set(MIXERS)
    assert counts == {key: [0, 0] for key in counts}


if __name__ == "__main__":
    print(json.dumps(gathers()))
