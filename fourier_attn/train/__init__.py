"""Trains and evaluates networks: `run` trains what a configuration describes."""

from fourier_attn.train.entry import check, run
from fourier_attn.train.optimizer import register_optimizer

__all__ = ["check", "register_optimizer", "run"]
