"""Sentences on skills agree with the results."""

from collections.abc import Sequence
from functools import cache
from statistics import mean

import numpy as np
from agreement import RESULTS, agree, page, parameters
from conftest import ROOT
from scipy.stats import fisher_exact

from evidence.pages.skill_predictions import MATRICES
from evidence.pages.skills import guess_by_position, task_knobs
from evidence.suite.cells import EVERY, MODELS
from evidence.suite.ledger import Finding, number, published, score
from evidence.suite.rates import trial_accuracies
from evidence.suite.skills import (
    BETTER,
    HIGHER,
    HYBRID_TASKS,
    HYBRIDS,
    NETWORKS,
    PAIRS,
    RATES,
    SOLVED,
    TRIED,
    WIDE_HEADS,
)
from evidence.suite.statistics import welch_interval
from fourier_attn.studies.intervals import wilson_interval
from launch import grid


@cache
def skill_scores() -> dict[str, list[float]]:
    """The test accuracies of all seeds of each "TASK-NETWORK"."""
    return {name: [score(each) for each in group] for name, group in published(ROOT, "skills").items()}


def solving(task: str) -> set[str]:
    """The networks that solve a skill with all seeds."""
    scores = skill_scores()
    return {name for name in NETWORKS if min(scores[f"{task}-{name}"]) >= SOLVED}


def test_sentences_on_other_skills_agree_with_the_results() -> None:
    text = page("docs/skill_results.md")
    scores = skill_scores()

    def means(task: str) -> dict[str, float]:
        return {name: mean(scores[f"{task}-{name}"]) for name in NETWORKS}

    copying, ranks = means("selective_copy"), sorted(NETWORKS, key=means("selective_copy").__getitem__)
    mixing = {*NETWORKS} - {"identity", "token_conv"}
    failed = [(task, name) for task in RATES for name in mixing - solving(task)]
    highest = [(task, name) for task, name in failed if RATES[task][name] == TRIED[-1]]
    (trial,) = published(ROOT, "skill_rates")["memorise-fourier+attention-rate-5e-3"]
    said = {
        "Only `long_conv+attention` solves it, with all seeds.": solving("selective_copy")
        == {name for name in NETWORKS if max(scores[f"selective_copy-{name}"]) >= SOLVED}
        == {"long_conv+attention"},
        "Circular attention has the next highest mean.": ranks[-2] == "conv_circular",
        "vary from 73 to 85 %": [round(100 * f(scores["selective_copy-conv_attention"])) for f in (min, max)]
        == [73, 85],
        "`identity` and `token_conv` stay at chance.": max(copying["identity"], copying["token_conv"]) < 0.08,
        "except Fourier mixing, random mixing and a second `token_conv`. Both hybrids solve it": (
            set(NETWORKS) - solving("sort") == {"identity", "token_conv", "conv_fourier", "conv_random"}
        ),
        "there are 52 pairs of a task and a network": len(failed) == 52,
        "In 38 of them, the network was best at 0.005": len(highest) == 38,
        "Examples are 9 of 10 networks on selective copying and 10 of 11 on compression": [
            sum(task == of for task, _ in cases)
            for of in ("selective_copy", "compress")
            for cases in (highest, failed)
        ]
        == [9, 10, 10, 11],
        "So do all networks but `fourier+attention`, with all seeds.": set(NETWORKS) - solving("memorise")
        == {"fourier+attention"},
        "less than 80 % with each of the three new seeds": max(scores["memorise-fourier+attention"]) < 0.8,
        "93.5 % in its best trial": round(100 * number(trial["validation"][-1]), 1) == 93.5,
        "exactly as many correct answers as `conv_long_conv`": means("sort")["conv_attention"]
        == means("sort")["conv_long_conv"],
        "each seed of attention is above all seeds of the three networks": min(
            scores["selective_copy-conv_attention"]
        )
        > max(value for name in MATRICES for value in scores[f"selective_copy-{name}"]),
        "the 95 % interval of the difference to `conv_linear` includes zero": welch_interval(
            *(scores[f"selective_copy-{name}"] for name in ("conv_attention", "conv_linear"))
        )[1]
        < 0,
        "`identity` is far above chance on two tasks only.": {
            task for task in RATES if mean(scores[f"{task}-identity"]) > 0.2
        }
        == {"memorise", "sort"},
    }
    agree(text, said)


