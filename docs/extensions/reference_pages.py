"""Writes the pages of all configuration options and of all command-line flags when the site is built."""

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from absl import flags

from evidence.pages.equations import around
from fourier_attn.config.describe import Option, every_option
from fourier_attn.config.options import PARTS, RECIPES
from fourier_attn.data.tasks import TASKS

ROOT = Path(__file__).resolve().parents[2]
TITLES = {"": "Run", "data": "Data", "model": "Model", "optim": "Optimizer", "train": "Training"}
MAIN = "fourier_attn.main"
ROOMS = {
    "fourier_attn": "Other commands",
    "studies": "Studies",
    "launch": "Launchers",
    "evidence": "Results of this repository",
}


def options_page() -> str:
    """Returns the page of all options, in the sections of `python -m fourier_attn.config`."""
    parts = [
        "# Configuration options",
        "Every option of a run, with its type, default, meaning and allowed values. You can set an option on "
        "the command line by its dotted path, for example `--config.data.batch=64`. A tuple must be in "
        "quotes: `'--config.data.buckets=(128, 256)'`. In a configuration file, you can assign to the same "
        "path: `config.data.batch = 64`. The command `python -m fourier_attn.config` prints this list.",
        "The values below are the defaults without a task and a recipe. A [task](#task-defaults) and a "
        "[recipe](#recipes) replace some of them.",
    ]
    mixers = False
    for title, section in every_option():
        if title in ("", *PARTS):
            parts.append(f"## {TITLES.get(title, title.capitalize())}")
            prefix = "--config."
        elif title == "model.mixer.engine":
            parts += ["## Optical engine", ENGINE]
            prefix = "--config.model.mixer.engine."
        else:
            if not mixers:
                parts += ["## Mixers", MIXERS]
            mixers, prefix = True, "--config."
            parts.append(f"### {title.split()[-1].strip(chr(39))}")
        parts += [
            definition(f"{prefix}{option.name}", _of(option), option.text, title.replace("model.mixer", ""))
            for option in section
        ]
        if not section:
            parts.append("This mixer has no options.")
    parts += ["## Recipes", RECIPE, *_values(RECIPES)]
    parts += ["## Task defaults", TASK, *_values({name: task.defaults for name, task in TASKS.items()})]
    return "\n\n".join(parts) + "\n"


MIXERS = (
    "`--config.model.mixer.name` selects the mixer, and each mixer has its own options. If `model.layout` "
    "names other mixers as well, set the options of those at `--config.model.others.NAME`, for example "
    "`--config.model.others.attention.heads=4`."
)
ENGINE = (
    "Mixers with an option `engine` can run on an emulated Fourier-optical engine. Set the option to a "
    "preset, for example `--config.model.mixer.engine=chip_11x11`, and then override single parameters. "
    "Functions and arrays can be set only in Python. See [parameters of the engine](../optics/parameters.md)."
)
RECIPE = (
    "`--recipe=NAME` resets everything but the mixer and the layout to the task's defaults and these values."
)
TASK = "A configuration NAME:TASK starts with the defaults above and these values of the task."


def flags_page() -> str:
    """Returns the page of all command-line flags; those of the main command are grouped by mode."""
    every = commands()
    about, found = every[MAIN]
    modes = importlib.import_module(MAIN).MODES
    groups: dict[tuple[str, ...], list[flags.Flag]] = {}
    for flag in found:
        groups.setdefault(tuple(modes.get(flag.name, ())), []).append(flag)
    parts = [
        "# Command-line flags",
        "Every flag of the commands in `fourier_attn`, `launch` and `evidence`. You can print the flags of "
        "each command, also of those in `benchmarks`, with `--help`. `--verbosity=1` adds the traceback to "
        "an error message. Exit codes are 0 (done), 1 (the system failed), 2 (invalid input) and 128 + n "
        "(stopped by signal n).",
        f"## {MAIN}",
        "`fourier-attn`, or `python -m fourier_attn.main` without installation. "
        + _sentence(about.split("\n\n")[-1]),
    ]
    for names, group in sorted(groups.items(), key=lambda item: (len(item[0]), item[0])):
        wanted = " or ".join(f"--mode={name}" for name in names)
        parts.append(f"### Flags of {wanted}" if names else "### Flags of all modes")
        parts += [_flag(MAIN, flag) for flag in group]
    for room, title in ROOMS.items():
        chosen = {name: each for name, each in every.items() if _room(name) == room and name != MAIN}
        parts.append(f"## {title}")
        for name, (about, found) in chosen.items():
            parts += [f"### {name}", _about(name, about)]
            parts += [_flag(name, flag) for flag in found]
    return "\n\n".join(parts) + "\n"


