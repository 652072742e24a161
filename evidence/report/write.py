"""Writes the report on the evidence: python -m evidence.report.write --results=results/evidence/imdb

report.md and its figures, from the files of finished cells alone. Cells that are not finished, or were
trained by different code, are an error unless --partial is given; the report then says so.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from absl import flags
from matplotlib.figure import Figure

from evidence.pages.language import perplexity_table
from evidence.report import figures
from evidence.report.comparisons import COMPARISONS, decide
from evidence.report.glue import glue_table
from evidence.report.tables import (
    PAIRS,
    accuracy_table,
    comparison_table,
    cost_table,
    joules,
    provenance_line,
    settings,
    swept,
)
from evidence.report.variance import components
from evidence.suite import cells as suite
from evidence.suite.ledger import Finding, Ledger, unpack
from fourier_attn import atomic, command, paths, style

ENGINES = "On emulated engines, and the same computed exactly"
OWN_TABLES = {"glue": glue_table, "lm": perplexity_table}  # tiers whose scores are not one share
TITLES = {
    "1": "Tier 1: small networks, alike in all but their mixer",
    "2": "Tier 2: the articles' network with norms first, by another recipe than theirs, for two epochs",
    "toy": "A rehearsal on synthetic reviews: these numbers say nothing",
    "sst2": "SST-2, with the weights of the best epoch on validation",
    "pretrain": "Pre-training: accuracy on masked tokens",
    "glue": "GLUE: the same small network pre-trained and from scratch, on validation after the last epoch",
    "listing": "The articles' network by the recipe of their listing",
    "listops": "ListOps, shortened to at most 512 tokens",
    "bytes": "IMDb as 1,024 bytes, 1,000 steps",
    "fashion_mnist": "Fashion-MNIST: patches of 4 x 4, networks alike in all but their mixer",
    "cifar10": "CIFAR-10 without batch 5: patches of 4 x 4, networks alike in all but their mixer",
    "recall": "Recall of 4 pairs among 64 tokens, vocabulary 8,192",
    "skills": "Skills: two blocks, 2,000 steps",
    "lm": "Next-token models of WikiText-2: perplexity",
    "shapes": "Synthetic shapes: questions, and labels of patches",
    "pixels": "CIFAR-10 as 1,024 grey values, 600 steps",
    "settings": "Settings tried, on validation reviews by a split of their own (seed 100)",
}
READING = """
Curves are means over seeds (their number is in brackets) with bands of 95 % (Student), cut at the ends of
axes. Grey curves are the other models of the figure, dashed ones training. In the plots of costs, the first
panel has the score of each seed (red) and the mean's 95 % interval, which a single seed does not have,
with an arrow if it extends beyond the axis; in the other panels models are numbered. Core-hours are those of
the fastest seed, since other work on the machine slows a training down; with more seeds the fastest one
is faster. A core-hour is 3,600 seconds on one core. If processes of all seeds were killed, it is unknown.
Peak memory is the mean over seeds of the largest memory of a process.
"""
# mixer -> from when on it has another initial value, and what it had before
STARTED = {"token_conv": ("2026-11-25T18:00", "a filter of random numbers")}


def define_flags() -> None:
    flags.DEFINE_string("results", "results/evidence/imdb", "directory with the files of finished cells")
    flags.DEFINE_bool("partial", False, "report on what there is; the report names what is missing")


def main() -> None:
    directory = paths.given(flags.FLAGS.results)
    ledger = Ledger(directory)
    if not ledger.findings:
        aside = "".join(f" ({path.name} {why})" for path, why in ledger.aside.items())
        raise ValueError(
            f"results={directory} has no finished cell{aside}; python -m evidence.suite.train makes them"
        )
    notes = cautions(ledger)
    if notes and not flags.FLAGS.partial:
        raise ValueError(f"{notes[0]} --partial reports on what there is, and says so")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    atomic.write(directory / "report.md", report(ledger))
    for name, plot in pictures(ledger).items():
        style.save(plot(), directory / name)
    print(f"written to {directory / 'report.md'}")


def cautions(ledger: Ledger) -> list[str]:
    """Returns what a reader has to know beforehand."""
    return [
        *(f"`{path.name}` {why}; it is left out." for path, why in ledger.aside.items()),
        *missing(ledger),
        *earlier(ledger.findings.values()),
        *mixed(ledger.findings.values()),
        *(f"`{name}` was trained with other knobs: {what}." for name, what in ledger.unlike().items()),
    ]


def missing(ledger: Ledger) -> Iterator[str]:
    """Yields the unfinished cells of tiers that have begun."""
    for tier in tiers(ledger):
        left = Counter(cell.model for cell in suite.cells(tier) if cell.name not in ledger.findings)
        if left:
            count = f"{left.total()} of {len(suite.cells(tier))} cells"
            listed = ", ".join(f"{model} {number}" for model, number in left.items())
            yield f"Tier {tier} is not complete: {count} are not yet run ({listed})."


def earlier(findings: Iterable[Finding]) -> Iterator[str]:
    """Yields a note on cells that were trained before their mixer's initial value changed."""
    for mixer, (until, initial) in STARTED.items():
        cells = [
            finding["cell"] for finding in findings if finding["mixer"] == mixer and finding["date"] < until
        ]
        if cells:
            listed = ", ".join(f"`{name}`" for name in cells)
            yield f"{listed} started from {initial}, as `{mixer}` no longer does; not yet run again."


