"""An engine from a mapping of its parameters, as configurations have it."""

from collections.abc import Mapping
from typing import Any

from fourier_attn.optics.drift import drifts
from fourier_attn.optics.engine_spec import PLACES, Engine
from fourier_attn.optics.parameter import parameters
from fourier_attn.optics.parts import GROUPS


def grouped(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns parameters in their groups, from a mapping that has them in groups or side by side."""
    parts: dict[str, Any] = {}
    for name, value in values.items():
        if name in PLACES:
            parts.setdefault(PLACES[name], {})[name] = value
        elif name in GROUPS:
            parts[name] = parts.get(name, {}) | dict(value)
        else:
            parts[name] = value
    return parts


def built(values: Mapping[str, Any]) -> Engine:
    """Makes an engine from a mapping of parameters in their groups.

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
