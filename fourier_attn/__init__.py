"""Attention and what can replace it, seen through the Fourier transform."""

from typing import TYPE_CHECKING

from fourier_attn.lazy import lazy_names

if TYPE_CHECKING:
    from fourier_attn import config, data, layers, model, ops, optics, pretrained, train
    from fourier_attn.data.tasks import register_task
    from fourier_attn.inference.predictor import Predictor
    from fourier_attn.model import register_mixer

__all__ = [
    "Predictor",
    "config",
    "data",
    "layers",
    "model",
    "ops",
    "optics",
    "pretrained",
    "register_mixer",
    "register_task",
    "train",
]
__version__ = "0.1.0"

__getattr__, __dir__ = lazy_names(__name__)
