"""The one loop, and what belongs to it."""

from fourier_attn.train.entry import check, run
from fourier_attn.train.optimizer import register_optimizer

__all__ = ["check", "register_optimizer", "run"]
