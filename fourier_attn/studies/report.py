"""The report on the evidence: python -m fourier_attn.studies.report --results=results/imdb

report.md and its figures, from the files of finished cells alone. Cells that are not finished, or were
trained by different code, are an error unless --partial is given; the report then says so.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from absl import flags
from matplotlib.figure import Figure

from fourier_attn import atomic, command, style
from fourier_attn.studies import report_figures, statistics, suite
from fourier_attn.studies.comparisons import COMPARISONS, Verdict, judge
from fourier_attn.studies.glue_report import glue_table
from fourier_attn.studies.ledger import (
    Finding,
    Ledger,
    core_hours,
    examples_per_s,
    interval,
    least_core_hours,
    score,
    scored,
    unpack,
)
from fourier_attn.studies.markdown import machine, read_document, table
from fourier_attn.studies.projection import Options, example_joules
from fourier_attn.studies.trained import by_bits
from fourier_attn.studies.variance import components

# What the articles give, of their own network and recipe: validation accuracy, one network each.
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
# By tier, what each of the articles' five figures compares; 16 x 4 and 8 x 8 stand for 16 x 8 and 11 x 11.
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
ENGINES = "On emulated engines, and the same computed exactly"
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
    "shapes": "Synthetic shapes: questions, and labels of patches",
    "pixels": "CIFAR-10 as 1,024 grey values, 1,000 steps",
    "settings": "Settings tried, on validation reviews by a split of their own (seed 100)",
}
READING = """
Curves are means over seeds, of which there are as many as brackets say, with bands of 95 % (Student), cut
at the ends of axes; grey ones are the other models of the figure, dashed ones training. Beside curves: the
score of each seed (red) and the mean's 95 % interval, which one seed does not have; in the other panels a
model is its number. Core-hours are those of the seed that took the least, since other work beside makes the
same training dearer; more seeds have more chances. A core-hour is 3,600 seconds on one core. Where
processes of all seeds were killed, they are not known.
"""


def define_flags() -> None:
    flags.DEFINE_string("results", "results/imdb", "directory with the files of finished cells")
    flags.DEFINE_bool("partial", False, "report on what there is; the report names what is missing")


def main() -> None:
    directory = Path(flags.FLAGS.results)
    ledger = Ledger(directory)
    if not ledger.findings:
        aside = "".join(f" ({path.name} {why})" for path, why in ledger.aside.items())
        raise ValueError(
            f"results={directory} has no finished cell{aside}; python -m fourier_attn.studies.imdb makes them"
        )
    notes = cautions(ledger)
    if notes and not flags.FLAGS.partial:
        raise ValueError(f"{notes[0]} --partial reports on what there is, and says so")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    atomic.write(directory / "report.md", report(ledger))
    for name, draw in pictures(ledger).items():
        style.save(draw(), directory / name)
    print(f"written to {directory / 'report.md'}")


def cautions(ledger: Ledger) -> list[str]:
    """What a reader has to know beforehand."""
    return [
        *(f"`{path.name}` {why}; it is left out." for path, why in ledger.aside.items()),
        *missing(ledger),
        *mixed(ledger.findings.values()),
        *(f"`{name}` was trained with other knobs: {what}." for name, what in ledger.unlike().items()),
    ]


def missing(ledger: Ledger) -> Iterator[str]:
    """Cells of tiers that have begun and are not finished, by tier."""
    for tier in tiers(ledger):
        left = Counter(cell.model for cell in suite.cells(tier) if cell.name not in ledger.findings)
        if left:
            count = f"{left.total()} of {len(suite.cells(tier))} cells"
            listed = ", ".join(f"{model} {number}" for model, number in left.items())
            yield f"Tier {tier} is not complete: {count} are not yet run ({listed})."


def mixed(findings: Iterable[Finding]) -> Iterator[str]:
    """Which cells of a tier were trained by other code, or judged on other rows than they should have been.

    Test rows are the same where task, split, knobs of the data and start are: words are numbered as the
    training reviews, or the tokenizer of the weights, have them. Which cells began with other weights than
    those beside them, or went on with something else than they had begun with, is said, too.
    """
    alike: dict[tuple[str, str], dict[str, list[str]]] = {}
    for found in findings:
        facts, tier = found["fingerprints"], f"Tier {found['tier']}"
        code = ", ".join(f"{name} {value}" for name, value in sorted(facts.get("code", {}).items()))
        alike.setdefault((tier, "versions of the code"), {}).setdefault(code, []).append(found["cell"])
        knobs = ", ".join(f"{name}={value}" for name, value in found["knobs"].items() if "data." in name)
        start = found["knobs"].get("init_from", "")
        if start:
            given = found.get("weights") or "unknown"
            alike.setdefault((tier, f"weights of {start}"), {}).setdefault(given, []).append(found["cell"])
        task = f"{found['task']} from {start}" if start else found["task"]
        read = f"{task}, split {found['split_seed']}, {knobs or 'as by default'}"
        rows = facts.get("data", {}).get("test", "unknown")
        alike.setdefault((tier, f"test sets of {read}"), {}).setdefault(rows, []).append(found["cell"])
        if drifted := sorted({what for entry in found["allowed_drift"] for what in entry["what"]}):
            yield f"`{found['cell']}` went on with other {', '.join(drifted)}."
    for (tier, kind), versions in alike.items():
        if len(versions) > 1:
            listed = "; ".join(f"{', '.join(cells)}: {version}" for version, cells in versions.items())
            yield f"{tier} has {len(versions)} {kind} ({listed})."


def tiers(ledger: Ledger) -> list[str]:
    """Those with a finished cell, in the order of the suite."""
    there = {found["tier"] for found in ledger.findings.values()}
    return [tier for tier in suite.MODELS if tier in there]


def answers(groups: Mapping[str, Sequence[Finding]]) -> dict[str, np.ndarray]:
    """Of models with at least two seeds, whether each answer is right: seeds x examples."""
    return {
        name: np.array([unpack(found["right"]) for found in findings])
        for name, findings in groups.items()
        if len(findings) > 1 and findings[0]["right"]
    }


def report(ledger: Ledger) -> str:
    """The text of report.md."""
    return "\n".join(report_lines(ledger)) + "\n"


def report_lines(ledger: Ledger) -> Iterator[str]:
    yield "# Networks with seeds\n"
    yield "Made by `python -m fourier_attn.studies.report` from the files in `cells/`; no number is typed.\n"
    yield READING
    yield from (f"- {note}" for note in cautions(ledger))
    for tier in tiers(ledger):
        groups = ledger.grouped(tier)
        yield f"\n## {TITLES[tier]}\n"
        if tier == "settings":
            yield from settings(groups)
            continue
        if tier == "glue":
            yield glue_table(groups)
            yield provenance_line(groups)
            continue
        for part, models in parts(groups).items():
            yield f"\n### {ENGINES}\n" if part else ""
            yield accuracy_table(models)
            yield f"\n{cost_table(models)}"
            yield f"![validation accuracy over epochs](curves-{tier}{part}.png)\n"
            yield f"![accuracy and cost](costs-{tier}{part}.png)\n"
        if couples := pairs(tier, groups):
            yield f"\n### As the articles' figures have them, {len(couples)} of {len(PAIRS[tier])}\n"
            yield f"![accuracy over epochs, two models in a panel](pairs-{tier}.png)\n"
        yield provenance_line(groups)
        if verdicts := judge(COMPARISONS.get(tier, ()), answers(groups)):
            yield "\n### Comparisons\n"
            yield comparison_table(verdicts)
            yield f"![differences with 95 % intervals](forest-{tier}.png)\n"
        if tier == "1":
            yield from swept(ledger.directory)
        yield from components(ledger, tier)


def parts(groups: Mapping[str, Sequence[Finding]]) -> dict[str, dict[str, Sequence[Finding]]]:
    """What can be compared: models alike in size, and "-engines", those on engines with their exact twins."""
    found = {"": {}, "-engines": {}}
    for name, findings in groups.items():
        found["-engines" if name.endswith(suite.TWINS) else ""][name] = findings
    return {part: models for part, models in found.items() if models}


def pairs(tier: str, groups: Mapping[str, Sequence[Finding]]) -> list[tuple[str, str]]:
    """The articles' pairs of which both are there."""
    return [couple for couple in PAIRS.get(tier, ()) if groups.keys() >= set(couple)]


