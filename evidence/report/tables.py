"""Makes the tables of a task's report."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from evidence.pages.markdown import machine, read_document, runnable, table
from evidence.pages.run_tables import HEADS, Cost, by_bits
from evidence.report.comparisons import Verdict
from evidence.suite import cells, statistics
from evidence.suite.ledger import (
    Finding,
    best,
    core_hours,
    interval,
    number,
    score,
    scored,
    validation_examples,
    without_failures,
)
from fourier_attn.studies.engine.projection import Options, example_joules
from fourier_attn.studies.intervals import percent_range

# Published by the articles for their own network and recipe: validation accuracy, one network each.
PUBLISHED = {
    "attention": "83",
    "circular-1d": "84",
    "circular-16x8": "very close to 1-D",
    "circular-11x11": "very close to 16 x 8",
    "circular-16x4": "16 x 8: very close to 1-D",
    "circular-8x8": "11 x 11: very close to 16 x 8",
    "circular-3x3": "a bit above 84, on their engine",
    "circular-3x3-engine": "a bit above 84",
    "lambda": "a bit above 84, on their engine",
    "lambda-engine": "a bit above 84",
}
# By tier, the models of the articles' five figures; 16 x 4 and 8 x 8 replace 16 x 8 and 11 x 11.
PAIRS = {
    "1": (
        ("attention", "circular-1d"),
        ("attention", "circular-16x4"),
        ("circular-16x4", "circular-8x8"),
        ("circular-3x3-exact", "circular-3x3-engine"),
        ("lambda-exact", "lambda-engine"),
    ),
    "2": (
        ("attention", "circular-1d"),
        ("attention", "circular-16x8"),
        ("circular-16x8", "circular-11x11"),
    ),
}


def accuracy_table(groups: Mapping[str, Sequence[Finding]]) -> str:
    """Tabulates the scores of each model, the best first.

    Args:
      groups: the findings of each model, one for each seed.
    """
    metrics = dict.fromkeys(scored(findings[0]) for findings in groups.values())
    lines = []
    scores = {name: [100 * score(finding) for finding in findings] for name, findings in groups.items()}
    for name in sorted(groups, key=lambda name: -np.mean(without_failures(scores[name]) or [-math.inf])):
        findings, values, (low, high) = groups[name], scores[name], interval(groups[name])
        kept = without_failures(values)
        tests = [finding["test"] for finding in findings]
        lines.append(
            [
                f"`{name}`" + (f", {scored(findings[0])}" if len(metrics) > 1 else ""),
                ", ".join("failed" if math.isnan(value) else f"{value:.2f}" for value in values),
                averaged(kept, "{:.2f}") or "failed",
                f"{statistics.spread(kept):.2f}" if len(kept) > 1 else "",
                "" if math.isnan(low) else percent_range(low, high),
                averaged([test.get("accuracy_without_in_train") for test in tests], "{:.2f}", 100.0),
                averaged([best(finding) for finding in findings], "{:.2f}", 100.0),
                averaged([number(finding["validation"][-1]) for finding in findings], "{:.2f}", 100.0),
                PUBLISHED.get(name, "") if findings[0]["tier"] in PAIRS else "",
            ]
        )
    metric = next(iter(metrics)) if len(metrics) == 1 else "score"
    head = [
        "model",
        f"{metric} of each seed, %",
        "mean",
        "SD",
        "95 %",
        "without texts that are also in training",
    ]
    head += ["validation, best epoch", "last epoch", "articles (validation)"]
    return table(head, lines)


def cost_table(groups: Mapping[str, Sequence[Finding]]) -> str:
    """Tabulates parameters, core-hours, speed, memory and energy of each model.

    Args:
      groups: the findings of each model, one for each seed.
    """
    lines = []
    for name, findings in groups.items():
        cost, spent = Cost.of(findings), joules(findings[0])
        lines.append(
            [
                f"`{name}`",
                cost.parameters,
                cost.core_hours or "unknown",
                cost.examples_per_s,
                cost.memory,
                f"{spent['typical']:.2g} ({spent['low']:.2g} to {spent['high']:.2g})" if spent else "",
            ]
        )
    head = ["model", HEADS.parameters, HEADS.core_hours, HEADS.examples_per_s, HEADS.memory]
    return table([*head, "engine, J per example (low to high)"], lines)


def averaged(values: Sequence[float | int | None], form: str, scale: float = 1.0) -> str:
    """Formats the mean of the known values, "" if there are none.

    Args:
      values: scores; None and NaN are ignored.
      form: a format string, such as "{:.2f}".
      scale: factor of the mean.
    """
    known = without_failures(values)
    return form.format(scale * np.mean(known)) if known else ""


def swept(directory: Path) -> Iterator[str]:
    """Yields a section for each sweep over bits, noise and devices in a directory of results."""
    for path in sorted(directory.glob("robustness-*.json")):
        document = read_document(path)
        whose = [document] if "command" in document else document["rows"]
        commands = dict.fromkeys(f"`{runnable(each['command'])}`" for each in whose)
        yield f"\n### Accuracy over bits and noise: {path.stem.removeprefix('robustness-')}\n"
        yield f"The table has means over devices. Command: {', '.join(commands)}\n"
        yield by_bits(document["rows"])
        yield f"\n![Accuracy over bits and noise]({path.stem}.png)\n"


def joules(finding: Finding) -> dict[str, float] | None:
    """Estimates the joules of an example on the engine of a finding's cell: "low", "typical" and "high"."""
    return example_joules(cells.EVERY[finding["cell"]].read(), Options())


