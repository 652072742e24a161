"""Makes tables of the errors of engines: after calibration, in networks tuned through them, by plan."""

from typing import Any

from evidence.pages.markdown import NOT_RUN, Results, Row, listed, notes, table
from fourier_attn.optics.transform_plan import PREFER
from fourier_attn.studies.engine.calibrate import prediction_error_db
from fourier_attn.studies.intervals import percent_range, wilson_interval


def calibration_table(results: Results, name: str) -> str:
    """Lists residual, predicted, true and corrected errors of each device, detection and light of probing."""
    documents = results.runs(name)
    if not documents:
        return table(["detection"], [[NOT_RUN]])
    lines = []
    for row in documents[name]["rows"]:
        numbers = [row[f"{what}_db"] for what in ("residual", "predicted", "hidden")]
        words = [f"{row['phase_rms']:g} rad, {row['gain_rms']:g}", row["detection"]]
        words += [f"{row['photons']:,g}", f"{row['passes']:,}", *(f"{number:.1f}" for number in numbers)]
        lines.append([*words, f"{prediction_error_db(row):.2f}", f"{row['corrected_db']:.1f}"])
    head = ["phases, gains", "detection", "photons", "passes", "residual", "model", "device", "difference"]
    return table([*head, "with factors"], lines) + notes(_described(documents))


def tuning_table(results: Results, name: str) -> str:
    """Lists the accuracy of each network on the hidden device, with the 95 % interval over examples."""
    documents = results.runs(name)
    if not documents:
        return table(["tuned through"], [[NOT_RUN]])
    lines = []
    for row in documents[name]["networks"]:
        low, high = wilson_interval(row["accuracy"], row["examples"])
        lines.append([row["tuned_through"], f"{100 * row['accuracy']:.2f}", percent_range(low, high, ".1f")])
    return table(["tuned through", "accuracy, %", "95 %"], lines) + notes(_described(documents))


def laboratory_table(results: Results, name: str) -> str:
    """Lists the accuracy of each network on the engine that it is tested on, with its 95 % interval.

    Args:
      results: the files of results.
      name: of the file of `fourier_attn.studies.engine.laboratory`.
    """
    return listed(results, name, ["trained through", "tested on", "accuracy, %", "95 %"], _network)


def _network(row: Row) -> list[str]:
    interval = percent_range(*wilson_interval(row["accuracy"], row["examples"]), ".1f")
    return [row["trained_through"], row["tested_on"], f"{100 * row['accuracy']:.1f}", interval]


def plan_table(results: Results, name: str) -> str:
    """Lists passes, stages and error of both plans for each size and number of averages."""
    document = results.document(name)
    by_size: dict[tuple[str, int], dict[str, Any]] = {}
    for one in document["rows"]:
        by_size.setdefault((one["size"], one["averages"]), {})[one["prefer"]] = one
    head, lines = ["size", "averages"], []
    for prefer in PREFER:
        head += [f'prefer "{prefer}": passes', "stages", "dB"]
    for (size, averages), plans in by_size.items():
        cells = [size, str(averages)]
        for prefer in PREFER:
            one = plans[prefer]
            cells += [f"{one['passes']:,}", str(one["stages"]), f"{one['snr_db']:.1f}"]
        lines.append(cells)
    return table(head, lines) + notes({name: document})


def _described(documents: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the documents with their settings in words."""
    described = {}
    for name, document in documents.items():
        of = document["setting"]
        words = f"{of['engine']}, device {of['seed']}, {of['probes']} rounds"
        described[name] = document | {"setting": words}
    return described
