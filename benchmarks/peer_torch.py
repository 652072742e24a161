"""The same layers in PyTorch, written from the equations, timed side by side; nothing else needs PyTorch."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.mixers import B, D, H, K, ours_dense, ours_lambda
from benchmarks.timing import compare, interleave
from fourier_attn.ops.circular import circular_attention
from fourier_attn.ops.fourier import fourier_mix

Tensor = torch.Tensor


def correlate(x: Tensor, kernel: Tensor) -> Tensor:
    b, t, d = x.shape
    h, *axes = kernel.shape
    image = x.reshape(b * t, 1, *axes)
    for axis in range(2, image.ndim):
        image = torch.cat([image, image.narrow(axis, 0, image.shape[axis] - 1)], axis)
    convolve = F.conv1d if len(axes) == 1 else F.conv2d
    return convolve(image, kernel[:, None]).reshape(b, t, h, d)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Heads on the third axis."""
    q, k, v = (y.transpose(1, 2) for y in (q, k, v))
    return (torch.softmax(q @ k.transpose(2, 3) / q.shape[-1] ** 0.5, dim=-1) @ v).transpose(1, 2)


def convolutional(x: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attend(*(correlate(x, kernel) for kernel in (query, key, value))).sum(dim=2)


def dense(x: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor) -> Tensor:
    q, k, v = (torch.einsum("btd,dhk->bthk", x, w) for w in (query, key, value))
    return torch.einsum("bthk,hkd->btd", attend(q, k, v), out)


def lambdas(query: Tensor, key: Tensor, value: Tensor, table: Tensor, grid: tuple[int, ...]) -> Tensor:
    b, n, v = value.shape
    *taps, k = table.shape
    content = torch.einsum("bmk,bmv->bkv", torch.softmax(key, dim=1), value)
    image = value.transpose(1, 2).reshape(b, v, *grid)
    filters = table.movedim(-1, 0)[None].expand(v, k, *taps).reshape(v * k, 1, *taps)
    convolve = F.conv1d if len(taps) == 1 else F.conv2d
    position = convolve(image, filters, padding=[r // 2 for r in taps], groups=v)
    position = position.reshape(b, v, k, n).permute(0, 3, 2, 1)
    return torch.einsum("bnk,bnkv->bnv", query, content[:, None] + position)


def fourier(x: Tensor) -> Tensor:
    return torch.fft.fft2(x).real


def pairs(t: int) -> dict[str, tuple[Callable[..., Any], Callable[..., Any], list[np.ndarray]]]:
    """Ours, PyTorch's, and the arguments that both get."""
    random = np.random.default_rng(0)

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (scale * random.normal(size=shape)).astype(np.float32)

    def kernels(*shape: int) -> list[np.ndarray]:
        return [normal(*shape, scale=D**-0.5) for _ in range(3)]

    def places(n: int, *taps: int) -> list[np.ndarray]:
        return [normal(B, n, K), normal(B, n, K), normal(B, n, 64), normal(*taps, K, scale=0.2)]

    x, out = normal(B, t, D), normal(H, D, D, scale=0.03)
    return {
        "attention": (ours_dense, dense, [x, *kernels(D, H, D), out]),
        "convolutional attention 1-D": (circular_attention, convolutional, [x, *kernels(H, D)]),
        "convolutional attention 16 x 8": (
            partial(circular_attention, shape=(16, 8)),
            convolutional,
            [x, *kernels(H, 16, 8)],
        ),
        "lambda n256 r3": (ours_lambda, partial(lambdas, grid=(256,)), places(256, 3)),
        "lambda n1024 r3": (ours_lambda, partial(lambdas, grid=(1024,)), places(1024, 3)),
        "lambda 32 x 32 r3 x 3": (
            partial(ours_lambda, grid=(32, 32)),
            partial(lambdas, grid=(32, 32)),
            places(1024, 3, 3),
        ),
        "fourier": (fourier_mix, fourier, [x]),
    }


def rows(rounds: int, t: int) -> list[dict[str, Any]]:
    """Forward + backward, the sum of squares as loss; first both sides are held equal. On JAX's device."""
    torch.set_num_threads(os.cpu_count() or 1)
    device = "cuda" if jax.default_backend() == "gpu" else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        print("this PyTorch has no GPU: its side is skipped")
        return []
    table = []
    for what, (mine, theirs, arrays) in pairs(t).items():
        step = jax.jit(
            jax.value_and_grad(lambda *a, f=mine: jnp.sum(jnp.square(f(*a))), tuple(range(len(arrays))))
        )
        mine_arrays = [jnp.asarray(a) for a in arrays]
        tensors = [torch.tensor(a, requires_grad=True, device=device) for a in arrays]

        def torch_step(theirs=theirs, tensors=tensors):
            loss = theirs(*tensors).square().sum()
            results = loss.detach(), torch.autograd.grad(loss, tensors)
            if device == "cuda":
                torch.cuda.synchronize()
            return results

        ours, peer = step(*mine_arrays), torch_step()
        for a, b in zip(ours[1], peer[1], strict=True):
            scale = float(b.abs().max())
            np.testing.assert_allclose(np.asarray(a), b.cpu().numpy(), atol=2e-4 * scale)
        sides = {"ours": lambda step=step, a=mine_arrays: step(*a), "torch": torch_step}
        row = compare(interleave(sides, rounds=rounds), "ours", "torch")
        row["other_ms"] = row.pop("torch_ms")
        print(f"  {what} / PyTorch {torch.__version__}: {row['times_faster']} times faster", flush=True)
        table.append({"what": f"{what} / PyTorch {torch.__version__}", "pass": "forward + backward"} | row)
    return table
