"""The component library: what the parts of an engine take, each with a range and its source.

The numbers stand in components.toml, beside this file; the names are its headings, like "dac.level_j".

`python -m fourier_attn.optics.components` prints them all.
"""

import functools
import math
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

OWN = Path(__file__).with_name("components.toml")
CORNERS = ("low", "typical", "high")
MARKS = ("read", "recalled", "assumed")
ASSUMPTION = "assumption"
SETTING = "setting."  # factors on what a preset assumes: varied one by one, never all with the parts

Prices = Mapping[str, float]


class Component(NamedTuple):
    """A number that a part is bought at, as a range.

    Args:
      what: in words.
      unit: SI; "" for none.
      low, typical, high: by value.
      marks: of the three: "read" in the source; "recalled", without opening the source; "assumed".
      source: addresses, or "assumption".
      note: what the source says, and what was made of it.
      more_is_better: whether the high end costs least.
    """

    what: str
    unit: str
    low: float
    typical: float
    high: float
    marks: tuple[str, str, str]
    source: str
    note: str = ""
    more_is_better: bool = False

    def at(self, corner: str) -> float:
        """The value that costs least ("low"), most ("high"), or "typical"."""
        if self.more_is_better:
            corner = {"low": "high", "high": "low"}.get(corner, corner)
        return getattr(self, corner)


Library = Mapping[str, Component]


@functools.cache
def library(path: Path | None = None) -> Library:
    """The components, those of a file of the same form in place of those of the same name.

    Raises: ValueError for a file that cannot be read, or a component that is not whole: without source, a
      range that is none, a mark or a name that is unknown.
    """
    own = _read(OWN)
    if path is None:
        return own
    other = _read(path)
    if unknown := sorted(other.keys() - own.keys()):
        raise ValueError(f"{path}: there is no component {', '.join(unknown)}; choose among {', '.join(own)}")
    return {**own, **other}


def _read(path: Path) -> dict[str, Component]:
    try:
        groups = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path} cannot be read as TOML ({error})") from error
    found = {}
    for group, entries in groups.items():
        if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
            raise ValueError(f"{path}: {group} must hold components, each under [{group}.NAME]")
        for name, entry in entries.items():
            found[f"{group}.{name}"] = _component(f"{path.name}: {group}.{name}", entry)
    return found


def _component(where: str, entry: dict[str, Any]) -> Component:
    source = entry.get("source")
    if not isinstance(source, str) or not source.strip():
        raise ValueError(f'{where} has no source; give an address, or source = "{ASSUMPTION}"')
    if unknown := sorted(entry.keys() - set(Component._fields)):
        raise ValueError(f"{where} has no field {', '.join(unknown)}; it has {', '.join(Component._fields)}")
    needed = [name for name in Component._fields if name not in Component._field_defaults]
    if missing := [name for name in needed if name not in entry]:
        raise ValueError(f"{where} lacks {', '.join(missing)}; give it")
    component = Component(**{**entry, "marks": _marks(where, entry["marks"])})
    _check_range(where, component)
    cited = "://" in component.source or "doi:" in component.source
    if not cited and set(component.marks) != {"assumed"}:
        raise ValueError(
            f"{where} is {' and '.join(sorted(set(component.marks) - {'assumed'}))}, but "
            f"source={component.source!r} is no address; give https://... or doi:..., or mark it assumed"
        )
    return component


def _marks(where: str, marks: Any) -> tuple[str, str, str]:
    if not isinstance(marks, list) or len(marks) != 3 or any(mark not in MARKS for mark in marks):
        raise ValueError(f"{where}: marks={marks!r} must be three of {', '.join(MARKS)}: low, typical, high")
    return marks[0], marks[1], marks[2]


def _check_range(where: str, component: Component) -> None:
    values = [getattr(component, corner) for corner in CORNERS]
    for value in values:
        whole = isinstance(value, int | float) and not isinstance(value, bool)
        if not whole or not math.isfinite(value) or value < 0:
            raise ValueError(f"{where}: {value!r} must be a finite number, at least 0")
    if values != sorted(values):
        raise ValueError(f"{where}: low, typical, high = {values} must not fall")
    if component.more_is_better and component.low == 0:
        raise ValueError(f"{where}: low=0 must be positive, since it divides")


def prices(corner: str = "typical", components: Library | None = None) -> dict[str, float]:
    """All numbers at one corner: every part as cheap as it may be, typical, or as expensive.

    The factors on a preset's settings stay at 1.

    Raises: ValueError for an unknown corner.
    """
    if corner not in CORNERS:
        raise ValueError(f"corner={corner!r} is unknown; choose one of {', '.join(CORNERS)}")
    chosen = library() if components is None else components
    return {
        name: part.typical if name.startswith(SETTING) else part.at(corner) for name, part in chosen.items()
    }


def main() -> None:
    for name, part in library().items():
        values = ", ".join(f"{getattr(part, corner):g}" for corner in CORNERS)
        print(f"{name}: {values} {part.unit}".rstrip(), file=sys.stdout)
        print(f"    {part.what}\n    {', '.join(part.marks)}: {part.source}", file=sys.stdout)
        if part.note:
            print(f"    {part.note}", file=sys.stdout)


if __name__ == "__main__":
    main()
