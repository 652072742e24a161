"""Measured numbers inside sentences, by the names under which pages have them; see evidence/pages/fill.py."""

import math
import re
from collections import Counter
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from evidence.pages import language, pretraining_predictions, self_pretraining, skill_predictions
from evidence.pages.claim_list import claim_counts, fifth_batch
from evidence.pages.claims import CONTROL, share_of_glue
from evidence.pages.compiled import COMPILED_VALUES
from evidence.pages.markdown import Results, mean_cell, significant
from evidence.pages.measured import GPU_VALUES
from evidence.pages.open_questions import finished_cells, of_configurations, of_suite, open_hours
from evidence.pages.operator_guess import OPERATOR_RULE, listops_networks, significant_z
from evidence.pages.optics_values import OPTICS_VALUES, cheapest_engine
from evidence.pages.projected import spread
from evidence.pages.repeats import largest_change, repeats
from evidence.pages.skills import guess_by_position, task_knobs
from evidence.report import glue
from evidence.report.comparisons import COMPARISONS, decide
from evidence.report.write import answers
from evidence.suite.cells import EVERY, MODELS, TWINS
from evidence.suite.ledger import (
    core_hours,
    interval,
    least_core_hours,
    published,
    score,
    without_failures,
)
from evidence.suite.pretraining import SCRATCH
from evidence.suite.skills import NETWORKS
from evidence.suite.statistics import difference, welch_interval
from fourier_attn.layers import Attention
from fourier_attn.studies.engine import frontier, robustness_sweep
from fourier_attn.studies.intervals import percent_range

LANDING_TOKENS = 1024  # of the comparison on the landing page
TEXTS = ("settings", "1", "2", "sst2", "listops")  # tiers of the page on texts


def other_days(results: Results) -> str:
    """Returns the largest ratio of the CPU seconds of two seeds of a model."""
    ratios = [1.0]
    for tier in TEXTS:
        for findings in published(results.root, tier).values():
            hours = without_failures([core_hours(finding) for finding in findings])
            ratios += [max(hours) / min(hours)] if hours else []
    return f"{max(ratios):.1f}"


def hypotheses(results: Results, held: bool = False) -> str:
    """Returns the number of comparisons on IMDb.

    Args:
      results: the files of results.
      held: True: only those whose claim holds.
    """
    verdicts = decide(COMPARISONS["1"], answers(published(results.root, "1")))
    return str(
        sum(verdict.words in ("better", "not worse") for verdict in verdicts) if held else len(verdicts)
    )


def sweep_error(results: Results, name: str) -> str:
    """Returns one standard error of an accuracy in a sweep over bits and noise on IMDb, in points."""
    return f"{robustness_sweep.standard_error(results.document(f'evidence/imdb/robustness-{name}')):.1f}"


def reviews_accuracy(results: Results, config: str) -> str:
    """Returns the mean test accuracy in percent on synthetic reviews.

    Args:
      results: the files of results.
      config: the configuration as its runs name it.
    """
    rows = results.document("benchmarks/reviews-cpu")["rows"]
    return f"{100 * np.mean([row['test']['accuracy'] for row in rows if row['config'] == config]):.2f}"


def first_p(results: Results) -> str:
    """Returns Holm's p-value of the first comparison, convolutional attention against attention."""
    verdicts = decide(COMPARISONS["1"], answers(published(results.root, "1")))
    return f"{verdicts[0].adjusted:.3f}"


def seed_difference_after_one_epoch(results: Results) -> str:
    """Returns the largest difference of a model's seeds on validation after one epoch, in points."""
    groups = published(results.root, "1").values()
    return (
        f"{max(100 * np.ptp([finding['validation'][0] for finding in findings]) for findings in groups):.1f}"
    )


def circular_parameters(results: Results) -> str:
    """Parameters of the articles' network with circular attention, in percent of those with attention."""
    groups = published(results.root, "2")
    circular, attention = (groups[name][0]["parameters"] for name in ("circular-1d", "attention"))
    return f"{100 * circular / attention:.0f}"


