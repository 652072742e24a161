"""Continuing a text with cached state, against the whole network again for every token:
`python -m benchmarks.generate [--tokens=200]`.

Both sides are one program with a loop. Two pre-norm blocks of width 128, 8,000 tokens, a prompt of 32 tokens,
greedy; weights as drawn.
"""

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from absl import flags

from benchmarks import timing
from fourier_attn import command, config, model
from fourier_attn.inference.generate import make_generate
from fourier_attn.studies.side_by_side import interleave

PROMPT = 32
MIXERS: dict[str, tuple[str, dict[str, Any]]] = {
    "attention": ("attention", {}),
    "attention, 4 heads of 32": ("attention", {"heads": 4, "head_width": "split"}),
    "circular": ("circular", {}),
    "lambda, context 3": ("lambda", {}),
    "lambda, global": ("lambda", {"context": 0}),
    "long_conv": ("long_conv", {}),
    "token_conv": ("token_conv", {}),
    "linear": ("linear", {}),
    "random": ("random", {}),
    "identity": ("identity", {}),
}


def define_flags() -> None:
    flags.DEFINE_integer("tokens", 200, "number of tokens to generate", lower_bound=1)
    flags.DEFINE_integer("rounds", 5, "number of rounds; each runs both sides", lower_bound=1)
    flags.DEFINE_string(
        "mixers", "", "first letters of the mixers to time, separated by commas; default: all"
    )


def build(name: str, fields: dict[str, Any], positions: int) -> model.Model:
    """Builds a language model with two blocks.

    Args:
      name: the mixer.
      fields: options of the mixer.
      positions: largest number of tokens.
    """
    c = config.default(name)
    sizes = {"depth": 2, "d": 128, "mlp": 512, "vocab": 8_000, "positions": positions}
    c.model.update(sizes | {"head": "lm", "norm_position": "pre", "activation": "gelu"})
    c.model.mixer.update(
        {key: value for key, value in (("causal", True), ("length", positions)) if key in c.model.mixer}
    )
    c.model.mixer.update(fields)
    return model.build(c.model)


def uncached(network: model.Model, tokens: int) -> Callable[[Any, jax.Array], jax.Array]:
    """Returns the program that computes the whole text again for each of its tokens."""

    def run(params: Any, ids: jax.Array) -> jax.Array:
        b, p = ids.shape
        room = p + tokens - 1

        def add(row: jax.Array, place: jax.Array) -> tuple[jax.Array, jax.Array]:
            mask = jnp.broadcast_to(jnp.arange(room)[None] < place, row.shape)
            asked = jnp.full((b, 1), 0) + place - 1
            logits: Any = network.apply({"params": params}, row, mask=mask, answer_positions=asked)
            token = jnp.argmax(logits[:, 0], axis=-1).astype(row.dtype)
            return row.at[:, place].set(token, mode="drop"), token

        row = jnp.pad(ids, [(0, 0), (0, tokens - 1)])
        return jax.lax.scan(add, row, p + jnp.arange(tokens))[1].T

    return jax.jit(run)


def main() -> None:
    tokens, rows = flags.FLAGS.tokens, []
    chosen = tuple(flags.FLAGS.mixers.split(","))
    for label, (name, fields) in MIXERS.items():
        if not label.startswith(chosen):
            continue
        network = build(name, fields, PROMPT + tokens)
        ids = jax.random.randint(jax.random.key(0), (1, PROMPT), 7, 8_000)
        params = network.init(jax.random.key(1), ids)["params"]
        program, whole = make_generate(network), uncached(network, tokens)
        given = (params, ids, jnp.full(1, PROMPT), jnp.float32(0), jax.random.key(2))
        sides = {
            "cached": lambda program=program, given=given: program(*given, tokens=tokens)[0],
            "uncached": lambda whole=whole, params=params, ids=ids: whole(params, ids),
        }
        same = bool((sides["cached"]() == sides["uncached"]()).all())
        seconds = interleave(sides, rounds=flags.FLAGS.rounds)
        row = {"mixer": label, "tokens": tokens, **timing.compare(seconds, "cached", "uncached")}
        rows.append(row | {"ms_per_token": round(row["ours_ms"] / tokens, 3), "same_text": same})
    timing.report("generate", rows)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
