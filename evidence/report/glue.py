"""Makes a table of GLUE like that of FNet's paper: a score for each task and their mean."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from evidence.pages.markdown import NOT_RUN, Results, mean_cell, table
from evidence.suite.ledger import Finding, number, published
from evidence.suite.pretraining import GLUE, SCRATCH, on_wikitext
from fourier_attn.train.scores import CORRELATIONS

# Metrics that a score averages. All other tasks use accuracy, including CoLA as in the paper.
MEANS = {"mrpc": ("accuracy", "f1"), "qqp": ("accuracy", "f1"), "stsb": ("spearman",)}


def score(finding: Finding) -> float:
    """Returns the validation score of a finding after the last epoch.

    It is NaN for a failure: the validation line has a metric that is undefined, such as the correlation of
    predictions that are all the same.
    """
    line = finding["epochs"][-1]["validation"]
    if any(value is None or math.isnan(value) for name, value in line.items() if name in CORRELATIONS):
        return math.nan
    return float(np.mean([number(line[name]) for name in MEANS.get(finding["task"], ("accuracy",))]))


def glue_table(groups: Mapping[str, Sequence[Finding]]) -> str:
    """Tabulates mean and standard deviation over seeds of each task, and the mean over tasks.

    Args:
      groups: the findings of each "TASK-KIND", where KIND is a kind of network.
    """
    by_kind: dict[str, dict[str, list[float]]] = {}
    for name, findings in groups.items():
        task, _, kind = name.partition("-")
        by_kind.setdefault(kind, {})[task] = [100 * score(each) for each in findings]
    tasks = list(dict.fromkeys(task for scores in by_kind.values() for task in scores))
    lines = []
    for kind, scores in by_kind.items():
        means = [float(np.nanmean(values)) for values in scores.values() if not np.isnan(values).all()]
        whole = f"{np.mean(means):.1f} ({len(means)} tasks)" if means else ""
        lines.append([kind, *(mean_cell(scores.get(task, []), digits=1) for task in tasks), whole])
    return table(["network", *tasks, "mean without failures"], lines)


def pretrained_table(results: Results, wiki: bool) -> str:
    """Tabulates pre-trained networks in percent: test accuracies, and scores on GLUE over seeds.

    Lists the networks that are fine-tuned on every task with equally many seeds, the most accurate on masked
    tokens first. The network without pre-training is the last. The mean is left out if a task failed with all
    seeds.

    Args:
      results: the files of results.
      wiki: True: networks that read WikiText-2 alone; False: those that also read IMDb.
    """
    networks, groups = published(results.root, "pretrain"), published(results.root, "glue")
    rows: list[tuple[float, list[str]]] = []
    for name in (*networks, SCRATCH):
        means = seed_means(groups, name)
        if len(means) and on_wikitext(name) == wiki:
            scores = [[100 * score(each) for each in groups[f"{task}-{name}"]] for task in GLUE]
            failed, runs = int(np.isnan(scores).sum()), np.size(scores)
            mean = mean_cell([100 * float(each) for each in means], digits=1)
            mean += f", {failed} of {runs} runs failed" if failed else ""
            if np.isnan(scores).all(axis=1).any():
                mean = "not comparable, a task failed"
            masked, accuracies = 0.0, ["not pre-trained", ""]
            if name in networks:
                test = networks[name][0]["test"]
                masked, order = (100 * test[f"{task}_accuracy"] for task in ("mlm", "sop"))
                accuracies = [f"{masked:.1f}", f"{order:.1f}"]
            shown = [mean_cell(values, digits=1) for values in scores]
            rows.append((masked, [f"`{name}`", *accuracies, *shown, mean]))
    if not rows:
        return table(["network"], [[NOT_RUN]])
    head = ["network", "masked tokens", "order", *GLUE, "mean"]
    return table(head, [cells for _, cells in sorted(rows, key=lambda row: -row[0])])


def seed_means(groups: Mapping[str, Sequence[Finding]], kind: str, zeros: bool = False) -> np.ndarray:
    """Returns the mean score over the tasks for each seed; empty if a task or seed is missing.

    Args:
      groups: the findings of each "TASK-KIND".
      kind: a kind of network.
      zeros: True: a failure counts as 0. False: it counts as the mean of the other seeds, so that all seeds
        have the same tasks. A task that fails with all seeds is then left out, as in the paper.
    """
    found = [groups.get(f"{task}-{kind}", ()) for task in GLUE]
    if not all(found) or len({len(findings) for findings in found}) > 1:
        return np.empty(0)
    scores = np.array([[score(each) for each in findings] for findings in found])
    if zeros:
        return np.nan_to_num(scores).mean(axis=0)
    kept = scores[~np.isnan(scores).all(axis=1)]
    return np.where(np.isnan(kept), np.nanmean(kept, axis=1, keepdims=True), kept).mean(axis=0)
