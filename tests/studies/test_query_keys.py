"""How free queries and keys are, held to what theory says."""

import jax
import numpy as np
import pytest
from conftest import normal

from fourier_attn.studies.inside.query_keys import attention_heads, circular_heads, effective_rank


def test_effective_rank_of_known_matrices() -> None:
    assert effective_rank(np.eye(7)) == pytest.approx(7)
    assert effective_rank(np.outer([1.0, 2.0], [3.0, 4.0, 5.0])) == pytest.approx(1)
    assert effective_rank(np.diag([3.0, 1.0])) == pytest.approx(4 / 3**0.75)  # p = 3/4, 1/4


def test_heads_of_attention() -> None:
    params = {name: {"kernel": normal(6, 2, 3, seed=seed)} for seed, name in enumerate(("query", "key"))}
    (first, second) = attention_heads(params, {}, 6)
    assert first["parameters"] == second["parameters"] == 36
    assert first["freedom"] == 27  # 2 d k - k^2
    assert 1 < first["effective_rank"] <= 3


@pytest.mark.parametrize(
    ("taps", "shape", "boundary", "freedom"),
    [
        ((8,), (), "circular", 8),  # one merged filter of d taps
        ((3,), (), "circular", 5),  # of 2 r - 1
        ((2, 4), (2, 4), "circular", 8),
        ((3,), (), "zero", 5),  # 2 r, but for the scale that moves between both
    ],
)
def test_heads_of_circular_attention(taps: tuple, shape: tuple, boundary: str, freedom: int) -> None:
    keys = jax.random.split(jax.random.key(0))
    query, key = (jax.random.normal(each, (2, *taps)) for each in keys)
    params = {"query": query, "key": key}
    found = circular_heads(params, {"shape": shape, "boundary": boundary}, 8)
    assert [head["freedom"] for head in found] == [freedom] * 2
    assert found[0]["parameters"] == 2 * np.prod(taps)
    assert 1 < found[0]["effective_rank"] <= 8


def test_directions_that_hardly_change_the_products_count() -> None:
    """Kernels whose spectrum falls to a thousandth: a smooth merged filter still has d degrees of freedom."""
    d = 32
    spectrum = np.geomspace(1, 1e-3, d // 2 + 1)
    phases = np.asarray(normal(2, d // 2 + 1))
    query, key = (np.fft.irfft(spectrum * np.exp(1j * each), d) for each in phases)
    params = {"query": query[None], "key": key[None]}
    [head] = circular_heads(params, {"shape": (), "boundary": "circular"}, d)
    assert head["freedom"] == d
