"""The emulated engine against what bounds it: `python -m benchmarks.optics [--quick] [--only=PART]`.

ideal: the exact engine against the digital operation that it replaces. chip: all effects of `chip_11x11` on
4,096 apertures against its floor, the random numbers it needs and the transform alone; against a Python
loop over apertures; and what a sweep compiles. parts: the choices inside it. train: a training step of
the optical 11 x 11 classifier against the exact one. through: the engine's own mixers against
`optics.through` of the exact ones, and that against the exact function.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from benchmarks.mixers import side_by_side
from benchmarks.timing import compare, report
from configs import optical_circular11
from fourier_attn import command, model
from fourier_attn.ops.circular import circular_correlate
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.optics import (
    Engine,
    device,
    optical_circular_correlate,
    optical_dft2,
    optical_fourier_mix,
    random,
    through,
)
from fourier_attn.optics.presets import PRESETS
from fourier_attn.studies.engine.step_timing import step_functions
from fourier_attn.studies.side_by_side import interleave

APERTURES = 4096
DRAWS = 4  # modulator amplitude and phase, and two balanced pairs of detectors


def light(*shape: int) -> jax.Array:
    re, im = jax.random.normal(jax.random.key(0), (2, *shape))
    return jax.lax.complex(re, im)


def ideal(rounds: int) -> list[dict[str, Any]]:
    """Ours is the engine: a ratio below 1 is how much of the digital speed is left."""
    fields, tokens = light(APERTURES, 11, 11), jax.random.normal(jax.random.key(1), (4, 64, 64))
    pairs = {
        f"optical_dft2 / fft2, {APERTURES} of 11 x 11": (
            partial(optical_dft2, engine=Engine()),
            partial(jnp.fft.fft2, norm="ortho"),
            (fields,),
        ),
        "optical_fourier_mix / fourier_mix, 4 x 64 x 64 on 64 x 64": (
            partial(optical_fourier_mix, engine=Engine(shape=(64, 64))),
            fourier_mix,
            (tokens,),
        ),
    }
    for side in (5, 11):  # by products with a matrix, and by transforms
        grid = {"shape": (side, side)}
        pairs[f"optical_circular_correlate / circular_correlate, 1,024 of {side} x {side}, 12 kernels"] = (
            partial(optical_circular_correlate, engine=Engine(shape=(side, side)), **grid),
            partial(circular_correlate, **grid),
            (light(1024, side**2).real, light(12, side, side).real),
        )
    rows = []
    for what, (mine, other, arguments) in pairs.items():
        sides = {"ours": (mine, arguments), "digital": (other, arguments)}
        rows += side_by_side(what, "ideal engine", sides, rounds)
    return rows


def floor(x: jax.Array, key: Any) -> tuple[jax.Array, jax.Array]:
    return random.normal(key, (DRAWS, *x.shape), x.real.dtype), jnp.fft.fft2(x, norm="ortho")


def library_floor(x: jax.Array, key: Any) -> tuple[jax.Array, jax.Array]:
    return jax.random.normal(key, (DRAWS, *x.shape), x.real.dtype), jnp.fft.fft2(x, norm="ortho")


def ratio(what: str, sides: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Returns a row of two sides; the ratio is how many times faster the first one is.

    Args:
      what: name of the comparison.
      sides: the two functions, by name.
      rounds: number of rounds.
    """
    ours, other = sides
    row = {"what": what, "rounds": rounds} | compare(interleave(sides, rounds), ours, other)
    print(f"  {what}: {row['times_faster']} times faster", flush=True)
    return row


def chip(rounds: int) -> list[dict[str, Any]]:
    engine, x, key = PRESETS["chip_11x11"].engine, light(APERTURES, 11, 11), jax.random.key(1)
    compiled, compiled_library = jax.jit(floor), jax.jit(library_floor)
    sides = {"ours": lambda: optical_dft2(x, engine, key)}
    rows = [
        ratio("chip_11x11 / floor with our draws", sides | {"floor": lambda: compiled(x, key)}, rounds),
        ratio(
            "chip_11x11 / floor with jax.random.normal",
            sides | {"floor": lambda: compiled_library(x, key)},
            rounds,
        ),
    ]
    few, keys = x[:256], jax.random.split(key, 256)

    def loop() -> list[jax.Array]:
        return [optical_dft2(aperture, engine, key) for aperture, key in zip(few, keys, strict=True)]

    both = {"ours": lambda: optical_dft2(few, engine, key), "loop": loop}
    rows.append(ratio("256 apertures at once / in a Python loop", both, min(rounds, 5)))
    compilations = {"what": "compilations for 20 more strengths of noise and devices", "unit": ""}
    return [*rows, compilations | {"value": sweep(few)}]


def sweep(x: jax.Array) -> int:
    """Compilations that noise strengths and device seeds cause, once the first engine has run."""
    engine, key, count = PRESETS["chip_11x11"].engine, jax.random.key(2), [0]
    optical_dft2(x, engine, key)

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        count[0] += event.endswith("backend_compile_duration")

    jax.monitoring.register_event_duration_secs_listener(listen)
    for i in range(20):
        optical_dft2(x, engine.replace(phase_noise_rms=0.001 * (i + 1), seed=i), key)
    return count[0]


