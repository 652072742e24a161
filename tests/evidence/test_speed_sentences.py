"""Sentences on speed, memory and engines agree with the measurements."""

from statistics import mean
from typing import Any

from agreement import RESULTS, agree, page

from evidence.pages.optics_values import frontier
from fourier_attn.studies.intervals import wilson_interval

RECALL = ("circular", "circular-3x3", "hybrid")  # networks on engines


def rows(name: str, **wanted: Any) -> list[dict[str, Any]]:
    """The rows of a file in results/ that have these entries."""
    found = RESULTS.document(name)["rows"]
    return [row for row in found if all(row.get(key) == value for key, value in wanted.items())]


def fewest_bits(found: list[dict[str, Any]]) -> int:
    """The fewest bits from which on recall loses less than half a point at the engine's noise."""
    [exact] = [row["accuracy"] for row in found if "bits" not in row]
    through = [row for row in found if row.get("noise") == 1.0]
    lost = {
        bits: exact - mean(row["accuracy"] for row in through if row["bits"] == bits)
        for bits in {row["bits"] for row in through}
    }
    return min(bits for bits in lost if all(lost[more] < 0.005 for more in lost if more >= bits))


def test_sentences_on_speed_agree_with_the_measurements() -> None:
    def growth(mixer: str) -> int:
        at = {row["t"]: row["ms"] for row in rows("benchmarks/growth-cpu", mixer=mixer)}
        return round(at[8192] / at[1024])

    lambdas = rows("benchmarks/mixers-lambda-cpu", what="lambda / grouped convolution", **{"pass": "forward"})
    factors = [row["times_faster"] for row in lambdas]
    most = max(RESULTS.document("benchmarks/mixers-lambda-cpu")["rows"], key=lambda row: row["times_faster"])
    steps = {
        (row["what"], row["size"]): row
        for row in rows("benchmarks/encoder-growth-cpu", **{"pass": "training step"})
    }
    longer = [
        (row["other_ms"] - (plain := steps["fnet / bert", size])["other_ms"])
        / (plain["other_ms"] - plain["ours_ms"])
        for (what, size), row in steps.items()
        if what == "fnet / bert with attention dropout" and size.startswith("4 layers")
    ]
    kept = {
        row["what"].partition(":")[0]: (
            row["other_ms"] - row["ours_ms"],
            row["most memory, kept, MB"] - row["most memory, given back, MB"],
            -row["times_faster"],
        )
        for row in rows("benchmarks/allocator-cpu")
    }
    patches = rows("benchmarks/images-cpu", what="patches by a product / by a convolution")
    context = {
        (row["size"].split(" d")[0], row["pass"]): row
        for row in rows("benchmarks/images-cpu", what="lambda of 3 x 3 / of 23 x 23 patches")
    }
    both = [context[f"b8 {n} x {n}", "forward + backward"]["times_faster"] for n in (8, 16, 32)]
    [out] = [row for row in rows("benchmarks/dense-cpu") if row["size"].startswith("out")]
    said = {
        "but the two are equal within the range at all sizes.": all(
            row["lowest"] <= 1 <= row["highest"] for row in patches
        ),
        "both contexts take about the same time with the backward pass.": abs(both[0] - 1) < 0.1,
        "On 16 x 16 and 32 x 32 patches, the large context takes 3.1 and 4.7 times as long by the median.": (
            [round(ratio, 1) for ratio in both[1:]] == [3.1, 4.7]
        ),
        "and missed this aim at these two sizes, also in the forward pass alone.": (
            min(context[f"b8 {n} x {n}", "forward"]["times_faster"] for n in (16, 32)) > 3
        ),
        "It is slower than Flax's own product": out["highest"] < 1,
        "At d = 768, these factors are 11 and 42.": [
            growth("fourier, d = 768"),
            growth("attention, d = 768, 12 heads of 64"),
        ]
        == [11, 42],
        "In the forward pass alone, lambda layers are 9.7 to 19 times as fast.": (
            round(min(factors), 1),
            round(max(factors)),
        )
        == (9.7, 19),
        "The largest factor is from a single round.": most["rounds"] == 1,
        "the added time is 0.6 to 1.6 times the difference": (
            len(longer) == 4 and [round(end, 1) for end in (min(longer), max(longer))] == [0.6, 1.6]
        ),
        "Attention saves the most time per step by the median": all(
            max(kept, key=lambda name: kept[name][i]) == "attention" for i in range(3)
        ),
    }
    agree(page("docs/performance.md"), said)


def test_sentences_on_accelerators_agree_with_the_measurements() -> None:
    peak = {row["what"]: row["peak_mb"] for row in rows("benchmarks/gpu-step")}
    cycles = {
        (row["what"], row["dtype"]): row["cycles"]
        for row in rows("benchmarks/aot-v5e", part="mixer", devices=4)
    }
    ratio = cycles["attention", "bfloat16"] / cycles["lambda", "bfloat16"]
    said = {
        "its [peak memory](#training-steps-on-one-gpu) is 1.23 times that": (
            round(peak["bert, cudnn"] / peak["fnet"], 2) == 1.23
        ),
        "and 1.26 times as many in bfloat16": round(ratio, 2) == 1.26,
    }
    agree(page("docs/accelerators.md"), said)


def test_answers_on_engines_agree_with_the_measurements() -> None:
    robust = rows("studies/robustness-imdb")
    exact = {row["run"]: row["accuracy"] for row in robust if "bits" not in row}
    through = [row for row in robust if "bits" in row]
    recall = [RESULTS.document(f"studies/robustness-recall-{name}")["rows"] for name in RECALL]
    twins = [row["accuracy"] for found in recall for row in found if "bits" not in row]
    drift = {
        interval: mean(row["accuracy"] for row in rows("studies/drift-reviews", interval_s=interval))
        for interval in (600.0, 1800.0)
    }
    photons = {
        run: {
            count: mean(row["accuracy"] for row in rows("studies/photons-reviews", run=run, photons=count))
            for count in (50.0, 100.0, 1000.0)
        }
        for run in ("exact", "insitu-30-photons")
    }
    fnet = rows("studies/pareto-fnet")
    light = {row["power"]: row for row in frontier.part(fnet, frontier.TESTED) if row["bits"] == 4}
    [twin] = frontier.part(fnet, "exact")
    enough, _ = wilson_interval(twin["accuracy"], twin["examples"])
    said = {
        "42 of 48 evaluations (two networks, eight settings and three devices) are less accurate": (
            sum(row["accuracy"] < exact[row["run"]] for row in through),
            len(through),
        )
        == (42, 48),
        "with accuracies of at least 99.95 %": len(twins) == 3 and min(twins) >= 0.9995,
        "a calibration every ten minutes is enough on average. Every 30 minutes is too rare": (
            drift[600.0] > 0.989 and drift[1800.0] < 0.97
        ),
        "With at least 100 photons, fine-tuning does not help.": all(
            photons["insitu-30-photons"][count] <= photons["exact"][count] for count in (100.0, 1000.0)
        ),
        "9,900 are enough, and 990 are not": (
            [round(light[power]["photons"], -1) for power in (0.01, 0.1)] == [990, 9870]
            and light[0.01]["accuracy"] < enough <= light[0.1]["accuracy"]
        ),
        "For a loss below half a point at the engine's noise, five on the chip, and three for 3 x 3": [
            fewest_bits(found) for found in recall
        ]
        == [5, 3, 5],
    }
    agree(page("docs/optics/findings.md"), said)
