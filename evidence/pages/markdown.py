"""Reads the files of results, and formats tables in Markdown with the origin of their numbers."""

import json
import math
import re
import runpy
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fourier_attn.studies import collect

Row = dict[str, Any]
ORIGIN = ("command", "commit", "hardware", "versions", "date")  # where a number comes from
NOT_RUN = "not yet run"
BAR = "\\|"
OF_NETWORKS = ("robustness", "pareto", "drift", "photons", "query_keys")  # studies of trained networks
FOLDERS = {  # modules that moved out of studies/ after older results were written
    **dict.fromkeys(("calibrate", "drift", "pareto", "photons", "plans", "robustness", "speedup"), "engine"),
    **dict.fromkeys(("attended", "explain", "matrices", "query_keys"), "inside"),
}


class Results:
    """Reads the files of results below a directory, and the configurations next to them."""

    def __init__(self, root: Path):
        self.root = root

    def document(self, name: str) -> dict[str, Any]:
        """Returns the file results/NAME.json.

        Raises: ValueError where it is missing or damaged.
        """
        return read_document(self.root / "results" / f"{name}.json")

    def runs(self, name: str) -> dict[str, dict[str, Any]]:
        """Returns the file by its name, or nothing where nothing has been run yet."""
        there = (self.root / "results" / f"{name}.json").exists()
        return {name: self.document(name)} if there else {}

    def configs(self, task: str) -> list[str]:
        """Returns the configurations for a task that train on the synthetic reviews unless one is named."""
        names = []
        for file, variants in self.variants().items():
            arguments = [f"{task}-{variant}" for variant in variants] or [task]
            names += [file if argument == "reviews" else f"{file}:{argument}" for argument in arguments]
        return names + [f"configs/mixer.py:{mixer}-{task}" for mixer in self.mixers()]

    def variants(self) -> dict[str, tuple[str, ...]]:
        """Returns the variants that each configuration file takes besides tasks; the first is its default."""
        variants = {}
        for path in sorted((self.root / "configs").glob("*.py")):
            module = runpy.run_path(str(path))
            if (module["get_config"].__defaults__ or (None,))[0] == "reviews":
                variants[f"configs/{path.name}"] = module.get("VARIANTS", ())
        return variants

    def mixers(self) -> tuple[str, ...]:
        """Returns the mixers that have no configuration file of their own."""
        path = self.root / "configs" / "mixer.py"
        return tuple(runpy.run_path(str(path))["EPOCHS"]) if path.exists() else ()

    def models(self) -> dict[str, tuple[str, ...]]:
        """Returns the models that configuration files list, by the names of the files."""
        files = {
            path.stem: runpy.run_path(str(path)) for path in sorted((self.root / "configs").glob("*.py"))
        }
        return {stem: tuple(module["MODELS"]) for stem, module in files.items() if "MODELS" in module}

    def knobs(self, config: str) -> dict[str, Any]:
        """Returns what a configuration sets today that is not the default of its mixer and task."""
        file, _, argument = config.partition(":")
        get_config = runpy.run_path(str(self.root / file))["get_config"]
        return collect.differing(collect.plain(get_config(*[argument] if argument else [])))

    def complete(self, config: str | None) -> str | None:
        """Appends the default variant to the name of a configuration that leaves it out."""
        file, _, argument = (config or "").partition(":")
        variants = self.variants().get(file, ())
        return f"{file}:{argument or 'reviews'}-{variants[0]}" if variants and "-" not in argument else config


def read_document(path: Path) -> dict[str, Any]:
    """Reads a file of results, which has the origin of all its rows or of each row.

    Raises: ValueError if the file `path` is missing or damaged.
    """
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise ValueError(f"{path} is missing; run the command that writes it, or remove the table") from error
    except ValueError as error:  # no JSON, or no text
        raise _damaged(path, error) from error
    rows = document.get("rows") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _damaged(path, "it has no rows")
    whose = [document] if "hardware" in document or not rows else rows
    if lacking := [key for key in ORIGIN if not all(key in each for each in whose)]:
        raise _damaged(path, f"neither it nor each row has {', '.join(lacking)}")
    return document


def _damaged(path: Path, why: object) -> ValueError:
    return ValueError(f"{path} is damaged ({why}); write it again")


def table(head: list[str], lines: list[list[str]]) -> str:
    """Formats rows of cells as a Markdown table without empty columns; bars inside cells are escaped."""
    kept = [i for i in range(len(head)) if any(line[i] for line in lines)]
    text = ""
    for line in (head, ["---"] * len(head), *lines):
        text += f"| {' | '.join(line[i].replace('|', BAR) for i in kept)} |\n"
    return text


