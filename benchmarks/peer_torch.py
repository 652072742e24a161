"""The same layers in PyTorch, written from the equations; imported only in the process that runs them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.inputs import LAYERS, arrays
from fourier_attn import provenance

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
    """Computes attention of q, k and v (b, t, h, k)."""
    q, k, v = (y.transpose(1, 2) for y in (q, k, v))
    return (torch.softmax(q @ k.transpose(2, 3) / q.shape[-1] ** 0.5, dim=-1) @ v).transpose(1, 2)


def convolutional(x: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return attend(*(correlate(x, kernel) for kernel in (query, key, value))).sum(dim=2)


def dense(x: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor) -> Tensor:
    """Computes dense attention of x with kernels query, key, value and out."""
    q, k, v = (torch.einsum("btd,dhk->bthk", x, w) for w in (query, key, value))
    return torch.einsum("bthk,hkd->btd", attend(q, k, v), out)


def lambdas(query: Tensor, key: Tensor, value: Tensor, table: Tensor, grid: tuple[int, ...]) -> Tensor:
    """Computes a lambda layer with one head and u = 1, with a grouped convolution.

    Args:
      query, key, value: (b, n, k), (b, n, k) and (b, n, v).
      table: position table (*taps, k).
      grid: shape of the n positions.
    """
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


def layer(what: str) -> Callable[..., Tensor]:
    """Returns PyTorch's function for a layer of `inputs.LAYERS`."""
    if what.startswith("convolutional"):
        return convolutional
    if what.startswith("lambda"):
        return partial(lambdas, grid=LAYERS[what])
    return {"attention": dense, "fourier": fourier}[what]


def op(arrays: list[Any], passes: str, rate: float, device: str) -> Callable[[], list[Any]]:
    """Builds `scaled_dot_product_attention`, or `fft2().real` for a single array.

    Args:
      arrays: arguments, heads on the third axis, and the cotangent of the result.
      passes: "forward" or "forward + backward".
      rate: dropout of attention weights.
      device: device of PyTorch.
    """
    torch.set_num_threads(provenance.cores())
    *given, g = [torch.tensor(a, device=device) for a in arrays]
    if passes != "forward":
        given = [x.requires_grad_() for x in given]

    def forward() -> Tensor:
        if len(given) == 1:
            return fourier(*given)
        heads = [x.transpose(1, 2) for x in given]
        return F.scaled_dot_product_attention(*heads, dropout_p=rate).transpose(1, 2)

    def run() -> list[Tensor]:
        y = forward()
        results = [y.detach(), *(torch.autograd.grad(y, given, g) if passes != "forward" else ())]
        if device == "cuda":
            torch.cuda.synchronize()
        return results

    return run


def step(what: str, t: int, device: str) -> Callable[[], list[Any]]:
    """Builds a function that computes the gradients of a layer, with the sum of squares as loss.

    Args:
      what: name of the layer.
      t: number of tokens.
      device: device of PyTorch.
    """
    torch.set_num_threads(provenance.cores())
    function = layer(what)
    given = [torch.tensor(a, requires_grad=True, device=device) for a in arrays(what, t)]

    def run() -> list[Tensor]:
        gradients = torch.autograd.grad(function(*given).square().sum(), given)
        if device == "cuda":
            torch.cuda.synchronize()
        return list(gradients)

    return run
