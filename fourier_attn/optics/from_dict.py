"""An engine from a mapping of its parameters, as configurations and earlier versions have written it."""

from collections.abc import Mapping
from typing import Any

from fourier_attn.optics.drift import drifts
from fourier_attn.optics.engine_spec import PLACES, Engine, watts
from fourier_attn.optics.parameter import parameters
from fourier_attn.optics.parts import GROUPS, Device, Receiver

# What earlier versions had, and what it is now.
EARLIER = {"device_seed": "device.seed", "photons_fs": "laser.power_w, from which the photons follow"}


def grouped(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters in their groups, of a mapping that has them so, or all in one as earlier versions did.

    There, `device_seed` was the device's `seed`, and `photons_fs` the photo-electrons of unit intensity, from
    which `power_w` follows.

    Raises: ValueError for a name that is unknown.
    """
    found: dict[str, Any] = {}
    photons = None
    for name, value in values.items():
        name = {"device_seed": "seed"}.get(name, name)
        if name == "photons_fs":
            photons = value
        elif name in PLACES:
            found.setdefault(PLACES[name], {})[name] = value
        elif name in GROUPS:
            found[name] = found.get(name, {}) | dict(value)
        else:
            found[name] = value
    if photons is not None:
        receiver, device = found.get("receiver", {}), Device(**found.get("device", {}))
        found.setdefault("laser", {})["power_w"] = watts(
            photons,
            found.get("frame_rate_hz", Engine.frame_rate_hz),
            receiver.get("responsivity", Receiver.responsivity),
            device.transmission,
        )
    return found


def built(values: Mapping[str, Any]) -> Engine:
    """The engine of a mapping of parameters in their groups.

    Raises: ValueError for a name that is unknown, or a value that cannot be.
    """
    parts: dict[str, Any] = {}
    for name, value in values.items():
        if name not in GROUPS:
            parts[name] = value
            continue
        known = [field for field, _, _ in parameters(GROUPS[name])]
        if unknown := set(value) - set(known):
            raise ValueError(
                f"the {name} of an engine has no {', '.join(sorted(unknown))}; it has {', '.join(known)}"
            )
        parts[name] = GROUPS[name](**value)
    engine = Engine().replace(**parts)
    if engine.device.file is None:
        return engine
    if drifts(engine.device):
        raise ValueError(
            f"device.file={engine.device.file}: a measured transfer does not drift; leave phase_drift_rms "
            "and gain_drift_rms None"
        )
    try:
        return Engine.from_file(engine.device.file, like=engine)
    except ValueError as error:
        raise ValueError(f"device.file={engine.device.file}: {error}") from error