def saved_with_split_heads(results: Results) -> str:
    """Returns the percentage of parameters that circular attention saves against attention with split heads.

    It is that of the articles' network. The published one has heads as wide as the network.
    """
    groups = published(results.root, "2")
    circular, attention = (groups[name][0]["parameters"] for name in ("circular-1d", "attention"))
    network = EVERY["2-attention-0"].read().model

    def size(head_width: str) -> int:
        layer = Attention(heads=network.mixer.heads, head_width=head_width)
        shapes = jax.eval_shape(layer.init, jax.random.key(0), jnp.zeros((1, 1, network.d)))
        return sum(leaf.size for leaf in jax.tree.leaves(shapes))

    split = attention - network.depth * (size("full") - size("split"))
    return f"{100 * (1 - circular / split):.0f}"


def below_attention(results: Results, model: str) -> str:
    """Returns the points by which a model of the articles' size is below attention, with means over seeds."""
    groups = published(results.root, "2")
    ours, attention = (np.mean([score(finding) for finding in groups[name]]) for name in (model, "attention"))
    return f"{100 * (attention - ours):.1f}"


def attention_hours(results: Results) -> str:
    """Returns the ratio of core-hours of the articles' network with attention to those with lambda layers."""
    groups = published(results.root, "2")
    attention, other = (least_core_hours(groups[name]) or math.nan for name in ("attention", "lambda"))
    return f"{attention / other:.1f}"


def batch_5(results: Results, better: str, worse: str) -> str:
    """Returns the points by which a model is above another on CIFAR-10's fifth batch, with Welch's interval.

    Args:
      results: the files of results.
      better, worse: models of tier `cifar10`.
    """
    groups = published(results.root, "cifar10")
    return with_interval(
        *welch_interval(*([fifth_batch(each) for each in groups[name]] for name in (better, worse)))
    )


def pointing(results: Results) -> str:
    """Returns how many times as often as by chance the largest weight lies on the shape in question."""
    rows = results.document("studies/attended")["rows"]
    mine = [row for row in rows if row["network"].endswith("attention")]
    return f"{np.mean([row['pointing'] for row in mine]) / np.mean([row['chance'] for row in mine]):.1f}"


def faster(name: str, what: str, which: str = "", inverse: bool = False) -> Callable[[Results], str]:
    """Returns a function of the range of "times faster" over the sizes that a benchmark measured.

    Args:
      name: file of results, such as "benchmarks/growth-cpu".
      what: regular expression for the beginning of the comparisons' names.
      which: the pass, such as "forward"; "" for all.
      inverse: True: how many times slower the first side is.
    """

    def span(results: Results) -> str:
        rows = [row for row in results.document(name)["rows"] if re.match(what, row["what"])]
        ratios = [
            row["times_faster"] for row in rows if which in ("", row.get("pass")) and "times_faster" in row
        ]
        numbers = sorted(1 / ratio if inverse else ratio for ratio in ratios)
        low, high = significant(numbers[0]), significant(numbers[-1])
        return low if low == high else f"{low} to {high}"

    return span


def measured(name: str, what: str) -> Callable[[Results], str]:
    """Returns a function of a single number, with its unit.

    Args:
      name: file of results.
      what: how the name of the number begins.
    """

    def number_with_unit(results: Results) -> str:
        row = next(row for row in results.document(name)["rows"] if row["what"].startswith(what))
        return f"{significant(row['value'])} {row['unit']}".strip()

    return number_with_unit


def growth_of(mixer: str, of: str = "ms") -> Callable[[Results], str]:
    """Returns a function of how many times as much 8,192 tokens take as 1,024.

    Args:
      mixer: name of the mixer in the file of results.
      of: "ms" or "temporary_mb".
    """

    def ratio(results: Results) -> str:
        rows = results.document("benchmarks/growth-cpu")["rows"]
        by_length = {row["t"]: row[of] for row in rows if row["mixer"] == mixer}
        return significant(by_length[8192] / by_length[1024])

    return ratio


