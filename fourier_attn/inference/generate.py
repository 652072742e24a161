"""Continues texts with a next-token model, one token at a time, with the caches of its mixers."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from fourier_attn.data.text import decode, ids_of, special
from fourier_attn.data.windows import separator
from fourier_attn.layers.cache import Cursor
from fourier_attn.model import Model, with_remat

HOTTEST = 1e4  # largest temperature, at which all tokens are almost equally likely
SHORTEST = 8  # shortest padded length of a prompt in tokens; longer ones are powers of two


class Sampling(NamedTuple):
    """Holds the options of `fourier_attn.inference.predictor.Predictor.generate`.

    Args:
      tokens: number of tokens to generate.
      temperature: sampling temperature; 0: always the likeliest token.
      top_k: sample among the k likeliest tokens; 0: among all.
      seed: random seed, from 0 to $2^32 - 1$.
    """

    tokens: int = 50
    temperature: float = 1.0
    top_k: int = 0
    seed: int = 0

    def check(self) -> None:
        """Checks all options. Raises: ValueError."""
        if self.tokens < 1:
            raise ValueError(f"tokens={self.tokens} must be at least 1")
        if not 0 <= self.temperature <= HOTTEST:
            raise ValueError(
                f"temperature={self.temperature} must lie between 0 (always the likeliest token) and "
                f"{HOTTEST:,.0f}"
            )
        if self.top_k < 0:
            raise ValueError(f"top_k={self.top_k} must be 0 (all tokens) or a positive number of tokens")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed={self.seed} must lie between 0 and 2^32 - 1")


def choose(
    logs: Float[Array, "b v"],
    place: Int[Array, " b"],
    key: Key[Array, ""],
    temperature: Float[Array, ""],
    top_k: int,
) -> Int[Array, " b"]:
    """Samples one token for each example, with probabilities $softmax(logs / temperature)$.

    The key is folded only with the position in the text. Tokens of a text therefore depend neither on the
    other texts nor on the number of tokens to generate.

    Args:
      logs: log-probabilities of all tokens (b, v).
      place: number of tokens before the sampled one (b,).
      key: random key of the whole generation.
      temperature: scalar; 0: the likeliest token.
      top_k: sample among the k likeliest tokens; 0: among all.
    """
    if top_k:
        least = jax.lax.top_k(logs, min(top_k, logs.shape[-1]))[0][:, -1:]
        logs = jnp.where(logs >= least, logs, jnp.full((), -jnp.inf, logs.dtype))

    def sampled() -> Array:
        scaled = (logs - logs.max(axis=-1, keepdims=True)) / temperature
        keys = jax.vmap(partial(jax.random.fold_in, key))(place)
        return jax.vmap(jax.random.categorical)(keys, scaled)

    return jax.lax.cond(temperature > 0, sampled, lambda: jnp.argmax(logs, axis=-1)).astype(jnp.int32)


def generate(
    network: Model,
    params: Any,
    ids: Int[Array, "b p"],
    counts: Int[Array, " b"],
    temperature: Float[Array, ""],
    key: Key[Array, ""],
    *,
    tokens: int,
    top_k: int = 0,
    never: tuple[int, ...] = (),
    seeds: int = 1,
) -> tuple[Int[Array, "b n"], Float[Array, "b n"]]:
    """Continues prompts by n tokens, in one pass over the prompts and a loop of n - 1 steps.

        token_i ~ softmax(top_k(log p_i) / temperature)    `p_i`: probabilities of token i, from the model

    Args:
      network: a model with causal mixers and a head that returns logits of each token.
      params: its weights.
      ids: the prompts (b, p); ids after the end of a prompt are ignored.
      counts: number of tokens of each prompt (b,), at least 1.
      temperature, key, top_k: see `choose`.
      tokens: n; no token ends a text earlier.
      never: ids that are never sampled; the probabilities of the others are scaled to sum 1.
      seeds: number of networks along the first axis of `params`, with averaged probabilities; 1: no such
        axis.
    Returns: the tokens (b, n), and their log-probabilities before temperature and top_k (b, n).
    """
    room = ids.shape[1] + tokens - 1
    apply = partial(with_remat(network, "none").apply, mutable="cache", rngs={"noise": jax.random.key(0)})

    def begin(params: Any) -> Any:
        mask = jnp.arange(ids.shape[1], dtype=counts.dtype)[None] < counts[:, None]
        options = {"mask": mask, "answer_positions": counts[:, None] - 1, "cursor": Cursor(room)}
        return apply({"params": params}, jnp.where(mask, ids, jnp.zeros((), ids.dtype)), **options)

    def step(params: Any, kept: Any, token: Array, place: Array) -> Any:
        return apply({"params": params, **kept}, token[:, None], cursor=Cursor(room, place))

    if seeds > 1:
        begin, step = jax.vmap(begin), jax.vmap(step, (0, 0, None, None))

    def logs_of(logits: Array) -> Array:
        logs = jax.nn.log_softmax(logits[..., 0, :].at[..., list(never)].set(-jnp.inf))
        return logs if seeds == 1 else jax.nn.logsumexp(logs, axis=0) - math.log(seeds)

    def pick(logits: Array, place: Array) -> tuple[Array, Array]:
        logs = logs_of(logits)
        token = choose(logs, place, key, temperature, top_k)
        return token, jnp.take_along_axis(logs, token[:, None], axis=1)[:, 0]

    def add(state: tuple[Any, Array, Array], _: None) -> Any:
        kept, token, place = state
        logits, kept = step(params, kept, token, place)
        chosen = pick(logits, place + 1)
        return (kept, chosen[0], place + 1), chosen

    logits, kept = begin(params)
    first = pick(logits, counts)
    _, others = jax.lax.scan(add, (kept, first[0], counts), length=tokens - 1)
    token, log = (jnp.concatenate([a[:, None], more.T], 1) for a, more in zip(first, others, strict=True))
    return token, log


def make_generate(network: Model) -> Callable[..., tuple[Array, Array]]:
    """Returns `generate` for a network, compiled once for each shape of prompts, `tokens` and `top_k`."""
    return jax.jit(partial(generate, network), static_argnames=("tokens", "top_k", "never", "seeds"))


class Generator:
    """Continues texts, see `fourier_attn.inference.predictor.Predictor.generate`.

        generator(texts, sampling)   # one dict for each text

    Args:
      network: a next-token model.
      params: its weights.
      tokenizer: its tokenizer.
      positions: largest number of tokens of a text with its continuation.
      batch: number of texts that are continued at once.
      seeds: see `generate`; default 1.
    """

    def __init__(
        self, network: Model, params: Any, tokenizer: Any, *, positions: int, batch: int, seeds: int = 1
    ):
        self.params, self.tokenizer, self.positions = params, tokenizer, positions
        self.batch, self.seeds = batch, seeds
        ids = special(tokenizer)
        self.unknown = ids.unknown
        self.first, self.never = separator(ids), tuple(sorted({i for i in ids if i is not None}))
        self.program = make_generate(network)

    def __call__(self, texts: Sequence[str], sampling: Sampling) -> list[dict[str, Any]]:
        """Returns the continuation of each of the `texts`, with the options in `sampling`.

        Raises: ValueError for options out of range, and for a text that is too long.
        """
        sampling.check()
        tokens, temperature, top_k, seed = sampling
        rows = self.prompts(texts, tokens)
        answers: list[dict[str, Any]] = [{}] * len(rows)
        for members, width in self._batches([len(row) for row in rows], tokens):
            prompts = [rows[member] for member in np.resize(members, self._size(len(members)))]
            found, logs = self.program(
                self.params,
                np.stack([np.pad(prompt, (0, width - len(prompt))) for prompt in prompts]).astype(np.int32),
                np.asarray([len(prompt) for prompt in prompts], np.int32),
                np.float32(temperature),
                jax.random.key(seed),
                tokens=tokens,
                top_k=top_k,
                never=self.never,
                seeds=self.seeds,
            )
            for member, new, log in zip(members, np.asarray(found).tolist(), np.asarray(logs), strict=False):
                answers[member] = self._answer(rows[member][1:], new, log)
        return answers

    def prompts(self, texts: Sequence[str], tokens: int) -> list[list[int]]:
        """Returns the token ids of each of the `texts`.

        Raises: ValueError for a text that leaves less than `tokens` positions free.
        """
        rows = [[self.first, *row] for row in ids_of(self.tokenizer, texts)[0]]
        for row in rows:
            self._check_length(len(row), tokens)
        return rows

    def _answer(self, row: Sequence[int], new: Sequence[int], logs: np.ndarray) -> dict[str, Any]:
        """Returns the answer for a prompt `row`, its `new` tokens, and their log-probabilities `logs`."""
        before = decode(self.tokenizer, row)
        return {
            "text": decode(self.tokenizer, [*row, *new]).removeprefix(before),
            "tokens": [self.tokenizer.id_to_token(i) for i in new],
            "log_probability": float(logs.sum(dtype=np.float64)),
            "unknown": round(row.count(self.unknown) / max(len(row), 1), 4),
        }

    def _check_length(self, count: int, tokens: int) -> None:
        left = self.positions - count
        if tokens > left:
            cure = f"give at most --tokens={left}, or a shorter text" if left > 0 else "give a shorter text"
            raise ValueError(
                f"tokens={tokens} and a text of {count} tokens exceed model.positions={self.positions}; "
                f"{cure}"
            )

    def _size(self, count: int) -> int:
        """Returns the number of rows of a program for `count` texts, a power of two or the batch size."""
        return min(self.batch, 1 << (count - 1).bit_length())

    def _batches(self, counts: Sequence[int], tokens: int) -> Iterator[tuple[list[int], int]]:
        """Yields the indices of texts with the same padded length, and this length."""
        widths = [min(max(SHORTEST, 1 << (n - 1).bit_length()), self.positions - tokens) for n in counts]
        for width in sorted(set(widths)):
            members = [number for number, other in enumerate(widths) if other == width]
            for start in range(0, len(members), self.batch):
                yield members[start : start + self.batch], width
