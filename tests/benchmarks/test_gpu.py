"""The command for a lent GPU: its parts at small sizes on the CPU, its end, its refusals and its packing."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_here
from waiting import ENDLESS_S, HANG_S

from benchmarks import gpu, gpu_training, timing
from benchmarks import gpu_ops as gpu_ops  # while a command runs, only installed packages can be imported
from evidence.pages.layout import arrange
from evidence.pages.markdown import NOT_RUN, Results
from evidence.pages.measured import GPU_TABLES, GPU_VALUES
from fourier_attn import provenance
from fourier_attn.config import Config


def measured(part: str, root: Path, *names: str, kinds: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Runs a part at small sizes; returns its rows, and checks that their tables have no gaps.

    Args:
      part: the part.
      root: folder that gets results/benchmarks.
      names: names of the tables.
      kinds: kinds of rows to measure; (): all of the part.
    """
    out = root / "results" / "benchmarks"
    only = (f"--only={kind}" for kind in kinds)
    code, _, err = run_here(gpu, f"--part={part}", "--tiny", "--minutes=20", f"--out={out}", *only)
    assert (code, err) == (0, "")
    files = sorted(out.glob("gpu-*.json"))
    assert [path.stem.removeprefix("gpu-") for path in files] == sorted(kinds or gpu.KINDS[part])
    rows = [row for path in files for row in json.loads(path.read_text())["rows"]]
    assert [row for row in rows if "why" in row] == []
    for name in names:
        text = arrange(name, GPU_TABLES[name](Results(root)), "docs/accelerators.md")
        assert NOT_RUN not in text.lower()
        assert "Provenance" in text
    return rows


@pytest.mark.slow
def test_ops_are_compared_with_float64_and_timed(tmp_path: Path) -> None:
    rows = measured("1", tmp_path, "gpu-errors", "gpu-times")
    errors, times = ([row for row in rows if row["part"] == part] for part in ("error", "time"))
    assert {row["what"] for row in errors} == {"attention", "fourier"}
    assert all(row["within"] for row in errors)
    single = [row for row in errors if row["dtype"] == "float32"]
    assert all(0 < row["error"] < 1e-5 for row in single)  # it would be 0 if the reference were float32
    assert {"rfft", "masked matmul", "attention"} < {row["what"] for row in times}
    assert all(0 < row["lowest"] <= row["ms"] <= row["highest"] for row in times)
    file = tmp_path / "results" / "benchmarks" / "gpu-error.json"
    file.write_text(file.read_text().replace('"within": true', '"within": "known"'))
    only = measured("1", tmp_path / "only", kinds=("time",))
    assert {row["part"] for row in only} == {"time"}
    again = measured("1", tmp_path)
    assert {row["within"] for row in again if row["part"] == "error"} == {"known"}


@pytest.mark.slow
def test_a_killed_run_is_compared_and_a_step_is_timed(tmp_path: Path) -> None:
    resumed, step = measured("2", tmp_path, "gpu-steps", "gpu-resumed")
    assert (resumed["killed"], resumed["same_bits"]) == (True, True)
    assert step["tokens_per_s"] == pytest.approx(32 / (step["ms"] / 1e3), rel=0.01)
    assert step["predicted_mb"] > 16 * 5.3  # parameters of FNet-tiny with lambda, their best copy, and Adam


@pytest.mark.slow
def test_a_run_that_is_cut_off_is_continued(tmp_path: Path) -> None:
    out = tmp_path / "results" / "benchmarks"
    code, text, _ = run_here(gpu, "--part=3", "--tiny", "--minutes=0.05", f"--out={out}")
    assert (code, "the time is up" in text) == (0, True)
    assert not out.exists()
    words = [sys.executable, "-m", "benchmarks.gpu", "--part=3", "--tiny", f"--out={out}"]
    begun = subprocess.Popen(words, cwd=ROOT)
    while not (out / "gpu-run.json").exists():
        assert begun.poll() is None
        time.sleep(0.05)
    begun.terminate()
    assert begun.wait(HANG_S) == 128 + signal.SIGTERM
    [row] = json.loads((out / "gpu-run.json").read_text())["rows"]
    assert (row["finished"], row["epochs"]) == (False, 1)
    [row] = measured("3", tmp_path, "gpu-runs")
    assert (row["finished"], row["epochs"], len(row["validation"])) == (True, 2, 2)
    assert row["seconds"] is None  # it was resumed, and not trained again


