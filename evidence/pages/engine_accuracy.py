"""Makes tables of accuracy over age, over photons and over joules."""

from typing import Any

from evidence.pages.markdown import NOT_RUN, Results, notes, significant, table
from evidence.pages.run_names import readable
from fourier_attn.studies.engine import drift, frontier, photons
from fourier_attn.studies.intervals import band, percent_range, wilson_interval


def over_ages(results: Results, name: str) -> str:
    """Lists accuracy by interval of calibration and age, with half of the 95 % bands over devices."""
    documents = results.runs(name)
    if not documents:
        return table(["calibrated"], [[NOT_RUN]])
    document = documents[name]
    curves = drift.curves(document["rows"])
    costs = {cost["interval_s"]: cost["passes_for_each_of_work"] for cost in document["costs"]}
    ages = list(next(iter(curves.values())))
    exact = f"{100 * document['rows'][0]['accuracy']:.2f}"
    lines = [["exact transform", *[exact] * len(ages), ""]]
    for every, at in curves.items():
        cells = [_cell(values) for values in at.values()]
        lines.append([drift.name(every), *cells, significant(costs[every])])
    head = ["calibrated", *(f"after {age:g} s" for age in ages), "calibration passes per working pass"]
    setting = document["setting"]
    words = (
        f"{setting['dataset']}, {setting['examples']} examples; drift of {setting['phase_drift_rms']:g} rad, "
        f"gain {setting['gain_drift_rms']:g}, correlated over {setting['drift_time_s']:g} s"
    )
    return table(head, lines) + notes({name: document | {"setting": words}})


def over_photons(results: Results, name: str) -> str:
    """Lists accuracy by run and number of photons, with half of the 95 % bands over devices."""
    documents = results.runs(name)
    if not documents:
        return table(["run"], [[NOT_RUN]])
    rows = documents[name]["rows"]
    curves = photons.curves(rows)
    numbers = list(next(iter(curves.values())))
    lines = [
        [readable(run), *(_cell(values) for values in at.values()), f"{100 * photons.exact(rows, run):.2f}"]
        for run, at in curves.items()
    ]
    per_mac = {row["photons"]: row["photons_per_mac"] for row in rows if row.get("photons_per_mac")}
    if per_mac:
        lines.append(["photons per MAC, signal", *(significant(per_mac[n]) for n in numbers), ""])
    return table(["run", *(f"{n:g} photons" for n in numbers), "exact transform"], lines) + notes(documents)


def over_joules(results: Results, name: str) -> str:
    """Lists the engines that were tested, and the processor, with 95 % intervals over examples."""
    documents = results.runs(name)
    head = ["", "engine", "accuracy, %", "95 %", "energy, uJ", "low to high", "photons per MAC"]
    if not documents:
        return table(["engine"], [[NOT_RUN]])
    rows = documents[name]["rows"]
    (exact,), (processor,) = frontier.part(rows, "exact"), frontier.part(rows, "electronic")
    lines = []
    for number, row in enumerate(frontier.part(rows, frontier.TESTED), 1):
        lines.append([str(number), frontier.words(row), *_tested(row, exact["examples"])])
    lines.append(["", "exact transform, this machine's processor", *_tested(processor, exact["examples"])])
    return table(head, lines) + notes(documents)


def _tested(row: dict[str, Any], examples: int) -> list[str]:
    low, high = wilson_interval(row["accuracy"], examples)
    joules = row["joules"]
    ends = f"{significant(1e6 * joules['low'])} to {significant(1e6 * joules['high'])}"
    return [
        f"{100 * row['accuracy']:.2f}",
        percent_range(low, high, ".1f"),
        significant(1e6 * joules["typical"]),
        ends,
        "" if row.get("photons_per_mac") is None else significant(row["photons_per_mac"]),
    ]


def _cell(values: list[float]) -> str:
    mean, half = band(values)
    return f"{100 * mean:.2f} ± {100 * half:.2f}"