def notes(documents: dict[str, dict[str, Any]]) -> str:
    """Returns a `<sub>` line for each origin (command, machine, versions) of documents or rows."""
    origins: dict[str, list[str]] = {}
    for name, document in documents.items():
        if "hardware" in document:
            command_line = f"`{runnable(document['command'])}`" if document["command"] else "command unknown"
            known = origin(document) + unrecorded(name, document)
            origins.setdefault(known, []).append(f"{command_line} (results/{name}.json)")
        else:
            for row in document["rows"]:
                known = origin(row) + unrecorded(name, document)
                origins.setdefault(known, [f"results/{name}.json"]).append(row["run"])
    return "".join(f"\n<sub>{', '.join(whose)}: {text}</sub>\n" for text, whose in origins.items())


def unrecorded(name: str, document: dict[str, Any]) -> str:
    """Returns remarks on what a file of an earlier version does not record; "" if it records all.

    Args:
      name: path of the file below results/.
      document: its contents.
    """
    folder, _, file = name.rpartition("/")
    remarks = ""
    if folder == "benchmarks" and "hardware" in document and not document.get("load"):
        remarks += "" if file.startswith("aot") else "; load of the machine not recorded"
    if file.startswith(OF_NETWORKS) and "networks" not in document:
        remarks += "; weights of the networks not recorded"
    return remarks


def listed(results: Results, name: str, head: list[str], cells: Callable[[Row], list[str]]) -> str:
    """Formats a line for each row of a file of results, and its origin; "not yet run" without the file.

    Args:
      results: the files of results.
      name: of the file.
      head: names of the columns.
      cells: returns the line of a row.
    """
    documents = results.runs(name)
    if not documents:
        return table(head[:1], [[NOT_RUN]])
    return table(head, [cells(row) for row in documents[name]["rows"]]) + notes(documents)


def runnable(command: str) -> str:
    """Returns a recorded command under the name that its module has today."""

    def moved(match: re.Match[str]) -> str:
        return f"fourier_attn.studies.{FOLDERS[match[1]]}.{match[1]}"

    return re.sub(rf"\bfourier_attn\.studies\.({'|'.join(FOLDERS)})\b", moved, command)


def origin(row: Row) -> str:
    """Describes hardware, versions, commit, date and setting of a row in words."""
    versions, commit, date = row["versions"] or {}, row["commit"], row["date"]
    drifted = {what for entry in row.get("allowed_drift", []) for what in entry["what"]}
    listed = ", ".join(f"{name} {version or 'unknown'}" for name, version in versions.items())
    parts = [
        machine(row["hardware"]),
        listed or "versions unknown",
        f"commit {commit[:9]}{'+' if commit.endswith('+') else ''}" if commit else "commit unknown",
        date[:10] if date else "date unknown",
        loaded(row["load"]) if row.get("load") else "",
        row.get("setting", ""),
        f"resumed with other {', '.join(sorted(drifted))}" if drifted else "",
    ]
    return "; ".join(part for part in parts if part)


def loaded(load: dict[str, float | None]) -> str:
    """Describes the load of the machine before and after a measurement."""
    known = [f"{load[when]:g} {when}" for when in ("before", "after") if load.get(when) is not None]
    return f"load {', '.join(known)}" if known else ""


def machine(hardware: dict[str, Any] | None) -> str:
    """Describes the hardware of a row in words."""
    if hardware is None:
        return "hardware unknown"
    cpu = f"{hardware['cpu']} with {hardware['vectors']}" if hardware.get("vectors") else hardware["cpu"]
    text = f"{cpu}, {hardware['cores']} core{'s' * (hardware['cores'] != 1)}"
    if hardware["memory_gib"]:
        text += f", {hardware['memory_gib']:g} GiB"
    if hardware["accelerator"]:
        text = f"{hardware['accelerators']} x {hardware['accelerator']}, {text}"
    return text


def mean_cell(values: Sequence[float], digits: int = 2) -> str:
    """Returns mean and deviation of the values that are numbers, how many they are, and how many failed."""
    kept = [value for value in values if not math.isnan(value)]
    if not kept:
        return "failed" if values else NOT_RUN
    deviation = f" ± {statistics.stdev(kept):.{digits}f}" if len(kept) > 1 else ""
    failed = f", {len(values) - len(kept)} failed" if len(kept) < len(values) else ""
    return f"{statistics.mean(kept):.{digits}f}{deviation} ({len(kept)}{failed})"


def significant(number: int | float) -> str:
    """Formats a number with three significant digits, or two from 2 to 100; keeps all of a large integer."""
    digits = 2 if 2 <= abs(number) < 100 else 3
    return f"{float(f'{number:.{digits}g}'):,.15g}"
