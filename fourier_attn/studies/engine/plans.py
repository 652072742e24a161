"""Measures passes and errors of the plans of a transform.

    python -m fourier_attn.studies.engine.plans [--out=FILE.json]

Random complex arrays of each size are transformed through a preset by each plan, and compared with the exact
transform: signal over error in dB, with as many averages of each pass as given.
"""

import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from fourier_attn import command, paths, provenance
from fourier_attn.optics import Engine, optical_dft, plan
from fourier_attn.optics.presets import preset
from fourier_attn.optics.transform_plan import PREFER


def define_flags() -> None:
    flags.DEFINE_string("engine", "chip_11x11", "preset, or file of a measured device")
    flags.DEFINE_list("sizes", ["64x64", "100x37", "256x64", "512x128"], "sizes of the arrays, ROWSxCOLUMNS")
    flags.DEFINE_list("averages", ["1", "2"], "numbers of averaged passes")
    flags.DEFINE_string("out", None, "JSON file for all numbers; default: none is written")


def main() -> None:
    sizes = [_size(text) for text in flags.FLAGS.sizes]
    averages = [_count(text) for text in flags.FLAGS.averages]
    rows = []
    for size in sizes:
        for average in averages:
            engine = preset(flags.FLAGS.engine).replace(averages=average)
            plans = [row(size, engine, prefer) for prefer in PREFER]
            rows += plans
            for each in plans:
                print(
                    f"{each['size']:>9}, averages {average}, prefer {each['prefer']:>6}: "
                    f"{each['passes']:6,} passes, {each['stages']} stages, {each['snr_db']:.2f} dB"
                )
    if flags.FLAGS.out:
        document = provenance.record() | {"engine": flags.FLAGS.engine, "rows": rows}
        provenance.write(paths.given(flags.FLAGS.out), document)


def row(size: tuple[int, int], engine: Engine, prefer: str) -> dict[str, Any]:
    """Returns the cost of a plan and its signal-to-error ratio for one random array.

    Args:
      size: of the array.
      engine: the engine, with its aperture.
      prefer: "error" or "passes".
    """
    planned = plan("dft", size, engine, prefer=prefer)
    light, noise = jax.random.split(jax.random.key(0))
    real, imag = jax.random.normal(light, (2, *size), jnp.float32)
    x = jax.lax.complex(real, imag)
    y = jax.jit(partial(optical_dft, engine=engine, prefer=prefer))(x, key=noise)
    exact = np.fft.fft2(np.asarray(x, np.complex128), norm="ortho")
    ratio = np.sum(np.abs(exact) ** 2) / np.sum(np.abs(np.asarray(y) - exact) ** 2)
    return {
        "size": " x ".join(map(str, size)),
        "prefer": prefer,
        "averages": engine.averages,
        "passes": planned.passes,
        "stages": planned.stages,
        "method": planned.method,
        "snr_db": float(10 * np.log10(ratio)),
    }


def _size(text: str) -> tuple[int, int]:
    numbers = text.split("x")
    if len(numbers) != 2 or not all(number.isdecimal() and 0 < int(number) < 10**4 for number in numbers):
        raise ValueError(f"--sizes={text} is not a list of sizes; give some, like --sizes=64x64,100x37")
    rows, columns = map(int, numbers)
    return rows, columns


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 10**4:
        raise ValueError(f"--averages={text} is not a number from 1 up; give some, like --averages=1,2")
    return int(text)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