def pictures(ledger: Ledger) -> dict[str, Callable[[], Figure]]:
    """What draws the figures of report.md, by the names of their files."""
    found = {}
    for tier in tiers(ledger):
        groups = ledger.grouped(tier)
        if tier == "settings":
            found["expected-best.png"] = partial(report_figures.expected, groups)
        elif tier != "glue":
            for part, models in parts(groups).items():
                found[f"curves-{tier}{part}.png"] = partial(report_figures.curves, models)
                found[f"costs-{tier}{part}.png"] = partial(costs, models)
            if couples := pairs(tier, groups):
                found[f"pairs-{tier}.png"] = partial(report_figures.pairs, groups, couples)
            if verdicts := judge(COMPARISONS.get(tier, ()), answers(groups)):
                found[f"forest-{tier}.png"] = partial(report_figures.forest, verdicts)
    return found


def costs(groups: Mapping[str, Sequence[Finding]]) -> Figure:
    """The figure of score and cost."""
    energies = {name: joules(findings[0]) for name, findings in groups.items()}
    spent = {name: energy["typical"] for name, energy in energies.items() if energy}
    return report_figures.costs(groups, spent)


def accuracy_table(groups: Mapping[str, Sequence[Finding]]) -> str:
    """A line for each model, the best first."""
    metrics = dict.fromkeys(scored(findings[0]) for findings in groups.values())
    lines = []
    means = {name: np.mean([score(found) for found in findings]) for name, findings in groups.items()}
    for name, findings in sorted(groups.items(), key=lambda item: -means[item[0]]):
        values, (low, high) = [100 * score(found) for found in findings], interval(findings)
        tests = [found["test"] for found in findings]
        lines.append(
            [
                f"`{name}`" + (f", {scored(findings[0])}" if len(metrics) > 1 else ""),
                ", ".join(f"{value:.2f}" for value in values),
                f"{np.mean(values):.2f}",
                f"{statistics.spread(values):.2f}" if len(values) > 1 else "",
                "" if math.isnan(low) else f"{100 * low:.2f} to {100 * high:.2f}",
                averaged([test.get("accuracy_without_in_train") for test in tests], "{:.2f}", 100.0),
                averaged([max(found["validation"]) for found in findings], "{:.2f}", 100.0),
                averaged([found["validation"][-1] for found in findings], "{:.2f}", 100.0),
                PUBLISHED.get(name, "") if findings[0]["tier"] in PAIRS else "",
            ]
        )
    metric = next(iter(metrics)) if len(metrics) == 1 else "score"
    head = ["model", f"{metric} of each seed, %", "mean", "SD", "95 %", "without the texts in train"]
    head += ["validation, best epoch", "last epoch", "the articles' own network (validation)"]
    return table(head, lines)


