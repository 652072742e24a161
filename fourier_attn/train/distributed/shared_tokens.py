"""Checks whether devices can share the tokens of a run, as the axis `tokens` of its mesh asks."""

from collections.abc import Mapping

from fourier_attn import model
from fourier_attn.config import Config, tokens
from fourier_attn.data.batches import padded_lengths
from fourier_attn.ops.token_shares import AXIS


def check(config: Config, mesh: Mapping[str, int]) -> None:
    """Checks mixers, engines, widths and lengths.

    Args:
      config: the complete configuration.
      mesh: number of devices along each axis.
    Raises: ValueError for an optical engine, a mixer that cannot have its tokens split, and numbers that the
      devices cannot share evenly.
    """
    n = mesh[AXIS]
    if n == 1:
        return
    mixers = model.mixers(config.model)
    for name in dict.fromkeys(model.layout(config.model)):
        layer = model.mixer_factory({**mixers[name], "name": name})()
        if getattr(layer, "optical", False):
            raise ValueError(
                f"train.mesh has {AXIS}={n}, but the engine of mixer {name!r} needs whole sequences; set "
                f"engine=None, or use train.mesh without {AXIS}"
            )
        shared = getattr(layer, "shared", None)
        if shared is None:
            raise ValueError(
                f"train.mesh has {AXIS}={n}, but mixer {name!r} cannot have its tokens split; choose one of "
                f"{', '.join(can_be_shared())}, or use train.mesh without {AXIS}"
            )
        for what, count in shared.parts(layer, config.model.d).items():
            if count % n:
                raise ValueError(
                    f"train.mesh: {AXIS}={n} must divide {what}={count} of mixer {name!r}; change either"
                )
    lengths = padded_lengths(config.data) if config.model.inputs == "tokens" else (tokens(config),)
    if left := [length for length in lengths if length % n]:
        raise ValueError(
            f"train.mesh: {AXIS}={n} must divide the padded lengths, but not {', '.join(map(str, left))}; "
            "change data.length and data.buckets"
        )


def can_be_shared() -> list[str]:
    """Returns the names of the mixers whose tokens can be split."""
    return [name for name, layer in model.MIXERS.items() if hasattr(layer, "shared")]
