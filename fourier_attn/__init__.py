"""Attention and what can replace it, seen through the Fourier transform."""

__version__ = "0.1.0"
