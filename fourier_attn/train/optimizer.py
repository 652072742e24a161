"""The optimiser: Adam or AdamW, warm-up, a schedule, clipping."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from fourier_attn.config import OPTIM
from fourier_attn.knobs import check


def build_optimizer(config: Any) -> optax.GradientTransformation:
    """Turns the `optim` part of the configuration (a ConfigDict or a dict) into an optax transformation.

    The learning rate rises linearly over `warmup_steps`, its first value not 0, which would waste a
    step; then it stays ("constant") or falls to zero at `steps`, along half a cosine or a line, and stays
    there. Weight decay spares vectors (biases, normalisation).

    Raises: ValueError for an unknown name or schedule, or a number out of range.
    """
    check("optim.", OPTIM, config)
    decay = config["weight_decay"] if config["name"] == "adamw" else 0.0
    return optax.chain(
        optax.clip_by_global_norm(config["clip_norm"]) if config["clip_norm"] else optax.identity(),
        optax.adamw(
            build_schedule(config),
            config["b1"],
            config["b2"],
            config["eps"],
            weight_decay=decay,
            mask=_matrices,
        ),
    )


def build_schedule(config: Any) -> optax.Schedule:
    """The learning rate by step."""
    return schedule(config["schedule"], config["learning_rate"], warmup(config), config["steps"])


def warmup(config: Any) -> int:
    """Steps of the warm-up, a share of the schedule where one is given; it ends with the schedule."""
    share = round(config["warmup_share"] * config["steps"])
    return share if config["warmup_share"] else min(config["warmup_steps"], config["steps"])


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
