"""Tabulates the accuracies on the skills: networks by tasks, who learns recall, and recall of more pairs."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import numpy as np

from evidence.pages.markdown import NOT_RUN, Results, mean_cell, table
from evidence.suite import cells
from evidence.suite.ledger import Finding, number, published, score
from evidence.suite.rates import trial_accuracies
from evidence.suite.skills import (
    AT_HIGHEST,
    BETTER,
    HIGHER,
    HYBRID_TASKS,
    HYBRIDS,
    NETWORKS,
    PAIRS,
    SOLVED,
    TRIED,
)
from fourier_attn.data.loaders.skills import TRAIN
from fourier_attn.data.skills import IGNORED, SKILLS, Knobs, knobs_of, sample
from fourier_attn.studies.intervals import percent_range, wilson_interval

Groups = Mapping[str, Sequence[Finding]]  # findings of each "TASK-NETWORK", or "PAIRS-NETWORK"


def skills_table(results: Results) -> str:
    """Tabulates the test accuracy on each task, next to that of chance."""
    return accuracies(published(results.root, "skills"))


def recall_table(results: Results) -> str:
    """Tabulates which seeds of each network learn recall, and when."""
    return solved_table(published(results.root, "skills"))


def equal_table(results: Results) -> str:
    """Tabulates recall of 8 pairs with equal FLOPs, and with about equal parameters."""
    return equal_accuracies(published(results.root, "recall_equal"))


def hybrids_table(results: Results) -> str:
    """Tabulates the networks with a long convolution in the first block, whose second block differs."""
    return hybrid_accuracies({**published(results.root, "skills"), **published(results.root, "hybrids")})


def pairs_table(results: Results) -> str:
    """Tabulates the test accuracy of each network on recall of fewer and more pairs."""
    return pair_accuracies({**published(results.root, "recall_pairs"), **_eight(results)})


def _eight(results: Results) -> Groups:
    """Returns the findings of task `recall`, which has eight pairs, under the names of `recall_pairs`."""
    found = published(results.root, "skills")
    return {f"8-{name}": found[f"recall-{name}"] for name in NETWORKS if f"recall-{name}" in found}


def accuracies(groups: Groups) -> str:
    """Tabulates the mean and standard deviation of the test accuracy: networks by tasks."""
    tasks = [task for task in SKILLS if any(f"{task}-{name}" in groups for name in NETWORKS)]
    chances = [100 * SKILLS[task].chance(task_knobs(task)) for task in tasks]
    lines = [["chance", *(f"{chance:.1f}" for chance in chances)], *_rows(groups, tasks)]
    return table(["network", *(f"`{task}`" for task in tasks)], lines)


def hybrid_accuracies(groups: Groups) -> str:
    """Tabulates sizes and test accuracies of networks that begin with a long convolution, by task.

    Args:
      groups: the findings of each "TASK-NETWORK".
    """
    lines = []
    for name in ("long_conv+attention", *HYBRIDS):
        found = [groups.get(f"{task}-{name}", ()) for task in HYBRID_TASKS]
        if any(found):
            sizes = sorted(findings[0]["parameters"] for findings in found if findings)
            lines.append([f"`{name}`", f"{sizes[0]:,} to {sizes[-1]:,}", *map(_cell, found)])
    return table(["network", "parameters", *(f"`{task}`" for task in HYBRID_TASKS)], lines)


def solved_table(groups: Groups, task: str = "recall") -> str:
    """Tabulates the share of seeds that solve a task, its 95 % interval, and when; the best first."""
    lines = []
    for name, findings in _best_first(groups, task).items():
        scores = [score(finding) for finding in findings]
        right = sum(value >= SOLVED for value in scores)
        steps = [step for finding in findings if (step := solved_after(finding))]
        low, high = wilson_interval(right / len(scores), len(scores))
        lines.append(
            [
                f"`{name}`",
                f"{right} of {len(scores)}",
                percent_range(low, high, ".0f"),
                f"{statistics.median(steps):,.0f}" if right else "",
                ", ".join(f"{100 * value:.1f}" for value in scores),
                f"{cells.EVERY[findings[0]['cell']].read().optim.learning_rate:g}",
            ]
        )
    head = ["network", "seeds that solve it", "share, 95 % interval, %", "median step", "test accuracy, %"]
    return table([*head, "learning rate"], lines)


def equal_accuracies(groups: Groups) -> str:
    """Tabulates the seeds that solve recall with equal FLOPs and with equal parameters; the best first.

    Args:
      groups: the findings of each "flops-NETWORK" and "parameters-NETWORK".
    """
    lines = []
    for part, words in (("flops", "FLOPs"), ("parameters", "parameters")):
        for name, findings in _best_first(groups, part).items():
            scores = [score(finding) for finding in findings]
            lines.append(
                [
                    words,
                    f"`{name}`",
                    f"{sum(value >= SOLVED for value in scores)} of {len(scores)}",
                    ", ".join(f"{100 * value:.1f}" for value in scores),
                    f"{findings[0]['parameters']:,}",
                    f"{250 * findings[0]['epochs'][-1]['epoch']:,}",
                ]
            )
    head = ["equal", "network", "seeds that solve it", "test accuracy, %", "parameters", "steps"]
    return table(head, lines)


def solved_after(finding: Finding) -> int | None:
    """Returns the step of the first validation whose accuracy solves the task; None if there is none."""
    data = cells.EVERY[finding["cell"]].read().data
    steps = (data.train_examples or TRAIN) // data.batch
    for entry in finding["epochs"]:
        if number(entry["validation"]["accuracy"]) >= SOLVED:
            return entry["epoch"] * steps
    return None


def pair_accuracies(groups: Groups) -> str:
    """Tabulates the test accuracy, and that of guesses: networks by numbers of pairs."""
    counts = [pairs for pairs in sorted({8, *PAIRS}) if any(f"{pairs}-{name}" in groups for name in NETWORKS)]
    own = task_knobs("recall")
    sizes = [own._replace(pairs=pairs, length=PAIRS.get(pairs, own.length)) for pairs in counts]
    lines = [
        ["chance", *(f"{100 * SKILLS['recall'].chance(knobs):.1f}" for knobs in sizes)],
        ["guess by position", *(f"{100 * guess_by_position(knobs):.1f}" for knobs in sizes)],
    ]
    easy = next((count for count in counts if count == own.pairs), counts[0])  # the first table's order
    shown = dict.fromkeys((*_best_first(groups, str(easy)), *NETWORKS))
    lines += _rows(groups, counts, shown)
    return table(["network", *(f"{pairs} pairs" for pairs in counts)], lines)


@cache
def guess_by_position(knobs: Knobs, examples: int = 50_000) -> float:
    """Returns the accuracy on `recall` of a guess that only knows the position of the question.

    Each position has a most frequent pair, because the first pairs tend to have their questions first. The
    guess is that pair's value. Half of the sequences show the pairs, and the other half measure the accuracy.

    Args:
      knobs: options of the task.
      examples: number of random sequences in each half.
    """
    counts = np.zeros((2, knobs.length, knobs.pairs), np.int64)
    for half, count in enumerate(counts):
        inputs, labels = sample("recall", np.random.default_rng(half), examples, knobs)
        values = inputs[:, 1 : 2 * knobs.pairs : 2]
        row, position = np.nonzero(labels != IGNORED)
        pair = np.argmax(values[row] == labels[row, position, None], axis=1)
        np.add.at(count, (position, pair), 1)
    shown, held_out = counts
    return held_out[np.arange(knobs.length), shown.argmax(axis=1)].sum() / held_out.sum()


def rates_table(groups: Groups, rates: Sequence[str] = TRIED) -> str:
    """Tabulates the validation accuracy of the trials after training, by learning rate.

    Args:
      groups: the findings of each "TASK-NETWORK-rate-RATE".
      rates: the learning rates.
    """
    lines = []
    for task in SKILLS:
        for name in (*NETWORKS, *HYBRIDS):
            found = [groups.get(f"{task}-{name}-rate-{rate}", ()) for rate in rates]
            if any(found):
                ends = [
                    f"{100 * number(each[0]['validation'][-1]):.1f}" if each else NOT_RUN for each in found
                ]
                lines.append([f"`{task}`", f"`{name}`", *ends])
    return table(["task", "network", *(f"rate {float(rate):g}" for rate in rates)], lines)


def higher_table(results: Results) -> str:
    """Tabulates the trials at a higher rate next to those at the highest rate of the other trials."""
    accuracies = trial_accuracies(results.root)
    rates = (TRIED[-1], HIGHER)
    lines = []
    for task, networks in AT_HIGHEST.items():
        for network in networks:
            trials = [f"{task}-{network}-rate-{rate}" for rate in rates]
            if all(trial in accuracies for trial in trials):
                ends = [100 * accuracies[trial] for trial in trials]
                change = f"{ends[1] - ends[0]:+.1f}"
                lines.append([f"`{task}`", f"`{network}`", *(f"{end:.1f}" for end in ends), change])
    head = ["task", "network", *(f"validation accuracy at {float(rate):g}, %" for rate in rates)]
    return table([*head, "change, points"], lines)


def higher_accuracies(groups: Groups) -> str:
    """Tabulates the test accuracy of networks at the higher rate, and the seeds that solve the task.

    Args:
      groups: the findings of each "TASK-NETWORK".
    """
    return _at_both_rates({}, groups)


def higher_seeds_table(results: Results) -> str:
    """Tabulates the test accuracy of networks at the highest rate of their trials, and at the higher one."""
    before = published(results.root, "skills") | published(results.root, "hybrids")
    return _at_both_rates(before, published(results.root, "higher"))


def _at_both_rates(before: Groups, after: Groups) -> str:
    """Tabulates what networks reach at the higher rate.

    Args:
      before: the findings of each "TASK-NETWORK" at the highest rate of the trials; {} leaves it out.
      after: those at the higher rate.
    """
    lines = []
    for task, networks in BETTER.items():
        for network in networks:
            name = f"{task}-{network}"
            if name in after:
                solved = sum(score(finding) >= SOLVED for finding in after[name])
                means = [_cell(each[name]) for each in (before, after) if each]
                lines.append([f"`{task}`", f"`{network}`", *means, f"{solved} of {len(after[name])}"])
    rates = [TRIED[-1], HIGHER] if before else [HIGHER]
    head = ["task", "network", *(f"test accuracy at {float(rate):g}, %" for rate in rates)]
    return table([*head, f"seeds that solve it at {float(HIGHER):g}"], lines)


def _best_first(groups: Groups, prefix: str) -> Groups:
    """Returns the findings of "PREFIX-NETWORK" by network, the one with the best mean score first."""
    known = {name: groups[f"{prefix}-{name}"] for name in NETWORKS if f"{prefix}-{name}" in groups}
    return dict(sorted(known.items(), key=lambda item: -statistics.mean(map(score, item[1]))))


def _rows(
    groups: Groups, columns: Sequence[str | int], networks: Iterable[str] = NETWORKS
) -> list[list[str]]:
    """Returns a row for each network with a result, and a cell for each column of "COLUMN-NETWORK"."""
    rows = {name: [groups.get(f"{column}-{name}", ()) for column in columns] for name in networks}
    return [[f"`{name}`", *map(_cell, found)] for name, found in rows.items() if any(found)]


def _cell(findings: Sequence[Finding]) -> str:
    return mean_cell([100 * score(each) for each in findings], digits=1) if findings else NOT_RUN


def task_knobs(task: str) -> Knobs:
    """Returns the options of a task at its own sizes."""
    config = next(cell for cell in cells.cells("skill_rates") if cell.task == task).read()
    return knobs_of(config.data)
