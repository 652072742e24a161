"""Compares an optical 3 x 3 convolution with an emulated crossbar: `python -m benchmarks.peer_crossbar`.

The peer is aihwkit, which emulates analog in-memory computing; install it for this comparison only, with
`pip install aihwkit==1.1.0 torch==2.13.0`. Its tile is the one in PyTorch: the one in C++ of this wheel does
not run with this PyTorch. Both convolve the same images with the same kernels, with converters of 8 bit and
noise on every output, forward, and forward + backward to images and kernels, each side in its own process.
"""

import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from benchmarks.race import SETTING, Step, race, started
from benchmarks.timing import compare, report
from fourier_attn import command, provenance
from fourier_attn.optics import optical_circular_correlate
from fourier_attn.optics.presets import preset

IMAGES, SIDE, KERNELS = 256, 27, 8
STEPS = 2**8 - 2


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """Returns random images (n, i, j) and kernels (k, 3, 3)."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((IMAGES, SIDE, SIDE)).astype(np.float32)
    return images, (rng.standard_normal((KERNELS, 3, 3)) / 3).astype(np.float32)


def exact(images: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Computes y_nkij = sum_ab w_kab x_n(i+a-1)(j+b-1), zeros outside."""
    wide = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(1, 2))
    return np.einsum("nijab,kab->nkij", windows, kernel)


def optical(backward: bool) -> Step:
    """Returns our result, or with `backward` its gradients."""
    images, kernel = (jnp.asarray(a) for a in arrays())
    engine, key, flat = preset("chip_11x11"), jax.random.key(0), images.reshape(IMAGES, -1)

    def convolve(x: jax.Array, w: jax.Array, key: Any) -> jax.Array:
        return optical_circular_correlate(x, w, engine, key, shape=(SIDE, SIDE), boundary="zero")

    def loss(x: jax.Array, w: jax.Array, key: Any) -> jax.Array:
        return jnp.sum(convolve(x, w, key) ** 2)

    function = jax.jit(jax.grad(loss, (0, 1)) if backward else convolve)
    return lambda: jax.tree.leaves(jax.block_until_ready(function(flat, kernel, key)))


def crossbar(backward: bool) -> Step:
    """Builds aihwkit's side, with converters of 8 bit and noise of 4 % of full scale."""
    import torch
    from aihwkit.nn import AnalogConv2d
    from aihwkit.simulator.configs import TorchInferenceRPUConfig

    torch.set_num_threads(provenance.cores())
    images, kernel = arrays()
    config: Any = TorchInferenceRPUConfig()
    config.forward.inp_res = config.forward.out_res = 1 / STEPS
    config.forward.out_noise = 0.04
    layer = AnalogConv2d(1, len(kernel), kernel.shape[1:], padding=1, bias=False, rpu_config=config)
    layer.set_weights(torch.tensor(kernel[:, None]), None)
    layer.train(backward)

    def run() -> list[Any]:
        x = torch.tensor(images[:, None], requires_grad=backward)
        with torch.set_grad_enabled(backward):
            y = layer(x)
            if not backward:
                return [y]
            (y**2).sum().backward()
            return [x.grad]

    return run


def print_quality(name: str, y: np.ndarray) -> None:
    truth = exact(*arrays())
    snr = 10 * np.log10(np.mean(truth**2) / np.mean((y.reshape(truth.shape) - truth) ** 2))
    print(f"  {name}: {snr:.1f} dB against the exact convolution")


def define_flags() -> None:
    flags.DEFINE_bool("quick", False, "few rounds, as a quick test")


def main() -> None:
    quick, rows = flags.FLAGS.quick, []
    rounds = 2 if quick else 9
    for backward in (False, True):
        makers = {"ours": partial(optical, backward), "aihwkit": partial(crossbar, backward)}
        with started(makers) as sides:
            if not backward:
                for name, side in sides.items():
                    print_quality(name, side.result[0])
            seconds = race(sides, rounds)
        row = {
            "what": "optical 3 x 3 convolution / aihwkit's",
            "size": f"{IMAGES} of {SIDE} x {SIDE}, {KERNELS} kernels",
            "pass": "forward + backward" if backward else "forward",
            "rounds": rounds,
        }
        rows.append(row | compare(seconds, "ours", "aihwkit"))
    name = f"peer-crossbar{'-quick' if quick else ''}"
    report(name, rows, peers=("torch", "aihwkit"), setting=SETTING)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