def settings(groups: Mapping[str, Sequence[Finding]]) -> Iterator[str]:
    """Yields the section on hyperparameter trials.

    Args:
      groups: the findings of each trial.
    """
    yield settings_table(groups)
    tried = {name.partition("-rate-")[0] for name in groups}
    others = [model.name for model in cells.MODELS["1"] if model.name not in tried]
    yield "\nAll models use the learning rate and dropout of the best FNet trial."
    yield "Other models may prefer other values."
    yield f"Models without trials: {', '.join(f'`{name}`' for name in others)}.\n"
    yield "\nThe expected best validation accuracy of a random search with this many trials:\n"
    yield expected_table(groups)
    finding = next(iter(groups.values()))[0]
    examples = validation_examples(finding)
    accuracy = best(finding)
    error = 100 * math.sqrt(accuracy * (1 - accuracy) / examples)
    yield "\nThere are few trials."
    yield f"The standard error of {examples:,} validation reviews is {error:.2f} points.\n"


def expected_table(groups: Mapping[str, Sequence[Finding]]) -> str:
    """Lists the expected best validation accuracy of each mixer after 1, 2, ... trials, in percent.

    Args:
      groups: the findings of each trial, by "MIXER-rate-...".
    """
    trials: dict[str, list[float]] = {}
    for name, findings in groups.items():
        values = without_failures([best(finding) for finding in findings])
        trials.setdefault(name.partition("-rate-")[0], []).extend(values)
    likely = {name: statistics.expected_best(values) for name, values in trials.items()}
    most = max(map(len, likely.values()))
    lines = [
        [f"`{name}`", *(f"{100 * value:.2f}" for value in values), *[""] * (most - len(values))]
        for name, values in likely.items()
    ]
    return table(["mixer", *(f"{n} trial{'s' * (n > 1)}, %" for n in range(1, most + 1))], lines)


def settings_table(groups: Mapping[str, Sequence[Finding]]) -> str:
    """Tabulates the validation accuracy and core-hours of each trial in `groups`."""
    lines = [
        [
            f"`{name}`",
            f"{100 * best(finding):.2f}",
            f"{100 * number(finding['validation'][-1]):.2f}",
            hours(finding),
        ]
        for name, findings in groups.items()
        for finding in findings
    ]
    return table(["trial", "validation, best epoch, %", "last epoch, %", "core-hours"], lines)


def hours(finding: Finding) -> str:
    """Formats the core-hours of a finding, "" if they are unknown."""
    taken = core_hours(finding)
    return f"{taken:.2f}" if taken else ""


def comparison_table(verdicts: Sequence[Verdict]) -> str:
    """Tabulates comparisons: hypothesis, difference, p-values and verdict of each."""
    lines = [
        [
            str(v.comparison.claim),
            str(v.comparison),
            *difference_cells(v),
            f"{v.p:.4f}",
            f"{v.adjusted:.4f}",
            v.words,
        ]
        for v in verdicts
    ]
    head = ["Claim", "Hypothesis tested", "Difference, points", "95 %"]
    return table([*head, "p", "p (Holm)", "Verdict"], lines)


def difference_cells(verdict: Verdict) -> tuple[str, str]:
    """Formats the difference of a verdict in points, and its 95 % interval."""
    difference = verdict.difference
    return f"{100 * difference.mean:+.2f}", percent_range(difference.low, difference.high, "+.2f")


def provenance_line(groups: Mapping[str, Sequence[Finding]]) -> str:
    """Returns a line with machine, commit and date of the cells in `groups`."""
    origins = {
        f"{machine(each['hardware'])}; commit {(each['commit'] or 'unknown')[:9]}; {each['date'][:10]}"
        for findings in groups.values()
        for each in findings
    }
    return f"\nTrained on {'. Also: '.join(sorted(origins))}.\n"
