"""Writes the report of a task: python -m evidence.report.write --results=results/evidence/imdb

It writes report.md and its figures from the files of finished cells. Unfinished cells and cells of different
code are an error, unless --partial is given. The report then lists them.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from absl import flags
from matplotlib.figure import Figure

from evidence.pages import skills
from evidence.pages.language import equal_tables, trials_table
from evidence.report import figures
from evidence.report.comparisons import COMPARISONS, decide
from evidence.report.glue import glue_table
from evidence.report.loss_curves import loss_curves, steps_table
from evidence.report.stability import stability_table
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
from evidence.suite.pretraining import on_wikitext
from evidence.suite.skills import HIGHER
from fourier_attn import atomic, command, paths, style

PARTS = {  # parts of a tier, and their titles
    "": "",
    "-engines": "Emulated engines and their exact twins",
    "-wiki": "WikiText-2 alone",
}
OWN_TABLES = {  # of tiers with several scores, or with too many models for the usual figures
    "glue": glue_table,
    "stability": stability_table,
    "lm_rates": trials_table,
    "lm_equal": equal_tables,
    "skill_rates": skills.rates_table,
    "hybrid_rates": skills.rates_table,
    "higher_rates": partial(skills.rates_table, rates=(HIGHER,)),
    "higher": skills.higher_accuracies,
    "skills": skills.accuracies,
    "hybrids": skills.hybrid_accuracies,
    "recall_equal": skills.equal_accuracies,
    "recall_pairs": skills.pair_accuracies,
}
OWN_FIGURES = {
    "stability": figures.rate_curves,
    "skills": figures.task_map,
    "recall_pairs": figures.pair_curves,
}
TASKS = {  # names of tasks, by their folder
    "imdb": "IMDb",
    "sst2": "SST-2",
    "listops": "ListOps",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "pixels": "Pixels",
    "skill_rates": "Skills: trials",
    "hybrid_rates": "Hybrids on skills: trials",
    "hybrids": "Hybrids on skills",
    "higher_rates": "Skills: trials of a higher rate",
    "higher": "Skills: a higher rate",
    "lm_rates": "Language models: trials",
    "lm_equal": "Language models of equal size",
}
TITLES = {
    "1": "Tier 1: small networks that differ only in their mixer",
    "2": "Tier 2: the articles' network with norms first and our recipe, for two epochs",
    "toy": "Rehearsal on synthetic reviews (not a result)",
    "self_pretrained": "Networks of tier 1 after self-pretraining",
    "sst2": "SST-2, weights of the best epoch on validation",
    "stability": "Learning rates of pre-training: accuracy on masked tokens, %, and seeds that train",
    "pretrain": "Pre-training: accuracy on masked tokens",
    "glue": "GLUE: small networks after pre-training, on validation after the last epoch",
    "listing": "The articles' network with the recipe of their listing",
    "listops": "ListOps with at most 512 tokens",
    "self_pretrained_listops": "Networks of tier listops after self-pretraining",
    "bytes": "IMDb as 1,024 bytes, 1,000 steps",
    "fashion_mnist": "Fashion-MNIST: patches of 4 x 4, networks that differ only in their mixer",
    "cifar10": "CIFAR-10 without batch 5: patches of 4 x 4, networks that differ only in their mixer",
    "recall": "Recall of 4 pairs among 64 tokens, vocabulary 8,192",
    "skill_rates": "Skills: validation accuracy of the trials, %, one seed at each learning rate",
    "hybrid_rates": "After a long convolution: validation accuracy, %, one seed at each learning rate",
    "higher_rates": "Networks that do not solve a skill: validation accuracy, %, one seed at a higher rate",
    "higher": "Skills: seeds at a higher rate, 2,000 steps, test accuracy, %",
    "skills": "Skills: two blocks, 2,000 steps, test accuracy, %",
    "hybrids": "After a long convolution: 2,000 steps, test accuracy, %",
    "recall_equal": "Recall of 8 pairs at equal FLOPs, and at about equal parameters",
    "recall_pairs": "Recall of 4, 16, 32 and 64 pairs, test accuracy, %",
    "lm_rates": "Language models: validation perplexity of the trials, one seed at each learning rate",
    "lm_equal": "Language models of WikiText-2 with equally many parameters, one pass",
    "shapes": "Synthetic shapes: questions, and labels of patches",
    "pixels": "CIFAR-10 as 1,024 grey values, 600 steps",
    "settings": "Hyperparameter trials on a separate validation split (seed 100)",
}
NAMED = 12  # models, or cells, in a note
READING = """
## How to read this report

- **Curves.** A thin line is a seed, a thick line is the mean over seeds, and grey lines are the other
  models. Dashed lines are training. The number of seeds is in brackets.
