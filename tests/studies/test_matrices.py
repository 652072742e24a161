"""Layers as matrices: the measures on matrices that are known, the study on layers whose facts are known."""

import json
from functools import cache, partial
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import ROOT, drawn, normal, run_here

from evidence.pages import inside
from evidence.pages.markdown import Results
from fourier_attn.model import MIXERS
from fourier_attn.studies.inside import matrices, matrix_layers, matrix_views, structure

measure = cache(matrices.measure)  # for layers that several tests look at
RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((3, 3))
SQUARE = RNG.standard_normal((5, 5))
LAGS = np.subtract.outer(np.arange(5), np.arange(5))  # i - j


def tokens(matrix: np.ndarray) -> np.ndarray:
    """T (x) F with axes (t, d, t, d)."""
    return np.einsum("ij,pq->ipjq", matrix, FEATURES)


KNOWN = {
    "Toeplitz": tokens(RNG.standard_normal(9)[LAGS + 4]),
    "circulant": tokens(RNG.standard_normal(5)[LAGS % 5]),
    "block-diagonal": tokens(np.diag(RNG.standard_normal(5))),
    "symmetric": np.einsum("ij,pq->ipjq", SQUARE + SQUARE.T, FEATURES + FEATURES.T),
    "permutation": np.eye(15)[RNG.permutation(15)].reshape(5, 3, 5, 3),
}


@pytest.mark.parametrize("kind", KNOWN)
def test_a_structure_is_seen_where_it_is_and_only_there(kind: str) -> None:
    measure, matrix = structure.STRUCTURES[kind], KNOWN[kind]
    assert measure(matrix) < 1e-12
    assert measure(matrix + 1e-3 * np.abs(matrix).max() * RNG.uniform(0.5, 1, matrix.shape)) > 1e-4
    for other in KNOWN.keys() - {kind, "circulant" if kind == "Toeplitz" else ""}:
        if (kind, other) != ("permutation", "symmetric"):
            assert measure(KNOWN[other]) > 0.05, other
    assert structure.toeplitz(KNOWN["circulant"]) < 1e-12


def test_two_ones_in_a_column_are_no_permutation() -> None:
    twice = np.eye(4)
    twice[1] = twice[0]
    assert structure.permutation(twice.reshape(2, 2, 2, 2)) >= 1


def test_rank_products_and_distinct_entries() -> None:
    one, two = RNG.standard_normal((2, 5, 5))
    other = np.einsum("ij,pq->ipjq", two, RNG.standard_normal((3, 3)))
    assert structure.products(tokens(one)) == 1
    assert structure.products(tokens(one) + other) == 2
    assert structure.rank(structure.square(tokens(one))) == 15
    assert structure.rank(structure.square(tokens(np.outer(one[0], one[1])))) == 3
    assert structure.distinct(np.array([1.0, 2.0, 2.0, -3.0, 0.0, 1.0 + 1e-9])) == 4


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("fc", {"rank": 128, "products": 1, "distinct": 257, "lengths": "up to t", "growth": "t² + t d"}),
        ("conv 3", {"products": 3, "distinct": 193, "lengths": "any", "growth": "3 d² + d"}),
        ("MLP", {"lengths": "any", "growth": "8 d² + 5 d"}),
        ("token_conv", {"products": 1, "distinct": 4, "growth": "3", "parameters": 3}),
        ("attention", {"rank": 128, "products": 64, "lengths": "any", "growth": "4 d² + d"}),
        ("global_filter", {"distinct": 16 * 8 + 1, "growth": "t d + 2 d"}),
        # cos of multiples of pi / 8; y[-i, -j] = y[i, j] leaves half of the places and the four fixed ones
        ("fourier", {"rank": 66, "products": 2, "distinct": 9, "parameters": 0}),
    ],
)
def test_what_is_known_of_a_layer_is_measured(name: str, facts: dict) -> None:
    row = measure(name, matrix_layers.LAYERS[name])
    assert {fact: row[fact] for fact in facts} == facts
    commutes = {kind for kind in ("translation", "cyclic", "permutation") if row[kind] < matrix_views.NONE}
    everything = {"translation", "cyclic", "permutation"}
    assert commutes == {
        "conv 3": {"translation"},
        "token_conv": {"translation"},
        "MLP": everything,
        "attention": everything,
        "global_filter": {"translation", "cyclic"},
    }.get(name, set())
    assert set(matrix_views.structures(row)) == {
        "conv 3": {"Toeplitz"},
        "token_conv": {"Toeplitz"},
        "MLP": {"block-diagonal"},
        "global_filter": {"circulant"},
        "fourier": {"symmetric"},
    }.get(name, set())
    assert (row["depends_on_x"] > matrix_views.NONE) == (name in ("MLP", "attention"))
    assert row["power_of_t"] == pytest.approx(
        {"fc": 2, "attention": 1.6, "fourier": 1.3, "global_filter": 1.2}.get(name, 1), abs=0.4
    )


