"""Several processes that train one network, of which one is stopped, lost, or given bad input."""

import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from distributed_runs import Runs, answers, command_of, free_port, left, program
from waiting import HANG_S, wait_for

from fourier_attn.train.rundir.checkpoint import checkpoint_ids
from fourier_attn.train.rundir.metrics_log import read_lines

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(few_reviews: str, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs that are stopped, or lose a process or a checkpoint. All are compiled alike."""
    return Runs(tmp_path_factory.mktemp("lost"), few_reviews, steps=50, optimised=False)


@pytest.mark.parametrize("who", [0, 1])
def test_a_signal_to_one_process_stops_all(runs: Runs, who: int, tmp_path: Path) -> None:
    where = tmp_path / "run"
    started = runs.start(where, 1, 2, at=30, signum=signal.SIGTERM, who=who)
    runs.end(started, 128 + signal.SIGTERM)
    assert checkpoint_ids(where)[0].step == 32  # all at the same step: what has come is known two steps later
    runs.end(runs.start(where, 1, 2))
    whole, _ = runs.whole(1, 2)
    assert [line.get("loss") for line in read_lines(where)] == [
        line.get("loss") for line in read_lines(whole)
    ]
    assert answers(where) == answers(whole)


@pytest.mark.parametrize(("signum", "who"), [(signal.SIGKILL, 0), (signal.SIGKILL, 1), (signal.SIGSTOP, 1)])
def test_a_lost_process_ends_the_others(runs: Runs, signum: int, who: int, tmp_path: Path) -> None:
    where = tmp_path / "run"
    started = runs.start(where, 1, 2, at=30, signum=signum, who=who)
    lost, other = started[who], started[1 - who]
    wait_for(lambda: halted(lost))
    _, err = other.communicate(timeout=HANG_S)
    lost.kill()
    lost.communicate()
    assert other.returncode == 1
    assert err.count("\n") == 1, err
    assert err.startswith(f"error: process {who} has ")
    assert signum == signal.SIGKILL or "for 30 s" in err
    assert "to resume the run from its last checkpoint, give --workdir again" in err
    runs.end(runs.start(where, 1, 2))
    assert answers(where) == answers(runs.whole(1, 2)[0])


def test_a_finished_run_and_a_damaged_checkpoint(runs: Runs, tmp_path: Path) -> None:
    """Two processes notice either together."""
    where = tmp_path / "run"
    stopped = runs.start(where, 1, 2, at=30, signum=signal.SIGTERM, who=0)
    runs.end(stopped, 128 + signal.SIGTERM)
    newest = where / "checkpoints" / str(checkpoint_ids(where)[0])
    largest = max((newest / "state").rglob("*"), key=lambda path: path.is_file() * path.stat().st_size)
    largest.write_bytes(bytes(largest.stat().st_size))
    said = runs.end(runs.start(where, 1, 2))[0]["said"]
    assert f"The checkpoint {newest} is damaged" in said
    assert answers(where) == answers(runs.whole(1, 2)[0])
    again = runs.end(runs.start(where, 1, 2))
    assert f"{where} is finished" in again[0]["said"]
    assert again[1] == {"said": ""}


def test_what_one_process_does_not_see_no_other_takes(runs: Runs, tmp_path: Path) -> None:
    """And process 0 alone says whether a run is finished."""
    where = tmp_path / "run"
    runs.end(runs.start(where, 1, 2, at=30, signum=signal.SIGTERM, who=0), 128 + signal.SIGTERM)
    newest = checkpoint_ids(where)[0]
    said = runs.end(runs.start(where, 1, 2, blind=1, unseen=str(newest)))[0]["said"]
    assert f"checkpoints/{newest} is damaged ({newest} is not there (process 1))" in said
    assert "resuming at step 25" in said
    assert answers(where) == answers(runs.whole(1, 2)[0])
    again = runs.end(runs.start(where, 1, 2, blind=1, unseen=""))
    assert f"{where} is finished" in again[0]["said"]
    assert again[1] == {"said": ""}


def halted(process: subprocess.Popen) -> bool:
    """Whether a process was stopped, or has ended."""
    if process.poll() is not None:
        return True
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


BAD = {  # devices of each process, words of all, words of the second, message
    "another configuration": (1, [], ["--config.seed=7"], "the processes differ: .*process 1"),
    "a mesh": (2, ["--config.train.mesh=data=3"], [], "needs 3 devices, but 4 are available"),
    "rows": (3, ["--config.train.mesh=data=6"], [], "the 16 rows of a .micro-.batch do not divide by"),
    "rows by default": (3, [], [], "16 rows does not divide by the 6 devices of 2 processes"),
    "a knob": (1, ["--config.train.epochs=-1"], [], "train.epochs=-1 must be at least 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_all_processes(case: str, few_reviews: str, tmp_path: Path) -> None:
    devices, words, others, message = BAD[case]
    port, given = free_port(), command_of(few_reviews, tmp_path / "run")
    meeting = [f"--coordinator=127.0.0.1:{port}", "--num_processes=2"]
    started = [
        program(devices, *given, *words, *(others if i else ()), *meeting, f"--process_id={i}")
        for i in (0, 1)
    ]
    for process in started:
        _, err = process.communicate(timeout=HANG_S)
        assert process.returncode == 2, err
        assert err.count("\n") == 1, err
        assert err.startswith("error: ")
        assert re.search(message, err), err
    assert not (tmp_path / "run" / "config.json").exists()
    wait_for(lambda: not left(str(port)))


@pytest.mark.parametrize("who", [0, 1])
def test_a_process_that_nobody_meets(who: int, few_reviews: str, tmp_path: Path) -> None:
    port = free_port()
    variables = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_NUM_PROCESSES": "2"}
    variables["JAX_PROCESS_ID"] = str(who)
    process = program(1, *command_of(few_reviews, tmp_path / "run"), **variables)
    _, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 2
    assert err.splitlines()[-1].startswith(
        f"error: the 2 processes at 127.0.0.1:{port} did not all connect within 50 s"
    )
    assert err.count("\n") == 1
    wait_for(lambda: not left(str(port)))


def test_a_port_that_is_in_use(few_reviews: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        meeting = [f"--coordinator=127.0.0.1:{taken.getsockname()[1]}", "--num_processes=2", "--process_id=0"]
        process = program(1, *command_of(few_reviews, tmp_path / "run"), *meeting)
        _, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 2
    assert "the port of --coordinator=" in err
    assert err.count("\n") == 1
