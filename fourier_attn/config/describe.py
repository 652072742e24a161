"""Prints every option with its default and its meaning."""

import re
import textwrap
from collections.abc import Iterator
from typing import Any

from fourier_attn import model
from fourier_attn.config.options import PARTS, RECIPES, RUN
from fourier_attn.data.tasks import TASKS
from fourier_attn.layers.fields import options
from fourier_attn.optics import Engine
from fourier_attn.optics.engine_spec import every_parameter


def describe() -> Iterator[str]:
    """Yields lines with every option, its default and its meaning."""
    for title, knobs in (("", RUN), *((f"{part}.", knobs) for part, knobs in PARTS.items())):
        for name, knob in knobs.items():
            yield from _line(f"{title}{name}", knob.default, knob.help)
    for mixer, layer in model.MIXERS.items():
        yield f"\nmodel.mixer of {mixer!r}"
        texts: dict[str, str] = {}
        for each in reversed(layer.__mro__):  # a layer's own docstring replaces those of its base classes
            texts |= arguments(each.__doc__ or "")
        for field in options(layer):
            yield from _line(f"model.mixer.{field.name}", field.default, texts.get(field.name, ""))
    yield "\nmodel.mixer.engine"
    for group, name, parameter, value in every_parameter(Engine()):
        unit = f" [{parameter.unit}]" if parameter.unit else ""
        yield from _line(f"{group}.{name}".removeprefix("."), value, parameter.text + unit)
    for title, table in (
        ("tasks", {name: task.defaults for name, task in TASKS.items()}),
        ("recipes", RECIPES),
    ):
        yield f"\ndefaults of {title}"
        for name, values in table.items():
            yield f"  {name:<14}{', '.join(f'{key}={value!r}' for key, value in values.items())}"


def _line(name: str, value: Any, text: str) -> Iterator[str]:
    head = f"{name + ' = ' + repr(value):<44}  "
    yield from textwrap.wrap(head + text, 110, subsequent_indent=" " * 46, drop_whitespace=True)


def arguments(doc: str) -> dict[str, str]:
    """Returns the text of each argument in the section "Args:" of a docstring."""
    section = re.search(r"^ *Args:(.*?)(?=^ *[A-Z][a-z]+:|\Z)", doc, flags=re.M | re.S)
    entries = re.findall(
        r"^ {6}(\w[\w, ]*): (.*?)(?=^ {6}\w|\Z)", section[1] if section else "", flags=re.M | re.S
    )
    return {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}
