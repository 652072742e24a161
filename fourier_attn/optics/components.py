"""The component library: what the parts of an engine take, each with a range and its source.

The numbers are in components.toml, next to this file; the names are its headings, like "dac.level_j".

`python -m fourier_attn.optics.components` prints them all.
"""

import functools
import math
import signal
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fourier_attn.choices import check_choice, check_choices

OWN = Path(__file__).with_name("components.toml")
CORNERS = ("low", "typical", "high")
MARKS = ("read", "recalled", "assumed", "measured")
ASSUMPTION = "assumption"
SETTING = "setting."  # factors on what a preset assumes: varied one by one, never all with the parts

Prices = Mapping[str, float]


class Component(NamedTuple):
    """Holds the price of a part as a range.

    Args:
      what: in words.
      unit: SI; "" for none.
      low, typical, high: by value.
      marks: of the three: "read" in the source; "recalled", without opening the source; "assumed";
        "measured", by whom and when the source says in words.
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
        """Returns the value that costs least ("low"), most ("high"), or the "typical" one."""
        if self.more_is_better:
            corner = {"low": "high", "high": "low"}.get(corner, corner)
        return getattr(self, corner)


Library = Mapping[str, Component]


@functools.cache
def library(path: Path | None = None) -> Library:
    """Reads the component library, and replaces the fields that another file of the same form gives.

    A number that a file changes has the file's mark, `marks = "measured"` for one word for all of them, else
    "assumed". Where `typical` alone is given, the range is widened to it.

    Raises: ValueError for a file that cannot be read, or a component that is not whole: without source, a
      range that is none, a mark, a field or a name that is unknown.
    """
    own = _entries(OWN)
    if path is not None:
        other = _entries(path)
        check_choices(f"{path}: component", sorted(other), own)
        merged = {name: _changed(own[name], entry, f"{path.name}: {name}") for name, entry in other.items()}
        own = {**own, **merged}
    file = OWN if path is None else path
    return {name: _component(f"{file.name}: {name}", entry) for name, entry in own.items()}


def _changed(own: Mapping[str, Any], entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns an entry of the library with the fields of another file."""
    changed = [corner for corner in CORNERS if corner in entry]
    given = {**own, **entry}
    if given.get("marks") == own["marks"] or isinstance(given["marks"], str):
        word = entry["marks"] if isinstance(entry.get("marks"), str) else "assumed"
        if word not in MARKS:
            raise ValueError(f"{where}: marks={word!r} must be one of {', '.join(MARKS)}, or three of them")
        marks = dict(zip(CORNERS, own["marks"], strict=True)) | dict.fromkeys(changed, word)
        if changed == ["typical"] and all(map(_is_number, (given["typical"], own["low"], own["high"]))):
            for corner, pick in (("low", min), ("high", max)):
                reached = pick(given[corner], given["typical"])
                marks[corner] = marks[corner] if reached == given[corner] else word
                given[corner] = reached
        given["marks"] = [marks[corner] for corner in CORNERS]
        if (
            "source" in entry
            and len(changed) < len(CORNERS)
            and ASSUMPTION not in (given["source"], own["source"])
        ):
            given["source"] = f"{given['source']}; {own['source']}"  # of the numbers that stay
    return given


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _entries(path: Path) -> dict[str, dict[str, Any]]:
    try:
        groups = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path} cannot be read as TOML ({error})") from error
    components: dict[str, dict[str, Any]] = {}
    for group, entries in groups.items():
        if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
            raise ValueError(f"{path}: {group} must hold components, each under [{group}.NAME]")
        components |= {f"{group}.{name}": entry for name, entry in entries.items()}
    return components


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
    quoted = set(component.marks) - {"assumed", "measured"}
    if not cited and quoted:
        raise ValueError(
            f"{where} is marked {' and '.join(sorted(quoted))}, but source={component.source!r} is not an "
            "address; give https://... or doi:..., or mark it assumed"
        )
    return component


def _marks(where: str, marks: Any) -> tuple[str, str, str]:
    if not isinstance(marks, list) or len(marks) != 3 or any(mark not in MARKS for mark in marks):
        raise ValueError(f"{where}: marks={marks!r} must be three of {', '.join(MARKS)}: low, typical, high")
    return marks[0], marks[1], marks[2]


def _check_range(where: str, component: Component) -> None:
    values = [getattr(component, corner) for corner in CORNERS]
    for value in values:
        if not _is_number(value) or not math.isfinite(value) or value < 0:
            raise ValueError(f"{where}: {value!r} must be a finite number, at least 0")
    if values != sorted(values):
        raise ValueError(f"{where}: low, typical, high = {values} must not fall")
    if component.more_is_better and component.low == 0:
        raise ValueError(f"{where}: low=0 must be positive, since it divides")


def prices(corner: str = "typical", components: Library | None = None) -> dict[str, float]:
    """Returns all numbers at one corner: every part at its cheapest, typical or most expensive.

    The factors on a preset's settings stay at 1.

    Raises: ValueError for an unknown corner.
    """
    check_choice("corner", corner, CORNERS)
    chosen = library() if components is None else components
    at_corner = {
        name: part.typical if name.startswith(SETTING) else part.at(corner) for name, part in chosen.items()
    }
    return CornerPrices(at_corner, {name: part.typical for name, part in chosen.items()})


class CornerPrices(dict[str, float]):
    """Prices at a corner, or with some at an end of their range, which know the typical ones."""

    def __init__(self, prices: Prices, typical: Prices):
        super().__init__(prices)
        self.typical = typical


def typical(prices: Prices) -> Prices:
    """Returns the typical prices of the library that prices are of; custom prices are their own."""
    return prices.typical if isinstance(prices, CornerPrices) else prices


def main() -> None:
    for name, part in library().items():
        values = ", ".join(f"{getattr(part, corner):g}" for corner in CORNERS)
        print(f"{name}: {values} {part.unit}".rstrip(), file=sys.stdout)
        print(f"    {part.what}\n    {', '.join(part.marks)}: {part.source}", file=sys.stdout)
        if part.note:
            print(f"    {part.note}", file=sys.stdout)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends quietly in `| head`
    main()