def commands() -> dict[str, tuple[str, list[flags.Flag]]]:
    """Returns the description and the flags of every module that is a command and defines flags."""
    found = {}
    for room in ("fourier_attn", "launch", "evidence"):
        for path in sorted((ROOT / room).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            text = path.read_text()
            if '__name__ == "__main__"' in text and "define_flags()" in text:
                module = importlib.import_module(name)
                found[name] = (inspect.getdoc(module) or "", _flags_of(module))
    return found


def _flags_of(module: Any) -> list[flags.Flag]:
    """Returns the flags that a module defines, and removes them again: other modules use the same names."""
    before = set(flags.FLAGS)
    module.define_flags()
    names = [name for name in flags.FLAGS if name not in before]
    found = [flags.FLAGS[name] for name in names]
    for name in names:
        delattr(flags.FLAGS, name)
    return found


def _room(name: str) -> str:
    parts = name.split(".")
    return parts[1] if parts[1] in ROOMS else parts[0]


def _flag(command: str, flag: flags.Flag) -> str:
    choices = getattr(flag.parser, "enum_values", ())
    facts = [
        " or ".join(f"`{choice}`" for choice in choices) or KINDS.get(flag.flag_type(), flag.flag_type())
    ]
    if flag.default not in (None, [], ""):
        value = ",".join(map(str, flag.default)) if isinstance(flag.default, list) else flag.default
        facts.append(f"default `{value}`")
    text = flag.help.partition(">: ")[2] if choices else flag.help  # absl puts the choices before the text
    return definition(f"--{flag.name}", facts, text, command)


KINDS = {
    "config object": "name or file",
    "multi string": "text, can be repeated",
    "comma separated list of strings": "list, with commas",
    "string": "text",
}


def _of(option: Option) -> list[str]:
    kind = {"choice": "str", "flag": "bool", "count": "int", "bits": "int", "seed": "int", "number": "float"}
    allowed = f"one of {option.allowed}" if option.allowed.startswith('"') else option.allowed
    facts = [kind.get(option.kind, option.kind), f"default `{option.default!r}`", allowed]
    return [escaped(fact) for fact in facts if fact]


def definition(name: str, facts: Iterable[str], text: str, within: str = "") -> str:
    """Returns an entry of a definition list, which a link can lead to by its name.

    Args:
      name: the term, shown as code.
      facts: type, default and allowed values, in Markdown.
      text: the meaning, as plain text with code in backticks.
      within: what the anchor begins with, for names that are on the page more than once.
    """
    anchor = re.sub(r"[^a-z0-9]+", "-", f"{within}-{name}".lower()).strip("-")
    return f'<span id="{anchor}"></span>\n\n`{name}` {", ".join(facts)}\n: {_sentence(text)}'


def _sentence(text: str) -> str:
    """Returns a description as sentences: a semicolon ends one, and a plain word begins one."""
    parts = escaped(" ".join(text.split())).split("; ")
    text = ". ".join(part[:1].upper() + part[1:] if PLAIN.match(part) else part for part in parts)
    return text if not text or text.endswith((".", ":")) else f"{text}."


PLAIN = re.compile(r"[a-z]{2,}(-[a-z]+)*(?:[ ,]|: |$)")


def _about(name: str, text: str) -> str:
    """Returns the first sentence of a command's docstring, its usage, and a link to the rest."""
    first = " ".join(text.split("\n\n")[0].split())
    sentence, _, usage = first.partition(": python -m ")
    usage = usage or next(
        (line.strip() for line in text.splitlines() if line.startswith("    python -m ")), f"{name} [options]"
    )
    module = name if name.startswith("fourier_attn.") else ""
    link = f"\n\nSee [the module]({module}.md) for details." if module else ""
    lines = textwrap.wrap(f"python -m {usage.removeprefix('python -m ')}", 76, break_on_hyphens=False)
    joined = " \\\n    ".join(lines)
    return f"{_sentence(sentence)}\n\n```bash\n{joined}\n```{link}"


def escaped(text: str) -> str:
    """Returns text in which only `code`, and an equation between dollar signs, has a meaning."""
    return around(text, lambda part: re.sub(r"([\\*_\[\]<>$])", r"\\\1", part), "${}$")


def _values(table: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name, values in table.items():
        text = ", ".join(f"`{key}={value!r}`" for key, value in values.items())
        yield f"`{name}`\n: {text or 'the defaults above'}"
