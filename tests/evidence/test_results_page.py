"""The results page: its sentences agree with the results, and each of the five questions has one chart."""

import re
from collections.abc import Callable
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path
from statistics import mean

import pytest
from agreement import RESULTS, agree, git, numbers, page
from conftest import ROOT

from evidence.pages import open_questions, values
from evidence.pages.claims import CONTROL, SUPPORTED, share_of_glue, verdicts
from evidence.pages.markdown import Results, table
from evidence.pages.optics_values import cheapest_engine
from evidence.suite.cells import EVERY
from evidence.suite.ledger import Finding, published, score
from evidence.suite.skills import RATES, SOLVED
from evidence.suite.statistics import welch_interval
from fourier_attn.model import MIXERS
from fourier_attn.studies.engine import frontier
from fourier_attn.studies.intervals import percent_range, wilson_interval

PREDICTIONS = {"comparisons.md", "predictions.md", "self_pretraining.md"}  # names of their files
PAGE = (ROOT / "docs" / "evidence.md").read_text()


def test_each_question_has_one_chart() -> None:
    sections = re.findall(r"(?ms)^## (Can it [^\n]*\?|How [^\n]*\?)\n(.*?)(?=^## )", PAGE)
    assert [name for name, _ in sections] == [
        "Can it recall?",
        "Can it read?",
        "How fast?",
        "How many joules?",
        "How sure?",
    ]
    for name, text in sections:
        assert len(re.findall(r"^!\[", text, flags=re.MULTILINE)) == 1, name
        assert "<!-- value: " in text, name


def test_verdicts_in_words_agree_with_the_intervals() -> None:
    """Each pair is a sentence of the page, and the condition under which it is true."""
    found = {v.comparison.name: v.words for v in verdicts(RESULTS)}
    text = page("docs/evidence.md")
    _, low, high = numbers("fnet-attention")
    recall, no_recall = numbers("recall-attention"), numbers("recall-identity")
    fnet, circular = numbers("joules-fnet"), numbers("joules-circular")
    said = {
        "recalls almost every value": recall[1] > 95,
        "Without mixing (`identity`), it recalls none": no_recall[2] < 1,
        "The interval includes zero": low < 0 < high,
        "It narrowly passes a pre-registered test of non-inferiority": found["circular-1d against attention"]
        == "not worse",
        "The seeds vary too much to decide": found["lambda against attention"] == "undecided",
        "FNet lose less than one point": found["fnet-engine against fnet-exact"] == "not worse"
        and found["circular-3x3-engine against circular-3x3-exact"] == "not worse",
        "The range includes one": fnet[1] < 1 < fnet[2],
        "its camera is slow": circular[1] > 10,
        "hold and the others are undecided": set(found.values()) == {"not worse", "undecided"},
        "its advantage grows with the length": numbers("fnet-step-4096")[1] > numbers("fnet-step-512")[2],
    }
    agree(text, said)


def test_sentences_on_other_pages_agree_with_the_results() -> None:
    """Each is a page, a sentence and the condition under which it is true."""

    def scores(tier: str, model: str) -> list[float]:
        return [score(found) for found in published(ROOT, tier)[model]]

    def share(model: str, bound: float, control: str = "") -> bool:
        against = "bert-wiki-tiny"
        return share_of_glue(RESULTS, model, against, bound, control).verdict == SUPPORTED

    solved = {
        name: sum(value >= SOLVED for value in scores("skills", f"recall-{name}")) for name in RATES["recall"]
    }

    def wilson(solved: int) -> str:
        return percent_range(*wilson_interval(solved / 5, 5), ".0f")

    full = ("conv_attention", "long_conv+attention", "conv_circular")
    fnet, hybrid = ("fnet-wiki-tiny", 0.92), ("hybrid-3-wiki-tiny", 0.97)
    without_mixing = max(scores("lm_equal", "masked-identity"))
    worse = [
        sum(value > without_mixing for value in scores("lm_equal", f"masked-{name}"))
        for name in ("attention", "circular")
    ]
    said = [
        ("evidence", f"learn it with two of five seeds ({wilson(2)} %)", solved["conv_lambda"] == 2),
        (
            "evidence",
            f"all other mixers with none ({wilson(0)} %)",
            sum(solved.values()) == 2 + 5 * len(full),
        ),
        ("evidence", f"(95 % interval of the share: {wilson(5)} %)", {solved[name] for name in full} == {5}),
        ("evidence", "circular attention learns this task with all five seeds", solved["conv_circular"] == 5),
        ("language_models", "One run of each is worse than all runs of `identity`", worse == [1, 1]),
        ("fnet", "| fails | fails |", not share(*fnet, CONTROL) and not share(*hybrid, CONTROL)),
        ("fnet", "| would hold | would fail |", share(*fnet) and not share(*hybrid)),
        ("fnet", "| would hold | would fail |", not share(CONTROL, fnet[1])),
    ]
    for name, sentence, holds in said:
        agree(page(f"docs/{name}.md"), {sentence: holds})