- **Costs.** The first panel has the mean score, its 95 % interval, and a red tick per seed. An arrow means
  that the interval is wider than the axis. A single seed has no interval. The other panels have the costs of
  the same model. The energy of an engine is an estimate for one example, with typical components.
- **Core-hours** are from the fastest seed, because other work on the machine makes training slower. With more
  seeds, the minimum is lower. One core-hour is 3,600 seconds on one core. Core-hours are unknown if a process
  was killed in every seed, and for networks that were trained on a GPU.
- **Peak memory** is the largest memory of a process, as a mean over seeds. It is left out for networks that
  were trained on a GPU.
"""
# mixer -> date since which it has another initial value, and the earlier value
STARTED = {"token_conv": ("2026-11-25T18:00", "a filter of random numbers")}


def define_flags() -> None:
    flags.DEFINE_string(
        "results", "results/evidence/imdb", "directory of a task, with finished cells in cells/"
    )
    flags.DEFINE_bool("partial", False, "write a report with a note if cells are missing or differ")


def main() -> None:
    directory = paths.given(flags.FLAGS.results)
    ledger = Ledger(directory)
    if not ledger.findings:
        aside = "".join(f" ({path.name} {why})" for path, why in ledger.aside.items())
        raise ValueError(
            f"results={directory} has no finished cell{aside}; train them with python -m evidence.suite.train"
        )
    notes = cautions(ledger)
    if notes and not flags.FLAGS.partial:
        raise ValueError(f"{notes[0]} Pass --partial to write the report with this note")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    atomic.write(directory / "report.md", report(ledger))
    for name, plot in pictures(ledger).items():
        style.save(plot(), directory / name)
    print(f"written to {directory / 'report.md'}")


def cautions(ledger: Ledger) -> list[str]:
    """Returns notes on missing, changed and mixed cells of a ledger, for the top of the report."""
    return [
        *(f"`{path.name}` {why}; the report leaves it out." for path, why in ledger.aside.items()),
        *missing(ledger),
        *earlier(ledger.findings.values()),
        *mixed(ledger.findings.values()),
        *(f"`{name}` was trained with other options: {what}." for name, what in ledger.unlike().items()),
    ]


def missing(ledger: Ledger) -> Iterator[str]:
    """Yields a note on the unfinished cells of each tier of a ledger that has finished ones."""
    for tier in tiers(ledger):
        left = Counter(cell.model for cell in suite.cells(tier) if cell.name not in ledger.findings)
        if left:
            count = f"{left.total()} of {len(suite.cells(tier))} cells"
            listed = ", ".join(f"{model} {number}" for model, number in left.most_common(NAMED))
            listed += f" and {len(left) - NAMED} more models" * (len(left) > NAMED)
            yield f"Tier {tier} is not complete: {count} are not yet run ({listed})."


def earlier(findings: Iterable[Finding]) -> Iterator[str]:
    """Yields a note on `findings` that were trained before their mixer's initial value changed."""
    for mixer, (until, initial) in STARTED.items():
        cells = [
            finding["cell"] for finding in findings if finding["mixer"] == mixer and finding["date"] < until
        ]
        if cells:
            listed = ", ".join(f"`{name}`" for name in cells)
            yield f"{listed} started from {initial}, which `{mixer}` no longer does; not yet run again."


