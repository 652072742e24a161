"""The optimiser: Adam or AdamW, warm-up, a schedule, clipping."""

from typing import Any

import jax
import jax.numpy as jnp
import optax


def build_optimizer(config: Any) -> optax.GradientTransformation:
    """Turns the `optim` part of the configuration (a ConfigDict or a dict) into an optax transformation.

    The learning rate rises linearly over `warmup_steps`, its first value not 0, which would waste a
    step; then it stays ("constant") or falls to zero at `steps`, along half a cosine or a line, and stays
    there. Weight decay spares vectors (biases, normalisation).

    Raises: ValueError for an unknown name or schedule, or a number out of range.
    """
    if config["name"] not in ("adam", "adamw"):
        raise ValueError(f"optim.name={config['name']!r} is unknown; choose 'adam' or 'adamw'")
    if config["schedule"] not in ("cosine", "linear", "constant"):
        raise ValueError(
            f"optim.schedule={config['schedule']!r} is unknown; choose 'cosine', 'linear' or 'constant'"
        )
    if config["learning_rate"] <= 0:
        raise ValueError(f"optim.learning_rate={config['learning_rate']} must be positive")
    for key in ("warmup_steps", "weight_decay", "clip_norm"):
        if config[key] < 0:
            raise ValueError(f"optim.{key}={config[key]} must not be negative")
    for key in ("b1", "b2"):
        if not 0 <= config[key] < 1:
            raise ValueError(f"optim.{key}={config[key]} must lie in [0, 1)")
    if config["eps"] <= 0:
        raise ValueError(f"optim.eps={config['eps']} must be positive")
    warmup = min(config["warmup_steps"], config["steps"])
    rate = schedule(config["schedule"], config["learning_rate"], warmup, config["steps"])
    decay = config["weight_decay"] if config["name"] == "adamw" else 0.0
    return optax.chain(
        optax.clip_by_global_norm(config["clip_norm"]) if config["clip_norm"] else optax.identity(),
        optax.adamw(rate, config["b1"], config["b2"], config["eps"], weight_decay=decay, mask=_matrices),
    )


def schedule(name: str, peak: float, warmup: int, steps: int) -> optax.Schedule:
    """(step + 1) / warmup x peak during the warm-up; then constant, or falling to 0 at `steps`."""
    after = optax.constant_schedule(peak)
    if name == "cosine":
        after = optax.cosine_decay_schedule(peak, max(steps - warmup, 1))
    if name == "linear":
        after = optax.linear_schedule(peak, 0.0, max(steps - warmup, 1))
    if not warmup:
        return after
    before = optax.linear_schedule(peak / warmup, peak * (1 + 1 / warmup), warmup)
    return optax.join_schedules([before, after], [warmup])


def _matrices(params: Any) -> Any:
    """Biases of several axes, such as attention's (h, k), are vectors too."""

    def is_matrix(path: tuple[Any, ...], value: Any) -> bool:
        return jnp.ndim(value) > 1 and not jax.tree_util.keystr(path[-1:]).strip("[']").endswith("bias")

    return jax.tree_util.tree_map_with_path(is_matrix, params)