BOTH = "forward + backward"


def small_accuracy(results: Results, model: str) -> str:
    """Returns mean and standard deviation over seeds of a small network's accuracy on IMDb, in percent."""
    scores = [100 * score(finding) for finding in published(results.root, "1")[model]]
    return f"{np.mean(scores):.1f} ± {np.std(scores, ddof=1):.1f}"


def time_ratio(results: Results, slow: str, fast: str) -> str:
    """Returns how many times as long one mixer takes as another, on `LANDING_TOKENS` tokens.

    Args:
      results: the files of results.
      slow, fast: names of the two mixers in the benchmark.
    """
    rows = results.document("benchmarks/growth-cpu")["rows"]
    ms = {row["mixer"]: row["ms"] for row in rows if row["t"] == LANDING_TOKENS}
    return significant(ms[slow] / ms[fast])


def optical_energy(results: Results) -> str:
    """Returns the energy of the most accurate 4-bit engine as a multiple of a processor's."""
    rows = results.document("studies/pareto-circular")["rows"]
    tested = [row for row in frontier.part(rows, frontier.TESTED) if row["bits"] == 4]
    engine = max(tested, key=lambda row: row["validation_accuracy"])
    (processor,) = frontier.part(rows, "electronic")
    return f"{round(engine['joules']['typical'] / processor['joules']['typical'], -3):,.0f}"


def accuracy_interval(results: Results, tier: str, model: str) -> str:
    """Returns the mean accuracy of a model in percent, with its 95 % interval."""
    group = published(results.root, tier)[model]
    low, high = interval(group)
    return f"{100 * np.mean([score(finding) for finding in group]):.2f} ({percent_range(low, high)})"


def step_of_fnet(results: Results, size: str, against: str) -> str:
    """Returns how many times as fast a training step of FNet is, with its range.

    Args:
      results: the files of results.
      size: size of the network and the texts, such as "4 layers, d256 b1 t512".
      against: "bert", or "bert with attention dropout".
    """
    names = ("benchmarks/encoder-depth-cpu", "benchmarks/encoder-growth-cpu")
    rows = [row for name in names for row in results.document(name)["rows"]]
    wanted = (f"fnet / {against}", size, "training step")
    row = next(row for row in rows if (row["what"], row["size"], row["pass"]) == wanted)
    return (
        f"{significant(row['times_faster'])} ({significant(row['lowest'])} to {significant(row['highest'])})"
    )


def read_range(results: Results) -> str:
    """Returns the range of mean accuracies of the small networks on IMDb that combine tokens, in percent."""
    means = [
        100 * float(np.mean([score(finding) for finding in group]))
        for model, group in published(results.root, "1").items()
        if model != "identity" and not model.endswith(TWINS)
    ]
    return f"{min(means):.1f} to {max(means):.1f}"


def points_above(results: Results, model: str, against: str, tier: str = "1") -> str:
    """Returns the points by which a network is above another, with an interval over seeds and test examples.

    Args:
      results: the files of results.
      model, against: models of the tier.
      tier: default "1", the small networks on IMDb.
    """
    right = answers(published(results.root, tier))
    found = difference(right[model], right[against])
    return with_interval(found.mean, found.low, found.high)


def with_interval(mean: float, low: float, high: float) -> str:
    """Formats a difference of accuracies and its 95 % interval in percentage points."""
    return f"{100 * mean:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def relative_joules(results: Results, name: str) -> str:
    """Returns the energy of the cheapest accurate engine over that of the processor, with its bounds.

    Args:
      results: the files of results.
      name: "pareto-fnet" or "pareto-circular".
    """
    rows = results.document(f"studies/{name}")["rows"]
    engine, [processor] = cheapest_engine(rows)["joules"], frontier.part(rows, "electronic")
    ends = {"typical": "typical", "low": "high", "high": "low"}
    return spread({ours: engine[ours] / processor["joules"][theirs] for ours, theirs in ends.items()})