def test_sentences_on_more_pairs_agree_with_the_results() -> None:
    text = page("docs/skill_results.md")
    groups, own = published(ROOT, "recall_pairs"), task_knobs("recall")
    scores = {
        (pairs, name): [score(each) for each in groups.get(f"{pairs}-{name}", ())]
        for pairs in PAIRS
        for name in NETWORKS
    }
    full, hybrid = {"conv_attention", "conv_circular"}, "long_conv+attention"
    others = {key: values for key, values in scores.items() if key[1] not in {*full, hybrid} and values}
    guesses = {
        pairs: guess_by_position(own._replace(pairs=pairs, length=length)) for pairs, length in PAIRS.items()
    }
    assert all(len(values) == 3 for values in scores.values())
    said = {
        "solve all these numbers of pairs, with all seeds.": min(
            value for (_, name), values in scores.items() if name in full for value in values
        )
        >= SOLVED,
        "solves 4 to 32 pairs with all seeds, and 64 pairs with two of three. The other seed reaches 2.7 "
        "%.": (
            min(value for pairs in (4, 16, 32) for value in scores[pairs, hybrid]) >= SOLVED
            and sorted(scores[64, hybrid])[1] >= SOLVED
            and f"{100 * min(scores[64, hybrid]):.1f}" == "2.7"
        ),
        "and other numbers of pairs with none.": max(
            value for pairs in PAIRS for value in scores[pairs, "conv_lambda"]
        )
        < SOLVED,
        "All their seeds stay below the guess by position": all(
            max(values) < guesses[pairs] for (pairs, _), values in others.items()
        ),
        "With 64 pairs they reach 3 % or less.": max(
            value for (pairs, _), values in others.items() if pairs == 64 for value in values
        )
        < 0.03,
    }
    agree(text, said)


def test_sentences_on_other_recall_compression_and_induction_agree_with_the_results() -> None:
    text = page("docs/skill_results.md")
    scores, trials, groups = skill_scores(), published(ROOT, "skill_rates"), published(ROOT, "skills")
    full = {"conv_attention", "conv_circular"}

    def others(task: str, but: set[str]) -> float:
        return max(value for name in {*NETWORKS} - but for value in scores[f"{task}-{name}"])

    def learned(network: str) -> set[str]:
        names = {rate: f"noisy_recall-{network}-rate-{rate}" for rate in TRIED}
        return {rate for rate, name in names.items() if number(trials[name][0]["validation"][-1]) >= SOLVED}

    def ends(task: str, *networks: str) -> list[int]:
        values = [value for name in networks for value in scores[f"{task}-{name}"]]
        return [round(100 * min(values)), round(100 * max(values))]

    hybrid, lambdas = {"long_conv+attention"}, {"conv_lambda"}
    said = {
        "Only `long_conv+attention` solves it, with all seeds. Attention": solving("fuzzy_recall") == hybrid,
        "reach about 70 %": ends("fuzzy_recall", *full) == [69, 71],
        "all other networks less than 50 %": others("fuzzy_recall", full | hybrid) < 0.5,
        "So does `long_conv+attention`. Lambda": solving("noisy_recall") == full | hybrid,
        "Lambda layers solve it with two of three seeds.": sum(
            value >= SOLVED for value in scores["noisy_recall-conv_lambda"]
        )
        == 2,
        "reach less than 18 %": others("noisy_recall", full | hybrid | lambdas) < 0.18,
        "learned this task at 0.0008 only": learned("conv_attention") == {"8e-4"},
        "lambda layers at no rate": learned("conv_lambda") == set(),
        "except global filters and a second `token_conv`. The seeds": {*NETWORKS} - solving("induction")
        == {"identity", "token_conv", "conv_global_filter", "fourier+attention"},
        "vary from 50 to 90 %": ends("induction", "conv_global_filter") == [50, 90],
        "`fourier+attention` stays near chance.": max(scores["induction-fourier+attention"]) < 0.15,
        "The best mean is that of `fourier+attention`, 34.5 %.": max(
            (round(100 * mean(scores[f"compress-{name}"]), 1), name) for name in NETWORKS
        )
        == (34.5, "fourier+attention"),
        "No network solves it.": others("compress", set()) < SOLVED,
    }
    agree(text, said)
    solved_by = {name: {task for task in RATES if name in solving(task)} for name in NETWORKS}
    assert [name for name in NETWORKS if len(solved_by[name]) >= 7] == ["long_conv+attention"]
    assert "Only the hybrid `long_conv+attention` solves seven of the eight tasks." in text
    assert "is the only network that solves seven of the eight tasks in 2,000 steps" in page(
        "docs/evidence.md"
    )
    assert "No network solves compression" in page("docs/evidence.md")
    ratios = []
    for task in RATES:
        sizes = {name: groups[f"{task}-{name}"][0]["parameters"] for name in NETWORKS}
        wide = [size for name, size in sizes.items() if name in WIDE_HEADS]
        rest = [size for name, size in sizes.items() if name not in WIDE_HEADS]
        ratios += [min(wide) / max(rest), max(wide) / min(rest)]
    assert (round(min(ratios), 1), round(max(ratios), 1)) == (2.6, 4.6)
    assert "networks with attention have 2.6 to 4.6 times as many parameters as the others" in text


