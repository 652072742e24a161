"""The parts of an engine with their parameters, one file each.

A parameter that is None is ideal, or off. What a field says about its parameter is in its metadata, see
`fourier_attn.optics.parameter`; `python -m fourier_attn.config` prints all of it.
"""

from fourier_attn.optics.parameter import register
from fourier_attn.optics.parts.channels import Channels
from fourier_attn.optics.parts.device import Device
from fourier_attn.optics.parts.laser import Laser
from fourier_attn.optics.parts.modulator import MODULATOR_TYPES, Modulator
from fourier_attn.optics.parts.receiver import DETECTIONS, Detection, Receiver

__all__ = [
    "DETECTIONS",
    "GROUPS",
    "MODULATOR_TYPES",
    "Channels",
    "Detection",
    "Device",
    "Laser",
    "Modulator",
    "Receiver",
]

GROUPS = {
    "modulator": Modulator,
    "device": Device,
    "laser": Laser,
    "receiver": Receiver,
    "channels": Channels,
}
for group in GROUPS.values():
    register(group)
