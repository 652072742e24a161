"""Programs on an engine, mapped over eight devices."""

import pytest
from conftest import on_devices

PROGRAM = """
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec

from fourier_attn.optics import Engine, report, site_errors, through

mesh = jax.make_mesh((8,), ("b",), axis_types=(AxisType.Auto,))
over_devices = partial(jax.shard_map, mesh=mesh, in_specs=PartitionSpec("b"), out_specs=PartitionSpec("b"))


def f(x):
    y = jnp.fft.ifft(jnp.fft.fft(x) / 2).real
    return y * y + jax.lax.psum(y.sum(), "b")


x = jnp.asarray(np.random.default_rng(0).standard_normal((16, 6)), jnp.float32)
exact = jax.value_and_grad(lambda x: jnp.sum(jnp.sin(over_devices(f)(x))))(x)
ideal = Engine(shape=(4, 4))
for light in (through(over_devices(f), ideal), over_devices(through(f, ideal))):
    found = jax.jit(jax.value_and_grad(lambda x: jnp.sum(jnp.sin(light(x)))))(x)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), found, exact)

# Each shard is a run, with two of the sixteen examples, and all shards draw the same noise.
chip, key = "chip_11x11", jax.random.key(0)
fft = over_devices(jnp.fft.fft)
(row,) = report(fft, (x,), chip).rows
alone = report(jnp.fft.fft, (x[:2],), chip).rows[0]
assert (row.site.repeats, row.site.arrays, row.passes) == (8, 2, 8 * alone.passes)
same = jnp.tile(x[:2], (8, 1))
y = jax.jit(through(fft, chip, key=key))(same)
np.testing.assert_array_equal(y, jnp.tile(y[:2], (8, 1)))
assert (y != jnp.fft.fft(same)).any()
assert 10 < site_errors(fft, (x,), chip, key=key)["0 fft 6"] < 40

# One key for each shard draws separate noise.
keyed = jax.shard_map(
    lambda keys, x: through(jnp.fft.fft, chip, key=keys[0])(x),
    mesh=mesh,
    in_specs=(PartitionSpec("b"), PartitionSpec("b")),
    out_specs=PartitionSpec("b"),
)
y = jax.jit(keyed)(jax.random.split(key, 8), same)
assert (y[:2] != y[2:4]).any()

x = x.reshape(8, 2, 6)
np.testing.assert_allclose(through(jax.pmap(jnp.fft.fft), ideal)(x), jnp.fft.fft(x), atol=1e-5)
print("as on one device")
"""


@pytest.mark.slow
def test_programs_over_devices() -> None:
    assert on_devices("-c", PROGRAM) == "as on one device"
