import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import array

from fourier_attn import model
from fourier_attn.family import family


def tiny(head: str, name: str = "fnet", **changes: object) -> dict:
    c = family(name, "tiny").model.to_dict()
    c["mixer"] |= {"length": 9} if "length" in c["mixer"] else {}
    c |= {"vocab": 23, "positions": 9, "types": 2, "d": 8, "emb": 6, "mlp": 12, "head": head, "classes": 3}
    if name == "bert":
        c["mixer"]["heads"] = 2
    return c | changes


def tokens(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(5).integers(0, 23, shape), jnp.int32)


def filled(network: model.Model, ids: jax.Array) -> dict:
    """Parameters of which none is zero."""
    draw = np.random.default_rng(1)
    shapes = jax.eval_shape(network.init, jax.random.key(0), ids)
    return jax.tree.map(lambda p: array(0.3 * draw.standard_normal(p.shape)), shapes)


SHAPES = {
    "classes": (2, 3),
    "labels": (2, 3),
    "score": (2,),
    "tokens": (2, 9, 3),
    "spans": (2, 9, 2),
    "pretraining": {"mlm": (2, 9, 23), "nsp": (2, 2)},
    "mlm": {"mlm": (2, 9, 23)},
    "nsp": {"nsp": (2, 2)},
    "features": {"hidden": (2, 9, 8), "pooled": (2, 8)},
}


@pytest.mark.parametrize("head", SHAPES)
def test_shapes_of_outputs(head: str) -> None:
    network, ids = model.build(tiny(head)), tokens(2, 9)
    answers = jax.eval_shape(lambda: network.init_with_output(jax.random.key(0), ids)[0])
    assert jax.tree.map(lambda a: a.shape, answers) == SHAPES[head]


def test_the_pretraining_model_is_the_equations() -> None:
    """Embedding, projection, blocks, pooler and both heads of a feed-forward model in NumPy and float64."""
    network, ids = model.build(tiny("pretraining", "ff")), tokens(2, 9)
    types = jnp.asarray(np.random.default_rng(2).integers(0, 2, (2, 9)), jnp.int32)
    params = filled(network, ids)
    p = jax.tree.map(lambda a: np.asarray(a, np.float64), params["params"])

    def norm(x: np.ndarray, weights: dict) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12) * weights["scale"] + weights["bias"]

    def dense(x: np.ndarray, weights: dict) -> np.ndarray:
        return x @ weights["kernel"] + weights["bias"]

    def gelu(x: np.ndarray) -> np.ndarray:
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    e, head = p["encoder"], p["head"]
    x = (
        e["tokens"]["embedding"][np.asarray(ids)]
        + e["positions"]
        + e["types"]["embedding"][np.asarray(types)]
    )
    x = dense(norm(x, e["embedding_norm"]), e["projection"])
    for block in (e["block_0"], e["block_1"]):
        x = norm(x + x, block["mixer_norm"])
        x = norm(x + dense(gelu(dense(x, block["mlp_in"])), block["mlp_out"]), block["mlp_norm"])
    nsp = dense(np.tanh(dense(x[:, 0], p["pooler"])), head["nsp"])
    mlm = norm(gelu(dense(x, head["mlm_dense"])), head["mlm_norm"])
    mlm = mlm @ e["tokens"]["embedding"].T + head["mlm_bias"]
    apply = jax.jit(network.apply)
    found = apply(params, ids, types=types)
    np.testing.assert_allclose(found["nsp"], nsp, atol=2e-5)
    np.testing.assert_allclose(found["mlm"], mlm, atol=5e-5)  # float32 sums of values up to some tens
    answer_positions = jnp.array([[0, 3], [8, 1]])
    some = apply(params, ids, types=types, answer_positions=answer_positions)["mlm"]
    np.testing.assert_allclose(
        some, np.take_along_axis(mlm, np.asarray(answer_positions)[..., None], 1), atol=5e-5
    )


def test_choices_are_scored_one_by_one() -> None:
    network, ids = model.build(tiny("score", "bert")), tokens(2, 4, 9)
    mask = jnp.arange(9)[None, None] < jnp.asarray(np.random.default_rng(0).integers(1, 9, (2, 4, 1)))
    params = filled(network, ids)
    apply = jax.jit(network.apply)
    scores = apply(params, ids, mask=mask, types=jnp.ones_like(ids))
    assert scores.shape == (2, 4)
    one = apply(params, ids[1, 2:3], mask=mask[1, 2:3], types=jnp.ones((1, 9), jnp.int32))
    np.testing.assert_allclose(scores[1, 2], one[0], atol=1e-6)


def test_types_default_to_zero_and_matter() -> None:
    network, ids = model.build(tiny("classes")), tokens(2, 9)
    params = filled(network, ids)
    apply = jax.jit(network.apply)
    none, zero, one = (
        apply(params, ids, types=types) for types in (None, jnp.zeros_like(ids), jnp.ones_like(ids))
    )
    np.testing.assert_array_equal(none, zero)
    assert np.abs(none - one).max() > 1e-3


@pytest.mark.parametrize("changes", [{"emb": 0}, {"emb": 6}, {"emb": 0, "positions_kind": "sines_appended"}])
def test_next_token_logits_are_tied_to_the_table(changes: dict) -> None:
    """logits_i = x_i E^T + c in float64, at all places or some; a narrower table is projected to."""
    c = tiny("lm", "bert", position_width=2, **changes)
    c["mixer"]["causal"] = True
    network, ids = model.build(c), tokens(2, 9)
    params = filled(network, ids)
    weights = jax.tree.map(lambda a: np.asarray(a, np.float64), params["params"])
    x, _ = jax.jit(lambda: network.encoder().apply({"params": params["params"]["encoder"]}, ids))()
    x, head = np.asarray(x, np.float64), weights["head"]
    table = weights["encoder"]["tokens"]["embedding"]
    assert ("projection" in head) == (table.shape != (23, 8))
    x = x @ head["projection"]["kernel"] + head["projection"]["bias"] if "projection" in head else x
    apply = jax.jit(network.apply)
    expected = x @ table.T + head["bias"]
    np.testing.assert_allclose(apply(params, ids), expected, atol=1e-5)  # float32 sums of values near 1
    places = jnp.array([[0, 3], [8, 1]])
    some = np.take_along_axis(expected, np.asarray(places)[..., None], 1)
    np.testing.assert_allclose(apply(params, ids, answer_positions=places), some, atol=1e-5)


def test_next_token_head_refuses_mixers_that_see_it() -> None:
    with pytest.raises(ValueError, match="model.head='lm' needs causal mixers, not 'fourier'; choose one of"):
        model.build(tiny("lm"))


@pytest.mark.slow
def test_gradients_reach_the_tied_table_from_both_sides() -> None:
    network, ids = model.build(tiny("mlm", "ff")), tokens(1, 3) % 5
    params = filled(network, ids)
    slope = jax.jit(jax.grad(lambda p: network.apply(p, ids)["mlm"][0, 0, 20]))(params)
    slope = slope["params"]["encoder"]["tokens"]
    assert np.abs(slope["embedding"][20]).max() > 0  # as the output's row; 20 is no input
    assert np.abs(slope["embedding"][int(ids[0, 0])]).max() > 0  # as the input's


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head": "poem"}, "model.head='poem' is unknown; choose one of classes, labels, score"),
        ({"pooling": "last"}, "model.pooling='last' is unknown"),
        ({"emb": -1}, "model.emb=-1 must not be negative"),
        ({"norm_eps": 0.0}, "model.norm_eps=0.0 must be positive"),
    ],
)
def test_bad_settings(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.build(tiny("classes") | changes)
