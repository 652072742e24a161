"""Tables of trained runs, and of what was asked of them."""

import math
import re
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from evidence.pages.markdown import NOT_RUN, Results, Row, mean_cell, notes, table
from evidence.pages.run_names import renamed
from evidence.pages.summary_figures import RECALL_ON_ENGINES
from evidence.suite import cells as suite
from evidence.suite.ledger import (
    Finding,
    examples_per_s,
    least_core_hours,
    number,
    peak_memory,
    published,
    score,
)
from fourier_attn import config_flag
from fourier_attn.layers.fourier import OPTIONS, FourierMixing


class Cost(NamedTuple):
    """Cells that say what the networks of a model took; empty where it is not known."""

    core_hours: str
    examples_per_s: str
    parameters: str
    memory: str

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> "Cost":
        """Reads the cells from what the seeds of a model have found."""
        hours, speed = least_core_hours(findings), examples_per_s(findings)
        parameters = findings[0]["parameters"] if findings else None
        memory = peak_memory(findings)
        return cls(
            core_hours="" if hours is None else f"{hours:.2f}",
            examples_per_s=f"{speed:,.0f}" if speed else "",
            parameters=f"{parameters:,}" if parameters else "",
            memory="" if memory is None else f"{memory:,.0f}",
        )


HEADS = Cost(
    core_hours="core-hours per seed (minimum)",
    examples_per_s="training examples/s (maximum)",
    parameters="parameters",
    memory="peak memory, MiB (mean)",
)


def runs(results: Results, name: str, task: str) -> str:
    """Tabulates the accuracy of each seed of each configuration, and the configurations that are not yet run.

    Args:
      results: the files of results and the configurations.
      name: the file of results.
      task: task of the configurations.
    """
    documents = results.runs(name)
    groups = grouped(rows_of(documents), partial(label, results))
    lines = [run_line(title, rows) for title, rows in groups.items()]
    trained = {results.complete(row["config"]) for row in rows_of(documents)}
    lines += [
        [f"`{config}`", NOT_RUN, *[""] * 5] for config in results.configs(task) if config not in trained
    ]
    head = ["`python -m fourier_attn.main --config=`", "test accuracy of each seed, %", "mean, %", "SD"]
    head += ["without texts that are also in train, %", "epochs", "seconds"]
    return table(head, sorted(lines)) + notes(documents)


def evidence(results: Results, tier: str, whole: bool = False, twins: bool | None = None) -> str:
    """Tabulates the models of a tier of the suite, the best first: score, time, and more.

    Args:
      results: the files of results.
      tier: the tier.
      whole: True: also with speed, parameters and memory.
      twins: True: only models on engines and their exact twins, which differ in size; False: only the others.
    """
    every = [model.name for model in suite.MODELS[tier]]
    groups = published(results.root, tier)
    chosen = [model for model in every if twins is None or model.endswith(suite.TWINS) == twins]
    findings = {model: groups.get(model, []) for model in chosen}

    def mean(model: str) -> float:
        kept = [value for value in map(score, findings[model]) if not math.isnan(value)]
        return statistics.mean(kept) if kept else -math.inf

    lines = []
    for model in sorted(findings, key=mean, reverse=True):
        cost = Cost.of(findings[model])
        taken = cost if whole else (cost.core_hours, "", "", "")
        scores = mean_cell([100 * score(each) for each in findings[model]])
        lines.append([f"`{model}`", scores, further(findings[model]), *taken])
    metric = "test score, %" if whole else "test accuracy, %"
    return table(["model", metric, "on further splits, %", *HEADS], lines)


def further(findings: list[Finding]) -> str:
    """Returns the scores on further splits, such as CIFAR-10's fifth batch."""
    splits = findings[0].get("extra_evals", {}) if findings else {}
    metric = findings[0]["metric"] if findings else ""
    scores = {name: [100 * number(each["extra_evals"][name][metric]) for each in findings] for name in splits}
    return ", ".join(f"`{name}` {mean_cell(values)}" for name, values in scores.items())


def padding(results: Results, name: str) -> str:
    """Tabulates Fourier mixing by its treatment of padding; other knobs that differ are named."""
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
    lines = [padding_line(choice, rows_of_choice) for choice, rows_of_choice in groups.items()]
    head = ["padding", "validation of the best epoch, mean, %", "test of each seed, %", "mean, %", "SD"]
    return table(head, lines) + notes(documents)


