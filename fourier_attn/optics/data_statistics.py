"""Statistics of the numbers that modulators write, which decide what writing and holding them takes."""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Num

from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.optics import modulator
from fourier_attn.optics.engine_spec import Engine

SAME = 1e-6  # of full scale: rounding of a value that was written before


class DataStatistics(NamedTuple):
    """Describes the numbers that modulators write. The defaults know nothing of them.

    Args:
      amp_turns: mean phase that a modulator of amplitudes holds, in units of pi, 2 asin(a) / pi for an
        amplitude a; default 0.5, the mean of drives that are equally likely.
      phase_turns: mean phase that a phase shifter holds, in units of pi, from 0 to 2 pi; default 1.
      changed: share of written values that differ from the one that their modulator holds; default 1.
      factor_changed: share of a second bank's arrays that differ from the one that it holds, such as kernels;
        default 1, a new array for each frame.
    """

    amp_turns: Any = 0.5
    phase_turns: Any = 1.0
    changed: Any = 1.0
    factor_changed: Any = 1.0

    def turns(self, writers: tuple[str, ...]) -> Any:
        """Returns the phase that a point holds in the mean, in units of pi.

        Args:
          writers: parameters with the bits of the converters that write a point.
        """
        means = {"dac_bits_amp": self.amp_turns, "dac_bits_phase": self.phase_turns}
        return sum(means[name] for name in writers)


@takes_arrays
def measure_data(x: Num[Array, "n1 n2 n3"], engine: Engine) -> DataStatistics:
    """Measures the statistics of arrays that an engine writes one after the other.

        >>> x = jnp.ones((4, 2, 2))  # four arrays that are the same
        >>> measure_data(x, Engine(shape=(2, 2))).changed
        0.25

    All values of the first array count as changed, and those of all others if their levels differ. The mean
    of an array is held back if the engine says so (`dc_block`).

    Args:
      x: arrays in the order in which they are written, (n, rows, columns), as `optical_dft2` takes them.
      engine: the engine, with its modulators.
    Returns: statistics of the first bank. `factor_changed` is its default.
    Raises: ValueError for arrays of another shape, and for slices, which write other digits.
    """
    if x.shape[1:] != engine.shape or x.shape[0] == 0:
        raise ValueError(f"x of shape {x.shape} must be arrays of the aperture, (n, *{engine.shape}), n >= 1")
    if engine.slices > 1:
        raise ValueError(f"slices={engine.slices} writes digits of numbers; use engine.replace(slices=1)")
    field = _written(x, engine)
    amplitude = np.abs(field)
    exact = {"dac_bits_amp": None, "dac_inl_lsb": None, "dac_dnl_lsb": None}
    phase = np.angle(_written(x, engine.replace(**exact))) % (2 * np.pi)  # in the dark, too
    phase = np.where(phase > 2 * np.pi - SAME, 0.0, phase)  # below 0 by rounding
    values = {"dac_bits_amp": amplitude, "dac_bits_phase": np.exp(1j * phase)}
    if engine.modulator.encode in ("signed", "amplitude"):
        values = {"dac_bits_amp": field}
    elif engine.modulator.encode == "phase":
        del values["dac_bits_amp"]
    differ = [np.abs(np.diff(value, axis=0)) > SAME for value in values.values()]
    held = np.mean([one.mean(dtype=float) for one in differ]) if len(x) > 1 else 0.0
    return DataStatistics(
        amp_turns=float(np.mean(2 / np.pi * np.arcsin(np.minimum(amplitude, 1.0)))),
        phase_turns=float(np.mean(phase / np.pi)),
        changed=float((1 + (len(x) - 1) * held) / len(x)),
    )


def _written(x: Array, engine: Engine) -> np.ndarray:
    """Returns the fields without leak, noise and chance: levels of converters alone."""
    x = x.astype(jnp.complex64 if jnp.iscomplexobj(x) else jnp.float32)
    if engine.dc_block:
        x = x - jnp.mean(x, (-2, -1), keepdims=True)
    quiet = modulator.coarse(engine.modulator)
    quiet = dataclasses.replace(quiet, extinction_db=None, compensated=False)
    return np.asarray(modulator.write(x, quiet, modulator.Keys()).field, np.complex128)