def test_predictions_are_counted_by_their_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """In tables with a column after the verdict, and without one."""

    def made(*lines: list[str]) -> Callable[[Results], str]:
        return lambda _: table(["", "prediction", "verdict", "result"], list(lines))

    monkeypatch.setattr(values.skill_predictions, "verdicts_table", made(["1", "A", "holds", "9 | 9"]))
    monkeypatch.setattr(
        values.language, "equal_verdicts", made(["1", "A", "fails", "x"], ["2", "B", "holds", "y"])
    )
    monkeypatch.setattr(values.pretraining_predictions, "verdicts_table", made())

    def on_imdb(*line: str) -> Callable[[Results, str], str]:
        listops = ["1", "A", "holds", ""]
        return lambda results, tier: made(list(line) if tier == "self_pretrained" else listops)(results)

    monkeypatch.setattr(values.self_pretraining, "verdicts_table", on_imdb("1", "A", "open", ""))
    assert values.prediction_counts(RESULTS) == "3 hold, 1 fails and 1 is open"
    monkeypatch.setattr(values.self_pretraining, "verdicts_table", on_imdb("1", "A", "fails", ""))
    assert values.prediction_counts(RESULTS) == "3 hold and 2 fail"
    monkeypatch.setattr(values.skill_predictions, "verdicts_table", made(["1", "A", "fails", ""]))
    monkeypatch.setattr(values.language, "equal_verdicts", made(["1", "A", "fails", "x"]))
    assert values.prediction_counts(RESULTS) == "1 holds and 3 fail"


def test_sentences_on_images_agree_with_every_seed() -> None:
    text = page("docs/images.md")

    def each(tier: str, of: Callable[[Finding], float]) -> dict[str, list[float]]:
        return {model: [of(found) for found in group] for model, group in published(ROOT, tier).items()}

    mnist = each("fashion_mnist", score)
    assert (
        "In every seed `global_filter` is the most accurate. `hybrid`, `attention` and `fourier` are less"
        in text
    )
    assert all(
        max(seed) == seed[list(mnist).index("global_filter")] for seed in zip(*mnist.values(), strict=True)
    )
    below = [max(mnist[model]) < min(mnist["identity"]) for model in ("hybrid", "attention", "fourier")]
    assert all(below)
    fifth = each("cifar10", lambda found: found["extra_evals"]["batch_5"]["accuracy"])
    assert "`hybrid`, `attention` and `lambda-7` are also below `identity` in every seed." in text
    assert "`token_conv` and `lambda-3` are above `identity` in some seeds and below it in others." in text
    signs = {
        model: {a > b for a, b in zip(values, fifth["identity"], strict=True)}
        for model, values in fifth.items()
    }
    assert all(signs[model] == {False} for model in ("fourier", "hybrid", "attention", "lambda-7"))
    assert signs["global_filter"] == {True}
    ends = [100 * end for end in welch_interval(fifth["attention"], fifth["identity"])[1:]]
    assert f"includes zero ({ends[0]:.1f} to {ends[1]:.1f} points)" in text
    assert all(signs[model] == {True, False} for model in ("token_conv", "lambda-3"))


def test_sentences_on_networks_on_images_agree_with_their_cells() -> None:
    def mixers(*tiers: str) -> set[str]:
        cells = [each for tier in tiers for group in published(ROOT, tier).values() for each in group]
        return {
            mixer for each in cells for mixer in (each["mixer"], *EVERY[each["cell"]].read().model.layout)
        }

    def cores(*tiers: str) -> set[int]:
        groups = [group for tier in tiers for group in published(ROOT, tier).values()]
        return {each["hardware"]["cores"] for group in groups for each in group}

    patches, pixels = mixers("fashion_mnist", "cifar10", "shapes"), mixers("pixels")
    sizes = {name: cell["parameters"] for name, (cell,) in published(ROOT, "pixels").items()}
    ratio = sizes.pop("long_conv") / mean(sizes.values())
    said = {
        "circular attention, AFNO, `linear` and `random` have no results on images": set(MIXERS)
        - patches
        - pixels
        == {"circular", "afno", "linear", "random"},
        "and long convolutions only on pixel sequences.": "long_conv" in pixels - patches,
        "in one run of each mixer and with about twice as many parameters.": (
            set(map(len, published(ROOT, "pixels").values())) == {1} and 1.8 < ratio < 2.6
        ),
        "Each network ran on one core, and those on shapes on two": cores(
            "fashion_mnist", "cifar10", "pixels"
        )
        == {1}
        and cores("shapes") == {2},
    }
    agree(page("docs/images.md"), said)