def mixed(findings: Iterable[Finding]) -> Iterator[str]:
    """Yields cells of a tier that were trained by other code, or tested on other rows than they should be.

    Test rows are the same if task, split, knobs of the data and initial weights are: words are numbered by
    the training reviews, or by the tokenizer of the weights. Cells that began with other weights than those
    of the same tier, or were resumed with changed fingerprints, are also named.
    """
    alike: dict[tuple[str, str], dict[str, list[str]]] = {}
    for finding in findings:
        facts, tier = finding["fingerprints"], f"Tier {finding['tier']}"
        code = ", ".join(f"{name} {value}" for name, value in sorted(facts.get("code", {}).items()))
        alike.setdefault((tier, "versions of the code"), {}).setdefault(code, []).append(finding["cell"])
        knobs = ", ".join(f"{name}={value}" for name, value in finding["knobs"].items() if "data." in name)
        start = finding["knobs"].get("init_from", "")
        if start:
            given = finding.get("weights") or "unknown"
            alike.setdefault((tier, f"weights of {start}"), {}).setdefault(given, []).append(finding["cell"])
        task = f"{finding['task']} from {start}" if start else finding["task"]
        read = f"{task}, split {finding['split_seed']}, {knobs or 'as by default'}"
        rows = facts.get("data", {}).get("test", "unknown")
        alike.setdefault((tier, f"test sets of {read}"), {}).setdefault(rows, []).append(finding["cell"])
        if drifted := sorted({what for entry in finding["allowed_drift"] for what in entry["what"]}):
            yield f"`{finding['cell']}` was resumed with other {', '.join(drifted)}."
    for (tier, kind), versions in alike.items():
        if len(versions) > 1:
            listed = "; ".join(f"{', '.join(cells)}: {version}" for version, cells in versions.items())
            yield f"{tier} has {len(versions)} {kind} ({listed})."


def tiers(ledger: Ledger) -> list[str]:
    """Returns the tiers with a finished cell, in the order of the suite."""
    there = {finding["tier"] for finding in ledger.findings.values()}
    return [tier for tier in suite.MODELS if tier in there]


def answers(groups: Mapping[str, Sequence[Finding]]) -> dict[str, np.ndarray]:
    """Returns whether each answer is right (seeds x examples) of models with at least two seeds."""
    return {
        name: np.array([unpack(finding["right"]) for finding in findings])
        for name, findings in groups.items()
        if len(findings) > 1 and findings[0]["right"]
    }


def report(ledger: Ledger) -> str:
    """Returns the text of report.md."""
    return "\n".join(report_lines(ledger)) + "\n"


def report_lines(ledger: Ledger) -> Iterator[str]:
    yield "# Networks with seeds\n"
    yield "Made by `python -m evidence.report.write` from the files in `cells/`; no number is typed.\n"
    yield READING
    yield from (f"- {note}" for note in cautions(ledger))
    for tier in tiers(ledger):
        groups = ledger.grouped(tier)
        yield f"\n## {TITLES[tier]}\n"
        if tier == "settings":
            yield from settings(groups)
            continue
        if tier in OWN_TABLES:
            yield OWN_TABLES[tier](groups)
            yield provenance_line(groups)
            continue
        for part, models in parts(groups).items():
            yield f"\n### {ENGINES}\n" if part else ""
            yield accuracy_table(models)
            yield f"\n{cost_table(models)}"
            yield f"![validation accuracy over epochs](curves-{tier}{part}.png)\n"
            yield f"![accuracy and cost](costs-{tier}{part}.png)\n"
        if couples := pairs(tier, groups):
            kind = "Small stand-ins for the articles' figures" if tier == "1" else "The articles' figures"
            yield f"\n### {kind}, {len(couples)} of {len(PAIRS[tier])}\n"
            yield f"![accuracy over epochs, two models in a panel](pairs-{tier}.png)\n"
        yield provenance_line(groups)
        if verdicts := decide(COMPARISONS.get(tier, ()), answers(groups)):
            yield "\n### Comparisons\n"
            yield comparison_table(verdicts)
            yield f"![differences with 95 % intervals](forest-{tier}.png)\n"
        if tier == "1":
            yield from swept(ledger.directory)
        yield from components(ledger, tier)


def parts(groups: Mapping[str, Sequence[Finding]]) -> dict[str, dict[str, Sequence[Finding]]]:
    """Groups models that can be compared: alike in size, or on engines with exact twins ("-engines")."""
    parts = {"": {}, "-engines": {}}
    for name, findings in groups.items():
        parts["-engines" if name.endswith(suite.TWINS) else ""][name] = findings
    return {part: models for part, models in parts.items() if models}


def pairs(tier: str, groups: Mapping[str, Sequence[Finding]]) -> list[tuple[str, str]]:
    """Returns the articles' pairs of which both models have results."""
    return [couple for couple in PAIRS.get(tier, ()) if groups.keys() >= set(couple)]


def pictures(ledger: Ledger) -> dict[str, Callable[[], Figure]]:
    """Returns functions that plot the figures of report.md, by the names of their files."""
    plots = {}
    for tier in tiers(ledger):
        groups = ledger.grouped(tier)
        if tier not in ("settings", *OWN_TABLES):
            for part, models in parts(groups).items():
                plots[f"curves-{tier}{part}.png"] = partial(figures.curves, models)
                plots[f"costs-{tier}{part}.png"] = partial(costs, models)
            if couples := pairs(tier, groups):
                plots[f"pairs-{tier}.png"] = partial(figures.pairs, groups, couples)
            if verdicts := decide(COMPARISONS.get(tier, ()), answers(groups)):
                plots[f"forest-{tier}.png"] = partial(figures.forest, verdicts)
    return plots


def costs(groups: Mapping[str, Sequence[Finding]]) -> Figure:
    """Plots the scores of models over what they cost."""
    energies = {name: joules(findings[0]) for name, findings in groups.items()}
    spent = {name: energy["typical"] for name, energy in energies.items() if energy}
    return figures.costs(groups, spent)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