def cost_table(groups: Mapping[str, Sequence[Finding]]) -> str:
    """What each model takes."""
    lines = []
    for name, findings in groups.items():
        hours, speed, spent = least_core_hours(findings), examples_per_s(findings), joules(findings[0])
        lines.append(
            [
                f"`{name}`",
                f"{findings[0]['parameters']:,}",
                "not known" if hours is None else f"{hours:.2f}",
                f"{speed:,.0f}" if speed else "",
                averaged([found["peak_memory_mib"] for found in findings], "{:,.0f}"),
                f"{spent['typical']:.2g} ({spent['low']:.2g} to {spent['high']:.2g})" if spent else "",
            ]
        )
    head = ["model", "parameters", "core-hours of a seed, at least"]
    head += ["examples a second in training, at best", "peak memory, MiB"]
    return table([*head, "engine, J an example (low to high)"], lines)


def averaged(values: Sequence[float | int | None], form: str, scale: float = 1.0) -> str:
    """The mean of those that are known, in words."""
    known = [value for value in values if value is not None]
    return form.format(scale * np.mean(known)) if known else ""


def swept(directory: Path) -> Iterator[str]:
    """What sweeps over bits, noise and devices have found, where there are files of studies.robustness."""
    for path in sorted(directory.glob("robustness-*.json")):
        document = read_document(path)
        yield f"\n### Accuracy over bits and noise: {path.stem.removeprefix('robustness-')}\n"
        yield f"Mean over devices, by `{document['command']}`:\n"
        yield by_bits(document["rows"])
        yield f"\n![accuracy over bits and noise]({path.stem}.png)\n"


