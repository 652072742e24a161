"""What the optical tests share: random light, the exact transform in double precision, decibels."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from conftest import normal

from fourier_attn.optics import Engine, optical_dft2
from fourier_attn.optics.engine_spec import ELECTRON_C
from fourier_attn.optics.transforms import FrameRunner

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


@contextlib.contextmanager
def frames_sent() -> Iterator[list[int]]:
    """Lists how many frames go through engines in each round of the operations that run, or are traced."""
    sent, send = [], FrameRunner.send

    def counted(self: FrameRunner, x: jax.Array, **options: Any) -> jax.Array:
        sent.append(math.prod(x.shape[:-2]))
        return send(self, x, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FrameRunner, "send", counted)
        yield sent


def snr(y: Any, expected: np.ndarray) -> float:
    """Signal over noise, dB."""
    noise = np.asarray(y) - expected
    return decibel(np.sum(np.abs(expected) ** 2) / np.sum(np.abs(noise) ** 2))


def decibel(ratio: float) -> float:
    return 10 * math.log10(ratio)


def changed(engine: Engine, photons: float | None = None, **changes: Any) -> Engine:
    """The engine with other parameters, and with a laser that gives so many photo-electrons in a pass."""
    if photons is None:
        return engine.replace(**changes)
    rate = changes.get("frame_rate_hz", engine.frame_rate_hz)
    responsivity = changes.get("responsivity", engine.receiver.responsivity)
    loss = changes.get("insertion_loss_db", engine.device.insertion_loss_db) or 0.0
    power = photons * rate * ELECTRON_C / responsivity * 10 ** (loss / 10)
    return engine.replace(power_w=power, **changes)


def made(photons: float | None = None, **parameters: Any) -> Engine:
    """An engine of parameters by their own names."""
    return changed(Engine(), photons, **parameters)
