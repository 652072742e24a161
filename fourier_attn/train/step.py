"""The state of a run, its training step and its evaluation step."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fourier_attn import model
from fourier_attn.data.batches import Batch
from fourier_attn.train import metrics
from fourier_attn.train.distributed.sharding import Placement
from fourier_attn.train.losses import Objective

Key = jax.Array


class State(NamedTuple):
    """All that a run needs to resume; with K seeds every array has a leading axis K.

    Args:
      step: training steps made.
      params, opt_state: parameters of the network, and the state of the optimiser.
      sums: metrics over the current epoch so far: the objective's over examples, `HEALTH` over steps.
      best_params, best_score: those of the epoch with the best validation score so far; the score is the
        metric, or minus a metric that is better if lower.
      epochs_since_best: epochs since then.
      skipped: updates in a row, up to now, that were not finite and therefore not made; once there are
        `skip_limit` of them it stays until the run goes back.
      rollbacks: how often the run went back to an earlier state.
    """

    step: jax.Array
    params: Any
    opt_state: Any
    sums: metrics.Sums
    best_params: Any
    best_score: jax.Array
    epochs_since_best: jax.Array
    skipped: jax.Array
    rollbacks: jax.Array


class EarlierState(NamedTuple):
    """A state as version 0.1.0 saved it, whose counter of epochs had another name."""

    step: Any
    params: Any
    opt_state: Any
    sums: Any
    best_params: Any
    best_score: Any
    stale: Any
    skipped: Any
    rollbacks: Any


def earlier_form(like: State) -> tuple[EarlierState, Callable[[EarlierState], State]]:
    """Returns the structure of an `EarlierState`, and a function that turns one into a `State`."""
    return EarlierState(*like), lambda state: State(*state)


SINGLE = {"float64": "float32", "complex128": "complex64"}
HEALTH = ("gradient_norm", "skipped", "spikes")  # norm before clipping; shares of the steps
SPIKE = 3.0  # a loss is a spike from this multiple of the epoch's mean so far


def make_init(
    network: model.Model,
    optimizer: optax.GradientTransformation,
    objective: Objective,
    example: jax.ShapeDtypeStruct,
    seeds: int = 1,
    placement: Placement | None = None,
) -> Callable[..., State]:
    """Returns the function that makes the initial state from a key (K keys for K > 1 seeds).

    Its further argument is a tree of parameters to start from, which replace those drawn from the key. What
    they lack is drawn from a key that depends on them, too: the run that they come from may have drawn from
    the same key, and a "new" head would be the one that they were trained with. Parameters and the state of
    the optimiser are of single precision, whatever JAX's flags say.

    Args:
      example: the inputs of a batch of one, see `fourier_attn.model.example`.
      placement: where the state is to lie; None: on one device.
    """

    def init(key: Key, start: Any = None) -> State:
        params = network.init(key_beside(key, start), jnp.zeros(example.shape, example.dtype))["params"]
        params = jax.tree.map(single, overlay_params(params, start or {}))
        best, none = jax.tree.map(jnp.copy, params), jnp.full((), -jnp.inf, jnp.float32)
        counter = jnp.zeros((), jnp.int32)
        sums = {name: jnp.zeros((2,), jnp.float32) for name in (*objective.names, *HEALTH)}
        opt_state = jax.tree.map(single, optimizer.init(params))
        return State(counter, params, opt_state, sums, best, none, counter, counter, counter)

    return jax.jit(_placed(jax.vmap(init, (0, None)) if seeds > 1 else init, placement))


def _placed(function: Callable[..., State], placement: Placement | None) -> Callable[..., State]:
    """Returns the function with its resulting state constrained to the placement."""
    if placement is None:
        return function
    return lambda *arguments: placement.constrain(function(*arguments))


def single(array: jax.Array) -> jax.Array:
    """Returns an array of double precision in single precision, and any other as it is."""
    return array.astype(SINGLE.get(str(array.dtype), array.dtype))


def key_beside(key: Key, params: Any) -> Key:
    """Returns a key that depends on every value of some parameters, too."""
    for leaf in jax.tree.leaves(params):
        bits = jax.lax.bitcast_convert_type(jnp.asarray(leaf, jnp.float32), jnp.uint32)
        key = jax.random.fold_in(key, jnp.sum(bits, dtype=jnp.uint32))
    return key


def overlay_params(params: Any, start: Any) -> Any:
    """Returns `params` with those that `start` has replaced by the latter's."""
    if not isinstance(params, dict):
        return start
    return {k: overlay_params(v, start[k]) if k in start else v for k, v in params.items()}


