"""Lists every option with its type, default, meaning and allowed values."""

import re
import textwrap
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from fourier_attn import model
from fourier_attn.config.options import PARTS, RECIPES, RUN
from fourier_attn.data.tasks import TASKS
from fourier_attn.knobs import Knob
from fourier_attn.layers.fields import options
from fourier_attn.optics import Engine
from fourier_attn.optics.engine_spec import every_parameter
from fourier_attn.optics.parameter import LARGEST, TINY, Parameter


class Option(NamedTuple):
    """Describes one option for people.

    Args:
      name: its dotted path in the configuration; that of an engine's parameter is within the engine.
      kind: its type, for example "int".
      default: its default value.
      text: its meaning.
      allowed: the allowed values in words; "" if the type or the meaning says everything.
    """

    name: str
    kind: str
    default: Any
    text: str
    allowed: str = ""


def every_option() -> Iterator[tuple[str, list[Option]]]:
    """Yields every section with its options: "" for the run, "data", .., "model.mixer of 'attention'", .."""
    yield "", [_of_knob(name, knob) for name, knob in RUN.items()]
    for part, knobs in PARTS.items():
        yield part, [_of_knob(f"{part}.{name}", knob) for name, knob in knobs.items()]
    for mixer, layer in model.MIXERS.items():
        texts: dict[str, str] = {}
        for each in reversed(layer.__mro__):  # a layer's own docstring replaces those of its base classes
            texts |= arguments(each.__doc__ or "")
        yield (
            f"model.mixer of {mixer!r}",
            [
                Option(
                    f"model.mixer.{field.name}", _type(field.type), field.default, texts.get(field.name, "")
                )
                for field in options(layer)
            ],
        )
    parameters = every_parameter(Engine())
    yield (
        "model.mixer.engine",
        [
            _of_parameter(f"{group}.{name}".removeprefix("."), parameter, value)
            for group, name, parameter, value in parameters
        ],
    )


def describe() -> Iterator[str]:
    """Yields lines with every option, its default and its meaning."""
    for title, section in every_option():
        if title not in ("", *PARTS):
            yield f"\n{title}"
        for option in section:
            yield from _line(option.name, option.default, option.text.replace("$", ""))
    for title, table in (
        ("tasks", {name: task.defaults for name, task in TASKS.items()}),
        ("recipes", RECIPES),
    ):
        yield f"\ndefaults of {title}"
        for name, values in table.items():
            yield f"  {name:<18} {', '.join(f'{key}={value!r}' for key, value in values.items())}"


def _of_knob(name: str, knob: Knob) -> Option:
    return Option(
        name, type(knob.default).__name__, knob.default, knob.help, getattr(knob.validate, "allowed", "")
    )


def _of_parameter(name: str, parameter: Parameter, value: Any) -> Option:
    unit = f" [{parameter.unit}]" if parameter.unit else ""
    words = ", ".join(f'"{word}"' for word in parameter.words)
    least = "above 0" if parameter.least == TINY else f"at least {parameter.least:g}"
    bounds = (
        least if parameter.least > -LARGEST else "",
        f"at most {parameter.most:g}" if parameter.most < LARGEST else "",
    )
    return Option(
        name, parameter.kind, value, parameter.text + unit, words or ", ".join(filter(None, bounds))
    )


def _type(annotation: Any) -> str:
    """Returns a type as a reader would write it: int, tuple[int, ...], Engine | None."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation.__name__
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", str(annotation))


def _line(name: str, value: Any, text: str) -> Iterator[str]:
    """Yields the lines for an option with its `name`, its default `value` and its description `text`."""
    head = f"{name + ' = ' + repr(value):<44}  "
    yield from textwrap.wrap(head + text, 110, subsequent_indent=" " * 46, drop_whitespace=True)


def arguments(doc: str) -> dict[str, str]:
    """Returns the text of each argument in the section "Args:" of a docstring.

    Args:
      doc: the docstring.
    """
    section = re.search(r"^ *Args:(.*?)(?=^ *[A-Z][a-z]+:|\Z)", doc, flags=re.M | re.S)
    entries = re.findall(
        r"^ {6}(\w[\w, ]*): (.*?)(?=^ {6}\w|\Z)", section[1] if section else "", flags=re.M | re.S
    )
    return {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}
