"""Defines the state of a run, its training step and its evaluation step."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fourier_attn import model
from fourier_attn.data.batches import Batch
from fourier_attn.ops import token_shares
from fourier_attn.train import metrics
from fourier_attn.train.distributed.sharding import Placement, here
from fourier_attn.train.fixed_parts import make_in_parts
from fourier_attn.train.losses import Objective

Key = jax.Array


class State(NamedTuple):
    """Holds everything that a run needs to resume. With K seeds every array has a leading axis K.

    Args:
      step: number of training steps made.
      params: parameters of the network.
      opt_state: state of the optimizer.
      sums: sums of the current epoch: the objective's metrics over examples, and `HEALTH` over steps.
      best_params: parameters of the epoch with the best validation score so far.
      best_score: this score: the metric, or minus the metric if lower is better.
      epochs_since_best: number of epochs since then.
      skipped: number of consecutive updates up to now that were skipped because they were not finite; after
        `skip_limit` of them it is reset only when the run returns to an earlier checkpoint.
      rollbacks: number of returns to an earlier checkpoint.
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
    """Holds a state as version 0.1.0 saved it, with another name of `epochs_since_best`.

    Args:
      stale: now `epochs_since_best`; the other fields are those of `State`.
    """

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
HEALTH = ("gradient_norm", "skipped", "spikes")  # the norm before clipping, and two shares of the steps
SPIKE = 3.0  # a loss above this multiple of the epoch's mean so far is a spike


def make_init(
    network: model.Model,
    optimizer: optax.GradientTransformation,
    objective: Objective,
    example: jax.ShapeDtypeStruct,
    seeds: int = 1,
    placement: Placement | None = None,
) -> Callable[..., State]:
    """Returns the function (key, start) -> state that makes the initial state; K seeds need K keys.

    `start` is a tree of pretrained parameters, which replace random ones. All other parameters are drawn from
    a key that also depends on the values in `start`. Otherwise a run with the seed of the pretraining would
    get the old head again as its "new" one. Parameters and optimizer state have single precision, whatever
    JAX's flags are.

    Args:
      network: the model.
      optimizer: the optax transformation.
      objective: names the sums of the state.
      example: shape and type of the inputs with one example, see `fourier_attn.model.example`.
      seeds: number of networks; default 1.
      placement: devices of the state; default None: one device.
    """

    def init(key: Key, start: Any = None) -> State:
        params = network.init(key_with(key, start), jnp.zeros(example.shape, example.dtype))["params"]
        params = jax.tree.map(single, overlay_params(params, start or {}))
        best, none = jax.tree.map(jnp.copy, params), jnp.full((), -jnp.inf, jnp.float32)
        counter = jnp.zeros((), jnp.int32)
        sums = {name: jnp.zeros((2,), jnp.float32) for name in (*objective.names, *HEALTH)}
        opt_state = jax.tree.map(single, optimizer.init(params))
        return State(counter, params, opt_state, sums, best, none, counter, counter, counter)

    return jax.jit(_placed(jax.vmap(init, (0, None)) if seeds > 1 else init, placement))


def _placed(function: Callable[..., State], placement: Placement | None) -> Callable[..., State]:
    """Returns a function whose resulting state is constrained to the placement."""
    if placement is None:
        return function
    return lambda *arguments: placement.constrain(function(*arguments))


def _entered(function: Callable[..., Any], placement: Placement | None) -> Callable[..., Any]:
    """Returns a function that is traced in the mesh of the placement, if devices share tokens."""
    if placement is None or placement.mesh.shape[token_shares.AXIS] == 1:
        return function

    def inside(*arguments: Any) -> Any:
        with placement.entered():
            return function(*arguments)

    return inside


def single(array: jax.Array) -> jax.Array:
    """Returns a double-precision array in single precision, and any other array unchanged."""
    return array.astype(SINGLE.get(str(array.dtype), array.dtype))


