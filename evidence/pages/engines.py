"""Tables of an engine's parameters, kinds of modulators and presets, read from the code that defines them."""

import math
from typing import Any

from evidence.pages.equations import around
from evidence.pages.markdown import Results, table
from fourier_attn.optics import Engine
from fourier_attn.optics.engine_spec import every_parameter
from fourier_attn.optics.parameter import LARGEST, TINY, Parameter
from fourier_attn.optics.parts import MODULATOR_TYPES
from fourier_attn.optics.presets import PRESETS


def parameters(results: Results, group: str) -> str:
    """Tabulates the parameters of a group with default, unit, range, and growth with the noise.

    Args:
      results: not used; all of it is in the code.
      group: a key of `GROUPS`, or "" for the parameters of the engine itself.
    """
    lines = []
    for at, name, what, default in every_parameter(Engine()):
        if at != group:
            continue
        value = "off" if default is None else f"{default:g}" if isinstance(default, float) else str(default)
        lines.append([f"`{name}`", value, what.unit, _range(what), _growth(what), latex(what.text)])
    return table(["parameter", "default", "unit", "values", "noise x k", "meaning"], lines)


def latex(text: str) -> str:
    """Returns a description with its equations as LaTeX, as pages need them."""
    return around(text, str, "${}$")


def _range(what: Parameter) -> str:
    if what.words:
        return ", ".join([*what.words, *(["a number"] if what.kind == "full_scale" else [])])
    if what.kind not in ("number", "bits", "count"):
        return ""
    least = {-math.inf: "", -LARGEST: "", TINY: "above 0"}.get(what.least, f"from {what.least:g}")
    most = "" if what.most >= LARGEST else f"to {what.most:g}"
    return f"{least} {most}".strip()


def _growth(what: Parameter) -> str:
    if what.noise_power is not None:
        return "k" if what.noise_power == 1 else f"$k^{{{what.noise_power}}}$"
    return rf"${'+' if what.noise_db > 0 else '-'} 20 \log_{{10}} k$ dB" if what.noise_db else ""


def kinds(results: Results) -> str:
    """Tabulates the types of modulators with their fastest frame rate.

    Args:
      results: not used; all of it is in the code.
    """
    lines = []
    for name, kind in MODULATOR_TYPES.items():
        power, unit = next((p, u) for p, u in ((1e9, "GHz"), (1e3, "kHz"), (1.0, "Hz")) if kind.speed_hz >= p)
        speed = f"{kind.speed_hz / power:.4g} {unit}{' / $(2^b - 1)$ for b bits' if kind.binary else ''}"
        lines.append([f"`{name}`", speed, kind.source])
    return table(["kind", "fastest frame rate", "source"], lines)


def presets(results: Results) -> str:
    """Tabulates the presets: published and derived parameters, and the limit by light and electronics."""
    lines: list[list[Any]] = []
    for name, entry in PRESETS.items():
        light = "no noise" if entry.light_db == math.inf else f"{entry.light_db:g} of unit intensity"
        lines.append([f"`{name}`", ", ".join(entry.published), ", ".join(entry.derived), light, entry.what])
    return table(["preset", "published", "derived", "signal to noise, dB", "description"], lines)
