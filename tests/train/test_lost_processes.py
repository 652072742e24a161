"""Several processes that train one network, of which one is stopped, lost, or given bad input."""

import re
import shutil
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


@pytest.fixture(scope="module")
def stopped(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that a signal to process 0 has stopped."""
    return stop(runs, tmp_path_factory.mktemp("stopped") / "run", who=0)


def stop(runs: Runs, where: Path, who: int) -> Path:
    """Stops a run by a signal to one of its processes."""
    runs.end(runs.start(where, 1, 2, at=30, signum=signal.SIGTERM, who=who), 128 + signal.SIGTERM)
    assert checkpoint_ids(where)[0].step == 32  # all at the same step: what has come is known two steps later
    return where


def test_a_signal_to_one_process_stops_all(runs: Runs, tmp_path: Path) -> None:
    where = stop(runs, tmp_path / "run", who=1)
    runs.end(runs.start(where, 1, 2))
    whole, _ = runs.whole(1, 2)
    assert [line.get("loss") for line in read_lines(where)] == [
        line.get("loss") for line in read_lines(whole)
    ]
    assert answers(where) == answers(whole)


# Step 30 is in an epoch, where the other fails in a sum of gradients, and at step 40 both wait to save.
LOSSES = [(signal.SIGKILL, 0, 30), (signal.SIGKILL, 1, 30), (signal.SIGKILL, 0, 40), (signal.SIGSTOP, 1, 40)]


@pytest.mark.parametrize(("signum", "who", "at"), LOSSES)
def test_a_lost_process_ends_the_others(runs: Runs, signum: int, who: int, at: int, tmp_path: Path) -> None:
    other, err = after_a_loss(runs.start(tmp_path / "run", 1, 2, at=at, signum=signum, who=who), who)
    assert other.returncode == 1, err
    assert err.count("\n") == 1, err
    assert err.startswith(f"error: process {who} has "), err
    assert signum == signal.SIGKILL or "for 30 s" in err
    assert "to resume the run from its last checkpoint, give --workdir again" in err


@pytest.mark.parametrize("who", [0, 1])
def test_an_error_in_one_process_ends_both(runs: Runs, who: int, tmp_path: Path) -> None:
    """Though both are in a computation that needs the other."""
    started = runs.start(tmp_path / "run", 1, 2, at=30, error="a pump failed", who=who)
    ends = [process.communicate(timeout=HANG_S)[1] for process in started]
    assert [process.returncode for process in started] == [1, 1], ends
    assert ends[who] == "error: a pump failed\n"
    assert ends[1 - who].startswith(f"error: process {who} has ended (a pump failed); to resume ")
    assert ends[1 - who].count("\n") == 1


def test_a_run_is_resumed_after_a_loss(runs: Runs, tmp_path: Path) -> None:
    where = tmp_path / "run"
    after_a_loss(runs.start(where, 1, 2, at=30, signum=signal.SIGKILL, who=0), who=0)
    runs.end(runs.start(where, 1, 2))
    assert answers(where) == answers(runs.whole(1, 2)[0])


def after_a_loss(started: list[subprocess.Popen], who: int) -> tuple[subprocess.Popen, str]:
    """The other process and its standard error, once process number `who` is lost and both have ended."""
    lost, other = started[who], started[1 - who]
    wait_for(lambda: halted(lost))
    _, err = other.communicate(timeout=HANG_S)
    lost.kill()
    lost.communicate()
    return other, err


def test_a_finished_run_and_a_damaged_checkpoint(runs: Runs, stopped: Path, tmp_path: Path) -> None:
    """Two processes notice either together."""
    where = shutil.copytree(stopped, tmp_path / "run")
    newest = where / "checkpoints" / str(checkpoint_ids(where)[0])
    largest = max((newest / "state").rglob("*"), key=lambda path: path.is_file() * path.stat().st_size)
    largest.write_bytes(bytes(largest.stat().st_size))
    said = runs.end(runs.start(where, 1, 2))[0]["said"]
    assert f"The checkpoint {newest} is damaged" in said
    assert answers(where) == answers(runs.whole(1, 2)[0])
    again = runs.end(runs.start(where, 1, 2))
    assert f"{where} is finished" in again[0]["said"]
    assert again[1] == {"said": ""}


def test_what_one_process_does_not_see_no_other_takes(runs: Runs, stopped: Path, tmp_path: Path) -> None:
    """And process 0 alone says whether a run is finished."""
    where = shutil.copytree(stopped, tmp_path / "run")
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