def key_with(key: Key, params: Any) -> Key:
    """Returns a key that depends on `key` and on every value of some parameters."""
    for leaf in jax.tree.leaves(params):
        bits = jax.lax.bitcast_convert_type(jnp.asarray(leaf, jnp.float32), jnp.uint32)
        key = jax.random.fold_in(key, jnp.sum(bits, dtype=jnp.uint32))
    return key


def overlay_params(params: Any, start: Any) -> Any:
    """Returns `params` in which the parameters of `start` replace those with the same names."""
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
    fixed_parts: int = 0,
) -> Callable[[State, Batch, Key], State]:
    """Returns the jitted training step (state, batch, key) -> state, which reuses the old state's memory.

    The loss is a weighted mean over the batch. Dropout draws from `key` folded with the step, so that the key
    is the same for all steps.

    An update is skipped and counted if its loss or gradient is not finite. For a gradient with a finite norm,
    the updates of all `OPTIMIZERS` are finite. The counter is reset by each update that is made, until it has
    reached `skip_limit`.

    Args:
      network: the model.
      optimizer: the optax transformation.
      objective: loss and metrics.
      seeds: number of networks; default 1.
      accumulate: number of micro-batches; each takes every `accumulate`-th row, and their gradients are
        summed to that of the whole batch. Default 1.
      skip_limit: number of consecutive skipped updates after which the counter stays; default 10.
      placement: devices of the state; default None: one device.
      remat: "block" recomputes the activations of each block in the backward pass, see
        `fourier_attn.layers.encoder.Encoder`; default "none".
      fixed_parts: number of parts of a batch that are summed in a fixed order, see
        `fourier_attn.train.fixed_parts`; default 0: the order depends on the devices.
    """
    network = model.with_remat(network, remat)

    def loss(params: Any, batch: Batch, key: Key, counts: Any) -> tuple[jax.Array, metrics.Sums]:
        draws = {"dropout": key, "noise": jax.random.fold_in(key, 0)}
        outputs = network.apply(
            {"params": params}, batch["inputs"], **model_inputs(batch), train=True, rngs=draws
        )
        sums = objective.sums(outputs, batch)
        return objective.loss(sums, counts), sums

    slope = jax.grad(loss, has_aux=True)
    in_parts = fixed_parts and make_in_parts(fixed_parts, placement or here())

    def divisors(batch: Batch, key: Key) -> Any:
        if not in_parts:
            return objective.counts(batch)
        weights, _ = in_parts(lambda _, rows, __: (objective.weights(rows), ()), (), batch, key)
        return objective.divisors(weights)

    def gradient(params: Any, batch: Batch, key: Key, counts: Any) -> tuple[Any, metrics.Sums]:
        if in_parts:
            return in_parts(lambda p, *part: (slope(p[0], *part, p[1]), ()), (params, counts), batch, key)[0]
        if accumulate == 1:
            return slope(params, batch, key, counts)
        # take every a-th row, so that each device already has the rows of its parts
        parts = jax.tree.map(lambda x: x.reshape(-1, accumulate, *x.shape[1:]).swapaxes(0, 1), batch)

        def body(carry: Any, part: tuple[Batch, Key]) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, carry, slope(params, *part, counts)), None

        sums = {name: jnp.zeros((2,), jnp.float32) for name in objective.names}
        start = (jax.tree.map(jnp.zeros_like, params), sums)
        return jax.lax.scan(body, start, (parts, jax.random.split(key, accumulate)))[0]

    def train_step(state: State, batch: Batch, key: Key) -> State:
        whole = placement.gather(state.params) if placement else state.params
        key = jax.random.fold_in(key, state.step)
        counts = divisors(batch, key)
        grads, total = gradient(whole, batch, key, counts)
        grads = placement.scatter(grads) if placement else grads
        norm, loss = optax.tree.norm(grads), objective.loss(total, counts)
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
    step = _entered(_placed(over_seeds if seeds > 1 else train_step, placement), placement)
    return jax.jit(step, donate_argnums=0, compiler_options=_compiler_options(remat, placement, fixed_parts))


