"""Continues texts with a next-token model, a token at a time, from what its mixers keep of the text."""

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

HOTTEST = 1e4  # the temperature; there all tokens are almost equally likely
SHORTEST = 8  # tokens that a prompt is padded to, at least; then to the next power of two


class Sampling(NamedTuple):
    """Options of `fourier_attn.inference.predictor.Predictor.generate`."""

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
                f"temperature={self.temperature} must be 0, for the likeliest tokens, or a number up to "
                f"{HOTTEST:,.0f}"
            )
        if self.top_k < 0:
            raise ValueError(
                f"top_k={self.top_k} must be 0, for all tokens, or the number of the likeliest ones"
            )
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed={self.seed} must lie in 0 .. 2^32 - 1")


def choose(
    logs: Float[Array, "b v"],
    place: Int[Array, " b"],
    key: Key[Array, ""],
    temperature: Float[Array, ""],
    top_k: int,
) -> Int[Array, " b"]:
    """Draws a token of each example, with probabilities softmax(logs / temperature); at 0 the likeliest.

    The key is folded with the place in the text alone, so that a text's tokens depend neither on the other
    texts nor on how many more tokens are asked for.

    Args:
      place: the number of tokens before.
      top_k: draw among the k likeliest only; 0: among all.
    """
    if top_k:
        least = jax.lax.top_k(logs, min(top_k, logs.shape[-1]))[0][:, -1:]
        logs = jnp.where(logs >= least, logs, jnp.full((), -jnp.inf, logs.dtype))

    def draw() -> Array:
        scaled = (logs - logs.max(axis=-1, keepdims=True)) / temperature
        keys = jax.vmap(partial(jax.random.fold_in, key))(place)
        return jax.vmap(jax.random.categorical)(keys, scaled)

    return jax.lax.cond(temperature > 0, draw, lambda: jnp.argmax(logs, axis=-1)).astype(jnp.int32)


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
    """Continues prompts by n tokens: one pass over the prompts, then one loop of n - 1 steps.

        token_i ~ softmax(top_k(log p_i) / temperature)    `p_i`: probabilities of token i, from the model

    Args:
      network: with a head of logits for each token and causal mixers.
      ids: the prompts, with any ids behind their tokens.
      counts: the number of tokens of each, at least 1.
      tokens: n; nothing else ends a text.
      temperature, top_k: see `choose`.
      never: ids that are not drawn; the probabilities of the others add up to 1.
      seeds: networks whose probabilities are averaged, along the first axis of `params`; 1: there is no axis.
    Returns: the tokens, and the logarithm of the probability of each before temperature and top_k.
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
    """Returns `generate` of a network, compiled once for each shape of prompts, `tokens` and `top_k`."""
    return jax.jit(partial(generate, network), static_argnames=("tokens", "top_k", "never", "seeds"))


class Generator:
    """Continues texts, see `fourier_attn.inference.predictor.Predictor.generate`.

    Args:
      positions: tokens that a text can have.
      batch: texts that are continued at once.
      seeds: see `generate`.
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
        """Returns the tokens of each text. Raises: ValueError where `tokens` more do not fit behind one."""
        rows = [[self.first, *row] for row in ids_of(self.tokenizer, texts)[0]]
        for row in rows:
            self._check_length(len(row), tokens)
        return rows

    def _answer(self, row: Sequence[int], new: Sequence[int], logs: np.ndarray) -> dict[str, Any]:
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
                f"tokens={tokens} after a text of {count} tokens exceed model.positions={self.positions}; "
                f"{cure}"
            )

    def _size(self, count: int) -> int:
        """Returns how many texts a program takes: few programs, whatever the number."""
        return min(self.batch, 1 << (count - 1).bit_length())

    def _batches(self, counts: Sequence[int], tokens: int) -> Iterator[tuple[list[int], int]]:
        """Yields the numbers of texts that are padded to one length, and this length."""
        widths = [min(max(SHORTEST, 1 << (n - 1).bit_length()), self.positions - tokens) for n in counts]
        for width in sorted(set(widths)):
            members = [number for number, other in enumerate(widths) if other == width]
            for start in range(0, len(members), self.batch):
                yield members[start : start + self.batch], width
