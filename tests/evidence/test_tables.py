"""Runs as rows of results, and the tables that README shows."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from agreement import git
from cells import finding
from conftest import ROOT, run_here
from PIL import Image
from waiting import HANG_S

from evidence.pages import compiled, markdown, timings
from evidence.pages import fill as tables
from evidence.pages.fill import fill
from evidence.pages.markdown import Results
from evidence.report import tables as report_tables
from evidence.suite.ledger import (
    Ledger,
    core_hours,
    examples_per_s,
    least_core_hours,
    pack,
    peak_memory,
)
from fourier_attn import config, provenance
from fourier_attn.studies import collect
from fourier_attn.train import init_from
from fourier_attn.train.rundir.checkpoint import checkpoint_ids

FACTS = {
    "command": "python -m benchmarks.dense",
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "hardware": {"cpu": "Some CPU", "cores": 2, "memory_gib": 8, "accelerator": None, "accelerators": 0},
    "versions": {"python": "3.11.7", "jax": "0.10.2"},
    "date": "2026-01-02T03:04:05Z",
}
ENCODER = [
    {"what": "fnet / bert", "pass": "training step", "ours_ms": 10.0, "other_ms": 26.4}
    | {"times_faster": 2.64, "lowest": 2.1, "highest": 3.26},
    {"what": "linear / bert", "pass": "training step", "ours_ms": 10.0, "other_ms": 4.7}
    | {"times_faster": 0.47, "lowest": 0.38, "highest": 0.92},
]
FNET = """from fourier_attn import config

def get_config(task='reviews'):
    c = config.default('fourier', task.partition('-')[0])
    c.model.depth = 4
    return c
"""


def block(name: str, body: str = "") -> str:
    return f"<!-- table: {name} -->\n{body}<!-- /table -->"


@pytest.fixture(autouse=True)
def sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """These runs have names of checkpoints, and nothing in them."""
    state = SimpleNamespace(epochs_since_best=0)
    monkeypatch.setattr(
        init_from, "restore_state", lambda where, **_: (None, None, checkpoint_ids(where)[0], state)
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Sources with one page, one table and one file of results."""
    save(tmp_path, "benchmarks/images-cpu", ENCODER)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "speed.md").write_text(f"# Speed\n\n{block('speed-images')}\n\nThe end.\n")
    return tmp_path


def save(root: Path, name: str, rows: list[dict[str, Any]]) -> None:
    path = root / "results" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(FACTS | {"rows": rows}))


def call(root: Path, *options: str) -> tuple[int, str]:
    code, out, err = run_here(tables, f"--root={root}", *options)
    return code, out + err


def test_fills_and_checks(root: Path) -> None:
    page = root / "docs" / "speed.md"
    empty = page.read_text()
    code, said = call(root, "--check")
    assert (code, page.read_text()) == (1, empty)
    assert "docs/speed.md: speed-images" in said
    assert call(root) == (0, "docs/speed.md: speed-images\n")
    filled = page.read_text()
    assert filled.startswith("# Speed\n\n<!-- table: speed-images -->\n| first")
    assert filled.endswith("<!-- /table -->\n\nThe end.\n")
    assert call(root) == (0, "")  # idempotent
    assert page.read_text() == filled
    assert call(root, "--check") == (0, "")
    page.write_text(filled.replace("2.6 (", "2.7 ("))
    code, said = call(root, "--check")
    assert code == 1
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert "docs/speed.md: speed-images" in said


