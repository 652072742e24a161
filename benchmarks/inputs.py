"""Sizes, and the arrays that both sides of a race get: NumPy's, the same in every process."""

import numpy as np

B, D, H, K = 4, 128, 8, 16
LAYERS = {  # what is raced against PyTorch, and the grid of its taps or of its positions
    "attention": None,
    "convolutional attention 1-D": (D,),
    "convolutional attention 16 x 8": (16, 8),
    "lambda n256 r3": (256,),
    "lambda n1024 r3": (1024,),
    "lambda 32 x 32 r3 x 3": (32, 32),
    "fourier": None,
}


def arrays(what: str, t: int) -> list[np.ndarray]:
    """Returns the arguments of a layer of `LAYERS` for t tokens; lambda layers take their grid's instead."""
    random, grid = np.random.default_rng(0), LAYERS[what] or ()

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (scale * random.normal(size=shape)).astype(np.float32)

    if what.startswith("lambda"):
        n, taps = int(np.prod(grid)), [3] * len(grid)
        return [normal(B, n, K), normal(B, n, K), normal(B, n, 64), normal(*taps, K, scale=0.2)]
    x = normal(B, t, D)
    if what == "fourier":
        return [x]
    kernels = (H, *grid) if grid else (D, H, D)
    three = [normal(*kernels, scale=D**-0.5) for _ in range(3)]
    return [x, *three] if grid else [x, *three, normal(H, D, D, scale=0.03)]
