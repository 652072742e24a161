"""Part 1 of `benchmarks.gpu`: errors of ops and layers against float64, and times and energy of ops."""

import importlib
import math
import statistics
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import aot
from benchmarks.timing import Case, Row, milliseconds
from fourier_attn.ops.attention import attention
from fourier_attn.ops.fourier import fourier_mix
from fourier_attn.studies.side_by_side import interleave

Size = tuple[int, int, int]  # batch size, tokens and width
# dtype, JAX's precision of products, and the largest relative error of a gradient. GPUs round the inputs of a
# float32 product to TF32 (11 significant bits) unless the precision is "highest". bfloat16 has 8 bits.
PRECISIONS = {
    "float32": ("float32", None, 2e-2),
    "float32, highest": ("float32", "highest", 1e-4),
    "bfloat16": ("bfloat16", None, 1e-1),
}
LENGTHS = (  # in this order, so that a run that is cut off has the whole range
    *(128, 1024, 8192, 65_536, 262_144),
    *(256, 512, 2048, 4096, 16_384, 32_768, 131_072),
)
LONGEST = {"matmul": 4096, "masked matmul": 2048}  # their tables grow with the square of the tokens
CALLS, ROUND = 50, 0.02  # most calls of a round, and its least seconds


def cases(tiny: bool) -> Iterator[Case]:
    """Yields errors of all mixers, then times of Fourier mixing and attention; a few small ones if `tiny`."""
    yield from error_cases((2, 16, 16), ("attention", "fourier")) if tiny else error_cases((4, 64, 64))
    for t in (16,) if tiny else LENGTHS:
        yield from time_cases((2, t, 16) if tiny else (max(1, 16_384 // t), t, 768), heads=2 if tiny else 12)


def error_cases(size: Size, names: tuple[str, ...] = ()) -> Iterator[Case]:
    """Yields the gradient of every mixer, method and engine in every precision; `names` selects a few."""
    chosen = aot.mixers(size[1]) | aot.engines()
    for how in ("rows", "cudnn"):
        fields = {"heads": 4, "head_width": "split", "implementation": how}
        chosen[f"attention, {how}"] = ("attention", fields)
    for what, (name, fields) in chosen.items():
        fused, noisy = what.endswith("cudnn"), what.endswith("noisy engine")
        if (names and what not in names) or (fused and jax.default_backend() != "gpu"):
            continue
        reference = "float32" if noisy else "float64"  # in float64 an engine draws other noise
        plain = name, {key: value for key, value in fields.items() if value != "cudnn"}
        expected = cache(partial(gradients, plain, reference, "highest", size, "cpu"))
        for precision in ("bfloat16",) if fused else PRECISIONS:
            # Near the edge of a level, the ADC of a noisy engine rounds differently.
            bound = max(PRECISIONS[precision][2], 2e-2 * noisy)
            facts: Row = {"part": "error", "what": what, "dtype": precision, "size": str(size)}
            facts |= {"reference": reference, "bound": bound}
            yield facts, partial(error, (name, fields), precision, size, expected, bound)


def error(
    mixer: aot.Mixer, precision: str, size: Size, expected: Callable[[], list[np.ndarray]], bound: float
) -> list[Row]:
    """Returns the largest relative error of a mixer's gradients.

    Args:
      mixer: name and options of the mixer.
      precision: a key of `PRECISIONS`.
      size: batch size, tokens and width.
      expected: returns the gradients on this machine's CPU, which the project's tests compare with NumPy.
      bound: largest error that is expected.
    """
    dtype, products, _ = PRECISIONS[precision]
    exact = expected()
    found = gradients(mixer, dtype, products, size, jax.default_backend())
    largest = max(float(np.abs(leaf).max(initial=0)) for leaf in exact)
    errors = [
        # A gradient that is zero but for rounding is compared with the largest of all gradients.
        np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-3 * largest)
        for a, b in zip(found, exact, strict=True)
    ]
    worst = float(np.max(errors))  # NaN if one is
    return [{"error": float(f"{worst:.2g}"), "within": worst <= bound}]


def gradients(
    mixer: aot.Mixer, dtype: str, precision: str | None, size: Size, platform: str
) -> list[np.ndarray]:
    """Returns a mixer's gradients with respect to parameters and input, for values that all dtypes represent.

    Args:
      mixer: name and options of the mixer.
      dtype: dtype of the computation.
      precision: JAX's precision of matrix products.
      size: batch size, tokens and width.
      platform: JAX's name of the platform.
    """
    random, single = np.random.default_rng(0), "float64" if dtype == "float64" else "float32"
    device = jax.default_device(jax.devices(platform)[0])
    with jax.enable_x64(dtype == "float64"), jax.default_matmul_precision(precision), device:
        function, (params, x, mask) = aot.gradient(mixer, dtype, *size)

        def draw(leaf: Any, given: str) -> jax.Array:
            scale = leaf.shape[0] ** -0.5 if len(leaf.shape) > 1 and leaf is not x else 0.5
            values = scale * random.normal(size=leaf.shape)
            return jnp.asarray(values.astype(jnp.bfloat16).astype(given))

        params, x = jax.tree.map(lambda leaf: draw(leaf, single), params), draw(x, dtype)
        ends = np.linspace(size[1] // 2, size[1], size[0]).astype(int)
        mask = jnp.asarray(np.arange(size[1]) < ends[:, None])
        _, found = jax.jit(function)(params, x, mask)
        return [np.asarray(leaf).astype(np.float64) for leaf in jax.tree.leaves(found)]


def time_cases(size: Size, heads: int) -> Iterator[Case]:
    """Yields the methods of Fourier mixing, and attention with `heads` heads, forward."""
    t = size[1]

    def attend(x: jax.Array, n: jax.Array, implementation: str) -> jax.Array:
        parts = x.reshape(*x.shape[:2], heads, -1)
        return attention(parts, parts, parts, implementation=implementation).reshape(x.shape)

    functions: dict[str, Callable[..., jax.Array]] = {
        name: lambda x, n, method=name: fourier_mix(x, method=method)
        for name in ("fft", "rfft", "matmul", "monarch")
    }
    functions |= {
        "chirps": lambda x, n: fourier_mix(x, lengths=n, method="rfft"),
        "masked matmul": lambda x, n: fourier_mix(x, lengths=n, method="matmul"),
        "attention": partial(attend, implementation="xla"),
        "attention, cudnn": partial(attend, implementation="cudnn"),
    }
    for dtype in ("bfloat16", "float32"):
        for what, function in functions.items():
            absent = what.endswith("cudnn") and (dtype == "float32" or jax.default_backend() != "gpu")
            if t <= LONGEST.get(what, t) and not absent:
                facts = {"part": "time", "what": what, "dtype": dtype, "t": t, "size": str(size)}
                yield facts, partial(timed, function, size, dtype)


def timed(function: Callable[..., jax.Array], size: Size, dtype: str) -> list[Row]:
    """Returns milliseconds per call with their range, temporary memory, and millijoules per example.

    Args:
      function: function of the tokens and of the number of real tokens in each example.
      size: batch size, tokens and width.
      dtype: dtype of the tokens.
    """
    b, t, _ = size
    x = jax.random.normal(jax.random.key(0), size, jnp.dtype(dtype))
    lengths = jnp.asarray(np.linspace(t // 2, t - 1, b).astype(np.int32))
    program = jax.jit(function).lower(x, lengths).compile()
    side = partial(program, x, lengths)
    jax.block_until_ready(side())
    begin = time.perf_counter()
    jax.block_until_ready(side())
    once = time.perf_counter() - begin
    rounds, calls = 5 if once < 0.5 else 1, min(CALLS, math.ceil(ROUND / once))
    seconds = interleave({"": side}, rounds, calls)[""]
    energy = joules(side, statistics.median(seconds))
    memory: Any = program.memory_analysis()
    row = milliseconds(seconds) | {"temporary_mb": round(memory.temp_size_in_bytes / 1e6, 2)}
    return [row | {"mj_per_example": None if energy is None else float(f"{1e3 * energy / b:.4g}")}]


def joules(side: Callable[[], Any], seconds: float, least: float = 0.5) -> float | None:
    """Returns the energy of the whole GPU per call, by NVML; None where `pynvml` or its counter is missing.

    Args:
      side: the call.
      seconds: its duration.
      least: seconds of the measurement, because NVML renews its counter about ten times per second.
    """
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
        counter = partial(nvml.nvmlDeviceGetTotalEnergyConsumption, nvml.nvmlDeviceGetHandleByIndex(0))
        before = counter()
    except Exception:  # not installed, no driver, or an old GPU
        return None
    calls = max(1, math.ceil(least / seconds))
    for first in range(0, calls, CALLS):
        jax.block_until_ready([side() for _ in range(min(CALLS, calls - first))])
    return (counter() - before) / 1e3 / calls
