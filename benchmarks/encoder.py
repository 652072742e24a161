"""Training steps of whole encoders, FNet and its relatives against attention: `python -m benchmarks.encoder`.

Same sizes, same batch, heads of pre-training on 15 % of the places. BERT's attention drops a tenth of its
weights in training, and the other mixers have none to drop; with more tokens the draws take longer. So the
encoders are compared without it, and `fnet` also with BERT as published. `--only=PART` runs one part:
  depth     12 layers, d 128 and 768: a training step of each, and its temporary memory, against attention
  growth    4 layers, d 256: a training step over the number of tokens, with the hybrid between the two
"""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from benchmarks.timing import compare, report, temporary_bytes
from fourier_attn import command, model
from fourier_attn.config import Config, fit_length
from fourier_attn.family import family, placed
from fourier_attn.studies.side_by_side import interleave
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.step import make_init, make_keys, make_train_step, model_inputs

SIDES = ("fnet", "hybrid", "linear", "bert")
PUBLISHED = "bert with attention dropout"
DEPTH = [(128, 4, 128, 15), (128, 4, 512, 5), (768, 2, 512, 3)]  # d, b, t, rounds
GROWTH = [(512, 9), (1024, 5), (2048, 3), (4096, 3)]  # t, rounds


def encoder(name: str, depth: int, d: int, t: int) -> Config:
    """Returns the configuration of an encoder; only `PUBLISHED` keeps the dropout of attention.

    Args:
      name: architecture.
      depth, d, t: number of blocks, width and tokens.
    """
    c = family("bert" if name == PUBLISHED else name, "base")
    c.model.update({"depth": depth, "d": d, "emb": d, "mlp": 4 * d, "positions": t, "vocab": 8_000})
    if name == "hybrid":
        c.model.layout = placed(depth, max(1, depth // 6), "top", "fourier")
    for mixer in (c.model.mixer, *c.model.others.values()):
        if "heads" in mixer:
            mixer.heads = max(1, d // 64)
            mixer.dropout = mixer.dropout if name == PUBLISHED else 0.0
    return fit_length(c)


def batch(vocab: int, b: int, t: int) -> dict[str, Any]:
    """Returns a random batch for pre-training.

    Args:
      vocab: size of the vocabulary.
      b, t: batch size and tokens.
    """
    rng, p = np.random.default_rng(0), round(0.15 * t)
    return {
        "inputs": jnp.asarray(rng.integers(7, vocab, (b, t)), jnp.int32),
        "label": jnp.asarray(rng.integers(0, 2, b), jnp.int32),
        "weight": jnp.ones(b),
        "answer_positions": jnp.asarray(
            np.sort(rng.permuted(np.tile(np.arange(t), (b, 1)), axis=1)[:, :p], 1), jnp.int32
        ),
        "mlm_labels": jnp.asarray(rng.integers(7, vocab, (b, p)), jnp.int32),
        "mlm_weights": jnp.ones((b, p)),
    }


class Side:
    """Runs training steps of one encoder; each starts from the state of the last one."""

    def __init__(self, c: Config, data: dict[str, Any]):
        network, optimizer = model.build(c.model), build_optimizer(c.optim)
        init_key, self.key = make_keys(0, 1)
        objective = OBJECTIVES["pretraining"]
        self.state = make_init(network, optimizer, objective, model.example(c.model))(init_key)
        self.step, self.data = make_train_step(network, optimizer, objective), data
        inputs = model_inputs(data)
        self.loss = lambda params: objective.loss(
            objective.sums(network.apply({"params": params}, data["inputs"], **inputs), data),
            objective.counts(data),
        )

    def __call__(self) -> Any:
        self.state = self.step(self.state, self.data, self.key)
        return self.state.step

    def memory(self) -> int:
        return temporary_bytes(jax.value_and_grad(self.loss), self.state.params)


def measure(depth: int, d: int, b: int, t: int, rounds: int) -> list[dict[str, Any]]:
    """Times a training step of each encoder against BERT.

    Args:
      depth, d, b, t: number of blocks, width, batch size and tokens.
      rounds: number of rounds.
    """
    sides = {}
    for name in (*SIDES, PUBLISHED):
        c = encoder(name, depth, d, t)
        sides[name] = Side(c, batch(c.model.vocab, b, t))
    seconds = interleave(dict(sides), rounds)
    memory = {name: side.memory() for name, side in sides.items()}
    rows = []
    for name, other in (*((name, "bert") for name in SIDES[:-1]), ("fnet", PUBLISHED)):
        row = {"what": f"{name} / {other}", "size": f"{depth} layers, d{d} b{b} t{t}"}
        row |= {"pass": "training step"} | compare(seconds, name, other)
        rows.append(row | {"temporary_memory": round(memory[name] / memory[other], 2)})
    return rows


def depth() -> list[dict[str, Any]]:
    return [row for d, b, t, rounds in DEPTH for row in measure(12, d, b, t, rounds)]


def growth() -> list[dict[str, Any]]:
    return [row for t, rounds in GROWTH for row in measure(4, 256, 1, t, rounds)]


PARTS = {"depth": depth, "growth": growth}


def define_flags() -> None:
    flags.DEFINE_enum("only", None, list(PARTS), "run one part")


def main() -> None:
    only = flags.FLAGS.only
    for part in [only] if only else PARTS:
        report(f"encoder-{part}", PARTS[part]())


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