def test_fourier_mixing_is_the_fastest_in_the_chart() -> None:
    rows = RESULTS.document("benchmarks/growth-cpu")["rows"]
    for tokens in {row["t"] for row in rows}:
        times = {
            row["mixer"]: row["ms"] for row in rows if row["t"] == tokens and "d = 768" not in row["mixer"]
        }
        assert min(times, key=times.__getitem__) == "fourier"


def test_most_open_core_hours_are_trainings_through_an_engine() -> None:
    assert "most of them for trainings through an emulated engine" in page("docs/evidence.md")
    ledger = open_questions.finished_cells(RESULTS)
    left = open_questions.not_run(RESULTS, ledger)
    engines = sum(open_questions.core_hours(name, ledger) for name in left if "optical" in name)
    every = sum(question.core_hours for question in open_questions.of_configurations(RESULTS))
    assert engines > every / 2


def test_the_cheapest_engines_are_described_as_they_are() -> None:
    reaches, bits, searched = set(), set(), set()
    for name in ("fnet", "circular"):
        rows = RESULTS.document(f"studies/pareto-{name}")["rows"]
        [exact] = frontier.part(rows, "exact")
        low, high = wilson_interval(exact["accuracy"], exact["examples"])
        reaches.add(round(50 * (high - low), 1))
        bits.add(cheapest_engine(rows)["bits"])
        searched.update(row["bits"] for row in rows if "bits" in row)
    said = {
        "The 95 % interval reaches about 1.5 points in each direction.": reaches == {1.5},
        "Both engines have 4-bit converters. The search did not include fewer bits.": (
            bits == {4} and min(searched) == 4
        ),
    }
    agree(page("docs/evidence.md"), said)


def test_predictions_are_in_the_history_before_the_runs_that_they_predict() -> None:
    """Every run is later than the commit in which its prediction was written down as it is worded now.

    Its commit descends from that commit, except for runs that the page names.
    """
    rows = re.findall(r"\| ([^|]+) \| ([\da-f]{7}) \| (`[^|]+) \|", page("docs/evidence.md"))
    assert len(rows) == 11
    if not git("rev-parse", "--verify", "--quiet", rows[0][1]):
        pytest.skip("needs a clone with the whole history")
    earlier = []
    for predictions, commit, words in rows:
        changed = git("diff-tree", "--no-commit-id", "--name-only", "-r", commit)
        files = [name for name in changed if Path(name).name in PREDICTIONS]
        assert files, commit
        numbered = [int(number) for number in re.findall(r" (\d+)", re.sub(r"\([^)]*\)", "", predictions))]
        check_wording([name for name in files if (ROOT / name).exists()], commit, numbered)
        for name in re.findall("`([^`]+)`", words):
            pattern = name if "*" in name else f"{name}-*"
            groups = published(ROOT, name.partition("-")[0]).values()
            cells = [cell for group in groups for cell in group if fnmatch(cell["cell"], pattern)]
            assert cells, name
            before = {run for run in {cell["commit"] for cell in cells} if not descends(run, commit)}
            earlier += [cell for cell in cells if cell["commit"] in before]
    skills = {cell["cell"] for cell in earlier if cell["tier"] == "skills"}
    assert len(skills) == 5
    assert all(name.endswith("-0") for name in skills)
    others = [cell for cell in earlier if cell["tier"] != "skills"]
    assert {cell["commit"][:7] for cell in others} == {"a0a6acf"}
    assert all("-wiki-tiny" in cell["model"] for cell in others)
    [changed] = git("show", "--no-patch", "--format=%cI", "1ba773d")
    assert min(datetime.fromisoformat(cell["date"]) for cell in others) > datetime.fromisoformat(changed)


def check_wording(files: list[str], commit: str, numbered: list[int]) -> None:
    """Predictions are worded now as in the commit; of a row without numbers, all predictions."""
    for name in files:
        then = " ".join(git("show", f"{commit}:{name}"))
        now = re.findall(r"^\| (\d+) (\|.*)", (ROOT / name).read_text(), re.MULTILINE)
        for number, row in now:
            if not numbered or numbered[0] <= int(number) <= numbered[-1]:
                assert f"| {number} {' '.join(row.split())}" in then, (name, number)


def descends(commit: str, earlier: str) -> bool:
    """Whether a commit is another commit or comes after it."""
    return git("merge-base", commit, earlier) == git("rev-parse", earlier)
