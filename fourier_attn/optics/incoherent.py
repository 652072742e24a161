"""Correlation by incoherent light: intensities convolve with an intensity, and nothing interferes.

A source without spatial coherence lights the modulators, for example a lamp or a display. A lens, a filter H
in its focal plane and a second lens image each pixel as a spot, and the powers of the spots add:

    I[n] = sum_m P[n - m] x[m],   P = |F^-1 H|^2

P is the point spread function. Its transform T, the optical transfer function, is the autocorrelation of H:

    T[q] = (1 / N) sum_p H[p] conj(H[p - q])

So there are no negative numbers. A signed kernel or input takes two passes, one for each *rail*: its positive
and its negative part.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from fourier_attn.choices import check_choice
from fourier_attn.ops.arguments import takes_arrays
from fourier_attn.optics import device
from fourier_attn.optics.coherence import is_coherent
from fourier_attn.optics.correlator_light import follow, other_lens, spectrum, upright
from fourier_attn.optics.correlators import check_run
from fourier_attn.optics.drift import timed
from fourier_attn.optics.engine import read, split, write
from fourier_attn.optics.engine_spec import SCOPE, Engine
from fourier_attn.optics.rails import count_rails, known
from fourier_attn.optics.random import Key

MOST_PIXELS = 4_096  # of a device with errors, whose point spread function changes from pixel to pixel


@jax.named_scope(SCOPE)
@takes_arrays
def optical_incoherent_correlate(
    x: Num[Array, "..."],
    kernel: Num[Array, "..."],
    engine: Engine,
    key: Key = None,
    *,
    encoding: str | None = None,
    signed: str = "both",
) -> Float[Array, "..."]:
    """Correlates arrays with a kernel in incoherent light, on a circle of the aperture's size.

        y[n] = sum_m w[m] x[n + m],   H = conj(F sqrt(w)) / max|F sqrt(w)|

    Modulators write the amplitudes $sqrt(x)$, and a camera reads intensities. The filter H is a plate without
    gain, levels or noise. A device with errors has a point spread function for each pixel, the power of its
    coherent image. The derivative is straight through the modulators.

        >>> engine = Engine(shape=(1, 4)).replace(detection="intensity")
        >>> x, w = jnp.array([[0.0, 1.0, 2.0, 3.0]]), jnp.array([[1.0, -1.0]])
        >>> optical_incoherent_correlate(x, w, engine, encoding="two_rail", signed="kernel").round()
        Array([[-1., -1., -1.,  3.]], dtype=float32)

    Args:
      x: (..., N1, N2) with the engine's shape, intensities from 0 if there is no encoding.
      kernel: w, (r1, r2), not larger than the aperture.
      engine: the engine, with detection "intensity", coherent and with one channel by its parameters.
      key: draws what changes from pass to pass; may be None where nothing is noisy.
      encoding: None (default) for intensities, in one pass; "two_rail" for signed numbers, by the differences
        of positive and negative parts.
      signed: with an encoding: "both" (default) takes four passes, "input" or "kernel" two. Traced numbers
        below 0 of the other one count as 0.
    Raises: ValueError for shapes that do not fit, negative numbers, or an engine that does not read
      intensities.
    Source: Goodman, Introduction to Fourier Optics, on the transfer function of incoherent imaging.
    """
    rails = check_incoherent(x.shape, kernel.shape, engine, encoding, signed)
    for name, values, count in (("input", x, rails[0]), ("kernel", kernel, rails[1])):
        if jnp.iscomplexobj(values):
            raise ValueError(
                f"the {name} must not be complex ({values.dtype}); use optical_dft2: intensities are real"
            )
        array = known(values)
        if count == 1 and array is not None and (lowest := float(np.min(array))) < 0:
            raise ValueError(
                f"the {name} reaches {lowest:.4g}, but light has no sign; use encoding='two_rail'"
            )
    check_run(engine, engine.modulator, key)
    x, kernel = (part if part.dtype == jnp.float64 else part.astype(jnp.float32) for part in (x, kernel))
    return _rails(x, kernel.astype(x.dtype), engine.replace(device=timed(engine.device)), key, rails)


def check_incoherent(
    x: tuple[int, ...], kernel: tuple[int, ...], engine: Engine, encoding: str | None, signed: str
) -> tuple[int, int]:
    """Returns the rails of input and kernel, after checking shapes and the engine.

    Args:
      x, kernel: shapes.
      engine: the engine.
      encoding, signed: as `optical_incoherent_correlate` has them.
    Raises: ValueError for what `optical_incoherent_correlate` refuses by shapes and parameters.
    """
    if encoding is not None:
        check_choice("encoding", encoding, ("two_rail",), ", or None")
    rails = count_rails(encoding, signed, real=(True, True))
    if not is_coherent(engine) or engine.channels.count > 1:
        raise ValueError(
            "incoherent light has no modes, and is emulated in one channel; set source_pixels=None, "
            "line_width_rms=None, wavelengths=1 and apertures=1"
        )
    if x[-2:] != engine.shape or 0 in x:
        raise ValueError(
            f"x of shape {x} must end in the aperture {engine.shape}, and have no empty axis; cut it into "
            "tiles, or pad it"
        )
    if len(kernel) != 2 or any(r > n for r, n in zip(kernel, engine.shape, strict=True)) or 0 in kernel:
        raise ValueError(f"kernel of shape {kernel} must be (r1, r2), at most the aperture {engine.shape}")
    if engine.receiver.detection != "intensity":
        raise ValueError(
            f"detection={engine.receiver.detection!r} does not read the intensity, which is all of "
            "incoherent light; use detection='intensity'"
        )
    if engine.modulator.encode == "phase" or engine.lens == "1d":
        raise ValueError(
            f"encode={engine.modulator.encode!r} and lens={engine.lens!r} must write amplitudes and image "
            "two axes; use encode='amplitude' and lens='2d'"
        )
    if not device.is_exact(lossless(engine)) and engine.shape[0] * engine.shape[1] > MOST_PIXELS:
        raise ValueError(
            f"an aperture {engine.shape} with errors of the device has too many pixels for its matrix; use "
            f"at most {MOST_PIXELS}, or leave static errors None"
        )
    return rails


def lossless(engine: Engine) -> Engine:
    """Returns the engine without insertion loss, which is that of the whole way and is read once."""
    return dataclasses.replace(engine, device=dataclasses.replace(engine.device, insertion_loss_db=None))


def _rails(x: Array, kernel: Array, engine: Engine, key: Key, rails: tuple[int, int]) -> Array:
    """Sums over pairs of rails, each a pass of its own."""
    inputs, kernels = rails
    parts = jnp.stack(_parts(x, inputs))
    total = jnp.zeros_like(x)
    for number, rail in enumerate(_parts(kernel, kernels)):
        y = _image(parts, rail, engine, None if key is None else jax.random.fold_in(key, number))
        total = total + (1 - 2 * number) * (y[0] - y[1] if inputs == 2 else y[0])
    return total


def _parts(x: Array, rails: int) -> list[Array]:
    """Returns the positive part, and the negative one for a second rail; 0 is in the first."""
    return [jnp.where(x < 0, 0.0, x), jnp.where(x < 0, -x, 0.0)][:rails]


def _image(x: Array, kernel: Array, engine: Engine, key: Key) -> Array:
    """Reads the image of intensities through the filter of a kernel."""
    keys = split(key)
    scale, field = write(jnp.sqrt(jax.lax.stop_gradient(x)), engine, keys.writing)
    bright = x / scale**2
    made = field.real**2 + field.imag**2
    light = follow(bright[None], made)
    image, gain = _through_filter(light, kernel, engine)
    dark = jax.lax.complex(jnp.zeros_like(image), jnp.zeros_like(image))
    return read(dark, image, scale * gain, engine, keys, lenses=2)


def _through_filter(light: Array, kernel: Array, engine: Engine) -> tuple[Array, Array]:
    """Returns intensities at the camera, and the amplitude that the filter was divided by."""
    lit = jnp.where(kernel == 0, 1.0, kernel)  # the root has no derivative in the dark
    h = spectrum(jnp.where(kernel == 0, 0.0, jnp.sqrt(lit)), engine)
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(h)))
    largest = jnp.where(largest > 0, largest, 1.0)
    if device.is_exact(lossless(engine)):
        transfer = jnp.conj(jnp.fft.fft2(kernel / largest**2, engine.shape))
        product = jnp.fft.fft2(light) * transfer.reshape((1,) * (light.ndim - 2) + engine.shape)
        image = jnp.fft.ifft2(product).real
        image = follow(image, jnp.maximum(image, 0.0))  # rounding may be below zero, and power is not
        return image * jnp.asarray(engine.device.transmission, image.dtype), largest
    spots = jnp.abs(_spots(h / largest.astype(h.dtype), engine)) ** 2
    rows = light.reshape(-1, spots.shape[0])
    return jnp.matmul(rows, spots, precision="highest").reshape(light.shape), largest


def _spots(h: Array, engine: Engine) -> Array:
    """Returns the field of each pixel's image, a row for each pixel, upright."""
    middle = device.matrix(lossless(engine), h.dtype).reshape(-1, *engine.shape)
    image = upright(device.propagate(middle * h[None], other_lens(engine)), engine)
    return image.reshape(len(image), -1)
