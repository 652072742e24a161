"""Numbers and names in the pages on optics."""

import json
from pathlib import Path

import pytest
from agreement import agree, page
from conftest import ROOT

from evidence.pages import optics_values
from evidence.pages.markdown import Results
from evidence.pages.optics_values import lost, moved, plan, plan_loss
from evidence.pages.run_names import readable, renamed
from evidence.pages.values import VALUES


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("exact", "trained exactly"),
        ("1-circular-3x3-exact-2", "trained exactly"),
        ("1-fnet-engine-2", "trained on the engine"),
        ("insitu", "fine-tuned on the engine"),
        ("insitu-30-photons", "fine-tuned at 30 photons"),
        ("my-run", "my-run"),
    ],
)
def test_runs_have_names_in_words(run: str, words: str) -> None:
    assert readable(run) == words
    assert renamed({"rows": [{"run": run}], "date": ""}) == {"rows": [{"run": words}], "date": ""}


def write(root: Path, name: str, rows: list[dict]) -> Results:
    origin = {"command": "", "commit": "", "hardware": None, "versions": None, "date": ""}
    path = root / "results" / "studies" / f"{name}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(origin | {"rows": rows}))
    return Results(root)


def test_the_loss_is_the_largest_over_bits_and_runs(tmp_path: Path) -> None:
    rows = []
    for run, losses in (("a", (0.1, 0.03)), ("b", (0.02, 0.05))):
        rows.append({"run": run, "accuracy": 0.9})
        for bits, loss in zip((3, 4), losses, strict=True):
            rows += [
                {
                    "run": run,
                    "bits": bits,
                    "noise": noise,
                    "device": device,
                    "accuracy": 0.9 - noise * loss + shift,
                }
                for noise in (1.0, 2.0)
                for device, shift in enumerate((-0.01, 0.01))
            ]
    results = write(tmp_path, "robustness-imdb", rows)
    assert lost(results, 1.0) == "10.00"
    assert lost(results, 2.0) == "20.00"
    assert lost(results, 1.0, at_least=4) == "5.00"
    assert lost(results, 1.0, below=4) == "10.00"


def test_the_sentences_on_bits_agree_with_the_results() -> None:
    files = ("studies/robustness-imdb", "evidence/imdb/robustness-fnet")
    results = Results(ROOT)
    many, three = ([lost(results, 1.0, name, *limits) for name in files] for limits in ((4,), (3, 4)))
    said = {
        "Four are enough if the leak of the modulators is corrected: the loss is at most half a point.": max(
            map(float, many)
        )
        <= 0.5,
        "With three, it is at most one point": 0.5 < max(map(float, three)) <= 1.0,
        "and more than an A100 GPU is estimated to take.": (
            float(VALUES["pareto-fnet-gpu"](results).split()[0])
            < float(VALUES["pareto-fnet-engine"](results).split()[0])
        ),
    }
    agree(page("docs/optics/findings.md"), said)


def test_energies_per_number_have_the_sizes_of_their_measurements() -> None:
    """`gpu-number`, `gpu-number-measured` and the values made from them."""
    results = Results(ROOT)
    setting = results.document("studies/speedup-fnet")["setting"]
    assert setting.startswith("fourier, 2 layers, 32 examples of 512 tokens, d = 128")
    assert optics_values.PROJECTED == 2 * 512 * 128
    assert "2 layers of fourier, 256 tokens, d = 64" in results.document("studies/pareto-fnet")["setting"]
    assert optics_values.SEARCHED == 2 * 256 * 64
    rows = results.document("benchmarks/gpu-time")["rows"]
    assert {row["size"] for row in rows if row["t"] == 128} == {"(128, 128, 768)"}
    (rfft,) = [row for row in rows if (row["what"], row["dtype"], row["t"]) == ("rfft", "float32", 128)]
    measured = rfft["mj_per_example"] * 1e6 / (128 * 768)  # nJ
    assert VALUES["gpu-number-measured"](results) == f"{measured:.1f}"
    estimate = float(VALUES["energy-gpu"](results).split()[0]) * 1e3 / (2 * 512 * 128)  # uJ
    assert float(VALUES["pareto-fnet-gpu"](results).split()[0]) == pytest.approx(
        estimate * 2 * 256 * 64, rel=0.02
    )


def test_plans_are_compared_without_averages(tmp_path: Path) -> None:
    rows = [
        {
            "size": "256 x 64",
            "prefer": prefer,
            "averages": averages,
            "passes": 1000 * averages + extra,
            "snr_db": snr,
        }
        for averages in (2, 1)
        for prefer, extra, snr in (("error", 500, 19.0), ("passes", 0, 17.6))
    ]
    results = write(tmp_path, "plans-chip", rows)
    assert plan(results, "error") == "1,500"
    assert plan(results, "passes") == "1,000"
    assert plan_loss(results) == "1.4"


def test_the_share_of_moving_data(tmp_path: Path) -> None:
    energy = {"typical": {"dac": 1.0, "link": 2.0, "sram": 3.0, "hbm": 4.0, "total": 10.0}}
    rows = [{"part": "frame", "preset": "chip_11x11", "energy_j": energy}]
    assert moved(write(tmp_path, "speedup-fnet", rows)) == "90"