def test_sentences_on_a_higher_rate_agree_with_the_results() -> None:
    trials = trial_accuracies(ROOT)

    def at(rate: str, name: str) -> float:
        return trials[f"{name}-rate-{rate}"]

    before = published(ROOT, "skills") | published(ROOT, "hybrids")
    after = {name: [score(each) for each in found] for name, found in published(ROOT, "higher").items()}
    earlier = {name: [score(each) for each in before[name]] for name in after}
    gains = {name: 100 * (mean(after[name]) - mean(earlier[name])) for name in after}
    changes = [welch_interval(after[name], earlier[name])[1:] for name in after]
    recall = [np.array(each["recall-conv_lambda"]) >= SOLVED for each in (after, earlier)]
    learned = [[right.sum(), (~right).sum()] for right in recall]
    tried = [name.partition("-rate-")[0] for name in published(ROOT, "higher_rates")]
    tasks = {
        task: mean(gain for name, gain in gains.items() if name.startswith(f"{task}-")) for task in BETTER
    }
    copying = {name: gain for name, gain in gains.items() if name.startswith("selective_copy")}
    others = [
        100 * mean(each[name])
        for each in (earlier, after)
        for name in after
        if name.startswith("recall-") and name != "recall-conv_lambda"
    ]

    def means(name: str) -> tuple[float, float]:
        return round(100 * mean(after[name]), 1), round(100 * mean(earlier[name]), 1)

    def solving_seeds(values: Sequence[float]) -> tuple[int, int, list[int]]:
        right = sum(value >= SOLVED for value in values)
        interval = wilson_interval(right / len(values), len(values))
        return right, len(values), [round(100 * bound) for bound in interval]

    said = {
        "In these trials, no network solves its task at 0.0125.": all(at(HIGHER, n) < SOLVED for n in tried),
        "In 31 of the 42 pairs, the validation accuracy is higher than at 0.005.": (
            sum(at(HIGHER, name) > at(TRIED[-1], name) for name in tried),
            len(tried),
        )
        == (31, 42),
        "No network solves its task with all seeds, so prediction 12 holds.": all(
            min(values) < SOLVED for values in after.values()
        ),
        "Lambda layers learn it with four of five seeds (95 % interval: 38 to 96 %)": solving_seeds(
            after["recall-conv_lambda"]
        )
        == (4, 5, [38, 96]),
        "and at 0.005 with two of five (12 to 77 %)": solving_seeds(earlier["recall-conv_lambda"])
        == (2, 5, [12, 77]),
        "The three other networks that were trained again have mean accuracies of 13 to 15 %": (
            len(others),
            round(min(others)),
            round(max(others)),
        )
        == (6, 13, 15),
        "**Compression** gains most, on average over its networks.": max(tasks, key=tasks.__getitem__)
        == "compress",
        "The mean of `conv_fourier` is 51.5 instead of 31.0 %": means("compress-conv_fourier")
        == (51.5, 31.0),
        "that of `long_conv+attention` is 41.3 instead of 26.1 %": means("compress-long_conv+attention")
        == (41.3, 26.1),
        "**Selective copying** gains at most 5.8 points, with `long_conv`.": (
            max(copying, key=copying.__getitem__) == "selective_copy-long_conv"
            and round(max(copying.values()), 1) == 5.8
        ),
        "In six of the 31 pairs, the mean test accuracy is lower than at 0.005.": (
            sum(gain < 0 for gain in gains.values()),
            len(gains),
        )
        == (6, 31),
        "[higher rate](#a-higher-learning-rate) it has 80 to 89 %": [
            round(100 * f(after["selective_copy-long_conv"])) for f in (min, max)
        ]
        == [80, 89],
        "four of five seeds learn it": solving_seeds(after["recall-conv_lambda"])[0] == 4,
        "It raises the mean accuracy of 25 of the 31 networks": sum(gain > 0 for gain in gains.values())
        == 25,
        "in only eight of the 31, seven times above zero and once below": (
            sum(low > 0 for low, _ in changes),
            sum(high < 0 for _, high in changes),
        )
        == (7, 1),
        "Eight of the pairs have only one seed at the higher rate.": sum(
            name.partition("-")[2] in NETWORKS for name in tried if name not in after
        )
        == 8,
        "(Fisher's exact test: p = 0.52)": round(float(fisher_exact(learned).pvalue), 2) == 0.52,
    }
    agree(page("docs/skill_results.md"), said)
    more = [name for name in gains if name.partition("-")[0] in ("selective_copy", "compress")]
    asked = [name for name in tried if name.partition("-")[0] in ("selective_copy", "compress")]
    said = {
        "At a higher rate, most of them have a higher mean, but none solves its task with all seeds": (
            sum(gains[name] > 0 for name in more) > len(asked) / 2
            and all(min(values) < SOLVED for values in after.values())
        ),
        "At a higher rate, lambda layers learn it with four of five (38 to 96 %)": solving_seeds(
            after["recall-conv_lambda"]
        )
        == (4, 5, [38, 96]),
    }
    agree(page("docs/evidence.md"), said)