def mixed(findings: Iterable[Finding]) -> Iterator[str]:
    """Yields notes on cells of a tier that differ in code, test rows or initial weights.

    Cells with the same task, split, data options and initial weights must have the same test rows, because
    the training reviews or the tokenizer of the weights number the words. Cells that were resumed with
    changed fingerprints are also listed.

    Args:
      findings: the results of cells.
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
            listed = "; ".join(f"{list_cells(cells)}: {version}" for version, cells in versions.items())
            yield f"{tier} has {len(versions)} {kind} ({listed})."


def list_cells(cells: Sequence[str]) -> str:
    """Returns the names of a few cells, or the number of many cells with one name as an example."""
    return ", ".join(cells) if len(cells) <= NAMED else f"{len(cells)} cells, for example {cells[0]}"


def tiers(ledger: Ledger) -> list[str]:
    """Returns the tiers of a ledger with a finished cell, in the order of the suite."""
    there = {finding["tier"] for finding in ledger.findings.values()}
    return [tier for tier in suite.MODELS if tier in there]


def answers(groups: Mapping[str, Sequence[Finding]]) -> dict[str, np.ndarray]:
    """Returns whether each prediction is correct (seeds x examples), for models with at least two seeds.

    Args:
      groups: the findings of each model.
    """
    return {
        name: np.array([unpack(finding["right"]) for finding in findings])
        for name, findings in groups.items()
        if len(findings) > 1 and findings[0]["right"]
    }


def report(ledger: Ledger) -> str:
    """Returns the text of report.md for the cells of a ledger."""
    return "\n".join(report_lines(ledger)) + "\n"


def report_lines(ledger: Ledger) -> Iterator[str]:
    """Yields the parts of report.md for the cells of a ledger."""
    task = ledger.directory.name
    yield f"# {TASKS.get(task, task.capitalize())} report\n"
    yield "`python -m evidence.report.write` generates this report from the files in `cells/`."
    yield READING
    if notes := cautions(ledger):
        yield "## Notes\n"
        yield from (f"- {note}" for note in notes)
    for tier in tiers(ledger):
        groups = ledger.grouped(tier)
        yield f"\n## {TITLES[tier]}\n"
        if tier == "settings":
            yield from settings(groups)
            continue
        if tier in OWN_TABLES:
            yield OWN_TABLES[tier](groups)
            if tier in OWN_FIGURES:
                yield f"\n![{TITLES[tier]}]({tier}.png)\n"
            yield provenance_line(groups)
            continue
        for part, models in parts(groups).items():
            yield f"\n### {PARTS[part]}\n" if part else ""
            yield accuracy_table(models)
            yield f"\n{cost_table(models)}"
            yield from over_time(tier, part, models)
            yield f"![Accuracy and cost](costs-{tier}{part}.png)\n"
        if couples := pairs(tier, groups):
            kind = "Small versions of the articles' figures" if tier == "1" else "The articles' figures"
            yield f"\n### {kind}, {len(couples)} of {len(PAIRS[tier])}\n"
            yield f"![Accuracy over epochs, two models per panel](pairs-{tier}.png)\n"
        yield provenance_line(groups)
        if verdicts := decide(COMPARISONS.get(tier, ()), answers(groups)):
            yield "\n### Comparisons\n"
            yield comparison_table(verdicts)
            yield f"![Differences with 95 % intervals](forest-{tier}.png)\n"
        if tier == "1":
            yield from swept(ledger.directory)
        yield from components(ledger, tier)


def over_time(tier: str, part: str, models: Mapping[str, Sequence[Finding]]) -> Iterator[str]:
    """Yields the figure of the scores over epochs. For pre-training, it is one of the loss over steps.

    Args:
      tier: the tier.
      part: a key of `parts`.
      models: the findings of each model of this part.
    """
    if tier == "pretrain":
        yield f"\n{steps_table(models)}"
        yield f"![Training loss over steps](curves-{tier}{part}.png)\n"
    else:
        yield f"![Validation accuracy over epochs](curves-{tier}{part}.png)\n"


def parts(groups: Mapping[str, Sequence[Finding]]) -> dict[str, dict[str, Sequence[Finding]]]:
    """Splits models into parts that can be compared.

    Args:
      groups: the findings of each model.
    Returns: non-empty parts by a key of `PARTS`.
    """
    parts = {part: {} for part in PARTS}
    for name, findings in groups.items():
        part = "-engines" if name.endswith(suite.TWINS) else "-wiki" if on_wikitext(name) else ""
        parts[part][name] = findings
    return {part: models for part, models in parts.items() if models}


def pairs(tier: str, groups: Mapping[str, Sequence[Finding]]) -> list[tuple[str, str]]:
    """Returns the articles' pairs of a tier, if both models are in `groups`."""
    return [couple for couple in PAIRS.get(tier, ()) if groups.keys() >= set(couple)]


def pictures(ledger: Ledger) -> dict[str, Callable[[], Figure]]:
    """Returns functions that plot the figures of a ledger's report.md, by the names of their files."""
    plots = {}
    for tier in tiers(ledger):
        groups = ledger.grouped(tier)
        if tier in OWN_FIGURES:
            plots[f"{tier}.png"] = partial(OWN_FIGURES[tier], groups)
        elif tier not in ("settings", *OWN_TABLES):
            for part, models in parts(groups).items():
                plot = loss_curves if tier == "pretrain" else figures.curves
                plots[f"curves-{tier}{part}.png"] = partial(plot, models)
                plots[f"costs-{tier}{part}.png"] = partial(costs, models)
            if couples := pairs(tier, groups):
                plots[f"pairs-{tier}.png"] = partial(figures.pairs, groups, couples)
            if verdicts := decide(COMPARISONS.get(tier, ()), answers(groups)):
                plots[f"forest-{tier}.png"] = partial(figures.forest, verdicts)
    return plots


def costs(groups: Mapping[str, Sequence[Finding]]) -> Figure:
    """Plots scores and costs of models.

    Args:
      groups: the findings of each model.
    """
    energies = {name: joules(findings[0]) for name, findings in groups.items()}
    spent = {name: energy["typical"] for name, energy in energies.items() if energy}
    return figures.costs(groups, spent)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