def test_a_comparison_in_words(root: Path) -> None:
    text, changed = fill(block("speed-images"), Results(root), "x.md")
    assert changed == ["speed-images"]
    lines = text.splitlines()
    assert (
        lines[1]
        == "| first / second side | pass | first, ms | second, ms | times faster (lowest to highest) |"
    )  # no empty columns
    assert lines[3] == "| fnet / bert | training step | 10 | 26 | 2.6 (2.1 to 3.3) |"
    assert lines[4].endswith("| 0.47 (0.38 to 0.92); second is faster |")
    assert lines[-2] == "[Provenance](docs/provenance.md#speed-images)"
    assert tables.TABLES["speed-images"](Results(root)).splitlines()[-1] == (
        "<sub>`python -m benchmarks.dense` (results/benchmarks/images-cpu.json): Some CPU, 2 cores, 8 GiB; "
        "python 3.11.7, jax 0.10.2; commit 012345678; 2026-01-02; load of the machine not recorded</sub>"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (block("sped"), r"x.md: table='sped' is unknown; did you mean speedup\? Choose one of reviews, imdb"),
        (block("peer"), "results/benchmarks/peer-huggingface-cpu.json is missing"),
        ("<!-- table: peer -->\n", "x.md has a table that is not closed"),
        (f"<!-- table: peer -->\n{block('peer')}", "x.md has a table that is not closed"),
    ],
)
def test_what_cannot_be_filled(root: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fill(text, Results(root), "x.md")


def test_an_unknown_table_is_an_error_of_the_command(root: Path) -> None:
    (root / "README.md").write_text(block("sped") + "\n")
    code, said = call(root)
    assert code == 2
    assert said.startswith("error: README.md: table='sped' is unknown")
    assert "what" not in (root / "docs" / "speed.md").read_text()  # nothing is half written


def test_every_table_of_this_repository_can_be_made() -> None:
    results = Results(ROOT)
    for name, make in tables.TABLES.items():
        text = make(results)
        assert text.startswith("| "), name
        # Of cells their files and the report say whence they are.
        cells = (
            "evidence",
            "twins",
            "claims",
            "all-claims",
            "starts",
            "articles",
            "sst2",
            "listops",
            "listops-against-guess",
            "bytes",
            "recall",
            "skills",
            "skills-recall",
            "skills-recall-equal",
            "skills-recall-pairs",
            "skills-hybrids",
            "skills-higher",
            "skills-higher-seeds",
            "skill-predictions",
            "stability",
            "pretrained",
            "pretrained-wiki",
            "pretraining-predictions",
            "pretraining-steps",
            "pretraining-steps-wiki",
            "self-pretraining",
            "self-pretraining-predictions",
            "self-pretraining-listops",
            "self-pretraining-listops-predictions",
            "lm-causal",
            "lm-predictions",
            "lm-masked",
        )
        other = ("reviews", "imdb", "padding", "components")
        unmeasured = name.startswith(("engine-", "parameters-", "images-")) or name in (*cells, *other)
        files = [line.count("results/") for line in text.splitlines()[2:]]
        sourced = "\n<sub>" in text or text.endswith("| not yet run |\n") or min(files) > 0
        assert sourced or unmeasured, name


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.3249, "1.32"), (2.64, "2.6"), (14.22, "14"), (203.4, "203"), (1477, "1,480"), (0.4712, "0.471")],
)
def test_significant_digits(number: float, text: str) -> None:
    assert markdown.significant(number) == text


# Runs


