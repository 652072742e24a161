"""What one step does: the state, the training step, the evaluation step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fourier_attn import metrics, model
from fourier_attn.data.batches import Batch, Batches
from fourier_attn.data.text import PAD

Key = jax.Array


class State(NamedTuple):
    """All that a run needs to go on; with K seeds every array has a leading axis K.

    Args:
      step: training steps made.
      params, opt_state: of the network and of the optimiser.
      sums: metrics over the current epoch so far.
      best_params, best_accuracy: those of the epoch with the best validation accuracy so far.
      stale: epochs since then.
    """

    step: jax.Array
    params: Any
    opt_state: Any
    sums: metrics.Sums
    best_params: Any
    best_accuracy: jax.Array
    stale: jax.Array


def make_init(
    network: model.Classifier, optimizer: optax.GradientTransformation, seeds: int
) -> Callable[[Key], State]:
    """Returns the function that makes the initial state from a key (K keys for K > 1 seeds)."""

    def init(key: Key) -> State:
        params = network.init(key, jnp.zeros((1, 1), jnp.int32))["params"]
        best, none = jax.tree.map(jnp.copy, params), jnp.full((), -1.0, jnp.float32)
        counter = jnp.zeros((), jnp.int32)
        return State(counter, params, optimizer.init(params), metrics.zeros(), best, none, counter)

    return jax.jit(jax.vmap(init) if seeds > 1 else init)


def make_train_step(
    network: model.Classifier, optimizer: optax.GradientTransformation, seeds: int = 1, accumulate: int = 1
) -> Callable[[State, Batch, Key], State]:
    """Returns the jitted training step, (state, batch, key) -> state; the old state's memory is reused.

    The loss is the weighted mean over the batch's examples. With `accumulate` = a the batch is worked
    off in a parts, whose gradients are summed: the gradient is that of the whole batch. Dropout draws
    from `key` folded with the step, so the key is the same for all steps.
    """

    def summed(params: Any, batch: Batch, key: Key) -> tuple[jax.Array, metrics.Sums]:
        mask = batch["tokens"] != PAD
        logits: Any = network.apply(
            {"params": params},
            batch["tokens"],
            mask=mask,
            train=True,
            rngs={"dropout": key, "noise": jax.random.fold_in(key, 0)},
        )
        total = metrics.sums(logits, batch["label"], batch["weight"])
        return total["loss"], total

    def gradient(params: Any, batch: Batch, key: Key) -> tuple[Any, metrics.Sums]:
        if accumulate == 1:
            return jax.grad(summed, has_aux=True)(params, batch, key)
        parts = jax.tree.map(lambda x: x.reshape(accumulate, -1, *x.shape[1:]), batch)

        def body(carry: Any, part: tuple[Batch, Key]) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, carry, jax.grad(summed, has_aux=True)(params, *part)), None

        start = (jax.tree.map(jnp.zeros_like, params), metrics.zeros())
        return jax.lax.scan(body, start, (parts, jax.random.split(key, accumulate)))[0]

    def train_step(state: State, batch: Batch, key: Key) -> State:
        grads, total = gradient(state.params, batch, jax.random.fold_in(key, state.step))
        grads = jax.tree.map(lambda g: g / total["count"], grads)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        return state._replace(
            step=state.step + 1,
            params=optax.apply_updates(state.params, updates),
            opt_state=opt_state,
            sums=metrics.add(state.sums, total),
        )

    return jax.jit(jax.vmap(train_step, (0, None, 0)) if seeds > 1 else train_step, donate_argnums=0)


def make_eval_step(
    network: model.Classifier, seeds: int = 1, noise: int = 0
) -> Callable[[Any, Batch], tuple[metrics.Sums, jax.Array]]:
    """Returns the jitted evaluation step: (params, batch) -> (sums, class probabilities).

    Where an optical engine draws noise, it does so here too, with the fixed key of the seed `noise`.
    """

    def eval_step(params: Any, batch: Batch) -> tuple[metrics.Sums, jax.Array]:
        tokens, draws = batch["tokens"], {"noise": jax.random.key(noise)}
        logits: Any = network.apply({"params": params}, tokens, mask=tokens != PAD, rngs=draws)
        return metrics.sums(logits, batch["label"], batch["weight"]), jax.nn.softmax(logits)

    return jax.jit(jax.vmap(eval_step, (0, None)) if seeds > 1 else eval_step)


@jax.jit
def close_epoch(state: State, accuracy: jax.Array) -> State:
    """Keeps the parameters of those seeds whose validation accuracy is their best, and empties the sums."""
    better = accuracy > state.best_accuracy

    def choose(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(better.reshape(better.shape + (1,) * (new.ndim - better.ndim)), new, old)

    return state._replace(
        sums=jax.tree.map(jnp.zeros_like, state.sums),
        best_params=jax.tree.map(choose, state.params, state.best_params),
        best_accuracy=choose(accuracy, state.best_accuracy),
        stale=jnp.where(better, 0, state.stale + 1),
    )


def evaluate(
    eval_step: Callable[..., Any], params: Any, batches: Batches, poll: Callable[[], None] = lambda: None
) -> tuple[metrics.Sums, np.ndarray]:
    """Sums over all examples, and their class probabilities (..., n, c) in the order of the data set."""
    total, parts = None, []
    for batch in (batches[i] for i in range(len(batches))):
        poll()
        summed, probability = eval_step(params, batch)
        total = summed if total is None else metrics.add(total, summed)
        parts.append((batch["index"], batch["weight"] > 0, probability))
    total, parts = jax.device_get((total, parts))
    result = np.zeros((*parts[0][2].shape[:-2], len(batches.rows), parts[0][2].shape[-1]), np.float32)
    for index, real, probability in parts:
        result[..., index[real], :] = probability[..., real, :]
    return total, result


def keys(seed: int, seeds: int) -> tuple[Key, Key]:
    """Keys for the initial weights and for dropout; number i of K has those of a run with `seed + i`."""
    pairs = jnp.stack([jax.random.split(jax.random.key(seed + i)) for i in range(seeds)])
    pairs = pairs if seeds > 1 else pairs[0]
    return pairs[..., 0], pairs[..., 1]
