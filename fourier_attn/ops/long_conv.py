"""Convolves tokens with kernels as long as the sequence, by transforms."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fourier_attn.choices import check_choice
from fourier_attn.ops.arguments import takes_arrays, wide
from fourier_attn.ops.transforms import fast_size, irfftn, rfftn

BOUNDARIES = ("linear", "circular")


def _sides(kernel: Array, t: int, boundary: str, causal: bool) -> tuple[Array, Array]:
    """Returns the taps that reach within t tokens: those of $k = 0$, 1, .., and those of k = .., -2, -1."""
    r = kernel.shape[0]
    if boundary == "circular":
        m = min(r, t)
        return kernel[: (m + 1) // 2], kernel[r - m // 2 :]
    if causal:
        return kernel[:t], kernel[:0]
    first, m = r // 2, min((r + 1) // 2, t)
    return kernel[first : first + m], kernel[first - m + 1 : first]


@takes_arrays
def long_convolve(
    x: Float[Array, "*b t d"], kernel: Float[Array, "r _"], *, boundary: str = "linear", causal: bool = False
) -> Float[Array, "*b t d"]:
    """Convolves the sequence of each feature with its own kernel, which may be as long as the sequence.

        y[i, j] = sum_k w[k, j] x[i - k, j]

    A true convolution: tap k weights the token k places before. Transforms run in float32.

        >>> x, kernel = jnp.arange(4.0).reshape(1, 4, 1), jnp.zeros((7, 1)).at[4].set(1.0)  # tap 3 is lag 0
        >>> jnp.round(long_convolve(x, kernel)).ravel() + 0.0  # the token before
        Array([0., 0., 1., 2.], dtype=float32)

    Args:
      x: the tokens, (*b, t, d).
      kernel: any number r of taps; those that reach beyond t tokens do nothing. "linear": $r = 2 N - 1$, tap
        $k = -(N - 1) .. N - 1$ in row $N - 1 + k$; causal: $k = 0 .. r - 1$ in row k. "circular":
        $k = -(r // 2) .. (r - 1) // 2$ in row $k mod r$. With $r > t$ the t taps next to $k = 0$ act,
        $-(t // 2) .. (t - 1) // 2$.
      boundary: "linear", x is zero outside, by padding to a fast size from $t + N - 1$ on; "circular",
        $i - k$ is taken mod t, so that the last token is the neighbour of the first.
      causal: uses taps $k >= 0$ only. Default False.
    Masking: none. Where padded tokens are zero, "linear" gives the others what it gives without padding.
    Raises: ValueError for an unknown boundary, an even two-sided kernel, causal with "circular", and for a
      kernel of another width.
    Source: Fu et al., Simple Hardware-Efficient Long Convolutions for Sequence Modeling, arXiv 2302.06646.
    """
    (r, width), (t, d) = kernel.shape, x.shape[-2:]
    check(boundary, causal)
    if width != d or r < 1:
        raise ValueError(f"kernel of shape {kernel.shape} must be (r, {d}), taps and features, with r >= 1")
    if boundary == "linear" and not causal and r % 2 == 0:
        raise ValueError(f"kernel has r={r} taps; make it odd, so that it has a centre, or use causal=True")
    if 0 in x.shape:
        return x
    after, before = _sides(kernel.astype(wide(x)), t, boundary, causal)
    size = t if boundary == "circular" else fast_size(t + after.shape[0] - 1)
    gap = jnp.zeros((size - after.shape[0] - before.shape[0], d), wide(x))
    spectrum = rfftn(jnp.swapaxes(x, -1, -2).astype(wide(x)), (size,))
    filter = rfftn(jnp.concatenate([after, gap, before]).T, (size,))
    y = irfftn(spectrum * jnp.broadcast_to(filter, spectrum.shape), (size,))
    return jnp.swapaxes(y[..., :t], -1, -2).astype(x.dtype)


def check(boundary: str, causal: bool) -> None:
    """Checks the boundary, and rejects a causal circular convolution.

    Args:
      boundary: "linear" or "circular".
      causal: needs "linear".
    """
    check_choice("boundary", boundary, BOUNDARIES)
    if causal and boundary == "circular":
        raise ValueError(
            "causal=True needs boundary='linear'; a circular convolution lets the last token into the first"
        )
