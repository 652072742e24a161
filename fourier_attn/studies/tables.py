"""Tables of README.md and docs/*.md, made from the files in results: python -m fourier_attn.studies.tables.

It fills the blocks

    <!-- table: NAME -->
    <!-- /table -->

where NAME is a key of `TABLES`; no number in them is typed. With --check nothing is written, and a block that
says something else than the results do is an error.
"""

import json
import re
import runpy
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from absl import flags

from fourier_attn import command
from fourier_attn.layers.fourier import OPTIONS, FourierMixing

Row = dict[str, Any]
BLOCK = re.compile(r"(?ms)^<!-- table: (?P<name>\S+) -->\n(?P<body>.*?)^<!-- /table -->$")
OPENING = re.compile(r"^<!-- table:", re.MULTILINE)
NOT_RUN = "not yet run"
BAR = "\\|"


class Results:
    """The files of results below a directory, and the configurations beside them."""

    def __init__(self, root: Path):
        self.root = root

    def document(self, name: str) -> dict[str, Any]:
        """The file results/NAME.json.

        Raises: ValueError where it is missing or damaged.
        """
        path = self.root / "results" / f"{name}.json"
        try:
            document = json.loads(path.read_text())
            return document if "rows" in document else _damaged(path, "it has no rows")
        except FileNotFoundError as error:
            raise ValueError(
                f"results/{path.name} is missing; run the command that writes it, or remove the table"
            ) from error
        except json.JSONDecodeError as error:
            return _damaged(path, error)

    def runs(self, name: str) -> dict[str, dict[str, Any]]:
        """The file by its name; none where nothing has been run yet."""
        there = (self.root / "results" / f"{name}.json").exists()
        return {name: self.document(name)} if there else {}

    def configs(self, task: str) -> list[str]:
        """For a task, those that train on the synthetic reviews unless one is named; all know IMDb."""
        names = []
        for file, variants in self.variants().items():
            arguments = [f"{task}-{variant}" for variant in variants] or [task]
            names += [file if argument == "reviews" else f"{file}:{argument}" for argument in arguments]
        return names

    def variants(self) -> dict[str, tuple[str, ...]]:
        """By configuration file, what it knows besides tasks; the first is its default."""
        found = {}
        for path in sorted((self.root / "configs").glob("*.py")):
            module = runpy.run_path(str(path))
            if (module["get_config"].__defaults__ or (None,))[0] == "reviews":
                found[f"configs/{path.name}"] = module.get("VARIANTS", ())
        return found

    def complete(self, config: str | None) -> str | None:
        """A configuration with its variant, where that is not written because it is the file's default."""
        file, _, argument = (config or "").partition(":")
        variants = self.variants().get(file, ())
        return f"{file}:{argument or 'reviews'}-{variants[0]}" if variants and "-" not in argument else config


def _damaged(path: Path, why: object) -> Any:
    raise ValueError(f"results/{path.name} is damaged ({why}); write it again")


# Tables of trained runs


def runs(results: Results, name: str, task: str) -> str:
    """One line for each configuration, with the accuracy of each seed; then those that have not been run."""
    documents = results.runs(name)
    groups = grouped(rows_of(documents), label)
    lines = [run_line(title, rows) for title, rows in groups.items()]
    trained = {results.complete(row["config"]) for row in rows_of(documents)}
    lines += [
        [f"`{config}`", NOT_RUN, *[""] * 5] for config in results.configs(task) if config not in trained
    ]
    head = ["`python -m fourier_attn.main --config=`", "test accuracy of each seed, %", "mean, %", "SD"]
    head += ["without texts that are also in train, %", "epochs", "seconds"]
    return table(head, sorted(lines)) + notes(documents)


def summary(results: Results, **names: str) -> str:
    """One line for each configuration: accuracy on each task as it stands, without further knobs."""
    columns = []
    for task, name in names.items():
        whole = [row | {"config": results.complete(row["config"])} for row in rows_of(results.runs(name))]
        found = grouped(whole, label)
        columns.append([mean_and_deviation(found.get(f"`{config}`", [])) for config in results.configs(task)])
    short = [re.sub(r"configs/|\.py|:reviews", "", config) for config in results.configs("reviews")]
    lines = [[f"`{title}`", *cells] for title, *cells in zip(short, *columns, strict=True)]
    return table(["config", *names], lines)


