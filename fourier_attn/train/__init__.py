"""The one loop, and what belongs to it."""

from fourier_attn.train.entry import check, run

__all__ = ["check", "run"]