def model_inputs(batch: Batch) -> dict[str, Any]:
    """Returns the optional inputs of the network that this batch has."""
    return {name: batch[name] for name in ("mask", "types", "answer_positions", "question") if name in batch}


def make_train_step(
    network: model.Model,
    optimizer: optax.GradientTransformation,
    objective: Objective,
    seeds: int = 1,
    accumulate: int = 1,
    skip_limit: int = 10,
    placement: Placement | None = None,
    remat: str = "none",
) -> Callable[[State, Batch, Key], State]:
    """Returns the jitted training step, (state, batch, key) -> state; the old state's memory is reused.

    The loss is the objective's, weighted means over the batch. With `accumulate` = a the batch is worked
    off in a parts, every a-th row in one, whose gradients are summed: the gradient is that of the whole
    batch. Dropout draws from `key` folded with the step, so the key is the same for all steps. An update
    whose loss or gradient is not finite is skipped and counted: with a gradient of finite norm the updates of
    all `OPTIMIZERS` are finite. The count begins anew with each update that is made, until it has reached
    `skip_limit`.

    Args:
      remat: "block": activations inside the blocks are computed again for the gradient, see
        `fourier_attn.layers.encoder.Encoder`.
    """
    network = model.with_remat(network, remat)

    def loss(params: Any, batch: Batch, key: Key, counts: Any) -> tuple[jax.Array, metrics.Sums]:
        draws = {"dropout": key, "noise": jax.random.fold_in(key, 0)}
        outputs = network.apply(
            {"params": params}, batch["inputs"], **model_inputs(batch), train=True, rngs=draws
        )
        sums = objective.sums(outputs, batch)
        return objective.loss(sums, counts), sums

    def gradient(params: Any, batch: Batch, key: Key) -> tuple[Any, metrics.Sums]:
        counts, slope = objective.counts(batch), jax.grad(loss, has_aux=True)
        if accumulate == 1:
            return slope(params, batch, key, counts)
        # Every a-th row, so that a device has the rows of its parts already.
        parts = jax.tree.map(lambda x: x.reshape(-1, accumulate, *x.shape[1:]).swapaxes(0, 1), batch)

        def body(carry: Any, part: tuple[Batch, Key]) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, carry, slope(params, *part, counts)), None

        sums = {name: jnp.zeros((2,), jnp.float32) for name in objective.names}
        start = (jax.tree.map(jnp.zeros_like, params), sums)
        return jax.lax.scan(body, start, (parts, jax.random.split(key, accumulate)))[0]

    def train_step(state: State, batch: Batch, key: Key) -> State:
        whole = placement.gather(state.params) if placement else state.params
        grads, total = gradient(whole, batch, jax.random.fold_in(key, state.step))
        grads = placement.scatter(grads) if placement else grads
        norm, loss = optax.tree.norm(grads), objective.loss(total, objective.counts(batch))
        finite = jnp.isfinite(norm) & jnp.isfinite(loss)

        def update(params: Any, opt_state: Any) -> tuple[Any, Any]:
            updates, opt_state = optimizer.update(grads, opt_state, params)
            return optax.apply_updates(params, updates), opt_state

        # A branch, not a choice between two results: the choice would pass over all arrays once more.
        params, opt_state = jax.lax.cond(
            finite, update, lambda *before: before, state.params, state.opt_state
        )
        health = _health(state.sums, objective, norm, loss, finite)
        total = jax.tree.map(lambda x: jnp.where(finite, x, 0.0), total)
        return state._replace(
            step=state.step + 1,
            params=params,
            opt_state=opt_state,
            sums=metrics.add(state.sums, total | health),
            skipped=jnp.where(finite & (state.skipped < skip_limit), 0, state.skipped + ~finite),
        )

    devices = placement.parts("seed") if placement else None
    over_seeds = jax.vmap(train_step, (0, None, 0), spmd_axis_name=devices)
    step = _placed(over_seeds if seeds > 1 else train_step, placement)
    return jax.jit(step, donate_argnums=0, compiler_options=_compiler_options(remat, placement))


def _compiler_options(remat: str, placement: Placement | None) -> dict[str, str] | None:
    """Keeps the barriers of `remat`, which XLA for CPUs drops before it merges equal computations."""
    platform = placement.mesh.devices.flat[0].platform if placement else jax.default_backend()
    if remat == "none" or platform != "cpu":
        return None
    return {"xla_disable_hlo_passes": "cse_barrier_expander"}


