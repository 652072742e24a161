"""Builds optimizers by name, with gradient clipping, weight decay and the learning rate's schedule."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from optax import contrib

from fourier_attn import plugins
from fourier_attn.choices import check_choice
from fourier_attn.config import OPTIM, OptimConfig
from fourier_attn.knobs import check

Make = Callable[[OptimConfig], optax.GradientTransformation]


def scale_by_adafactor(config: OptimConfig) -> optax.GradientTransformation:
    """Builds Adafactor without momentum; its updates have an RMS of at most 1.

    Updates are not scaled by the parameters, so that it uses the learning rates of Adam.

    Source: Shazeer and Stern, arXiv 1804.04235; Zhai et al., arXiv 2106.04560 (without that scale).
    """
    return optax.chain(optax.scale_by_factored_rms(epsilon=config.eps**2), optax.clip_by_block_rms(1.0))


def scale_by_muon(config: OptimConfig) -> optax.GradientTransformation:
    """Builds Muon for the dense kernels of the blocks and Adam for the rest, both with Nesterov momentum.

    Muon's updates have the RMS of Adam's, so that both use the same learning rate.

    Raises: ValueError if the installed optax lacks Muon.
    Source: Jordan et al., https://kellerjordan.github.io/posts/muon; Liu et al., arXiv 2502.16982 (the RMS).
    """
    if not hasattr(contrib, "MuonDimensionNumbers"):
        raise ValueError(
            f"optim.name='muon' is not in optax {optax.__version__}; install a newer optax, or choose "
            "another optimizer"
        )
    descent = contrib.muon(
        1.0,
        beta=config.momentum,
        eps=config.eps,
        adam_b1=config.b1,
        adam_b2=config.b2,
        muon_weight_dimension_numbers=_dense_kernels,
        consistent_rms=0.2,
    )
    return optax.chain(descent, optax.scale(-1.0))


# For each optimizer a function from the `optim` part of the configuration to an optax transformation of the
# clipped gradient. The result has the gradient's sign. Weight decay, learning rate and sign follow for all.
OPTIMIZERS: dict[str, Make] = {
    "adam": lambda c: optax.scale_by_adam(c.b1, c.b2, c.eps),
    "adamw": lambda c: optax.scale_by_adam(c.b1, c.b2, c.eps),
    "lion": lambda c: optax.scale_by_lion(c.b1, c.b2),
    "adafactor": scale_by_adafactor,
    "sgd": lambda c: optax.trace(c.momentum) if c.momentum else optax.identity(),
    "muon": scale_by_muon,
}
BUILT_IN = tuple(OPTIMIZERS)


def build_optimizer(config: OptimConfig) -> optax.GradientTransformation:
    """Returns the optax transformation that the `optim` part of the configuration describes.

        w = w - rate(n) (direction(clip(g)) + weight_decay w)      n: updates made before

    The learning rate rises linearly over `warmup_steps`. Its first value is positive, since 0 would waste a
    step. After the warm-up it is constant, or it falls to zero at `steps` along half a cosine or a line.
    Weight decay applies to matrices, but not to biases and normalisation; "adam" has none.

    Raises: ValueError for an unknown name or schedule, or a number out of range.
    """
    check("optim.", OPTIM, config)
    name = config.name
    find_optimizer(name)
    return optax.chain(
        optax.clip_by_global_norm(config.clip_norm) if config.clip_norm else optax.identity(),
        optax.chain(
            OPTIMIZERS[name](config),
            optax.add_decayed_weights(config.weight_decay if name != "adam" else 0.0, _matrices),
            optax.scale_by_learning_rate(build_schedule(config)),
        ),
    )


def updates_made(opt_state: Any) -> jax.Array:
    """Returns the number of updates made, without skipped ones, which is the position in the schedule."""
    return opt_state[1][2].count


def register_optimizer(name: str, make: Make) -> None:
    """Adds a custom optimizer to `OPTIMIZERS`.

    Call it in a configuration file or in another module. An installed package names the function among its
    entry points instead, in the group "fourier_attn.optimizers".

    Args:
      name: value of `optim.name` that selects it.
      make: turns the `optim` part of the configuration into an optax transformation, for example
        `lambda c: optax.scale_by_adam(c.b1, c.b2)`; `build_optimizer` adds weight decay and learning rate.
    Raises: ValueError for the name of an optimizer of this package, and if `make` is not a function.
    """
    _add_optimizer(name, make)
    plugins.note("optimizers", name, make.__module__)


def find_optimizer(name: str) -> None:
    """Loads an optimizer from an installed package if it is not in `OPTIMIZERS`. Raises: ValueError."""
    if name not in OPTIMIZERS and (builder := plugins.entry("optimizers", name)) is not None:
        _add_optimizer(name, builder)
    check_choice("optim.name", name, OPTIMIZERS)


def _add_optimizer(name: str, make: Any) -> None:
    if not callable(make):
        raise ValueError(f"the optimizer {name!r} is {make!r}; give a function of the optim part")
    if name in BUILT_IN:
        raise ValueError(f"an optimizer {name!r} exists already; choose another name")
    known: dict[str, Any] = OPTIMIZERS
    known[name] = make


def build_schedule(config: OptimConfig) -> optax.Schedule:
    """Returns the learning rate as a function of the step."""
    return schedule(config.schedule, config.learning_rate, warmup(config), config.steps)


def warmup(config: OptimConfig) -> int:
    """Returns the number of warm-up steps, from `warmup_share` if it is set, else from `warmup_steps`."""
    share = round(config.warmup_share * config.steps)
    return share if config.warmup_share else min(config.warmup_steps, config.steps)


def schedule(name: str, peak: float, warmup: int, steps: int) -> optax.Schedule:
    """Returns the learning rate as a function of the step.

        rate(n) = (n + 1) p / w    for n < w, with p = `peak` and w = `warmup`

    After the warm-up the rate is constant, or falls to 0 at `steps` along half a cosine or a line.

    Args:
      name: "constant", "cosine" or "linear".
      peak: largest learning rate.
      warmup: number of warm-up steps.
      steps: length of the schedule, with its warm-up.
    """
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
    """Returns which parameters have weight decay: matrices, but no biases, even with several axes."""

    def is_matrix(path: tuple[Any, ...], value: Any) -> bool:
        return jnp.ndim(value) > 1 and not _names(path)[-1].endswith("bias")

    return jax.tree_util.tree_map_with_path(is_matrix, params)


def _dense_kernels(params: Any) -> Any:
    """Returns the input and output axes of each dense kernel in a block; None for other parameters."""

    def axes(path: tuple[Any, ...], value: Any) -> Any:
        names = _names(path)
        in_block = any(name.startswith("block_") for name in names)
        if not in_block or names[-1] != "kernel" or names[-2] == "mixer":  # a mixer's own kernel is a filter
            return None
        inputs = value.ndim - 1 if names[-2] == "out" else 1  # attention's output map has two input axes
        every = tuple(range(value.ndim))
        return contrib.MuonDimensionNumbers(every[:inputs], every[inputs:])

    return jax.tree_util.tree_map_with_path(axes, params)


def _names(path: tuple[Any, ...]) -> list[str]:
    return jax.tree_util.keystr(path, simple=True, separator="/").split("/")
