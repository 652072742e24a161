"""Tabulates the verdicts on the predictions of results/evidence/skills/predictions.md."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from evidence.pages.markdown import Results, table
from evidence.pages.skills import Groups
from evidence.suite import cells
from evidence.suite.ledger import published, score
from evidence.suite.skills import BETTER, HYBRID_TASKS, NETWORKS, SOLVED

FIXED = (  # networks whose weights over tokens do not depend on the data
    *("token_conv", "conv_fourier", "conv_random", "conv_global_filter"),
    *("conv_long_conv", "conv_afno", "conv_linear"),
)
MATRICES = ("conv_fourier", "conv_linear", "conv_long_conv")  # that prediction 5 names
NARROW = ("conv_attention", "long_conv+attention")  # that prediction 8 names
MANY, BOUND = "64", 0.5  # pairs, and the accuracy that prediction 2 names
TIERS = ("skills", "recall_pairs", "recall_equal", "hybrids", "higher")
SEEDS = {(tier, model.name): model.seeds for tier in TIERS for model in cells.MODELS[tier]}


class Scores(NamedTuple):
    """Holds the test accuracies of a network on a task, and whether all of its seeds are finished."""

    network: str
    values: Sequence[float]
    complete: bool

    @property
    def solved(self) -> int:
        """Returns how many seeds solve the task."""
        return sum(value >= SOLVED for value in self.values)

    def __str__(self) -> str:
        return f"`{self.network}` {self.solved} of {len(self.values)}"


def all_solve(every: Iterable[Scores]) -> bool | None:
    """Says whether all seeds of all networks solve a task; None if seeds are missing and none fails."""
    every = list(every)
    if any(each.solved < len(each.values) for each in every):
        return False
    return True if all(each.complete for each in every) else None


def some_solve(every: Iterable[Scores]) -> bool | None:
    """Says whether a seed of each network solves a task; None if seeds are missing."""
    every = list(every)
    if all(each.solved for each in every):
        return True
    return False if all(each.complete for each in every if not each.solved) else None


def none_solve(every: Iterable[Scores]) -> bool | None:
    """Says whether no seed of any network solves a task; None if seeds are missing and none does."""
    every = list(every)
    if any(each.solved for each in every):
        return False
    return True if all(each.complete for each in every) else None


def contrary(condition: bool | None) -> bool | None:
    """Returns whether a condition does not hold; None if that is open."""
    return None if condition is None else not condition


def none_always_solve(every: Iterable[Scores]) -> bool | None:
    """Says whether no network solves its task with all seeds; None if seeds are missing and none does."""
    every = list(every)
    if any(each.complete and each.solved == len(each.values) for each in every):
        return False
    return True if all(each.complete or each.solved < len(each.values) for each in every) else None


def none_exceed(every: Iterable[Scores], bound: float) -> bool | None:
    """Says whether no seed exceeds a bound; None if seeds are missing and none does.

    Args:
      every: the scores of each network.
      bound: an accuracy.
    """
    every = list(every)
    if any(value > bound for each in every for value in each.values):
        return False
    return True if all(each.complete for each in every) else None


def above(best: Scores, others: Iterable[Scores]) -> bool | None:
    """Says whether the mean of a network is above those of others; None if seeds are missing.

    Args:
      best: the scores of the network.
      others: the scores of each other network.
    """
    others = list(others)
    if not all(each.complete and each.values for each in (best, *others)):
        return None
    return all(mean(best) > mean(each) for each in others)


def mean(scores: Scores) -> float:
    """Returns the mean accuracy over seeds."""
    return sum(scores.values) / len(scores.values)


def verdict(*conditions: bool | None) -> str:
    """Returns "holds" if all conditions do, "fails" if one does not, and "open" if seeds are missing."""
    if False in conditions:
        return "fails"
    return "open" if None in conditions else "holds"


def verdicts_table(results: Results) -> str:
    """Tabulates the predictions with their verdicts, and the scores that decide them."""
    return table(
        ["", "prediction", "verdict", "result"],
        rows({tier: published(results.root, tier) for tier in TIERS}),
    )


def rows(found: Mapping[str, Groups]) -> list[list[str]]:
    """Returns a row for each prediction.

    Args:
      found: by tier, the findings of each "TASK-NETWORK". In tier `recall_pairs`, a number of pairs takes the
        place of the task, and in tier `recall_equal`, "flops" or "parameters" does.
    """

    def on(task: str, *networks: str, tier: str = "skills") -> list[Scores]:
        groups = {network: found.get(tier, {}).get(f"{task}-{network}", ()) for network in networks}
        return [
            Scores(
                network,
                [score(each) for each in findings],
                0 < len(findings) >= SEEDS.get((tier, f"{task}-{network}"), 3),
            )
            for network, findings in groups.items()
        ]

    many = partial(on, MANY, tier="recall_pairs")
    equal, mixed = partial(on, tier="recall_equal"), partial(on, tier="hybrids")
    recalling = on("recall", "conv_attention", "conv_circular")
    recalling_many = many("conv_attention", "conv_circular")
    hybrids = on("recall", "long_conv+attention", "fourier+attention")
    lambdas = on("recall", "conv_lambda")
    copying, sorting = (on(task, "conv_attention", *MATRICES) for task in ("selective_copy", "sort"))
    replaced, doubled = (
        [each for task in HYBRID_TASKS for each in mixed(task, name)]
        for name in ("long_conv+circular", "long_conv")
    )
    higher = {task: on(task, *names, tier="higher") for task, names in BETTER.items()}
    return [
        [
            "1",
            "Attention and circular attention recall 8 and 64 pairs.",
            verdict(all_solve(recalling), all_solve(recalling_many)),
            "; ".join(filter(None, (_solving(recalling), _solving(recalling_many, f" with {MANY} pairs")))),
        ],
        [
            "2",
            "Mixers whose weights do not depend on the data stay below 50 % with 64 pairs.",
            verdict(none_exceed(many(*FIXED), BOUND)),
            _best_seed(many(*FIXED)),
        ],
        _row(
            3,
            "One block of attention is enough for recall.",
            verdict(all_solve(hybrids[:1]), some_solve(hybrids[1:])),
            hybrids,
        ),
        _row(4, "Lambda layers do not recall.", verdict(contrary(some_solve(lambdas))), lambdas),
        [
            "5",
            "Attention copies and sorts better than fixed weights over positions.",
            verdict(above(copying[0], copying[1:]), above(sorting[0], sorting[1:])),
            _means(copying, sorting),
        ],
        _row(
            6,
            "All networks solve `memorise`, because it needs no mixing.",
            verdict(all_solve(on("memorise", *NETWORKS))),
            on("memorise", *NETWORKS),
        ),
        [
            "7",
            "With the FLOPs of attention, mixers whose weights do not depend on the data do not recall.",
            verdict(none_exceed(equal("flops", *FIXED), BOUND)),
            _best_seed(equal("flops", *FIXED)),
        ],
        _row(
            8,
            "Attention recalls with as many parameters as the others.",
            verdict(all_solve(equal("parameters", *NARROW))),
            equal("parameters", *NARROW),
        ),
        [
            "9",
            "After a long convolution, circular attention can replace attention.",
            verdict(all_solve(replaced)),
            _solved_tasks(dict(zip(HYBRID_TASKS, replaced, strict=True))),
        ],
        _row(
            10,
            "After a long convolution, lambda layers cannot replace attention.",
            verdict(contrary(some_solve(mixed("fuzzy_recall", "long_conv+lambda")))),
            mixed("fuzzy_recall", "long_conv+lambda"),
        ),
        [
            "11",
            "After a long convolution, a second one cannot replace attention.",
            verdict(none_solve(doubled)),
            _solved_tasks(dict(zip(HYBRID_TASKS, doubled, strict=True))),
        ],
        [
            "12",
            "At the learning rate 0.0125, no network that is trained again solves its task with all seeds.",
            verdict(none_always_solve(chain(*higher.values()))),
            _solving_some(higher),
        ],
    ]


def _means(copying: Iterable[Scores], sorting: Iterable[Scores]) -> str:
    """Returns the mean accuracies of networks on copying and on sorting, in percent."""
    pairs = zip(copying, sorting, strict=True)
    known = [f"`{a.network}` {_percent(a)} and {_percent(b)}" for a, b in pairs if a.values and b.values]
    return f"means, copying and sorting, %: {', '.join(known)}" if known else ""


def _best_seed(every: Iterable[Scores]) -> str:
    """Returns the best seed of all networks, with its accuracy in percent."""
    known = {each.network: max(each.values) for each in every if each.values}
    best = max(known, key=known.__getitem__, default="")
    return f"best of all seeds, %: `{best}` {100 * known[best]:.1f}" if known else ""


def _percent(scores: Scores) -> str:
    return f"{100 * mean(scores):.3f}"


def _row(number: int, prediction: str, words: str, every: Iterable[Scores]) -> list[str]:
    return [str(number), prediction, words, _solving(every)]


def _solving(every: Iterable[Scores], where: str = "") -> str:
    """Returns how many seeds of each network solve a task."""
    known = ", ".join(str(each) for each in every if each.values)
    return f"seeds that solve it{where}: {known}" if known else ""


def _solving_some(by_task: Mapping[str, Iterable[Scores]]) -> str:
    """Returns how many seeds solve the task, for each network and task with such a seed."""
    pairs = [(task, each) for task, every in by_task.items() for each in every if each.values]
    some = [f"{each} on `{task}`" for task, each in pairs if each.solved]
    rest = f"no seed of the other {len(pairs) - len(some)} pairs of a network and a task"
    return f"seeds that solve it: {', '.join([*some, rest])}" if pairs else ""


def _solved_tasks(by_task: Mapping[str, Scores]) -> str:
    """Returns how many seeds of one network solve each task."""
    known = [f"`{task}` {each.solved} of {len(each.values)}" for task, each in by_task.items() if each.values]
    return f"seeds that solve each task: {', '.join(known)}" if known else ""
