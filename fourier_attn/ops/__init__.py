"""Pure functions of arrays: no parameters, no Flax, no configuration.

The functions `attention`, `global_filter` and `patches` have the names of their modules. Import them from
there: `from fourier_attn.ops.attention import attention`.
"""

from typing import TYPE_CHECKING

from fourier_attn.lazy import lazy_names

if TYPE_CHECKING:
    from fourier_attn.ops.afno import softshrink, spectral_mlp
    from fourier_attn.ops.arguments import takes_arrays
    from fourier_attn.ops.attention import fused_attention, shared_attention, softmax_weights
    from fourier_attn.ops.circular import circular_attention, circular_correlate
    from fourier_attn.ops.fourier import fourier_mix, fourier_mix_grid
    from fourier_attn.ops.global_filter import resample_filter
    from fourier_attn.ops.lambdas import causal_content_lambda, content_lambda, lambda_layer
    from fourier_attn.ops.long_conv import long_convolve
    from fourier_attn.ops.patches import fold, grid_of_patches, scan_order
    from fourier_attn.ops.positions import interpolate, places, rotate, sinusoids
    from fourier_attn.ops.token_conv import token_convolve

__all__ = [
    "causal_content_lambda",
    "circular_attention",
    "circular_correlate",
    "content_lambda",
    "fold",
    "fourier_mix",
    "fourier_mix_grid",
    "fused_attention",
    "grid_of_patches",
    "interpolate",
    "lambda_layer",
    "long_convolve",
    "places",
    "resample_filter",
    "rotate",
    "scan_order",
    "shared_attention",
    "sinusoids",
    "softmax_weights",
    "softshrink",
    "spectral_mlp",
    "takes_arrays",
    "token_convolve",
]

__getattr__, __dir__ = lazy_names(__name__)
