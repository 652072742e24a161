"""Attention and what can replace it, seen through the Fourier transform."""

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`Predictor`, imported when it is asked for: the package by itself costs nothing."""
    if name == "Predictor":
        from fourier_attn.inference.predictor import Predictor

        return Predictor
    raise AttributeError(f"module 'fourier_attn' has no attribute {name!r}")