def test_sentences_on_hybrids_without_attention_agree_with_the_results() -> None:
    trials, tests = published(ROOT, "hybrid_rates"), published(ROOT, "skills")

    def best(network: str) -> list[float]:
        return [
            max(number(trials[f"{task}-{network}-rate-{rate}"][0]["validation"][-1]) for rate in TRIED)
            for task in HYBRID_TASKS
        ]

    def sizes(*groups: Sequence[Finding]) -> list[int]:
        every = [each["parameters"] for group in groups for each in group]
        return [round(size, -3) for size in (min(every), max(every))]

    worst = {name: 100 * min(best(name)) for name in HYBRIDS}
    finished = {name: [score(each) for each in group] for name, group in published(ROOT, "hybrids").items()}
    assert {name: len(values) for name, values in finished.items()} == {
        model.name: model.seeds for model in MODELS["hybrids"]
    }
    circular, lambdas, control = (
        {task: finished[f"{task}-{name}"] for task in HYBRID_TASKS} for name in HYBRIDS
    )
    fuzzy = lambdas.pop("fuzzy_recall")
    copied = [f"{100 * value:.0f}" for value in control["selective_copy"]]
    copying = [number(trials[f"selective_copy-long_conv-rate-{rate}"][0]["validation"][-1]) for rate in TRIED]
    unsolved = {f"{task}-{name}" for task in ("fuzzy_recall", "selective_copy") for name in NETWORKS}
    unsolved -= {f"{task}-long_conv+attention" for task in HYBRID_TASKS}
    agree(
        page("docs/skill_results.md"),
        {
            "a validation accuracy of 100.0 % on each of the four tasks": round(
                worst["long_conv+circular"], 1
            )
            == 100.0,
            "Lambda layers have at least 95.9 %": round(worst["long_conv+lambda"], 1) == 95.9,
            "at least 99.9 % on each task with each seed": min(map(min, circular.values())) >= 0.999,
            "Lambda layers solve recall, noisy recall and selective copying with each seed": min(
                map(min, lambdas.values())
            )
            >= SOLVED,
            "fuzzy recall with two of three (91.4, 96.8 and 95.0 %)": [round(100 * x, 1) for x in fuzzy]
            == [91.4, 96.8, 95.0]
            and sum(x >= SOLVED for x in fuzzy) == 2,
            "The control solves none of the four tasks.": max(map(max, control.values())) < SOLVED,
            "On fuzzy recall it is even worse than `conv_long_conv`": max(control["fuzzy_recall"])
            < min(score(each) for each in tests["fuzzy_recall-conv_long_conv"]),
            f"On selective copying it has {min(copied)} to {max(copied)} %.": True,
            "a higher rate was clearly better (51, 68 and 78 %)": [round(100 * x) for x in copying]
            == [51, 68, 78],
            "only those with a long convolution followed by attention, circular attention or a lambda layer "
            "solve fuzzy recall or selective copying": all(
                score(each) < SOLVED for name in unsolved for each in tests[name]
            ),
            "The three networks have 50,000 to 87,000 parameters": sizes(*trials.values())
            == [50_000, 87_000],
            "`long_conv+attention` has 179,000 to 210,000": sizes(
                *(tests[f"{task}-long_conv+attention"] for task in HYBRID_TASKS)
            )
            == [179_000, 210_000],
        },
    )
    said = {
        "With circular attention in the second block, the network solves recall, fuzzy recall, noisy recall "
        "and selective copying with all seeds.": min(map(min, circular.values())) >= SOLVED,
        "its seeds have 91.4, 96.8 and 95.0 %, so chance may decide which": [round(100 * x, 1) for x in fuzzy]
        == [91.4, 96.8, 95.0],
        "A second long convolution solves none of the four": max(map(max, control.values())) < SOLVED,
    }
    agree(page("docs/evidence.md"), said)


def test_sizes_of_the_networks_that_recall_on_engines_agree_with_their_configurations() -> None:
    groups = published(ROOT, "skills")
    circular, hybrid = (groups[f"recall-{name}"][0] for name in ("conv_circular", "long_conv+attention"))
    kernels = {"kernel": "3,3", "shape": "8,8", "boundary": "zero"}
    options = [f"--config.model.mixer.{name}={value}" for name, value in kernels.items()]
    small = grid.read(("--config=configs/skills.py:conv_circular-recall", *options))
    models = [small.model, *(EVERY[each["cell"]].read().model for each in (circular, hybrid))]
    for name, cell in {"circular": circular, "hybrid": hybrid}.items():
        (network,) = RESULTS.document(f"studies/robustness-recall-{name}")["networks"]
        assert network["run"] == cell["cell"]
    said = {
        "The networks have two blocks of width 64 and read 64 tokens.": {
            (each.depth, each.d, each.positions) for each in models
        }
        == {(2, 64, 64)},
        f"they have {circular['parameters']:,} parameters ({parameters(small):,} with 3 x 3 kernels)": True,
        f"and the hybrid has {hybrid['parameters']:,}.": True,
    }
    agree(page("docs/optics/findings.md"), said)