def suite_cells(results: Results, of: str) -> str:
    """Returns a number of the finished cells of the suite.

    Args:
      results: the files of results.
      of: "finished", "failed" or "hours".
    """
    findings = list(finished_cells(results).findings.values())
    if of == "finished":
        return f"{len(findings):,}"
    if of == "failed":
        return str(sum(math.isnan(score(finding)) for finding in findings))
    return f"{sum(core_hours(finding) or 0.0 for finding in findings):.0f}"


def recall_lost(results: Results, bits: int) -> str:
    """Returns the points of recall that the two networks on the emulated chip lose.

    Args:
      results: the files of results.
      bits: bits of the engine's converters.
    """
    points = []
    for name in ("circular", "hybrid"):
        exact, *rows = results.document(f"studies/robustness-recall-{name}")["rows"]
        found = [row["accuracy"] for row in rows if (row["bits"], row["noise"]) == (bits, 1.0)]
        points.append(100 * (exact["accuracy"] - float(np.mean(found))))
    return " and ".join(f"{value:.1f}" for value in sorted(points))


def parameters(results: Results, *models: str) -> str:
    """Returns the range of the numbers of parameters of models, rounded to thousands.

    Args:
      results: the files of results.
      models: tiers and models, such as "skills:recall-conv_attention".
    """
    found = []
    for tier, _, model in (name.partition(":") for name in models):
        found.append(published(results.root, tier)[model][0]["parameters"])
    low, high = (f"{number:,.0f}" for number in (round(min(found), -3), round(max(found), -3)))
    return low if low == high else f"{low} to {high}"


WITHOUT_ATTENTION = [name for name in NETWORKS if "attention" not in name]


def prediction_counts(results: Results) -> str:
    """Returns how many of the predictions on pages and in reports hold, fail and are open, in words."""
    tables = (
        skill_predictions.verdicts_table,
        language.equal_verdicts,
        pretraining_predictions.verdicts_table,
        *(partial(self_pretraining.verdicts_table, tier=tier) for tier in self_pretraining.SCRATCH),
    )
    lines = [line.strip("| ").split(" | ") for made in tables for line in made(results).splitlines()[2:]]
    found = Counter(cells[2] for cells in lines)
    words = {"holds": ("holds", "hold"), "fails": ("fails", "fail"), "open": ("is open", "are open")}
    said = [
        f"{found[verdict]} {forms[found[verdict] > 1]}" for verdict, forms in words.items() if found[verdict]
    ]
    if len(said) < 2:
        return "".join(said)
    return f"{', '.join(said[:-1])} and {said[-1]}"


def glue_share(results: Results, network: str, bert: str = "bert-wiki-tiny", control: str = "") -> str:
    """Returns the share of BERT's GLUE score that a network has, with its 95 % interval.

    Args:
      results: the files of results.
      network: name of the network.
      bert: name of the BERT that it is compared with.
      control: see `share_of_glue`.
    """
    judged = share_of_glue(results, network, bert, 1.0, control)
    found = re.search(r"([\d.]+) % of [^()]* (\([^()]*\))", judged.result)
    return f"{found[1]} % {found[2]}" if found else "unknown"


def glue_lead(results: Results, task: str, network: str, bert: str) -> str:
    """Returns by how many points a network is ahead of BERT on a task of GLUE, with the 95 % interval."""
    groups = published(results.root, "glue")
    scores = ([100 * glue.score(each) for each in groups[f"{task}-{name}"]] for name in (network, bert))
    lead, low, high = welch_interval(*scores)
    return f"{lead:.1f} points ({low:.1f} to {high:.1f})"


