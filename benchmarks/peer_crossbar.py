"""An optical 3 x 3 convolution beside one on an emulated crossbar: `python -m benchmarks.peer_crossbar`.

The peer is aihwkit, which emulates analog in-memory computing; install it for this comparison only, with
`pip install aihwkit==1.1.0 torch==2.13.0`. Its tile is the one in PyTorch: the one in C++ of this wheel does
not run with this PyTorch. Both convolve the same images with the same kernels, with converters of 8 bit and
noise on every output, forward, and forward + backward to images and kernels.
"""

import argparse
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from aihwkit.nn import AnalogConv2d
from aihwkit.simulator.configs import TorchInferenceRPUConfig

from benchmarks.timing import compare, interleave, report
from fourier_attn.optics import optical_circular_correlate
from fourier_attn.optics.presets import preset

STEPS = 2**8 - 2


def crossbar(kernel: np.ndarray) -> Any:
    """aihwkit's convolution with these kernels, converters of 8 bit and noise of 4 % of full scale."""
    config: Any = TorchInferenceRPUConfig()
    config.forward.inp_res = config.forward.out_res = 1 / STEPS
    config.forward.out_noise = 0.04
    layer = AnalogConv2d(1, len(kernel), kernel.shape[1:], padding=1, bias=False, rpu_config=config)
    layer.set_weights(torch.tensor(kernel[:, None]), None)
    return layer


def sides(images: np.ndarray, kernel: np.ndarray, backward: bool) -> dict[str, Callable[[], Any]]:
    """Ours and aihwkit's, with the signal-to-noise ratio of both."""
    engine, key = preset("chip_11x11"), jax.random.key(0)
    flat, side = jnp.asarray(images.reshape(len(images), -1)), images.shape[1:]

    def convolve(x: jax.Array, w: jax.Array, key: Any) -> jax.Array:
        return optical_circular_correlate(x, w, engine, key, shape=side, boundary="zero")

    def loss(x: jax.Array, w: jax.Array, key: Any) -> jax.Array:
        return jnp.sum(convolve(x, w, key) ** 2)

    ours = jax.jit(jax.value_and_grad(loss, (0, 1)) if backward else convolve)
    layer = crossbar(kernel)
    layer.train(backward)

    def theirs() -> Any:
        x = torch.tensor(images[:, None], requires_grad=backward)
        with torch.set_grad_enabled(backward):
            y = layer(x)
            if backward:
                (y**2).sum().backward()
        return None

    exact = jax.lax.conv(images[:, None], kernel[:, None], (1, 1), "SAME").reshape(
        len(images), len(kernel), -1
    )
    if not backward:
        crossed = layer(torch.tensor(images[:, None])).detach().numpy().reshape(exact.shape)
        for name, y in (("ours", convolve(flat, jnp.asarray(kernel), key)), ("aihwkit", crossed)):
            snr = 10 * np.log10(np.mean(exact**2) / np.mean((np.asarray(y) - exact) ** 2))
            print(f"  {name}: {snr:.1f} dB against the exact convolution")
    return {"ours": lambda: ours(flat, jnp.asarray(kernel), key), "aihwkit": theirs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds, to see it work")
    quick, rows = parser.parse_args().quick, []
    draw = np.random.default_rng(0)
    images = draw.standard_normal((256, 27, 27)).astype(np.float32)
    kernel = (draw.standard_normal((8, 3, 3)) / 3).astype(np.float32)
    for backward in (False, True):
        every = sides(images, kernel, backward)
        seconds = interleave(every, rounds=2 if quick else 9)
        row = {"what": "optical 3 x 3 convolution / aihwkit's", "size": "256 of 27 x 27, 8 kernels"}
        row["pass"] = "forward + backward" if backward else "forward"
        rows.append(row | compare(seconds, "ours", "aihwkit"))
    report(f"peer-crossbar{'-quick' if quick else ''}", rows)


if __name__ == "__main__":
    main()