def test_tables_without_results() -> None:
    for name, make in GPU_TABLES.items():
        assert arrange(name, make(Results(Path("nowhere"))), "docs/accelerators.md") == "Not yet run.\n"


def test_ratios_need_all_their_methods(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "benchmarks"
    folder.mkdir(parents=True)
    rows = [
        {"part": "time", "what": what, "dtype": "bfloat16", "t": 128, "ms": ms}
        for what, ms in {
            "fft": 4.0,
            "rfft": 3.0,
            "matmul": 2.0,
            "monarch": 2.5,
            "attention, cudnn": 1.0,
        }.items()
    ]
    name = "gpu-fourier-over-cudnn"
    for given, expected in ((rows, "2"), (rows[:-1], "unknown"), (rows[1:], "unknown"), ([], "unknown")):
        (folder / "gpu-time.json").write_text(json.dumps(provenance.record() | {"rows": given}))
        assert GPU_VALUES[name](Results(tmp_path)) == expected


def test_the_peak_is_compared_with_its_prediction(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "benchmarks"
    folder.mkdir(parents=True)
    sizes = ((100.0, 103.0), (100.0, 99.0), (None, 500.0), (100.0, None))
    rows: list[timing.Row] = [
        {"part": "step", "what": "fnet", "predicted_mb": a, "peak_mb": b} for a, b in sizes
    ]
    rows.append({"part": "step", "what": "bert", "why": "no memory"})
    for given, expected in ((rows, "-1 to 3"), (rows[:1], "3"), (rows[2:], "unknown"), ([], "unknown")):
        (folder / "gpu-step.json").write_text(json.dumps(provenance.record() | {"rows": given}))
        assert GPU_VALUES["gpu-peak-over-predicted"](Results(tmp_path)) == expected
        assert GPU_VALUES["gpu-encoders"](Results(tmp_path)) == ("1" if given else "0")


def test_rows_are_written_one_by_one(tmp_path: Path) -> None:
    file, seen = tmp_path / "a.json", []

    def growing() -> Iterator[timing.Row]:
        yield {"finished": False, "n": 1}
        seen.append(json.loads(file.read_text())["rows"])
        yield {"finished": True, "n": 2}

    def failing() -> list[timing.Row]:
        raise OSError("cut off")

    cases = [({"what": "known"}, failing), ({"what": "begun"}, growing), ({"what": "last"}, failing)]
    known = [{"what": "known", "n": 0}, {"what": "begun", "finished": False, "n": 0}]
    with pytest.raises(OSError, match="cut off"):
        timing.complete(file, {"commit": None}, known, cases)
    assert seen == [[known[0], {"what": "begun", "finished": False, "n": 1}]]
    rows = json.loads(file.read_text())["rows"]
    assert rows == [known[0], {"what": "begun", "finished": True, "n": 2}]
    assert list(gpu.attempt(failing)) == [{"why": "cut off"}]


def test_the_end_stops_all_processes(tmp_path: Path) -> None:
    """Also those that the measuring process has started and that ignore SIGTERM."""
    script = f"(trap '' TERM; touch {tmp_path}/ready; sleep {ENDLESS_S}) & sleep {ENDLESS_S}"
    worker = subprocess.Popen(["bash", "-c", script], start_new_session=True)
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    begin = time.monotonic()
    gpu.stop(worker, grace=0.5)
    assert time.monotonic() - begin > 0.4
    states = subprocess.run(["ps", "-o", "stat=", "-g", str(worker.pid)], capture_output=True, text=True)
    assert [line for line in states.stdout.split() if not line.startswith("Z")] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--part=4",), "--part=4"),
        ((), "--part and --out are required"),
        (("--part=1", "--out=DIR", "--minutes=0"), "--minutes=0 must be positive"),
        (("--part=1", "--out=DIR", "--minutes=nan"), "--minutes=nan must be positive"),
        (("--part=1", "--out=DIR/file"), "is not a folder"),
        (("--part=1", "--out=DIR"), "no GPU"),
        (("--part=2", "--out=DIR"), "has other contents"),
        (("--part=1", "--only=step", "--out=DIR"), "--part=1 has no step; choose among error, time"),
        (("--part=3", "--out=DIR", "--tiny"), "has rows of another commit"),
        (("--part=1", "--out=DIR", "--packed=DIR"), "has no file commit"),
    ],
)
def test_refusals(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(gpu.WORKER, "1")
    (tmp_path / "file").touch()
    (tmp_path / "gpu-step.json").write_text('["other"]')
    other = {"rows": [], "commit": "a" * 40, "setting": "", "versions": {}, "hardware": {"accelerator": None}}
    (tmp_path / "gpu-run.json").write_text(json.dumps(other))
    code, _, err = run_here(gpu, *(word.replace("DIR", str(tmp_path)) for word in words))
    assert code == 2
    assert message in err.replace("should be", "--part=4")
    assert len(err.splitlines()) == 1


def test_packing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, folder = tmp_path / "data", tmp_path / "packed"
    for name in ("train", "unsupervised"):
        path = data / "imdb_reviews" / f"{name}.array_record"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    asked = []

    def pip(words: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
        if words[0] == "git":
            return subprocess.CompletedProcess(words, 0, b"README.md\0")
        asked.append((words[5], words[-1]))
        return subprocess.CompletedProcess(words, words[5] == "download" and "promise" in words[-1])

    monkeypatch.setattr(gpu.subprocess, "run", pip)
    code, out, _ = run_here(gpu, f"--pack={folder}", f"--data_dir={data}")
    assert code == 0
    assert f"--packed={folder}" in out
    assert "not packed" not in out
    assert [path.name for path in folder.rglob("*.array_record")] == ["train.array_record"]
    assert (folder / "commit").read_text() == f"{timing.COMMIT}\n"
    wheels = [requirement for way, requirement in asked if way == "wheel"]
    assert wheels == ["promise==2.3"]
    assert len(asked) == len(gpu.LACKING) + 1


def test_every_encoder_has_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN's attention needs a GPU to compile, so only the configurations are compared."""
    seen: list[Config] = []

    def stop(c: Config) -> None:
        seen.append(c)
        raise RuntimeError("enough")

    monkeypatch.setattr(gpu_training, "training_step", stop)
    for what in gpu_training.ENCODERS:
        with pytest.raises(RuntimeError, match="enough"):
            gpu_training.step_row(what, 2, 2048, tiny=False)
    made = dict(zip(gpu_training.ENCODERS, seen, strict=True))
    mixers = {what: (c.model.mixer.name, c.model.mixer.get("implementation")) for what, c in made.items()}
    assert mixers["fnet"] == mixers["hybrid"] == ("fourier", None)
    assert [mixers[f"bert, {how}"] for how in ("cudnn", "xla")] == [
        ("attention", "cudnn"),
        ("attention", "xla"),
    ]
    assert [mixers[name][0] for name in ("lambda", "circular")] == ["lambda", "circular"]
    assert {(c.model.positions, c.model.depth, c.model.d, c.model.dtype) for c in seen} == {
        (2048, 12, 768, "bfloat16")
    }
    assert made["bert, xla"].model.mixer.dropout == 0.0 < made["bert, xla, dropout"].model.mixer.dropout