def padding_line(choice: str, rows: list[Row]) -> list[str]:
    """Returns the line of a treatment of padding.

    Args:
      choice: name of the treatment, and options that differ.
      rows: its runs, [] if it is not yet run.
    """
    if not rows:
        return [choice, NOT_RUN, "", "", ""]
    validation = statistics.mean(100 * max(row["validation"]) for row in rows)
    title, each, mean, deviation, *_ = run_line(choice, rows)
    return [title, f"{validation:.2f}", each, mean, deviation]


def rows_of(documents: dict[str, dict[str, Any]]) -> list[Row]:
    """Returns the rows of all documents; configuration files have the names that they have today."""
    rows = [row for document in documents.values() for row in document["rows"]]
    return [row | {"config": row["config"] and config_flag.moved(row["config"])} for row in rows]


def grouped(rows: list[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    """Groups `rows` by the result of `key` for each of them."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def label(results: Results, row: Row) -> str:
    """Returns the configuration as the value of `--config`, or its knobs if the command is unknown.

    If the file has changed since, its name is followed by the knobs of the row's run.
    """
    if row["config"] is None:
        knobs = ", ".join(f"{name}={value}" for name, value in row["knobs"].items())
        return f"{row['mixer']}: {knobs or 'as by default'}"
    words = options_of(row)
    title = f"`{' '.join([row['config'], *words])}`"
    if words or row["knobs"] == results.knobs(row["config"]):
        return title
    return f"{title} as it was: {', '.join(f'{name}={value}' for name, value in row['knobs'].items())}"


def options_of(row: Row) -> list[str]:
    """Returns the options of a run's command that change its configuration, without its seeds."""
    words = re.findall(r"--config\.\S+", row["command"] or "")
    apart = ("--config.seed=", "--config.data.split_seed=", "--config.data.dir=")
    return [word for word in words if not word.startswith(apart)]


def run_line(title: str, rows: list[Row]) -> list[str]:
    """Returns the line of a configuration: test accuracy of each seed, mean, deviation, epochs and seconds.

    Args:
      title: name of the configuration.
      rows: its runs.
    """
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


def once(results: Results) -> str:
    """Tabulates the configurations on other tasks that were run once to their end, with their test metric."""
    documents = results.runs("studies/configurations")
    lines = [
        [
            f"`{' '.join([row['config'], *options_of(row)])}`",
            row["metric"],
            metric_cell(row),
            str(round(row["epochs"])),
        ]
        for row in rows_of(documents)
    ]
    return table(["`--config=`", "metric", "on the test set", "epochs"], sorted(lines)) + notes(documents)


def metric_cell(row: Row) -> str:
    """Formats the test metric of a run: a perplexity as it is, anything else as a percentage."""
    value = row["test"][row["metric"]]
    return f"{value:.1f}" if row["metric"] == "perplexity" else f"{100 * value:.2f} %"


def accuracies(row: Row) -> list[float]:
    """Returns the test accuracies of all networks of the run."""
    return row["test"].get("accuracy_seeds") or [row["test"]["accuracy"]]


def robustness(results: Results, name: str) -> str:
    """Tabulates mean accuracy over devices by bits, for each run and strength of noise."""
    document = results.document(name)
    return by_bits(renamed(document)["rows"]) + notes({name: document})


def recall_on_engines(results: Results) -> str:
    """Tabulates recall on engines like `robustness`, with network and engine in words."""
    documents = {name: results.document(f"studies/{name}") for name in RECALL_ON_ENGINES}
    rows = [
        row | {"run": words} for name, words in RECALL_ON_ENGINES.items() for row in documents[name]["rows"]
    ]
    return by_bits(rows) + notes({f"studies/{name}": document for name, document in documents.items()})


def by_bits(rows: list[Row]) -> str:
    """Tabulates the rows of one sweep like `robustness`."""
    bits = sorted({row["bits"] for row in rows if "bits" in row})
    lines = []
    for run in dict.fromkeys(row["run"] for row in rows):
        mine = [row for row in rows if row["run"] == run]
        exact = next((f"{100 * row['accuracy']:.2f}" for row in mine if "bits" not in row), NOT_RUN)
        lines.append([run, "none: exact transform", *[""] * len(bits), exact])
        for noise in sorted({row["noise"] for row in mine if "noise" in row}):
            cells = []
            for b in bits:
                accuracies = [r["accuracy"] for r in mine if (r.get("bits"), r.get("noise")) == (b, noise)]
                cells.append(f"{100 * statistics.mean(accuracies):.2f}" if accuracies else NOT_RUN)
            lines.append([run, f"{noise:g} times the engine's", *cells, ""])
    head = ["run", "noise", *(f"{b} bit" for b in bits), "exact"]
    return table(head, lines)
