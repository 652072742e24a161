"""Generates the table of headline results in the README."""

from evidence.pages.markdown import NOT_RUN, Results, mean_cell, significant, table
from evidence.pages.run_tables import accuracies
from evidence.suite.ledger import published, score
from fourier_attn.studies.engine import frontier

FLAGSHIP = "configs/fnet.py:imdb"
SMALL = ("fnet", "attention", "identity")


def readme_table(results: Results) -> str:
    """Tabulates accuracy, speed and the cost of optics, each with links to its file and page."""
    lines = [
        [
            f"`{FLAGSHIP}`: test accuracy on IMDb, %",
            _flagship(results),
            "[file](results/studies/imdb.json), [page](docs/mixers.md)",
        ],
        [
            f"small {', '.join(f'`{model}`' for model in SMALL)}: test accuracy on IMDb, %",
            _small(results),
            "[report](results/evidence/imdb/report.md), [page](docs/texts.md)",
        ],
        [
            "attention on a CPU, forward; forward and backward: speed relative to PyTorch",
            _attention(results),
            "[file](results/benchmarks/peer-ops-cpu.json), [page](docs/performance.md)",
        ],
        [
            "circular attention on an emulated 4-bit engine: accuracy, %; energy of a review's transforms, J",
            _light(results),
            "[file](results/studies/pareto-circular.json), [page](docs/optics/findings.md)",
        ],
        [
            "the same network on a CPU: accuracy, %; energy of a review's transforms, J",
            _electronic(results),
            "[file](results/studies/pareto-circular.json), [page](docs/optics/findings.md)",
        ],
    ]
    return table(["Measurement", "Result", "Source"], lines)


def _flagship(results: Results) -> str:
    """Returns mean, deviation and number of seeds of the README's example configuration."""
    rows = [row for document in results.runs("studies/imdb").values() for row in document["rows"]]
    values = [value for row in rows if row["config"] == FLAGSHIP for value in accuracies(row)]
    return mean_cell([100 * value for value in values])


def _small(results: Results) -> str:
    """Returns mean, deviation and number of seeds of models of tier 1."""
    groups = published(results.root, "1")
    return ", ".join(
        mean_cell([100 * score(finding) for finding in groups.get(model, [])]) for model in SMALL
    )


def _attention(results: Results) -> str:
    """Returns the lowest and the highest median speed-up over sizes, for each pass."""
    rows = [row for document in results.runs("benchmarks/peer-ops-cpu").values() for row in document["rows"]]
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if row["what"].startswith("attention /"):
            ratios.setdefault(row["pass"], []).append(row["times_faster"])
    if not ratios:
        return NOT_RUN
    sizes = len(next(iter(ratios.values())))
    return "; ".join(f"{min(each):.2f} to {max(each):.2f}" for each in ratios.values()) + f" ({sizes} sizes)"


def _light(results: Results) -> str:
    """Returns accuracy and joules of the four-bit engine that is the most accurate on validation."""
    rows = [row for document in results.runs("studies/pareto-circular").values() for row in document["rows"]]
    tested = [row for row in frontier.part(rows, frontier.TESTED) if row["bits"] == 4]
    return _joules(max(tested, key=lambda row: row["validation_accuracy"])) if tested else NOT_RUN


def _electronic(results: Results) -> str:
    rows = [row for document in results.runs("studies/pareto-circular").values() for row in document["rows"]]
    processor = frontier.part(rows, "electronic")
    return _joules(processor[0]) if processor else NOT_RUN


def _joules(row: dict) -> str:
    low, typical, high = (significant(row["joules"][name]) for name in ("low", "typical", "high"))
    return f"{100 * row['accuracy']:.2f}; {typical} ({low} to {high})"