# What a pass is measured without, to see what takes its time.
WITHOUT = {
    "levels of amplitude and phase": {"dac_bits_amp": None, "dac_bits_phase": None},
    "levels at the detectors": {"adc_bits": None},
    "noise of phases and amplitudes": {
        "phase_noise_rms": None,
        "amp_noise_rms": None,
        "drive_noise_rms": None,
    },
    "extinction": {"extinction_db": None, "compensated": False},
}


def parts(rounds: int) -> list[dict[str, Any]]:
    shape, key = (DRAWS, APERTURES, 11, 11), jax.random.key(1)
    ours = jax.jit(partial(random.normal, shape=shape, dtype=jnp.float32))
    library = jax.jit(partial(jax.random.normal, shape=shape, dtype=jnp.float32))
    sides = {"ours": lambda: ours(key), "library": lambda: library(key)}
    rows = [ratio(f"normal numbers, {np.prod(shape):,} / jax.random.normal", sides, rounds)]
    for side in (5, 8, 11, 16, 24):
        engine, field = PRESETS["chip_11x11"].engine.replace(shape=(side, side)), light(1024, side, side)
        one = jax.jit(lambda x, engine: (x.reshape(len(x), -1) @ device.matrix(engine)).reshape(x.shape))
        many = jax.jit(device.stages)
        sides = {"ours": partial(one, field, engine), "stages": partial(many, field, engine)}
        rows.append(ratio(f"static device of {side} x {side}, 1,024: one matrix / its stages", sides, rounds))
    return rows + [without(what, off, rounds) for what, off in WITHOUT.items()]


def without(what: str, off: dict[str, Any], rounds: int) -> dict[str, Any]:
    """Times a whole pass against one without an effect.

    Args:
      what: name of the effect.
      off: options of the engine that turn it off.
      rounds: number of rounds.
    """
    chip, x, key = PRESETS["chip_11x11"].engine, light(APERTURES, 11, 11), jax.random.key(1)
    sides = {
        "ours": lambda: optical_dft2(x, chip, key),
        "without": lambda: optical_dft2(x, chip.replace(**off), key),
    }
    return ratio(f"chip_11x11 / without {what}", sides, rounds)


def train(rounds: int) -> list[dict[str, Any]]:
    """Times a training step on random tokens; the exact one is the same network without an engine."""
    config, sides = optical_circular11.get_config("reviews"), {}
    for name, engine in (("optical", config.model.mixer.engine), ("exact", None)):
        fields = config.model.to_dict()
        fields["mixer"] |= {"engine": engine}
        sides[name] = step_functions(config, model.build(fields))[1]
    return [ratio("optical training step / exact, 11 x 11 circular classifier", sides, rounds)]


def transformed(rounds: int) -> list[dict[str, Any]]:
    """Times the engine's own mixers, which are ours, against `through` of the exact ones: equal passes."""
    chip, key = PRESETS["chip_11x11"].engine, jax.random.key(0)
    small, grid = chip.replace(shape=(8, 8)), {"shape": (11, 11)}
    options = {"key": key, "argnums": 0, "custom_derivatives": "inline"}
    tokens, vectors, kernels = light(32, 64, 64).real, light(64, 121).real, light(3, 6, 6).real
    pairs = {
        "optical_fourier_mix / through(fourier_mix), 32 x 64 x 64 on 8 x 8": (
            partial(optical_fourier_mix, engine=small, key=key),
            through(partial(fourier_mix, method="rfft"), small, **options),
            (tokens,),
        ),
        "optical_circular_correlate / through(circular_correlate), 64 of 11 x 11, 3 kernels": (
            partial(optical_circular_correlate, engine=chip, key=key, **grid),
            through(partial(circular_correlate, method="fft", **grid), chip, **options),
            (vectors, kernels),
        ),
        "through(fourier_mix) / fourier_mix, 32 x 64 x 64 on 8 x 8": (
            through(partial(fourier_mix, method="rfft"), small, **options),
            partial(fourier_mix, method="rfft"),
            (tokens,),
        ),
    }
    rows = []
    for what, (mine, other, arguments) in pairs.items():
        sides = {"ours": (mine, arguments), "other": (other, arguments)}
        rows += side_by_side(what, "chip_11x11", sides, rounds, same=False)
    return rows


PARTS = {"ideal": ideal, "chip": chip, "parts": parts, "train": train, "through": transformed}


def define_flags() -> None:
    flags.DEFINE_bool("quick", False, "few rounds, as a quick test")
    flags.DEFINE_enum("only", None, list(PARTS), "run one part")


def main() -> None:
    options = flags.FLAGS
    for part in [options.only] if options.only else PARTS:
        report(f"optics-{part}{'-quick' if options.quick else ''}", PARTS[part](2 if options.quick else 9))


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