def test_published_rows_are_those_of_the_present_layers() -> None:
    """A layer with another initial value needs `python -m fourier_attn.studies.inside.matrices` again."""
    rows = {row["layer"]: row for row in Results(ROOT).document("studies/matrices")["rows"]}
    x = matrix_layers.example(matrix_layers.T, matrix_layers.D)
    assert rows.keys() == matrix_layers.LAYERS.keys()
    for name, make in matrix_layers.LAYERS.items():
        layer = make(matrix_layers.T)
        function = matrices.of_tokens(layer, layer.init(jax.random.key(0), x[None]))
        for kind, found in matrices.symmetries(function, x).items():
            assert found == pytest.approx(rows[name][kind], rel=1e-2, abs=1e-6), (name, kind)


LITERAL = {  # the forms that `auto` does not choose at this size
    f"{name}, literal": partial(matrix_layers.mixer, name, heads=1, method="literal")
    for name in ("attention", "circular")
}


@pytest.mark.parametrize("name", [*matrix_layers.LAYERS, *LITERAL])
def test_a_matrix_agrees_with_one_pullback(name: str) -> None:
    """u J, where J is computed for all outputs together, against the pullback of u alone."""
    layer = (matrix_layers.LAYERS | LITERAL)[name](matrix_layers.T)
    x = matrix_layers.example(matrix_layers.T, matrix_layers.D)
    function = matrices.of_tokens(layer, drawn(layer, x[None]))

    @jax.jit
    def both(x: jax.Array, u: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.jacobian(function)(x), jax.vjp(function, x)[1](u)[0]

    u = normal(*x.shape, seed=5)
    matrix, pulled = both(x, u)
    np.testing.assert_allclose(np.tensordot(u, matrix, 2), pulled, atol=1e-4)  # of 128 terms


def test_every_mixer_is_among_the_layers() -> None:
    assert set(MIXERS) < set(matrix_layers.LAYERS)


def test_a_law_that_is_no_polynomial_is_refused() -> None:
    def make(t: int) -> matrix_layers.Plain:
        return matrix_layers.Plain(lambda d: {"w": (t * t * d, 1)}, lambda p, x: x)

    with pytest.raises(ValueError, match="fit no polynomial; fit another law"):
        matrices.growth(make)


def test_the_command_and_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices, "measure", measure)
    few = ["token_conv", "attention", "identity"]
    (tmp_path / "results").mkdir()
    code, out, err = run_here(matrices, f"--layers={','.join(few)}", f"--out={tmp_path}/results/found")
    assert code == 0, err
    assert "token_conv: rank 128,     4 distinct entries, 3 parameters; Toeplitz" in out
    assert (tmp_path / "results" / "found.png").stat().st_size > 10_000
    document = json.loads((tmp_path / "results" / "found.json").read_text())
    assert [row["layer"] for row in document["rows"]] == few
    results = Results(tmp_path)
    assert "| `token_conv` | 128 of 128 | 4 | 1 | Toeplitz | no |" in inside.matrix_table(results, "found")
    lines = inside.property_table(results, "found").splitlines()
    assert "| `token_conv` | any | 3 | **yes** (0) | no (" in lines[2]
    assert lines[2].endswith(f"{inside.CHAPTER['token_conv']} |")
    assert lines[4].startswith("| `identity` | any | 0 | **yes** (0) | **yes** (0) | **yes**")


def test_layers_that_are_unknown_or_not_all() -> None:
    code, _, error = run_here(matrices, "--layers=fc,conv 5")
    assert code == 2
    assert "layers=conv 5 is unknown; did you mean conv 3? Choose from fc, conv 3, " in error
    code, _, error = run_here(matrices, "--layers=", "--out=few")
    assert code == 2
    assert "layers= is unknown; choose from fc, conv 3, " in error
    code, _, error = run_here(matrices, "--layers=fc")
    assert code == 2
    assert "layers=fc are not all, which results/studies/matrices.json has; name a file by --out" in error


def test_the_weights_in_the_picture_are_the_chapters_matrix() -> None:
    """A = softmax(Q K^T / sqrt(d)) of eq. 1.28, for the x of the linearisation."""
    found = matrices.weights(matrix_layers.LAYERS["attention"])
    x = np.asarray(matrix_layers.example(matrix_layers.T, matrix_layers.D), np.float64)
    layer = matrix_layers.LAYERS["attention"](matrix_layers.T)
    p = jax.jit(layer.init)(jax.random.key(0), normal(1, matrix_layers.T, matrix_layers.D))["params"]
    q, k = (x @ np.asarray(p[name]["kernel"][:, 0], np.float64) for name in ("query", "key"))
    scores = np.exp(q @ k.T / np.sqrt(matrix_layers.D))
    np.testing.assert_allclose(found, scores / scores.sum(-1, keepdims=True), atol=1e-6)