def mean_and_deviation(rows: list[Row]) -> str:
    """Of the accuracies in percent, with their number."""
    values = [100 * value for row in rows for value in accuracies(row)]
    if not values:
        return NOT_RUN
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation} ({len(values)})"


def padding(results: Results, name: str) -> str:
    """One line for each way in which Fourier mixing takes padding; other knobs that differ are named."""
    documents, knob = results.runs(name), "model.mixer.padding"
    rows = rows_of(documents)

    def differs(key: str, value: Any) -> bool:
        return any(row["knobs"].get(key) != value for row in rows)

    def title(row: Row) -> str:
        others = [
            f"{key}={value}" for key, value in row["knobs"].items() if key != knob and differs(key, value)
        ]
        return ", ".join([row["knobs"].get(knob, FourierMixing.padding), *others])

    groups = {choice: [] for choice in OPTIONS["padding"]} | grouped(rows, title)
    lines = [padding_line(choice, found) for choice, found in groups.items()]
    head = ["padding", "validation of the best epoch, mean, %", "test of each seed, %", "mean, %", "SD"]
    return table(head, lines) + notes(documents)


def padding_line(choice: str, rows: list[Row]) -> list[str]:
    if not rows:
        return [choice, NOT_RUN, "", "", ""]
    validation = statistics.mean(100 * max(row["validation"]) for row in rows)
    title, each, mean, deviation, *_ = run_line(choice, rows)
    return [title, f"{validation:.2f}", each, mean, deviation]


def rows_of(documents: dict[str, dict[str, Any]]) -> list[Row]:
    return [row for document in documents.values() for row in document["rows"]]


