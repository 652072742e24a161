"""Tables of accuracy over age and over photons: means of devices with half of their 95 % bands."""

from fourier_attn.studies import drift, photons
from fourier_attn.studies.bands import band
from fourier_attn.studies.markdown import NOT_RUN, Results, notes, significant, table


def over_ages(results: Results, name: str) -> str:
    """A line for each interval of calibration, a column for each age."""
    found = results.runs(name)
    if not found:
        return table(["calibrated"], [[NOT_RUN]])
    document = found[name]
    curves = drift.curves(document["rows"])
    costs = {cost["interval_s"]: cost["passes_for_each_of_work"] for cost in document["costs"]}
    ages = list(next(iter(curves.values())))
    exact = f"{100 * document['rows'][0]['accuracy']:.2f}"
    lines = [["exact transform", *[exact] * len(ages), ""]]
    for interval, at in curves.items():
        cells = [_cell(values) for values in at.values()]
        lines.append([drift.name(interval), *cells, significant(costs[interval])])
    head = ["calibrated", *(f"after {age:g} s" for age in ages), "passes for each of work"]
    setting = document["setting"]
    words = (
        f"{setting['dataset']}, {setting['examples']} examples; drift of {setting['phase_drift_rms']:g} rad, "
        f"gain {setting['gain_drift_rms']:g}, correlated over {setting['drift_time_s']:g} s"
    )
    return table(head, lines) + notes({name: document | {"setting": words}})


def over_photons(results: Results, name: str) -> str:
    """A line for each run, a column for each number of photons."""
    found = results.runs(name)
    if not found:
        return table(["run"], [[NOT_RUN]])
    rows = found[name]["rows"]
    curves = photons.curves(rows)
    numbers = list(next(iter(curves.values())))
    lines = [
        [run, *(_cell(values) for values in at.values()), f"{100 * photons.exact(rows, run):.2f}"]
        for run, at in curves.items()
    ]
    return table(["run", *(f"{n:g} photons" for n in numbers), "exact transform"], lines) + notes(found)


def _cell(values: list[float]) -> str:
    mean, half = band(values)
    return f"{100 * mean:.2f} ± {100 * half:.2f}"
