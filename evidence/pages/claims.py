"""Judges claims of the sources by the files of results: each function returns a verdict and its numbers."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from evidence.pages.markdown import Results, Row, significant
from evidence.pages.optics_values import free_engine_speed, transform_share
from evidence.report import glue, stability
from evidence.report.comparisons import COMPARISONS, Verdict, decide
from evidence.report.write import answers
from evidence.suite.ledger import Finding, interval, published
from evidence.suite.pretraining import TRIED
from evidence.suite.statistics import difference, welch_interval
from fourier_attn.studies.engine import frontier

SUPPORTED, REFUTED, UNDECIDED, UNTESTED = "supported", "not supported", "undecided", "not tested"
VERDICTS = (SUPPORTED, REFUTED, UNDECIDED, UNTESTED)
CONTROL = "random-wiki-tiny"  # a network that is not expected to learn much in pre-training
WORDS = {"better": SUPPORTED, "not worse": SUPPORTED, "worse": REFUTED, "undecided": UNDECIDED}


class Judged(NamedTuple):
    """Holds a verdict and the result in words, with its interval."""

    verdict: str
    result: str


Judge = Callable[[Results], Judged]


def over(value: float, low: float, high: float, bound: float) -> str:
    """Returns the verdict on "larger than the bound": undecided if the bound is within `low` to `high`.

    >>> over(1.5, 1.2, 1.9, 1.0), over(1.5, 0.9, 1.9, 1.0), over(0.5, 0.2, 0.9, 1.0)
    ('supported', 'undecided', 'not supported')
    """
    return SUPPORTED if low > bound else REFUTED if high < bound else UNDECIDED


@lru_cache(maxsize=1)
def predictions(results: Results) -> dict[str, np.ndarray]:
    """Returns whether each prediction of the small networks on IMDb is correct, by model."""
    return answers(published(results.root, "1"))


@lru_cache(maxsize=1)
def verdicts(results: Results) -> list[Verdict]:
    """Returns the verdicts on the pre-registered comparisons."""
    return decide(COMPARISONS["1"], predictions(results))


def compared(results: Results, model: str, against: str) -> Judged:
    """Judges a claim by its pre-registered comparison on IMDb."""
    for v in verdicts(results):
        if (v.comparison.model, v.comparison.against) == (model, against):
            low, high = v.difference.low, v.difference.high
            return Judged(WORDS[v.words], f"small networks: {points(v.difference.mean, low, high)}")
    return absent("some seeds are missing")


def differing(results: Results, model: str, against: tuple[str, ...], bound: float = 0.0) -> Judged:
    """Judges "more accurate on IMDb than each of some models, by more than a bound".

    Args:
      results: the files of results.
      model: name of a model of tier 1.
      against: names of the other models.
      bound: 0.0, or -0.01 for "loses less than a point".
    """
    right = predictions(results)
    if not right.keys() >= {model, *against}:
        return absent("some seeds are missing")
    found = {other: difference(right[model], right[other]) for other in against}
    parts = [over(d.mean, d.low, d.high, bound) for d in found.values()]
    said = [f"`{model}` - `{other}`: {points(d.mean, d.low, d.high)}" for other, d in found.items()]
    return Judged(worst(parts), "small networks: " + "; ".join(said))


def by_seeds(
    results: Results, tier: str, model: str, against: str, of: Callable[[Finding], float], where: str
) -> Judged:
    """Judges "larger than" by a number of each seed, with Welch's interval over seeds.

    Args:
      results: the files of results.
      tier: the tier of both models.
      model, against: the models.
      of: returns the number of a finding, from 0 to 1.
      where: words before the result.
    """
    groups = published(results.root, tier)
    ours, theirs = ([of(finding) for finding in groups.get(name, [])] for name in (model, against))
    if min(len(ours), len(theirs)) < 2:
        return absent("fewer than two seeds")
    found = welch_interval(ours, theirs)
    return Judged(over(*found, bound=0.0), f"{where}: {points(*found)}")


def steadier(results: Results, model: str, against: str) -> Judged:
    """Judges "trains more stably": at more learning rates of pre-training, all seeds train.

    Args:
      results: the files of results.
      model, against: architectures of tier `stability`.
    """
    found = stability.accuracies(published(results.root, "stability"))
    steady = {}
    for name in (model, against):
        seeds = {rate: len(values) for rate, values in found[name].items()}
        if seeds != dict.fromkeys(TRIED, 3):
            return absent("some seeds are missing")
        steady[name] = {rate for rate, values in found[name].items() if stability.trained(values) == 3}
    said = [
        f"all seeds of `{name}` train at {len(rates)} of {len(TRIED)} rates" for name, rates in steady.items()
    ]
    if steady[model] <= steady[against]:
        verdict = REFUTED
    else:
        verdict = SUPPORTED if steady[model] > steady[against] else UNDECIDED
    rates = f"learning rates from {float(TRIED[0]):g} to {float(TRIED[-1]):g}"
    return Judged(verdict, f"size tiny, masked tokens, {rates}: {', '.join(said)}")


def share_of_glue(results: Results, model: str, against: str, bound: float, control: str = "") -> Judged:
    """Judges "reaches a share of the GLUE score of another network", with Welch's interval of the logarithm.

    The interval is over seeds of fine-tuning. It leaves out how pre-training varies, which has one seed. If
    the control reaches the share as well, the score says little about pre-training, and the claim is open.

    Args:
      results: the files of results.
      model, against: pre-trained networks.
      bound: the share.
      control: a network that is not expected to reach the share; then a run that fails counts as 0.
        "": none, and a run that fails counts as the mean of the other seeds.
    """
    groups = published(results.root, "glue")
    means = {
        name: glue.seed_means(groups, name, zeros=bool(control)) for name in (model, against, control) if name
    }
    if min(map(len, means.values())) < 3:
        return absent("some seeds are missing")
    verdict, share = _share(means, model, against, bound)
    words = f"five tasks, one pre-training each, {share}"
    if control:
        words = f"a failed run counts as 0; {words}"
        reached, other = _share(means, control, against, bound)
        verdict = UNDECIDED if reached == SUPPORTED else verdict
        words += f"; {other}"
    return Judged(verdict, words)


def _share(means: Mapping[str, np.ndarray], model: str, against: str, bound: float) -> Judged:
    """Judges "the ratio of two mean scores is larger than the bound", by the scores of the seeds."""
    share, low, high = np.exp(welch_interval(np.log(means[model]), np.log(means[against])))
    words = f"`{model}`: {100 * share:.1f} % of `{against}` ({100 * low:.1f} to {100 * high:.1f})"
    return Judged(over(share, low, high, bound), words)


# On WikiText-2 alone, where BERT learns to predict masked tokens.
share_on_wikitext = partial(share_of_glue, against="bert-wiki-tiny", control=CONTROL)


def reaches_without_engine(results: Results, model: str) -> Judged:
    """Reports the accuracy of the articles' network without an engine, for a claim about one on an engine.

    Args:
      results: the files of results.
      model: name of a model of tier 2.
    """
    group = published(results.root, "2").get(model, [])
    if len(group) < 2:
        return absent("fewer than two seeds")
    low, high = interval(group)
    words = f"without an engine and with our recipe: {100 * low:.1f} to {100 * high:.1f} % (95 %)"
    return Judged(UNTESTED, f"needs a training of the whole network through the engine; {words}")


def fewer(results: Results, tier: str, model: str, against: str) -> Judged:
    """Judges "has fewer parameters", which are counted and have no interval."""
    groups = published(results.root, tier)
    if not groups.keys() >= {model, against}:
        return absent("a model is missing")
    ours, theirs = (groups[name][0]["parameters"] for name in (model, against))
    return Judged(SUPPORTED if ours < theirs else REFUTED, f"`{model}` {ours:,}, `{against}` {theirs:,}")


def growing(results: Results, mixers: Mapping[int, str], of: str, exponent: float, said: str) -> Judged:
    """Judges "grows with a power of the number of tokens" between 1,024 and 8,192 tokens, at each width.

    Args:
      results: the files of results.
      mixers: names of the mixer in the benchmark, by the width of the network.
      of: "ms" or "temporary_mb".
      exponent: the power. A measured one within 0.25 of it supports the claim.
      said: what is measured.
    """
    rows = results.document("benchmarks/growth-cpu")["rows"]
    powers = {}
    for width, mixer in mixers.items():
        at = {row["t"]: row[of] for row in rows if row["mixer"] == mixer}
        powers[width] = float(np.log(at[8192] / at[1024]) / np.log(8))
    near = [abs(power - exponent) < 0.25 for power in powers.values()]
    if all(near):
        verdict = SUPPORTED
    elif any(near):
        verdict = UNDECIDED
    else:
        verdict = REFUTED
    words = ", ".join(f"{power:.2f} (d = {width})" for width, power in powers.items())
    return Judged(verdict, f"{said} on a CPU: tokens to the power {words}")


def faster(results: Results, what: str, size: str, bound: float = 1.0) -> Judged:
    """Judges "FNet trains faster than BERT by more than a factor".

    Args:
      results: the files of results.
      what: the comparison.
      size: how its size begins.
      bound: the factor.
    """
    rows = results.document("benchmarks/encoder-depth-cpu")["rows"]
    rows += results.document("benchmarks/encoder-growth-cpu")["rows"]
    row = next(
        r for r in rows if r["what"] == what and r["size"].startswith(size) and r["pass"] == "training step"
    )
    verdict = over(row["times_faster"], row["lowest"], row["highest"], bound)
    return Judged(verdict, f"on a CPU, {row['size']}: {times(row)}")


def faster_on_gpus(results: Results, what: str, size: str) -> Judged:
    """Returns the verdict on "FNet trains faster than BERT on GPUs", with the speed on a CPU.

    Args:
      results: the files of results.
      what: the comparison.
      size: how its size begins.
    """
    return Judged(UNTESTED, f"not measured on a GPU; {faster(results, what, size).result}")


def longer(results: Results) -> Judged:
    """Judges "FNet's speed-up grows with the length": the ranges of both ends must not overlap."""
    rows = results.document("benchmarks/encoder-growth-cpu")["rows"]
    mine = [row for row in rows if row["what"] == "fnet / bert" and row["pass"] == "training step"]
    short, long = mine[0], mine[-1]
    words = "; ".join(f"{row['size'].split()[-1][1:]} tokens: {times(row)}" for row in (short, long))
    return Judged(over(long["times_faster"], long["lowest"], long["highest"], short["highest"]), words)


def times(row: Row) -> str:
    """Formats how many times faster one side of a benchmark is, with its range."""
    return f"{row['times_faster']:.2f} times ({row['lowest']:.2f} to {row['highest']:.2f})"


def share_of_inference(results: Results) -> Judged:
    """Judges "the transforms take up to 30 % of the time of inference"."""
    share = f"{100 * transform_share(results):.1f} %"
    return Judged(UNTESTED, f"not measured on a GPU; on a CPU {share} (`configs/fnet.py:imdb`)")


def gain_of_light(results: Results) -> Judged:
    """Judges "an integrated optical transform makes inference about 1.4 times as fast".

    If the transforms take too small a share of the time on this processor, no engine can show it here.
    """
    at = _speedup(results, part="preset", preset="chip_11x11")["inference"]
    low, typical, high = (at[corner]["speedup"] for corner in ("high", "typical", "low"))
    words = f"on a CPU {typical:.2f} times ({low:.2f} to {high:.2f}) with `chip_11x11`"
    free = free_engine_speed(results)
    if free < 1.4:
        return Judged(
            UNTESTED, f"not measured on a GPU; {words}, and at most {free:.2f} times with any engine"
        )
    return Judged(over(typical, low, high, 1.4), words)


def joules_against_gpu(results: Results) -> Judged:
    """Judges "the optical transform needs a hundredth of the energy of an A100"."""
    document = results.document("studies/speedup-fnet")
    card = _speedup(results, part="electronics", name="A100")["joules"]

    def gain(engine: Mapping[str, Mapping[str, float]]) -> tuple[float, float, float]:
        joules = {corner: parts["total"] / document["batch"] for corner, parts in engine.items()}
        return _gain(card, joules)

    engines = {
        row["preset"]: gain(row["energy_j"])
        for row in document["rows"]
        if row["part"] == "preset" and "energy_j" in row
    }
    typical, low, high = engines["chip_11x11"]
    words = f"energy, `chip_11x11` / A100: {ratio(1 / typical, 1 / high, 1 / low)}"
    return Judged(on_engines([over(*each, 100.0) for each in engines.values()]), words)


def joules_of_circular(results: Results) -> Judged:
    """Judges "a tenth of the energy with no loss" by circular attention on the emulated demonstrator."""
    rows = results.document("studies/pareto-circular")["rows"]
    [processor] = frontier.part(rows, "electronic")
    best = max(frontier.part(rows, frontier.TESTED), key=lambda row: row["validation_accuracy"])
    typical, low, high = _gain(processor["joules"], best["joules"])
    words = f"energy, emulated engine of 5 x 5 pixels / processor: {ratio(1 / typical, 1 / high, 1 / low)}"
    verdict = on_engines([over(typical, low, high, 10.0)])
    return Judged(verdict, f"{words}; other engines were not evaluated")


def _gain(electronics: Mapping[str, float], engine: Mapping[str, float]) -> tuple[float, float, float]:
    """Returns how many times less energy an engine needs, with the lowest and the highest value.

    Args:
      electronics, engine: the joules in the corners low, typical and high.
    """
    typical, low, high = (
        electronics[theirs] / engine[ours]
        for theirs, ours in (("typical", "typical"), ("low", "high"), ("high", "low"))
    )
    return typical, low, high


def on_engines(verdicts: Sequence[str]) -> str:
    """Returns the verdict on a claim about engines in general, from the verdicts on single engines.

    One engine is enough to support the claim. To refute it, several engines must do so, and all that were
    evaluated.

    >>> on_engines(["not supported"]), on_engines(["not supported", "not supported"])
    ('undecided', 'not supported')
    """
    if SUPPORTED in verdicts:
        return SUPPORTED
    return REFUTED if len(verdicts) > 1 and set(verdicts) == {REFUTED} else UNDECIDED


def ratio(typical: float, low: float, high: float) -> str:
    """Formats a ratio of energies with its bounds."""
    return f"{significant(typical)} ({significant(low)} to {significant(high)})"


def passes(results: Results) -> Judged:
    """Judges "an optical transform takes constant time": larger inputs need several passes."""
    rows = [
        row
        for row in results.document("studies/plans-chip")["rows"]
        if (row["prefer"], row["averages"]) == ("passes", 1)
    ]
    first, last = rows[0], max(rows, key=lambda row: row["passes"])
    words = (
        f"`chip_11x11`: {first['passes']:,} passes for {first['size']}, {last['passes']:,} for {last['size']}"
    )
    return Judged(SUPPORTED if first["passes"] == last["passes"] else REFUTED, words)


def pointing(results: Results) -> Judged:
    """Judges "the question attends to the object that it is about"."""
    rows = [r for r in results.document("studies/attended")["rows"] if r["network"].endswith("attention")]
    times = [row["pointing"] / row["chance"] for row in rows]
    words = f"largest weight on the shape: {min(times):.1f} to {max(times):.1f} times as often as by chance"
    return Judged(SUPPORTED if min(times) > 1 else REFUTED, words)


def commuting(results: Results) -> Judged:
    """Judges "attention commutes with permutations of the tokens"."""
    rows = results.document("studies/matrices")["rows"]
    residual = next(row["permutation"] for row in rows if row["layer"] == "attention")
    return Judged(SUPPORTED if residual < 1e-5 else REFUTED, f"relative residual {residual:.0e}")


def rank(results: Results) -> Judged:
    """Judges "the matrices of convolutions and attention have low rank", at random parameters.

    These can support the claim. They cannot contradict it, because training changes the parameters.
    """
    rows = [r for r in results.document("studies/matrices")["rows"] if r["layer"] in ("conv 3", "attention")]
    words = ", ".join(f"`{row['layer']}` {row['rank']} of {row['rows']}" for row in rows)
    verdict = SUPPORTED if all(row["rank"] < row["rows"] / 2 for row in rows) else UNDECIDED
    return Judged(verdict, f"initial weights, random input: {words}; trained networks were not measured")


def holds_in_tests(_: Results, test: str) -> Judged:
    """Says that an exact identity is checked by a unit test, up to rounding."""
    return Judged(SUPPORTED, f"exact; `{test}`")


def absent(why: str) -> Judged:
    """Returns the verdict on a claim without results."""
    return Judged(UNTESTED, why)


def points(mean: float, low: float, high: float) -> str:
    """Formats a difference and its 95 % interval in percentage points."""
    return f"{100 * mean:+.2f} points ({100 * max(low, -1.0):+.2f} to {100 * min(high, 1.0):+.2f})"


def all_of(*parts: Judged) -> Judged:
    """Judges a claim with several parts, which holds if all of them do."""
    return Judged(worst([part.verdict for part in parts]), "; ".join(part.result for part in parts))


def worst(parts: list[str]) -> str:
    """Returns the verdict on a claim with several parts, which holds if all of them do."""
    return next(v for v in (REFUTED, UNTESTED, UNDECIDED, SUPPORTED) if v in parts)


def _speedup(results: Results, **names: str) -> Row:
    rows = results.document("studies/speedup-fnet")["rows"]
    return next(row for row in rows if names.items() <= row.items())