def _compiler_options(remat: str, placement: Placement | None, fixed_parts: int = 0) -> dict[str, str] | None:
    """Returns XLA options for CPUs: without passes that would merge recomputations, or change fixed parts.

    For several devices, XLA merges equal expressions (`cse`) once more than for one. It then simplifies a
    part in another way, and the last bits change.
    """
    platform = placement.mesh.devices.flat[0].platform if placement else jax.default_backend()
    passes = ["cse_barrier_expander"] * (remat != "none") + ["cse"] * (fixed_parts > 0)
    return {"xla_disable_hlo_passes": ",".join(passes)} if passes and platform == "cpu" else None


def _health(
    sums: metrics.Sums, objective: Objective, norm: jax.Array, loss: jax.Array, finite: jax.Array
) -> metrics.Sums:
    """Returns the sums of one step: its gradient norm, whether it was skipped, and whether it is a spike.

    Args:
      sums: sums of the epoch before this step.
      objective: the training loss.
      norm: norm of the gradient.
      loss: loss of the step.
      finite: whether the update was made.
    """
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
    """Returns the state with the parameters and the optimizer state of an earlier one.

    Args:
      state: the current state.
      good: the earlier state.
      lost: whether each seed returns to it, bool () or (K,); other seeds keep their updates.
      placement: devices of the state; default None: one device.
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
    fixed_parts: int = 0,
) -> Callable[[Any, Batch], tuple[metrics.Sums, jax.Array]]:
    """Returns the jitted evaluation step (params, batch) -> (sums, answers).

    Args:
      network: the model.
      objective: metrics and answers.
      seeds: number of networks; default 1.
      noise: seed of the noise of optical engines, which is the same for all batches; default 0.
      placement: devices of the state; default None: one device.
      fixed_parts: as in `make_train_step`; default 0.
    """

    def evaluate(params: Any, batch: Batch, key: Key) -> tuple[metrics.Sums, jax.Array]:
        draws = {"noise": key}
        outputs = network.apply({"params": params}, batch["inputs"], **model_inputs(batch), rngs=draws)
        return objective.sums(outputs, batch), objective.answers(outputs)

    whole = partial(make_in_parts(fixed_parts, placement or here()), evaluate) if fixed_parts else evaluate

    def eval_step(params: Any, batch: Batch) -> tuple[metrics.Sums, jax.Array]:
        return whole(placement.gather(params) if placement else params, batch, jax.random.key(noise))

    devices = placement.parts("seed") if placement else None
    over_seeds = jax.vmap(eval_step, (0, None), spmd_axis_name=devices)
    step = _entered(over_seeds if seeds > 1 else eval_step, placement)
    options = _compiler_options("none", placement, fixed_parts)
    return jax.jit(step, out_shardings=placement and placement.replicated, compiler_options=options)


def make_forward(network: model.Model) -> Callable[[Any, Batch], Any]:
    """Returns the jitted network in evaluation mode, (params, batch) -> outputs."""

    def forward(params: Any, batch: Batch) -> Any:
        draws = {"noise": jax.random.key(0)}
        return network.apply({"params": params}, batch["inputs"], **model_inputs(batch), rngs=draws)

    return jax.jit(forward)


@partial(jax.jit, static_argnums=2)
def close_epoch(state: State, score: jax.Array, placement: Placement | None = None) -> State:
    """Updates the best parameters of each seed after a validation, and resets the sums.

    An undefined score (NaN) is never better. Until a score is defined, the latest parameters count as the
    best ones, because the initial ones are untrained.

    Args:
      state: the state at the end of the epoch.
      score: validation score, () or (K,); higher is better.
      placement: devices of the state; default None: one device.
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
    """Returns the keys of initial weights and of dropout; network i has those of a run with `seed + i`.

    Args:
      seed: seed of the first network.
      seeds: number of networks; with more than one, keys have a leading axis.
      placement: devices of the keys; default None: one device.
    """
    if placement:
        return jax.jit(partial(make_keys, seed, seeds), out_shardings=placement.keys)()
    pairs = jnp.stack([jax.random.split(jax.random.key(seed + i)) for i in range(seeds)])
    pairs = pairs if seeds > 1 else pairs[0]
    return pairs[..., 0], pairs[..., 1]