def write_run(directory: Path, finished: bool = True, **more: Any) -> Path:
    """The files of a run of fnet on IMDb, as the loop writes them."""
    c = config.default("fourier", "imdb")
    c.seed, c.data.split_seed, c.model.depth = 5, 6, 4
    c.model.vocab, c.model.mixer.lengths, c.optim.steps = 123, (128, 512), 4  # the run's own doing
    directory.mkdir(parents=True)
    facts = {"config": c.to_dict(), "versions": {"jax": "0.10.2"}, "commit": "abc", **more}
    (directory / "config.json").write_text(json.dumps(facts))
    lines: list[dict[str, Any]] = [
        {"step": 2, "epoch": 1, "split": "train", "accuracy": 0.7},
        {"step": 2, "epoch": 1, "split": "validation", "accuracy": 0.8},
        {"step": 4, "epoch": 2, "split": "validation", "accuracy": 0.875},
    ]
    if finished:
        lines.append({"step": 4, "epoch": 2.0, "split": "test", "accuracy": 0.85, "loss": 0.4})
        (directory / "checkpoints" / "4").mkdir(parents=True)
        (directory / "predictions.jsonl").write_text('{"index": 0, "label": 1, "prediction": 1}\n')
    (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return directory


def test_a_run_as_a_row(tmp_path: Path) -> None:
    row = collect.row(write_run(tmp_path / "fnet-5"))
    assert row["knobs"] == {"model.depth": 4}
    assert (row["run"], row["task"], row["mixer"], row["seed"], row["split_seed"]) == (
        *("fnet-5", "imdb", "fourier"),
        *(5, 6),
    )
    assert row["test"] == {"accuracy": 0.85, "loss": 0.4}
    assert (row["metric"], row["validation"], row["epochs"]) == ("accuracy", [0.8, 0.875], 2)
    assert (row["commit"], row["versions"]) == ("abc", {"jax": "0.10.2"})
    for unknown in ("config", "seconds", "parameters", "command", "hardware", "date"):
        assert row[unknown] is None


def test_the_machine_of_a_run_has_its_vector_instructions() -> None:
    """Processors with one name may differ in them, and then results differ in their last digits."""
    earlier = FACTS["hardware"]
    assert markdown.machine(earlier) == "Some CPU, 2 cores, 8 GiB"
    assert markdown.machine(earlier | {"vectors": None}) == "Some CPU, 2 cores, 8 GiB"
    assert markdown.machine(earlier | {"vectors": "AVX2"}) == "Some CPU with AVX2, 2 cores, 8 GiB"


@pytest.mark.parametrize(
    ("line", "newest"),
    [
        ("flags\t\t: fpu sse2 avx avx2 avx512f", "AVX-512"),
        ("flags\t\t: fpu sse2 avx avx2", "AVX2"),
        ("Features\t: fp asimd", "NEON"),
        ("Features\t: fp asimd sve", "SVE"),
        ("vmx flags\t: avx2", None),
        ("flags\t\t: fpu sse2", None),
    ],
)
def test_vector_instructions_are_read_from_the_flags(line: str, newest: str | None) -> None:
    assert provenance.vectors(["processor\t: 0", line]) == newest
    assert provenance.vectors([]) is None


def test_what_newer_runs_record(tmp_path: Path) -> None:
    line = "python -m fourier_attn.main --config=configs/fnet.py:imdb --workdir=.../b"
    row = collect.row(write_run(tmp_path / "run", command=line, hardware=FACTS["hardware"]))
    assert row["config"] == "configs/fnet.py:imdb"
    assert row["command"] == "python -m fourier_attn.main --config=configs/fnet.py:imdb --workdir=.../b"
    assert row["hardware"] == FACTS["hardware"]
    command = row["command"].replace("fnet.py", "lambda.py")
    row = collect.row(write_run(tmp_path / "newest", command=command))
    assert (row["config"], row["command"]) == ("configs/lambda.py:imdb", command)


def collected(out: Path, *directories: Path) -> tuple[int, str, str]:
    return run_here(collect, f"--out={out}", *map(str, directories), arguments=True)


def test_collecting(tmp_path: Path) -> None:
    out = tmp_path / "results" / "imdb.json"
    one, two = write_run(tmp_path / "one"), write_run(tmp_path / "two")
    code, _, err = collected(out, one, two)
    assert code == 0, err
    text = (one / "metrics.jsonl").read_text().replace("0.85,", "0.86,")
    (one / "metrics.jsonl").write_text(text)
    collect.merge(out, [collect.row(one)])
    assert [(row["run"], row["test"]["accuracy"]) for row in collect.rows(out)] == [
        ("one", 0.86),
        ("two", 0.85),
    ]
    before = out.read_text()
    code, _, err = collected(out, one, write_run(tmp_path / "three", finished=False))
    assert code == 2
    assert err.startswith(f"error: {tmp_path / 'three'} is not finished")
    assert out.read_text() == before


def test_two_processes_may_collect_into_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one begins when the first one has read the file, and waits until it is written."""
    out, others = tmp_path / "imdb.json", []
    code = "import sys; from fourier_attn.studies import collect"
    code = f"{code}; collect.merge(collect.Path(sys.argv[1]), [{{'run': 'second'}}])"

    def rows(path: Path) -> list[dict[str, Any]]:
        found = original(path)
        command = [sys.executable, "-c", code, str(path)]
        others.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        assert any("waiting" in line for line in others[0].stderr)  # until its first line of this kind
        return found

    original = collect.rows
    with monkeypatch.context() as patch:
        patch.setattr(collect, "rows", rows)
        collect.merge(out, [{"run": "first"}])
    assert others[0].wait(HANG_S) == 0
    assert [row["run"] for row in collect.rows(out)] == ["first", "second"]


def test_a_table_of_runs(root: Path) -> None:
    """Seeds of one configuration stand together; a configuration that was not run says so."""
    rows = []
    for seed, accuracy in ((1, 0.88), (0, 0.86)):
        row = collect.row(write_run(root / "runs" / f"run-{seed}")) | FACTS
        line = f"python -m fourier_attn.main --config=configs/fnet.py:imdb --config.seed={seed}"
        row |= {"seed": seed, "config": "configs/fnet.py:imdb", "command": line, "seconds": 100.0}
        row["test"] = row["test"] | {"accuracy": accuracy}
        rows.append(row)
    other = collect.row(write_run(root / "runs" / "old")) | FACTS
    collect.merge(root / "results" / "studies" / "imdb.json", [*rows, other])
    (root / "configs").mkdir()
    for name in ("fnet", "identity"):
        (root / "configs" / f"{name}.py").write_text(FNET)
    (root / "configs" / "pretrain.py").write_text("def get_config(name='fnet-mini'): ...\n")
    text = tables.TABLES["imdb"](Results(root))
    assert "| `configs/fnet.py:imdb` | 86.00, 88.00 | 87.00 | 1.41 | 2 | 100 |\n" in text
    assert "| `configs/identity.py:imdb` | not yet run |  |  |  |  |\n" in text
    assert "| fourier: model.depth=4 | 85.00 | 85.00 |  | 2 | not recorded |\n" in text
    assert "pretrain" not in text


def with_padding(root: Path, seed: int, accuracy: float, **knobs: object) -> dict[str, Any]:
    row = collect.row(write_run(root / "runs" / f"{len(list(root.glob('runs/*')))}")) | FACTS
    row |= {"seed": seed, "knobs": {"model.depth": 4, **knobs}}
    return row | {"test": {"accuracy": accuracy}, "validation": [accuracy, accuracy + 0.02, accuracy + 0.01]}


def test_a_table_of_what_padding_does(root: Path) -> None:
    """Seeds of one choice stand together, the default too; what differs besides is named."""
    assert tables.TABLES["padding"](Results(root)).count(markdown.NOT_RUN) == 4
    zero = {"model.mixer.padding": "zero"}
    rows = [with_padding(root, 1, 0.88), with_padding(root, 0, 0.86), with_padding(root, 0, 0.87, **zero)]
    collect.merge(root / "results" / "studies" / "padding-imdb.json", rows)
    text = tables.TABLES["padding"](Results(root))
    assert "| invariant | 89.00 | 86.00, 88.00 | 87.00 | 1.41 |\n" in text
    assert "| zero | 89.00 | 87.00 | 87.00 |  |\n" in text
    assert "| own | not yet run |  |  |  |\n" in text
    other = with_padding(root, 1, 0.80, **zero, **{"model.d": 64})
    collect.merge(root / "results" / "studies" / "padding-imdb.json", [other])
    assert "| zero, model.d=64 | 82.00 | 80.00 | 80.00 |  |\n" in tables.TABLES["padding"](Results(root))


def test_a_table_of_configurations_that_were_run_once(root: Path) -> None:
    """A run with other options than its file is named with them."""
    (root / "configs").mkdir()
    (root / "configs" / "fnet.py").write_text(FNET)
    rows = []
    for metric, value, more in (("perplexity", 45.26, ""), ("accuracy", 0.7, " --config.train.epochs=2")):
        line = f"python -m fourier_attn.main --config=configs/fnet.py:imdb --config.seed=0{more}"
        row = collect.row(write_run(root / "runs" / metric, command=line)) | FACTS | {"command": line}
        rows.append(row | {"metric": metric, "test": {metric: value, "loss": 1.0}})
    collect.merge(root / "results" / "studies" / "configurations.json", rows)
    lines = tables.TABLES["configurations"](Results(root)).splitlines()
    assert lines[2:4] == [
        "| `configs/fnet.py:imdb --config.train.epochs=2` | accuracy | 70.00 % | 2 |",
        "| `configs/fnet.py:imdb` | perplexity | 45.3 | 2 |",
    ]


def test_a_row_stands_for_its_configuration_as_it_was(root: Path) -> None:
    (root / "configs").mkdir()
    rows = []
    for seed, accuracy, more in ((0, 0.86, ""), (1, 0.88, ""), (2, 0.5, " --config.model.depth=2")):
        line = f"python -m fourier_attn.main --config=configs/fnet.py:imdb --config.seed={seed}{more}"
        row = collect.row(write_run(root / "runs" / str(seed), command=line)) | FACTS | {"command": line}
        rows.append(row | {"test": {"accuracy": accuracy}})
    collect.merge(root / "results" / "studies" / "imdb.json", rows)
    (root / "configs" / "fnet.py").write_text(FNET.replace("depth = 4", "depth = 6"))
    earlier = "| `configs/fnet.py:imdb` as it was: model.depth=4 | 86.00, 88.00 | 87.00 | 1.41 |"
    assert earlier in tables.TABLES["imdb"](Results(root))
    (root / "configs" / "fnet.py").write_text(f"VARIANTS = ('1d', '2d')\n{FNET}")
    assert "`configs/fnet.py:imdb-1d`" not in tables.TABLES["imdb"](Results(root))
    assert "| `configs/fnet.py:imdb-2d` | not yet run" in tables.TABLES["imdb"](Results(root))


def test_the_evidence_has_every_model_of_the_tier(root: Path) -> None:
    ledger = Ledger(root / "results" / "evidence" / "imdb")
    for cell, accuracy in (
        ("1-fnet-0", 0.86),
        ("1-fnet-1", 0.88),
        ("1-fnet-0-split1", 0.5),
        ("1-linear-0", 0.9),
    ):
        killed = cell == "1-fnet-1"  # its first process, of which nobody knows what it took
        facts = finding(cell, cpu_seconds=36.0 if killed else 360.0, processes=1 + killed)
        ledger.write(facts | {"peak_memory_mib": 100, "validation": [0.5], "test": {"accuracy": accuracy}})
    lines = tables.TABLES["evidence"](Results(root)).splitlines()
    assert lines[2:4] == ["| `linear` | 90.00 (1) | 0.10 |", "| `fnet` | 87.00 ± 1.41 (2) | 0.10 |"]
    assert len(lines) == 2 + 11
    assert len(tables.TABLES["twins"](Results(root)).splitlines()) == 2 + 6
    assert lines[4].endswith("| not yet run |  |")


def test_cells_of_a_gpu_have_no_core_hours_and_no_memory() -> None:
    on_gpu = {**FACTS["hardware"], "accelerator": "NVIDIA H200", "accelerators": 1}
    epochs = [{"epoch": 1, "train": {"examples_per_s": 8.0}}]
    cpu, gpu = (
        finding("1-fnet-0", cpu_seconds=360.0, epochs=epochs, hardware=where, peak_memory_mib=peak)
        for where, peak in ((FACTS["hardware"], 700), (on_gpu, 3000))
    )
    assert (peak_memory([cpu, gpu]), peak_memory([gpu])) == (700, None)
    assert (core_hours(cpu), core_hours(gpu)) == (0.1, None)
    assert least_core_hours([cpu, gpu]) == 0.1
    assert (examples_per_s([cpu, gpu]), examples_per_s([gpu])) == (8.0, None)


def test_a_claim_is_judged_when_all_its_networks_are_there(root: Path) -> None:
    ledger = Ledger(root / "results" / "evidence" / "imdb")
    rng = np.random.default_rng(0)

    def write(model: str, seed: int, share: float) -> None:
        facts = finding(f"1-{model}-{seed}", validation=[0.5, share], test={"accuracy": share})
        ledger.write(facts | {"right": pack(rng.random(4000) < share)})

    for seed in range(3):
        write("circular-1d", seed, 0.9)
        write("circular-8x8", seed, 0.6)
    for seed in range(2):
        write("attention", seed, 0.7)
    table = tables.TABLES["claims"](Results(root))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    assert len(rows) == 8
    assert rows[2][5] == "does not hold (worse)"
    assert -33 < float(rows[2][3]) < -27
    assert (
        rows[0][3] == rows[1][3] == "some seeds are not yet run"
    )  # two of three seeds of attention, none of 16 x 4
    assert rows[4][3] == "not yet run"
    lines = tables.TABLES["starts"](Results(root)).splitlines()
    assert lines[2:] == [
        "| `circular-1d` | 50.00 | 90.00 |",
        "| `attention` | 50.00 | 70.00 |",
        "| `circular-8x8` | 50.00 | 60.00 |",
    ]
    write("attention", 2, 0.7)
    assert "holds (better)" in tables.TABLES["claims"](Results(root)).splitlines()[2]


def test_what_networks_found_about_queries_and_noise(root: Path) -> None:
    (root / "results" / "evidence" / "imdb").mkdir(parents=True, exist_ok=True)
    heads = [
        {"layer": 0, "head": h, "parameters": 32, "freedom": 16, "effective_rank": 3.0 + h} for h in (0, 1)
    ]
    save(root, "evidence/imdb/query_keys-a", heads)
    document = json.loads((root / "results" / "evidence" / "imdb" / "query_keys-a.json").read_text()) | {
        "setting": "run a"
    }
    (root / "results" / "evidence" / "imdb" / "query_keys-a.json").write_text(json.dumps(document))
    assert tables.TABLES["query-keys"](Results(root)).splitlines()[2] == "| run a | 32 | 16 | 4 |"
    rows: list[dict[str, Any]] = [{"run": "exact", "accuracy": 0.8}]
    rows += [
        {"run": "exact", "accuracy": accuracy, "bits": bits, "noise": 1.0}
        for bits, accuracy in ((2, 0.1), (4, 0.6), (8, 0.7))
    ]
    save(root, "evidence/imdb/robustness-a", rows)
    line = tables.TABLES["noise"](Results(root)).splitlines()[2]
    assert line == "| exact | 80.00 | not yet run | 65.00 | not yet run |"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            '{"rows": [{"run": "exact", "accuracy": 0.8}]}',
            "neither it nor each row has command, commit",
        ),
        ('{"rows": []}', "neither it nor each row has command, commit"),
        ('{"rows": {"a": 1}}', "it has no rows"),
        ('{"rows": [1]}', "it has no rows"),
        ("[]", "it has no rows"),
        ("7", "it has no rows"),
        ('{"rows"', "Expecting"),
        ('"\xff"', "can't decode"),
    ],
)
def test_a_damaged_file_of_results_is_named_by_its_path(text: str, why: str, root: Path) -> None:
    path = root / "results" / "evidence" / "imdb" / "robustness-a.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("latin-1"))
    message = rf"^{re.escape(str(path))} is damaged \(.*{why}.*\); write it again$"
    with pytest.raises(ValueError, match=message):
        list(report_tables.swept(path.parent))
    with pytest.raises(ValueError, match=message):
        tables.TABLES["noise"](Results(root))


def test_a_sweep_of_several_commands_names_them(root: Path) -> None:
    facts = {"commit": None, "hardware": None, "versions": None, "date": None}
    rows = [
        facts | {"command": command, "run": "a", "bits": 4, "noise": noise, "device": 0, "accuracy": 0.8}
        for noise, command in ((0.0, "first"), (1.0, "second"))
    ]
    (root / "results" / "evidence" / "imdb").mkdir(parents=True)
    (root / "results" / "evidence" / "imdb" / "robustness-a.json").write_text(json.dumps({"rows": rows}))
    text = "".join(report_tables.swept(root / "results" / "evidence" / "imdb"))
    assert "Command: `first`, `second`" in text


def test_what_was_compiled_and_not_run(root: Path) -> None:
    mixer = {"part": "mixer", "what": "afno", "dtype": "float32", "compiles": True, "temporary_mb": 1.234}
    moved = {"all-reduce": {"count": 2, "bytes": 5200, "largest": 4}}
    refused = {"part": "mixer", "what": "lambda", "dtype": "float32", "compiles": False, "why": "too large"}
    rows = [mixer | {"collectives": moved, "cycles": 12_300}, refused]
    length = {"part": "length", "what": "fourier", "dtype": "float32", "compiles": True}
    save(root, "benchmarks/aot-v5e", rows)
    longer = [length | {"temporary_mb": 10.0 * t, "t": t} for t in (512, 2048)]
    save(root, "benchmarks/aot-length-v5e", longer)
    save(root, "benchmarks/aot-h100", [mixer | {"collectives": {}}])
    table = tables.TABLES["aot-mixers"](Results(root))
    assert "| afno | float32 | 2 all-reduce, 5.2 kB | 1.23 | 12 | nothing | 1.23 |" in table
    assert (
        "| lambda | float32 | does not compile | does not compile |  | not yet run | not yet run |" in table
    )
    block = {"part": "shared", "what": "fourier", "compiles": True, "collectives": moved}
    shared = [block | {"devices": n, "temporary_mb": mb} for n, mb in ((1, 900.0), (4, 250.0))]
    save(root, "benchmarks/aot-shared-h100", shared)
    table = tables.TABLES["aot-shared"](Results(root))
    assert "| fourier | H100 | 900 | 250 | 3.6 | 2 all-reduce, 5.2 kB |" in table
    table = tables.TABLES["aot-lengths"](Results(root))
    assert "| fourier, float32 | v5e, MB | 5,120 | 20,500 |" in table
    assert "H100" not in table


def test_a_ratio_is_of_rows_that_differ_in_what_is_named(root: Path) -> None:
    row = {"part": "length", "what": "fourier", "t": 512, "temporary_mb": 3.0}
    rows = [row | {"t": 64, "temporary_mb": 7.0}, row, row | {"what": "attention", "temporary_mb": 370.0}]
    save(root, "benchmarks/aot-h100", rows)
    above, below = {"what": "attention", "t": 512}, {"what": "fourier"}
    assert compiled.ratio(Results(root), "benchmarks/aot-h100", "temporary_mb", above, below) == "120"


def test_pictures_can_be_opened() -> None:
    for path in (ROOT / "results").rglob("*.png"):
        with Image.open(path) as picture:
            picture.verify()


def test_numbers_inside_of_sentences_are_filled(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tables.VALUES, "seen", lambda results: "2.9")
    sentence = "up to <!-- value: seen -->3<!-- /value --> times, and <!-- value: seen -->2.9<!-- /value -->"
    text, changed = fill(sentence, Results(root), "x.md")
    assert (text, changed) == (sentence.replace(">3<", ">2.9<"), ["seen"])
    for wrong, message in (("seen", "is not closed"), ("other -->1<!-- /value", "value='other' is unknown")):
        with pytest.raises(ValueError, match=message):
            fill(f"up to <!-- value: {wrong} -->", Results(root), "x.md")
    with pytest.raises(ValueError, match="has a value that begins a line"):
        fill(f"up to\n{sentence.removeprefix('up to ')}", Results(root), "x.md")


def test_every_number_of_sentences_is_on_a_page() -> None:
    text = "".join(path.read_text() for glob in tables.PAGES for path in ROOT.glob(glob))
    assert {name for name in tables.VALUES if f"<!-- value: {name} -->" not in text} == set()


def test_a_range_around_one_says_that_nobody_is_faster() -> None:
    for ratio in (0.9, 1.2):
        row = {"times_faster": ratio, "lowest": 0.8, "highest": 1.3}
        assert timings.times_faster(row) == f"{ratio:g} (0.8 to 1.3); equal within the range"
    value = {"value": 1.2, "unit": "times faster", "lowest": 1.0, "highest": 1.3}
    assert timings.value(value).endswith("; equal within the range")
    assert timings.value(value | {"lowest": 1.1}).endswith("(1.1 to 1.3)")


def test_origins_name_the_load() -> None:
    found = provenance.record()
    assert set(found["load"]) == {"before", "after"}
    before = markdown.origin(FACTS | {"load": {"before": 0.5, "after": None}})
    assert before.endswith("load 0.5 before")
    assert "load" not in markdown.origin(FACTS)


def test_what_a_file_does_not_record_is_a_remark() -> None:
    old = FACTS | {"rows": []}
    assert markdown.unrecorded("benchmarks/x-cpu", old) == "; load of the machine not recorded"
    assert markdown.unrecorded("benchmarks/x-cpu", old | {"load": {"before": 1.0}}) == ""
    assert markdown.unrecorded("benchmarks/aot-h100", old) == ""
    assert markdown.unrecorded("studies/drift-x", old) == "; weights of the networks not recorded"
    assert markdown.unrecorded("studies/drift-x", old | {"networks": []}) == ""
    assert "not recorded</sub>" in markdown.notes({"studies/drift-x": old})
    assert "not recorded</sub>" in markdown.notes({"studies/drift-x": {"rows": [FACTS | {"run": "a"}]}})


def test_results_name_commits_of_this_history() -> None:
    """A commit that was rebased after a study ran is in no clone."""
    known = set(git("rev-list", "HEAD"))
    named = {
        (path.relative_to(ROOT).as_posix(), commit)
        for path in (ROOT / "results").rglob("*.json")
        for commit in re.findall(r'"commit": "([0-9a-f]{40})"', path.read_text())
    }
    unknown = sorted((path, commit) for path, commit in named if commit not in known)
    if git("rev-parse", "--is-shallow-repository") != ["false"] or len(unknown) == len(named):
        pytest.skip("needs a clone with the whole history")
    assert not unknown
