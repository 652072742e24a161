"""Measures the freedom of queries and keys: python -m fourier_attn.studies.inside.query_keys --workdir=RUN

A head sees tokens only through the products of queries and keys, and these depend on one matrix M:

    q_i . k_j = x_i^T M x_j

The study reports three numbers for every layer and head of a run that was trained with attention or circular
attention: the parameters of queries and keys, the degrees of freedom of M that they reach, and M's effective
rank (Roy and Vetterli 2007), for singular values s,

    rank = exp(-sum_i p_i log p_i),    p_i = s_i / (sum_j s_j)

It writes query_keys.json into the run's directory.
"""

import math
import sys
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from absl import flags

from fourier_attn import command, paths, provenance
from fourier_attn.ops.circular import circular_correlate
from fourier_attn.studies import runs
from fourier_attn.studies.runs import weights_digest
from fourier_attn.train.init_from import restore

FACTS = ("parameters", "freedom", "effective_rank")
FREE = 1e-5  # share of the largest singular value above which a direction counts


def define_flags() -> None:
    runs.define_flags()
    flags.DEFINE_string("out", "query_keys", "name of the result in the run's directory; .json is added")


def main() -> None:
    [directory] = runs.directories()
    config, _, params = restore(directory)
    mixer, d = config.model.mixer.to_dict(), config.model.d
    if mixer["name"] not in HEADS or config.model.layout or config.train.seeds > 1:
        raise ValueError(
            f"workdir={directory} has the mixer {mixer['name']!r}; name a run of one network with "
            f"{' or '.join(HEADS)} in all blocks"
        )
    rows = []
    for layer in range(config.model.depth):
        heads = HEADS[mixer["name"]](params["encoder"][f"block_{layer}"]["mixer"], mixer, d)
        rows += [{"layer": layer, "head": head, **facts} for head, facts in enumerate(heads)]
    path = directory / paths.given(f"{flags.FLAGS.out}.json")
    setting = f"{directory.name}: {mixer['name']}, d = {d}, {config.model.depth} layers"
    networks = [{"run": directory.name, "weights": weights_digest(params)}]
    provenance.write(path, provenance.record() | {"setting": setting, "networks": networks, "rows": rows})
    means = [f"{name} {np.mean([row[name] for row in rows]):,.1f}" for name in FACTS]
    print(f"{setting}; of a head, in the mean: {', '.join(means)}")
    print(f"written to {path}")


def attention_heads(params: Any, mixer: dict[str, Any], d: int) -> list[dict[str, int | float]]:
    """Describes $M = W_q W_k^T$ of each head of attention, which has rank at most k.

    Such matrices have $2 d k - k^2$ degrees of freedom.

    Args:
      params: parameters of the mixer, "query" and "key".
      mixer: its options; not used here.
      d: width of the model.
    """
    query, key = (np.asarray(params[name]["kernel"], np.float64) for name in ("query", "key"))
    k = query.shape[-1]
    return [
        described(query[:, head] @ key[:, head].T, 2 * d * k, 2 * d * k - k**2)
        for head in range(query.shape[1])
    ]


def circular_heads(params: Any, mixer: dict[str, Any], d: int) -> list[dict[str, int | float]]:
    """Describes $M = C_q^T C_k$ of each head of circular attention.

    Its degrees of freedom are the rank of its derivative with respect to both kernels.

    Args:
      params: parameters of the mixer, "query" and "key".
      mixer: its options, "shape" and "boundary".
      d: width of the model.
    """
    shape = tuple(mixer["shape"] or ()) or None
    taps = params["query"].shape[1:]
    units = jnp.eye(math.prod(taps)).reshape(-1, *taps)  # kernels of one tap each
    correlate = partial(circular_correlate, shape=shape, boundary=mixer["boundary"], method="direct")
    each = np.asarray(correlate(jnp.eye(d), units), np.float64)  # for each feature: zeros and ones, exact

    heads = []
    for query, key in zip(params["query"], params["key"], strict=True):
        kernels = [np.asarray(kernel, np.float64).ravel() for kernel in (query, key)]
        queries, keys = (np.einsum("irf,r->if", each, kernel) for kernel in kernels)
        by_query, by_key = np.einsum("irf,jf->ijr", each, keys), np.einsum("if,jrf->ijr", queries, each)
        change = np.concatenate([by_query, by_key], -1).reshape(d * d, -1)
        squares = np.linalg.eigvalsh(change.T @ change)  # squared singular values
        freedom = int(np.sum(squares > FREE**2 * squares.max()))
        heads.append(described(queries @ keys.T, 2 * len(units), freedom))
    return heads


HEADS = {"attention": attention_heads, "circular": circular_heads}


def described(matrix: np.ndarray, parameters: int, freedom: int) -> dict[str, int | float]:
    """Returns the facts about one head.

    Args:
      matrix: M (d, d).
      parameters: number of parameters of queries and keys.
      freedom: degrees of freedom of M.
    """
    return dict(zip(FACTS, (parameters, freedom, effective_rank(matrix)), strict=True))


def effective_rank(matrix: np.ndarray) -> float:
    """Returns the exponential of the singular values' entropy: n for an identity, 1 for an outer product."""
    values = np.linalg.svd(matrix, compute_uv=False)
    shares = values[values > 0] / values.sum()
    return float(np.exp(-np.sum(shares * np.log(shares))))


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
