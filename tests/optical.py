"""What the optical tests share: random light, the exact transform in double precision, decibels."""

import math
from typing import Any

import jax
import numpy as np
from conftest import normal

from fourier_attn.optics import optical_dft2

KEY = jax.random.key(0)
QUICK = {"xla_backend_optimization_level": 0}  # compiles four times as fast
dft = jax.jit(optical_dft2, compiler_options=QUICK)


def waves(*shape: int, seed: int = 0) -> jax.Array:
    """Complex normal numbers of power 2."""
    return jax.lax.complex(normal(*shape, seed=seed), normal(*shape, seed=seed + 100))


def exact(x: Any, axes: tuple[int, ...] = (-2, -1)) -> np.ndarray:
    """sum_m x[m] exp(-2 pi i k m / n) / sqrt(n) over each axis, in float64, by its definition."""
    y = np.asarray(x, np.complex128)
    for axis in axes:
        k = np.arange(y.shape[axis])
        matrix = np.exp(-2j * np.pi * np.outer(k, k) / len(k)) / math.sqrt(len(k))
        y = np.moveaxis(np.moveaxis(y, axis, -1) @ matrix, -1, axis)
    return y


def snr(y: Any, expected: np.ndarray) -> float:
    """Signal over noise, dB."""
    noise = np.asarray(y) - expected
    return decibel(np.sum(np.abs(expected) ** 2) / np.sum(np.abs(noise) ** 2))


def decibel(ratio: float) -> float:
    return 10 * math.log10(ratio)
