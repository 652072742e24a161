"""Makes the tables of results/evidence/imdb/findings.md: claims of the sources and what we found."""

from collections.abc import Iterator
from statistics import mean
from typing import Any

from evidence.pages.markdown import NOT_RUN, Results, Row, notes, table
from evidence.report.comparisons import COMPARISONS, decide
from evidence.report.tables import difference_cells
from evidence.report.write import answers
from evidence.suite import cells
from evidence.suite.ledger import published, validation

# Claims of the sources. Their accuracies are from one network each, on 5,000 validation reviews.
SOURCES = {
    1: "circular attention is at least as accurate as attention: 84 against 83 % (articles)",
    2: "two dimensions, 16 x 8 and 11 x 11, are as accurate as one (articles)",
    3: "3 x 3 kernels on the engine are as accurate as any model without it: above 84 % (articles)",
    4: "light can compute the transforms of FNet (article on FNet)",
    5: "lambda layers on the engine are as accurate: above 84 % (articles)",
    6: "lambda layers can replace attention (articles)",
    7: "a few layers of attention improve FNet (FNet's paper)",
}
PARTLY = "some seeds are not yet run"
HOLDS = {
    "better": "holds (better)",
    "not worse": "holds (not worse)",
    "worse": "does not hold (worse)",
    "undecided": "undecided",
}


def claims(results: Results, tier: str) -> str:
    """Tabulates the comparisons of a tier, with a verdict where all seeds are finished.

    Args:
      results: the files of results.
      tier: the tier of the suite.
    """
    seeds = {model.name: model.seeds for model in cells.MODELS[tier]}
    groups = published(results.root, tier)
    whole = {model: findings for model, findings in groups.items() if len(findings) == seeds[model]}
    verdicts = {verdict.comparison.name: verdict for verdict in decide(COMPARISONS[tier], answers(whole))}
    lines = []
    for comparison in COMPARISONS[tier]:
        asked = [str(comparison.claim), SOURCES[comparison.claim], str(comparison)]
        verdict = verdicts.get(comparison.name)
        begun = groups.keys() & {comparison.model, comparison.against}
        lines.append(
            asked
            + (
                [*difference_cells(verdict), HOLDS[verdict.words]]
                if verdict
                else [PARTLY if begun else NOT_RUN, "", ""]
            )
        )
    return table(["Claim", "Source", "Hypothesis tested", "Difference, points", "95 %", "Verdict"], lines)


def validation_curves(results: Results, tier: str) -> str:
    """Tabulates the validation accuracy of each model after every epoch, as a mean over seeds.

    Args:
      results: the files of results.
      tier: the tier of the suite.
    """
    groups = published(results.root, tier)
    curves = {
        model: [100 * mean(values) for values in validation(findings)[1]]
        for model, findings in groups.items()
    }
    epochs = max(map(len, curves.values()), default=0)
    lines = [
        [f"`{model}`", *(f"{value:.2f}" for value in curve), *[""] * (epochs - len(curve))]
        for model, curve in sorted(curves.items(), key=lambda item: item[1], reverse=True)
    ]
    return table(["model", *(f"epoch {i + 1}, %" for i in range(epochs))], lines)


def query_keys(results: Results, name: str) -> str:
    """Tabulates the query-key products of trained runs, as means over their heads.

    Args:
      results: the files of results.
      name: folder of the files, below results/.
    """
    documents = sweeps(results, name, "query_keys")
    lines = []
    for document in documents.values():
        rows = document["rows"]
        facts = [
            f"{mean(row[fact] for row in rows):,.0f}" for fact in ("parameters", "freedom", "effective_rank")
        ]
        lines.append([document["setting"], *facts])
    head = ["run", "parameters of queries and keys per head", "degrees of freedom of their products"]
    return table([*head, "effective rank"], lines or [[NOT_RUN, "", "", ""]]) + notes(documents)


def noise(results: Results, name: str) -> str:
    """Tabulates the accuracy of the twins of each sweep (trained exactly and through the engine) by noise.

    Numbers are means over devices and over 4 and more bits.

    Args:
      results: the files of results.
      name: folder of the files, below results/.
    """
    documents = sweeps(results, name, "robustness")
    lines = [line for document in documents.values() for line in noise_lines(document["rows"])]
    head = [
        "run",
        "exact transform, %",
        "engine without noise, %",
        "engine, %",
        "engine with 4 times its noise, %",
    ]
    return table(head, lines or [[NOT_RUN, *[""] * 4]]) + notes(documents)


def noise_lines(rows: list[Row]) -> Iterator[list[str]]:
    """Yields a line of the table for each run in the rows of one sweep."""
    for run in dict.fromkeys(row["run"] for row in rows):
        mine = [row for row in rows if row["run"] == run]

        def accuracy(factor: float | None, mine: list[Row] = mine) -> str:
            chosen = [r["accuracy"] for r in mine if r.get("noise") == factor and r.get("bits", 4) >= 4]
            return f"{100 * mean(chosen):.2f}" if chosen else NOT_RUN

        yield [run, *map(accuracy, (None, 0.0, 1.0, 4.0))]


def sweeps(results: Results, name: str, kind: str) -> dict[str, dict[str, Any]]:
    """Returns the documents results/NAME/KIND-*.json, by their paths below results/.

    Args:
      results: the files of results.
      name: folder of the files, below results/.
      kind: how the names of the files begin.
    """
    files = (
        f"{name}/{path.stem}" for path in sorted((results.root / "results" / name).glob(f"{kind}-*.json"))
    )
    return {file: results.document(file) for file in files}