def joules(found: Finding) -> dict[str, float] | None:
    """What the engine takes for an example, typically and with parts at their best and worst: an estimate."""
    return example_joules(suite.EVERY[found["cell"]].read(), Options())


def settings(groups: Mapping[str, Sequence[Finding]]) -> Iterator[str]:
    """The trials, and what can be said of them."""
    yield settings_table(groups)
    tried = {name.partition("-rate-")[0] for name in groups}
    others = [model.name for model in suite.MODELS["1"] if model.name not in tried]
    yield "\nAll models have the rate and the dropout that FNet's trials chose; others may prefer others."
    yield f"Without trials: {', '.join(f'`{name}`' for name in others)}.\n"
    yield "![expected best validation accuracy over hours](expected-best.png)\n"
    found = next(iter(groups.values()))[0]
    examples = int(found["fingerprints"]["data"]["validation"].split()[0])
    accuracy = max(found["validation"])
    error = 100 * math.sqrt(accuracy * (1 - accuracy) / examples)
    yield f"Few trials; one standard error of {examples:,} validation reviews is {error:.2f} points.\n"


def settings_table(groups: Mapping[str, Sequence[Finding]]) -> str:
    lines = [
        [
            f"`{name}`",
            f"{100 * max(found['validation']):.2f}",
            f"{100 * found['validation'][-1]:.2f}",
            hours(found),
        ]
        for name, findings in groups.items()
        for found in findings
    ]
    return table(["trial", "validation, best epoch, %", "last epoch, %", "core-hours"], lines)


def hours(found: Finding) -> str:
    taken = core_hours(found)
    return f"{taken:.2f}" if taken else ""


def comparison_table(verdicts: Sequence[Verdict]) -> str:
    lines = [
        [
            str(v.comparison.claim),
            str(v.comparison),
            f"{100 * v.difference.mean:+.2f}",
            f"{100 * v.difference.low:+.2f} to {100 * v.difference.high:+.2f}",
            f"{v.p:.4f}",
            f"{v.adjusted:.4f}",
            v.words,
        ]
        for v in verdicts
    ]
    head = ["claim", "hypothesis, written down beforehand", "difference, points", "95 %"]
    return table([*head, "p", "p (Holm)", "verdict"], lines)


def provenance_line(groups: Mapping[str, Sequence[Finding]]) -> str:
    """Where the cells were trained, in small print."""
    origins = {
        f"{machine(found['hardware'])}; commit {(found['commit'] or 'unknown')[:9]}; {found['date'][:10]}"
        for findings in groups.values()
        for found in findings
    }
    return "".join(f"\n<sub>{origin}</sub>\n" for origin in sorted(origins))


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