def mean_perplexity(results: Results, network: str) -> str:
    """Returns mean and standard deviation of the test perplexity of a language model over its seeds.

    Args:
      results: the files of results.
      network: "KIND-NETWORK" of tier `lm_equal`.
    """
    found = published(results.root, "lm_equal").get(network, [])
    return mean_cell([score(each) for each in found], digits=1)


STEPS = {  # sizes of networks and texts whose training steps are compared
    "deep": "12 layers, d768 b2 t512",
    "512": "4 layers, d256 b1 t512",
    "4096": "4 layers, d256 b1 t4096",
}
VALUES: dict[str, Callable[[Results], str]] = {
    **{
        f"perplexity-{model.name}": partial(mean_perplexity, network=model.name)
        for model in MODELS["lm_equal"]
    },
    **{
        f"glue-share-{name}": partial(glue_share, network=f"{name}-wiki-tiny")
        for name in ("fnet", "hybrid-3", "random")
    },
    **{
        f"glue-share-{name}-zero": partial(glue_share, network=f"{name}-wiki-tiny", control=CONTROL)
        for name in ("fnet", "hybrid-3")
    },
    "glue-share-scratch": partial(glue_share, network=SCRATCH, bert="bert-mini"),
    "glue-stsb-lead": partial(glue_lead, task="stsb", network="fnet-wiki-tiny", bert="bert-wiki-tiny"),
    "prediction-counts": prediction_counts,
    "faster-fourier": faster("benchmarks/fourier-complex-cpu", "ours / fftn", "forward"),
    "faster-fourier-backward": faster("benchmarks/fourier-complex-cpu", "ours / fftn", BOTH),
    "faster-complex": faster("benchmarks/fourier-complex-cpu", "ours / published complex", "forward"),
    "slower-chirps": faster("benchmarks/fourier-lengths-cpu", "chirps / plain", inverse=True),
    "faster-circular": faster("benchmarks/mixers-circular-cpu", "convolutional attention / articles'", BOTH),
    "faster-lambda": faster("benchmarks/mixers-lambda-cpu", "lambda / grouped convolution", BOTH),
    "slower-causal": faster("benchmarks/mixers-lambda-cpu", "lambda: causal / not causal", inverse=True),
    "faster-fourier-torch": faster("benchmarks/peer-ops-cpu", "Fourier mixing / fft"),
    "slower-attention": faster("benchmarks/peer-ops-cpu", "attention / scaled", inverse=True),
    "faster-circular-torch": faster("benchmarks/mixers-torch-cpu", "convolutional attention"),
    "faster-lambda-torch": faster("benchmarks/mixers-torch-cpu", "lambda"),
    "growth-fourier": growth_of("fourier"),
    "growth-attention": growth_of("attention"),
    "faster-fnet": faster("benchmarks/encoder-growth-cpu", "fnet / bert$", "training step"),
    "faster-fnet-published": faster(
        "benchmarks/encoder-growth-cpu", "fnet / bert with attention dropout", "training step"
    ),
    "faster-patches": faster("benchmarks/images-cpu", "patches by a product", BOTH),
    "loop-share": measured("benchmarks/loop-cpu", "loop over bare step"),
    "faster-buckets": measured("benchmarks/loop-cpu", "an epoch in buckets"),
    "first-start": measured("benchmarks/startup-cpu", "command to first step on IMDb, first start, wall"),
    "second-start": measured("benchmarks/startup-cpu", "command to first step on IMDb, second start, wall"),
    "faster-kept": faster("benchmarks/allocator-cpu", ""),
    "slower-engine": faster("benchmarks/optics-train-cpu", "optical training step", inverse=True),
    "faster-huggingface": faster("benchmarks/peer-huggingface-cpu", "FNet-base", "forward"),
    "slower-crossbar": faster("benchmarks/peer-crossbar-cpu", "optical 3 x 3", inverse=True),
    "other-days": other_days,
    "first-p": first_p,
    "chip-reviews": partial(reviews_accuracy, config="configs/optical_fnet.py"),
    "exact-reviews": partial(reviews_accuracy, config="configs/fnet.py"),
    "hypotheses": hypotheses,
    "claim-counts": claim_counts,
    "open-hours": partial(open_hours, of_suite),
    "configuration-hours": partial(open_hours, of_configurations),
    "repeats": repeats,
    "repeats-change": largest_change,
    **{
        f"fnet-step-{name}{suffix}": partial(step_of_fnet, size=size, against=against)
        for name, size in STEPS.items()
        for suffix, against in {"": "bert", "-published": "bert with attention dropout"}.items()
    },
    "recall-attention": partial(accuracy_interval, tier="recall", model="conv_attention"),
    "recall-identity": partial(accuracy_interval, tier="recall", model="identity"),
    "read-range": read_range,
    "read-identity": partial(accuracy_interval, tier="1", model="identity"),
    "fnet-identity": partial(points_above, model="fnet", against="identity"),
    "circular-attention": partial(points_above, model="circular-1d", against="attention"),
    "joules-fnet": partial(relative_joules, name="pareto-fnet"),
    "joules-circular": partial(relative_joules, name="pareto-circular"),
    **{f"cells-{of}": partial(suite_cells, of=of) for of in ("finished", "failed", "hours")},
    "hypotheses-held": partial(hypotheses, held=True),
    "sweep-error-fnet": partial(sweep_error, name="fnet"),
    "sweep-error-lambda": partial(sweep_error, name="lambda"),
    "fnet-attention": partial(points_above, model="fnet", against="attention"),
    **{
        f"sst2-{name}": partial(points_above, model=name, against="identity", tier="sst2")
        for name in ("fnet", "attention", "circular-1d", "lambda")
    },
    **{
        f"sst2-{name}-lambda": partial(points_above, model=name, against="lambda", tier="sst2")
        for name in ("attention", "fnet")
    },
    "apart-at-first": seed_difference_after_one_epoch,
    "circular-parameters": circular_parameters,
    "saved-with-split-heads": saved_with_split_heads,
    **{f"below-attention-{name}": partial(below_attention, model=name) for name in ("fnet", "lambda")},
    "listops-guess": lambda results: f"{100 * results.document(OPERATOR_RULE)['accuracy']:.2f}",
    "listops-guess-loss": lambda results: f"{results.document(OPERATOR_RULE)['loss']:.3f}",
    "listops-networks": lambda results: str(len(listops_networks(results))),
    "listops-significant-z": lambda results: f"{significant_z(len(listops_networks(results))):.2f}",
    "attention-hours": attention_hours,
    "batch-5-above": partial(batch_5, better="global_filter", worse="identity"),
    "batch-5-below": partial(batch_5, better="identity", worse="fourier"),
    "pointing": pointing,
    "landing-accuracy": partial(small_accuracy, model="fnet"),
    "landing-attention": partial(small_accuracy, model="attention"),
    "landing-speed": partial(time_ratio, slow="attention, 8 heads of 16", fast="fourier"),
    "circular-narrow": partial(time_ratio, slow="circular", fast="attention, 8 heads of 16"),
    "circular-wide": partial(time_ratio, slow="circular", fast="attention"),
    "landing-joules": optical_energy,
    **{f"recall-lost-{bits}": partial(recall_lost, bits=bits) for bits in (3, 4, 5)},
    "recall-by-position": lambda _: f"{100 * guess_by_position(task_knobs('recall')):.1f}",
    "parameters-attention": lambda results: parameters(results, "skills:recall-conv_attention"),
    "parameters-narrow": lambda results: parameters(results, "recall_equal:parameters-conv_attention"),
    "parameters-others": lambda results: parameters(
        results, *(f"skills:recall-{name}" for name in WITHOUT_ATTENTION)
    ),
    **OPTICS_VALUES,
    **COMPILED_VALUES,
    **GPU_VALUES,
}