def grouped(rows: list[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def label(row: Row) -> str:
    """The configuration as one gives it to `--config`, or where the command is not known, what it sets."""
    if row["config"] is None:
        knobs = ", ".join(f"{name}={value}" for name, value in row["knobs"].items())
        return f"{row['mixer']}: {knobs or 'as by default'}"
    words = re.findall(r"--config\.\S+", row["command"] or "")
    apart = ("--config.seed=", "--config.data.split_seed=", "--config.data.dir=")
    return f"`{' '.join([row['config'], *(word for word in words if not word.startswith(apart))])}`"


def run_line(title: str, rows: list[Row]) -> list[str]:
    rows = sorted(rows, key=lambda row: (row["seed"], row["split_seed"]))
    values = [100 * value for row in rows for value in accuracies(row)]
    deviation = f"{statistics.stdev(values):.2f}" if len(values) > 1 else ""
    epochs = sorted({round(row["epochs"]) for row in rows})
    seconds = [row["seconds"] for row in rows if row["seconds"] is not None]
    key = "accuracy_without_in_train"
    unseen = [100 * row["test"][key] for row in rows if key in row["test"]]
    return [
        title,
        ", ".join(f"{value:.2f}" for value in values),
        f"{statistics.mean(values):.2f}",
        deviation,
        f"{statistics.mean(unseen):.2f}" if unseen else "",
        " to ".join(str(n) for n in dict.fromkeys((epochs[0], epochs[-1]))),
        f"{statistics.mean(seconds):,.0f}" if seconds else "not recorded",
    ]


def accuracies(row: Row) -> list[float]:
    """Of all networks of the run."""
    return row["test"].get("accuracy_seeds") or [row["test"]["accuracy"]]


# Tables of timings


def speed(results: Results, *names: str) -> str:
    """All comparisons of some files: what is timed against what, and how many times faster the first is."""
    documents = {name: results.document(name) for name in names}
    head = ["what / against what", "size", "pass", "ms", "other's ms"]
    head += ["times faster (lowest to highest)", "temporary memory"]
    lines = [
        [
            row["what"],
            " ".join(row[key] for key in ("size", "dtype") if key in row),
            row.get("pass", ""),
            significant(row["ours_ms"]) if "ours_ms" in row else "",
            significant(row["other_ms"]) if "other_ms" in row else "",
            times_faster(row),
            times(row["temporary_memory"]) if "temporary_memory" in row else "",
        ]
        for document in documents.values()
        for row in document["rows"]
    ]
    return table(head, lines) + notes(documents)


def times_faster(row: Row) -> str:
    """The ratio with its range; one below 1 says who is faster."""
    if "times_faster" not in row:
        return value(row)
    text = f"{significant(row['times_faster'])} ({span(row)})"
    return text if row["times_faster"] >= 1 else f"{text}: the other is faster"


def value(row: Row) -> str:
    """A measured number with its unit and, where it has one, its range."""
    text = f"{significant(row['value'])} {row['unit']}".strip()
    return f"{text} ({span(row)})" if "lowest" in row else text


def span(row: Row) -> str:
    return f"{significant(row['lowest'])} to {significant(row['highest'])}"


def times(ratio: int | float) -> str:
    return f"{significant(ratio)} x"


def significant(number: int | float) -> str:
    """Three significant digits, two of ratios like 2.6 and 14, none less than a large number needs."""
    digits = 2 if 2 <= abs(number) < 100 else 3
    return f"{float(f'{number:.{digits}g}'):,.15g}"


def values(results: Results, *names: str) -> str:
    """Files whose rows are single numbers."""
    documents = {name: results.document(name) for name in names}
    lines = [[row["what"], value(row)] for document in documents.values() for row in document["rows"]]
    return table(["what", "measured"], lines) + notes(documents)


def growth(results: Results, name: str) -> str:
    """Time and memory of each mixer over the number of tokens, and how often as much the last is."""
    document = results.document(name)
    rows = document["rows"]
    lengths = sorted({row["t"] for row in rows})
    first = lengths[max(len(lengths) - 4, 0)]
    lines = []
    for mixer in dict.fromkeys(row["mixer"] for row in rows):
        for key, unit in (("ms", "ms"), ("temporary_mb", "MB")):
            mine = {row["t"]: row[key] for row in rows if row["mixer"] == mixer}
            cells = [significant(mine[t]) if t in mine else NOT_RUN for t in lengths]
            both = mine.get(first) and lengths[-1] in mine
            ratio = times(mine[lengths[-1]] / mine[first]) if both else NOT_RUN
            lines.append([mixer, unit, *cells, ratio])
    head = ["mixer", "", *(f"{t:,}" for t in lengths), f"{lengths[-1]:,} over {first:,}"]
    return table(head, lines) + notes({name: document})


# The table of a study


def robustness(results: Results, name: str) -> str:
    """Mean accuracy over devices by bits, for each run and strength of noise."""
    document = results.document(name)
    rows = document["rows"]
    bits = sorted({row["bits"] for row in rows if "bits" in row})
    lines = []
    for run in dict.fromkeys(row["run"] for row in rows):
        mine = [row for row in rows if row["run"] == run]
        exact = next((f"{100 * row['accuracy']:.2f}" for row in mine if "bits" not in row), NOT_RUN)
        lines.append([run, "none: exact transform", *[""] * len(bits), exact])
        for noise in sorted({row["noise"] for row in mine if "noise" in row}):
            cells = []
            for b in bits:
                found = [r["accuracy"] for r in mine if (r.get("bits"), r.get("noise")) == (b, noise)]
                cells.append(f"{100 * statistics.mean(found):.2f}" if found else NOT_RUN)
            lines.append([run, f"{noise:g} times the engine's", *cells, ""])
    head = ["run", "noise", *(f"{b} bit" for b in bits), "exact"]
    return table(head, lines) + notes({name: document})


# What all have in common


def table(head: list[str], lines: list[list[str]]) -> str:
    """Rows of cells as a Markdown table, without columns that are empty; a bar inside a cell is escaped."""
    kept = [i for i in range(len(head)) if any(line[i] for line in lines)]
    text = ""
    for line in (head, ["---"] * len(head), *lines):
        text += f"| {' | '.join(line[i].replace('|', BAR) for i in kept)} |\n"
    return text


def notes(documents: dict[str, dict[str, Any]]) -> str:
    """In small print, where the files come from, or where each of their rows does."""
    origins: dict[str, list[str]] = {}
    for name, document in documents.items():
        if "hardware" in document:
            command_line = f"`{document['command']}`" if document["command"] else "command unknown"
            origins.setdefault(origin(document), []).append(f"{command_line} (results/{name}.json)")
        else:
            for row in document["rows"]:
                origins.setdefault(origin(row), [f"results/{name}.json"]).append(row["run"])
    return "".join(f"\n<sub>{', '.join(whose)}: {text}</sub>\n" for text, whose in origins.items())


def origin(row: Row) -> str:
    """Hardware, versions, commit, date and setting in words; what was not recorded is said to be unknown."""
    versions, commit, date = row["versions"] or {}, row["commit"], row["date"]
    listed = ", ".join(f"{name} {version or 'unknown'}" for name, version in versions.items())
    parts = [
        machine(row["hardware"]),
        listed or "versions unknown",
        f"commit {commit[:9]}{'+' if commit.endswith('+') else ''}" if commit else "commit unknown",
        date[:10] if date else "date unknown",
        row.get("setting", ""),
    ]
    return "; ".join(part for part in parts if part)


def machine(hardware: dict[str, Any] | None) -> str:
    if hardware is None:
        return "hardware unknown"
    text = f"{hardware['cpu']}, {hardware['cores']} cores"
    if hardware["memory_gib"]:
        text += f", {hardware['memory_gib']:g} GiB"
    if hardware["accelerator"]:
        text = f"{hardware['accelerators']} x {hardware['accelerator']}, {text}"
    return text


TABLES: dict[str, Callable[[Results], str]] = {
    "reviews": partial(runs, name="reviews-cpu", task="reviews"),
    "imdb": partial(runs, name="imdb", task="imdb"),
    "summary": partial(summary, reviews="reviews-cpu", imdb="imdb"),
    "padding": partial(padding, name="padding-imdb"),
    "speed-fourier": lambda r: speed(r, "fourier-complex-cpu", "fourier-methods-cpu", "fourier-lengths-cpu"),
    "speed-mixers": lambda r: speed(
        r, "mixers-circular-cpu", "mixers-lambda-cpu", "mixers-others-cpu", "dense-cpu"
    ),
    "speed-torch": lambda r: speed(r, "mixers-torch-cpu"),
    "speed-encoder": lambda r: speed(r, "encoder-depth-cpu"),
    "speed-optics": lambda r: speed(
        r, "optics-ideal-cpu", "optics-chip-cpu", "optics-parts-cpu", "optics-train-cpu"
    ),
    "speed-loop": lambda r: values(r, "loop-cpu", "startup-cpu"),
    "growth": partial(growth, name="growth-cpu"),
    "peer": lambda r: speed(r, "peer-huggingface-cpu", "peer-crossbar-cpu"),
    "robustness": partial(robustness, name="robustness-imdb"),
}


def fill(text: str, results: Results, where: str) -> tuple[str, list[str]]:
    """A page with its blocks filled, and the names of those that were different.

    Raises: ValueError for a block that is not closed, an unknown name, or a file of results that is missing.
    """
    if len(OPENING.findall(text)) != len(BLOCK.findall(text)):
        raise ValueError(
            f"{where} has a table that is not closed; write <!-- table: NAME --> and <!-- /table --> "
            "on lines of their own"
        )
    changed = []

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TABLES:
            raise ValueError(f"{where}: table {name!r} is unknown; choose one of {', '.join(TABLES)}")
        body = TABLES[name](results)
        if body != match["body"]:
            changed.append(name)
        return f"<!-- table: {name} -->\n{body}<!-- /table -->"

    return BLOCK.sub(replace, text), changed


def define_flags() -> None:
    flags.DEFINE_bool("check", False, "change nothing; fail where a block differs from the results")
    flags.DEFINE_string("root", ".", "directory with README.md, docs, configs and results")


def main() -> None:
    root = Path(flags.FLAGS.root)
    pages = [path for path in (root / "README.md", *sorted((root / "docs").glob("*.md"))) if path.exists()]
    if not pages:
        raise ValueError(f"--root={root} has neither README.md nor docs/*.md; name the root of the sources")
    results, filled = Results(root), []
    for path in pages:
        where = str(path.relative_to(root))
        text, changed = fill(path.read_text(), results, where)
        filled += [(path, where, text, changed)] if changed else []
    if flags.FLAGS.check:
        if filled:
            named = "; ".join(f"{where}: {', '.join(changed)}" for _, where, _, changed in filled)
            raise RuntimeError(f"these tables are not what results say: {named}; run without --check")
        return
    for path, where, text, changed in filled:
        path.write_text(text)
        print(f"{where}: {', '.join(changed)}")


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
