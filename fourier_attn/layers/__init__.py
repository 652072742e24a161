"""Exports the Flax modules: each owns parameters and calls one op."""

from typing import TYPE_CHECKING

from fourier_attn.lazy import lazy_names

if TYPE_CHECKING:
    from fourier_attn.layers.afno import AFNO
    from fourier_attn.layers.attention import Attention
    from fourier_attn.layers.circular import CircularAttention
    from fourier_attn.layers.controls import Identity, Linear, Random
    from fourier_attn.layers.embed import PatchEmbedding, TokenEmbedding
    from fourier_attn.layers.encoder import Block, Encoder
    from fourier_attn.layers.fourier import FourierMixing
    from fourier_attn.layers.global_filter import GlobalFilter
    from fourier_attn.layers.heads import Features, Head, NextToken, Pretraining, Question
    from fourier_attn.layers.lambdas import LambdaLayer
    from fourier_attn.layers.long_conv import LongConvolution
    from fourier_attn.layers.token_conv import TokenConvolution

__all__ = [
    "AFNO",
    "Attention",
    "Block",
    "CircularAttention",
    "Encoder",
    "Features",
    "FourierMixing",
    "GlobalFilter",
    "Head",
    "Identity",
    "LambdaLayer",
    "Linear",
    "LongConvolution",
    "NextToken",
    "PatchEmbedding",
    "Pretraining",
    "Question",
    "Random",
    "TokenConvolution",
    "TokenEmbedding",
]

__getattr__, __dir__ = lazy_names(__name__)
