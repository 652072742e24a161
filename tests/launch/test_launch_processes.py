"""launch: several processes, sweeps and SLURM, really run."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm_node
from conftest import ROOT, shrink
from waiting import HANG_S, wait_for

from fourier_attn import config
from fourier_attn.train.rundir.config_file import flat
from fourier_attn.train.summary import finished
from launch.results import FILE

pytestmark = pytest.mark.slow

STAND_IN = "--module=stand_in"
slurm_installed = pytest.mark.skipif(
    bool(slurm_node.missing()), reason=f"not installed: {', '.join(slurm_node.missing())}"
)


def start(launcher: str, *words: str, **environment: str) -> subprocess.Popen:
    """Starts a launcher, in a group of its own as a shell would."""
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "TQDM_DISABLE": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", f"launch.{launcher}", *words],
        cwd=ROOT,
        env=os.environ | paths | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def call(launcher: str, *words: str, **environment: str) -> tuple[int, str, str]:
    process = start(launcher, *words, **environment)
    out, err = process.communicate(timeout=HANG_S)
    return process.returncode, out, err


def numbers(where: Path) -> list[int]:
    """Process numbers of the stand-in's processes."""
    return [int(path.read_text() or 0) for path in where.glob("*/process")]


def running(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def under_way(where: Path, processes: int, step: int = 3) -> bool:
    """Whether so many processes have all made some steps."""
    steps = [int(path.read_text() or 0) for path in where.glob("*/step")]
    return len(steps) == processes and min(steps) >= step


def log(where: Path, process: int, name: str = "out") -> str:
    """All that a process has printed, in all calls."""
    folder = where.with_name(f"{where.name}.launch")
    return "".join(path.read_text() for path in sorted(folder.glob(f"*_{process}_log.{name}")))


def left(where: Path) -> list[str]:
    """Command lines of processes that have to do with a directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            line = path.read_bytes().replace(b"\0", b" ").decode()
            if str(where) in line and str(os.getpid()) != path.parent.name:
                found.append(line)
    return found


def training(where: Path) -> list[int]:
    """Process numbers of those that train in a directory."""
    words = ["pgrep", "--full", f"fourier_attn.main.*--workdir={where}"]
    return [int(line) for line in subprocess.check_output(words, text=True).split()]


def test_two_processes_know_each_other_and_keep_their_output(tmp_path: Path) -> None:
    where = tmp_path / "run"
    options = ["--processes=2", "--devices=3", STAND_IN]
    code, out, err = call("local", *options, "--", f"--workdir={where}", "--steps=3")
    assert (code, err) == (0, "")
    seen = [json.loads(log(where, i).split(": ", 1)[1].splitlines()[0]) for i in range(2)]
    assert [s["JAX_PROCESS_ID"] for s in seen] == ["0", "1"]
    assert {s["JAX_NUM_PROCESSES"] for s in seen} == {"2"}
    assert len({s["JAX_COORDINATOR_ADDRESS"] for s in seen}) == 1
    assert {s["XLA_FLAGS"].split()[-1] for s in seen} == {"--xla_force_host_platform_device_count=3"}
    cores = len(os.sched_getaffinity(0))
    assert sum(s["cores"] for s in seen) == max(cores, 2)
    assert "process 0 done" in out
    assert "process 1 done" not in out
    assert "process 1 done" in log(where, 1)
    assert not left(tmp_path)


@pytest.mark.parametrize(("told", "code"), [("1", 1), ("2", 2)])
def test_one_fails(told: str, code: int, tmp_path: Path) -> None:
    """And the others would go on for minutes."""
    where = tmp_path / "run"
    words = [f"--workdir={where}", "--steps=3", f"--code={told}", "--who=1", "--endless=0"]
    found, _, err = call("local", "--processes=2", "--grace=1", STAND_IN, "--", *words)
    assert found == code
    assert f"process 1 ended with exit code {code}: error: as told" in err
    assert "process 0 saved step" in log(where, 0)
    assert not left(tmp_path)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR2"])
@pytest.mark.parametrize("group", [False, True], ids=["launcher", "terminal"])
def test_a_signal_reaches_each_process_once(name: str, group: bool, tmp_path: Path) -> None:
    where, signum = tmp_path / "run", signal.Signals[name]
    launcher = start("local", "--processes=2", STAND_IN, "--", f"--workdir={where}", "--steps=9999")
    wait_for(lambda: under_way(where, 2))
    if group:
        os.killpg(launcher.pid, signum)
    else:
        launcher.send_signal(signum)
    launcher.communicate(timeout=HANG_S)
    assert launcher.returncode == 128 + signum
    for process in (0, 1):
        assert f"process {process} saved step" in log(where, process)
    assert not left(tmp_path)
    again, out, _ = call("local", "--processes=2", STAND_IN, "--", f"--workdir={where}", "--steps=1")
    assert again == 0
    assert not re.search("process 0 from step 0:", out)


def test_a_second_signal_is_handed_on(tmp_path: Path) -> None:
    where = tmp_path / "run"
    launcher = start("local", STAND_IN, "--", f"--workdir={where}", "--steps=9999", "--deaf")
    wait_for(lambda: under_way(where, 1))
    launcher.send_signal(signal.SIGTERM)
    time.sleep(1)
    assert launcher.poll() is None
    launcher.send_signal(signal.SIGTERM)
    launcher.communicate(timeout=HANG_S)
    assert launcher.returncode == 128 + signal.SIGTERM
    assert not left(tmp_path)


@pytest.mark.parametrize("options", [[], ["--deaf"]], ids=["they save", "they do not listen"])
def test_a_killed_process_ends_the_others(options: list[str], tmp_path: Path) -> None:
    where = tmp_path / "run"
    words = [f"--workdir={where}", "--steps=9999", *options]
    launcher = start("local", "--processes=2", "--grace=1", STAND_IN, "--", *words)
    wait_for(lambda: under_way(where, 2))
    os.kill(int((where / "1" / "process").read_text()), signal.SIGKILL)
    launcher.communicate(timeout=HANG_S)
    assert launcher.returncode == 128 + signal.SIGKILL
    assert ("process 0 saved step" in log(where, 0)) == (not options)
    assert not left(tmp_path)


def test_a_stopped_process_is_killed(tmp_path: Path) -> None:
    where = tmp_path / "run"
    words = [f"--workdir={where}", "--steps=40", "--code=1", "--who=1"]
    launcher = start("local", "--processes=2", "--grace=1", STAND_IN, "--", *words)
    wait_for(lambda: under_way(where, 2))
    os.kill(int((where / "0" / "process").read_text()), signal.SIGSTOP)
    launcher.communicate(timeout=HANG_S)
    assert launcher.returncode == 1
    assert not left(tmp_path)


def test_nothing_is_left_of_a_launcher_that_was_killed(tmp_path: Path) -> None:
    where = tmp_path / "run"
    launcher = start("local", "--processes=2", STAND_IN, "--", f"--workdir={where}", "--steps=9999")
    wait_for(lambda: under_way(where, 2))
    launcher.kill()
    launcher.communicate()
    wait_for(lambda: not left(tmp_path))
    assert "process 1 saved step" in log(where, 1)


def toy_words(few_reviews: str) -> list[str]:
    """The toy run, as options of the training command."""
    small, usual = flat(shrink(config.default(), few_reviews).to_dict()), flat(config.default().to_dict())
    changed = {key: value for key, value in small.items() if value != usual[key]}
    return ["--config=configs/fnet.py", *(f"--config.{key}={value}" for key, value in changed.items())]


@pytest.mark.parametrize("processes", [1, 2])
def test_training(processes: int, few_reviews: str, tmp_path: Path) -> None:
    where = tmp_path / "run"
    options = [f"--processes={processes}", "--", *toy_words(few_reviews), f"--workdir={where}"]
    code, out, err = call("local", *options)
    assert code == 0, err
    assert finished(where)
    assert "test accuracy" in out
    bad = call("local", *options[:-1], f"--workdir={tmp_path / 'bad'}", "--config.data.batch=-1")
    assert bad[0] == 2
    assert "error: data.batch=-1" in bad[2]
    assert not left(tmp_path)


def test_a_sweep_of_training_runs(few_reviews: str, tmp_path: Path) -> None:
    where = tmp_path / "sweep"
    words = ["--grid=seed=0,1", f"--directory={where}", "--", *toy_words(few_reviews)]
    code, out, err = call("sweep", "--jobs=2", *words)
    assert code == 0, out + err
    rows = json.loads((where / FILE).read_text())
    assert {row["state"] for row in rows} == {"done"}
    assert rows[0]["validation"] >= rows[1]["validation"]
    for seed in (0, 1):
        assert finished(where / f"seed={seed}")
        assert json.loads((where / f"seed={seed}" / "config.json").read_text())["config"]["seed"] == seed
    stamps = {path: path.stat().st_mtime_ns for path in where.glob("seed=*/**/*")}
    code, out, _ = call("sweep", *words)
    assert code == 0
    assert out.count("\nfinished ") + out.startswith("finished ") == 2
    assert stamps == {path: path.stat().st_mtime_ns for path in where.glob("seed=*/**/*")}
    assert json.loads((where / FILE).read_text()) == rows


def test_a_sweep_names_what_failed_and_goes_on_with_the_others(tmp_path: Path) -> None:
    words = ["--grid=a=0,1,2", f"--directory={tmp_path}", "--", "--steps=2", "--code=3"]
    code, out, _ = call("sweep", STAND_IN, *words)
    assert code == 1
    assert [f"failed: a={i}: error: as told" in out for i in range(3)] == [True, True, True]
    assert [row["state"] for row in json.loads((tmp_path / FILE).read_text())] == ["failed"] * 3


def test_a_sweep_that_is_stopped(tmp_path: Path) -> None:
    words = ["--grid=a=0,1", f"--directory={tmp_path}", "--", "--steps=9999"]
    launcher = start("sweep", STAND_IN, *words)
    wait_for(lambda: under_way(tmp_path / "a=0", 1))
    os.killpg(launcher.pid, signal.SIGINT)
    out, _ = launcher.communicate(timeout=HANG_S)
    assert launcher.returncode == 128 + signal.SIGINT
    assert "a=0: exit code 130" in out
    assert {row["run"]: row["state"] for row in json.loads((tmp_path / FILE).read_text())} == {
        "a=0": "stopped",
        "a=1": "open",
    }
    assert not left(tmp_path)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm_node.Node]:
    with slurm_node.Node(tmp_path_factory.mktemp("slurm") / "node") as started:
        yield started


def submit(node: slurm_node.Node, *words: str) -> str:
    """The number of the job that a launcher submits."""
    code, out, err = call("slurm", *words, **node.environment)
    assert code == 0, err
    return re.search(r"^job +(\d+)", out, flags=re.MULTILINE)[1]


def ended(node: slurm_node.Node, job: str) -> bool:
    return job not in node.ask("squeue", "--noheader", "--format=%A", "--states=all").split() or bool(
        re.search("JobState=(COMPLETED|FAILED|CANCELLED)", node.ask("scontrol", "show", "job", job))
    )


@slurm_installed
def test_slurm_resumes_two_processes_of_which_one_was_killed(node: slurm_node.Node, tmp_path: Path) -> None:
    where = tmp_path / "run"
    words = ["--processes_per_node=2", STAND_IN, "--", f"--workdir={where}", "--steps=150"]
    job = submit(node, *words)
    wait_for(lambda: under_way(where, 2, 20))
    os.kill(int((where / "1" / "process").read_text()), signal.SIGKILL)
    wait_for(lambda: ended(node, job))
    shown = node.ask("scontrol", "show", "job", job)
    assert "JobState=COMPLETED" in shown
    assert "Restarts=1" in shown
    assert "process ended by signal 9; the job is queued again" in log(where, 1, "err")
    for process in (0, 1):
        begun = [int(n) for n in re.findall(rf"process {process} from step (\d+)", log(where, process))]
        assert len(begun) == 2
        assert begun[0] == 0 < 20 <= begun[1]
        assert f"process {process} done" in log(where, process)
        assert (where / str(process) / "step").read_text() == "150"
    assert not left(where)


@slurm_installed
def test_slurm_requeue_and_resume_in_training(
    node: slurm_node.Node, few_reviews: str, tmp_path: Path
) -> None:
    """At submitit's signal, which comes before a time-out and a preemption, and by an administrator."""
    where = tmp_path / "run"
    endless = ["--config.train.epochs=2000", "--config.train.patience=0"]
    job = submit(node, "--", *toy_words(few_reviews), f"--workdir={where}", *endless)
    for ask in (["scancel", "--signal=USR2", job], ["scontrol", "requeue", job]):
        known = log(where, 0).count("compiling")
        wait_for(
            lambda known=known: log(where, 0).count("epoch ") and log(where, 0).count("compiling") > known
        )
        time.sleep(2)
        node.ask(*ask)
        wait_for(lambda: "Stopped. Give" in log(where, 0) and "JobState=RUNNING" not in node.ask(
            "scontrol", "show", "job", job))  # fmt: skip
    wait_for(lambda: log(where, 0).count("resuming at step") == 2)
    node.ask("scancel", job)
    wait_for(lambda: ended(node, job))
    assert log(where, 0).count("Stopped. Give") == 3
    assert "Restarts=2" in node.ask("scontrol", "show", "job", job)
    assert not left(where)


@slurm_installed
def test_slurm_trains_in_two_processes(node: slurm_node.Node, few_reviews: str, tmp_path: Path) -> None:
    """One of them is killed on the way: the job is queued again, and the run goes on to its end."""
    where = tmp_path / "run"
    words = [*toy_words(few_reviews), "--config.train.epochs=60", "--config.train.patience=0"]
    job = submit(node, "--processes_per_node=2", "--", *words, f"--workdir={where}")
    wait_for(lambda: log(where, 0).count("epoch ") > 2)
    os.kill(training(where)[-1], signal.SIGKILL)
    wait_for(lambda: ended(node, job))
    assert finished(where), log(where, 0, "err") + log(where, 1, "err")
    assert "Restarts=1" in node.ask("scontrol", "show", "job", job)
    assert log(where, 0).count("resuming at step") == 1


@slurm_installed
def test_slurm_shows_the_exit_code(node: slurm_node.Node, tmp_path: Path) -> None:
    job = submit(node, STAND_IN, "--", f"--workdir={tmp_path / 'run'}", "--steps=1", "--code=2")
    wait_for(lambda: ended(node, job))
    assert "ExitCode=2:0" in node.ask("scontrol", "show", "job", job)


@slurm_installed
def test_a_sweep_on_slurm(node: slurm_node.Node, tmp_path: Path) -> None:
    words = ["--executor=slurm", "--grid=a=0,1", f"--directory={tmp_path}", STAND_IN, "--", "--steps=2"]
    code, out, err = call("sweep", *words, **node.environment)
    assert code == 0, out + err
    assert [row["state"] for row in json.loads((tmp_path / FILE).read_text())] == ["done", "done"]
    code, out, _ = call("sweep", *words, "--code=2", **node.environment)
    assert code == 1
    assert out.count("error: as told") == 2


@slurm_installed
def test_what_slurm_refuses(node: slurm_node.Node, tmp_path: Path) -> None:
    words = ["--partition=none", STAND_IN, "--", f"--workdir={tmp_path / 'run'}"]
    code, _, err = call("slurm", *words, **node.environment)
    assert code == 2
    assert re.fullmatch("error: SLURM rejected the job: .*invalid partition.*\n", err)