def _health(
    sums: metrics.Sums, objective: Objective, norm: jax.Array, loss: jax.Array, finite: jax.Array
) -> metrics.Sums:
    """Returns one step's gradient norm, whether it was skipped, and whether its loss is a spike."""
    so_far = objective.loss(sums, {name: jnp.maximum(sums[name][1], 1e-6) for name in objective.losses})
    spike = finite & (so_far > 0) & (loss > SPIKE * so_far)
    one = jnp.ones((), jnp.float32)
    return {
        "gradient_norm": jnp.where(finite, jnp.stack([norm, one]), 0.0),
        "skipped": jnp.stack([(~finite).astype(jnp.float32), one]),
        "spikes": jnp.stack([spike.astype(jnp.float32), one]),
    }


@partial(jax.jit, static_argnums=3)
def roll_back(state: State, good: State, lost: jax.Array, placement: Placement | None = None) -> State:
    """Returns the state with the parameters and the optimiser of an earlier one.

    Args:
      good: the earlier state.
      lost: whether a seed returns to it (bool); the others keep their updates.
    """
    back = state._replace(
        params=good.params,
        opt_state=good.opt_state,
        skipped=jnp.zeros_like(state.skipped),
        rollbacks=state.rollbacks + 1,
    )

    def choose(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(lost.reshape(lost.shape + (1,) * (new.ndim - lost.ndim)), new, old)

    chosen = jax.tree.map(choose, back, state)
    return placement.constrain(chosen) if placement else chosen


def make_eval_step(
    network: model.Model,
    objective: Objective,
    seeds: int = 1,
    noise: Any = 0,
    placement: Placement | None = None,
) -> Callable[[Any, Batch], tuple[metrics.Sums, jax.Array]]:
    """Returns the jitted evaluation step: (params, batch) -> (sums, answers).

    Where an optical engine draws noise, it does so here too, with the fixed key of the seed `noise`.
    """

    def eval_step(params: Any, batch: Batch) -> tuple[metrics.Sums, jax.Array]:
        draws = {"noise": jax.random.key(noise)}
        params = placement.gather(params) if placement else params
        outputs = network.apply({"params": params}, batch["inputs"], **model_inputs(batch), rngs=draws)
        return objective.sums(outputs, batch), objective.answers(outputs)

    devices = placement.parts("seed") if placement else None
    over_seeds = jax.vmap(eval_step, (0, None), spmd_axis_name=devices)
    step = over_seeds if seeds > 1 else eval_step
    return jax.jit(step, out_shardings=placement.replicated) if placement else jax.jit(step)


def make_forward(network: model.Model) -> Callable[[Any, Batch], Any]:
    """Returns the jitted network as it is evaluated: (params, batch) -> outputs."""

    def forward(params: Any, batch: Batch) -> Any:
        draws = {"noise": jax.random.key(0)}
        return network.apply({"params": params}, batch["inputs"], **model_inputs(batch), rngs=draws)

    return jax.jit(forward)


@partial(jax.jit, static_argnums=2)
def close_epoch(state: State, score: jax.Array, placement: Placement | None = None) -> State:
    """Keeps the parameters of those seeds whose validation score is their highest, and empties the sums.

    A score that is not defined (NaN) is never better. Until there is one that is, the latest parameters are
    kept, since the initial ones have learned nothing.
    """
    better = score > state.best_score
    kept = better | ~jnp.isfinite(state.best_score)

    def choose(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(kept.reshape(kept.shape + (1,) * (new.ndim - kept.ndim)), new, old)

    closed = state._replace(
        sums=jax.tree.map(jnp.zeros_like, state.sums),
        best_params=jax.tree.map(choose, state.params, state.best_params),
        best_score=jnp.where(better, score, state.best_score),
        epochs_since_best=jnp.where(better, 0, state.epochs_since_best + 1),
    )
    return placement.constrain(closed) if placement else closed


def make_keys(seed: int, seeds: int, placement: Placement | None = None) -> tuple[Key, Key]:
    """Returns keys for the initial weights and for dropout; network i has those of a run with `seed + i`."""
    if placement:
        return jax.jit(partial(make_keys, seed, seeds), out_shardings=placement.keys)()
    pairs = jnp.stack([jax.random.split(jax.random.key(seed + i)) for i in range(seeds)])
    pairs = pairs if seeds > 1 else pairs[0]
    return pairs[..., 0], pairs[..., 1]
