"""Several processes that train one network: how they meet, what they agree upon, how they end together."""

import importlib
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import pytest
from conftest import ROOT
from distributed_runs import command_of, free_port, left, program
from waiting import HANG_S, wait_for

from fourier_attn import command
from fourier_attn.train import memory
from fourier_attn.train.distributed import coordinator, processes, watch
from fourier_attn.train.rundir import fingerprints

SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NODELIST": "a,b",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
}
OPEN_MPI = {"OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1:34911", "OMPI_COMM_WORLD_SIZE": "2"}
SLICE = {"TPU_WORKER_ID": "0", "MEGASCALE_NUM_SLICES": "1", "TPU_SKIP_MDS_QUERY": "true"}  # as GKE has it


def test_jax_has_the_private_names_that_are_used() -> None:
    for name in coordinator.PRIVATE:
        first, *rest = name.split(".")
        value: Any = importlib.import_module(f"jax._src.{first}")
        for part in rest:
            assert hasattr(value, part), (
                f"JAX {jax.__version__} has no jax._src.{name}, which runs of several processes use (tried "
                f"with {', '.join(coordinator.TRIED)}); find where it is now and change "
                "fourier_attn/train/distributed/coordinator.py. Runs of one process do not need it."
            )
            value = getattr(value, part)


def test_the_version_of_jax_was_tried_with_several_processes() -> None:
    release = jax.__version__.split(".")[:2]
    assert release in [version.split(".")[:2] for version in coordinator.TRIED], (
        f"JAX {jax.__version__} was not tried with the private names of train/distributed/coordinator.py; "
        "run pytest tests/train/test_{processes,devices,lost_processes}.py -m 'slow or not slow' with it, "
        "then add the version to coordinator.TRIED, and allow it in pyproject.toml"
    )


class Met(Exception):
    """JAX was told to meet the others."""


@pytest.fixture
def meetings(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """With which settings JAX was told to, which it does not do."""
    found = []

    def initialize(*arguments: Any, **settings: Any) -> None:
        found.append(settings)
        raise Met

    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    monkeypatch.setattr(processes, "RETRY_S", 0.01)
    return found


def meets(*given: Any) -> bool:
    """Whether a process with these arguments is one of several."""
    try:
        with processes.joined(*given):
            return False
    except Met:
        return True


def test_variables_that_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_NUM_PROCESSES", "two")
    with pytest.raises(ValueError, match="JAX_NUM_PROCESSES='two' must be an integer"):
        meets()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        (SLURM, True),
        (SLURM | {"SLURM_NTASKS": "1"}, False),
        (SLURM | {"SLURM_STEP_NUM_TASKS": "1"}, False),  # a shell within a job of two tasks
        (OPEN_MPI, True),
        (OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "1"}, False),
        (SLICE | {"TPU_WORKER_HOSTNAMES": "a,b"}, True),
        (SLICE | {"TPU_PROCESS_ADDRESSES": "a:1,b:1"}, True),
        (SLICE | {"TPU_WORKER_HOSTNAMES": "a", "MEGASCALE_NUM_SLICES": "2"}, True),
        (SLICE | {"TPU_WORKER_HOSTNAMES": "localhost"}, False),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False),
        ({"GCE_METADATA_IP": "127.0.0.1:9"}, False),  # where nothing answers
    ],
)
def test_jax_says_whether_there_are_several(
    variables: dict[str, str], expected: bool, meetings: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    tpu = "TPU_WORKER_ID" in variables or "GCE_METADATA_IP" in variables
    monkeypatch.setattr("jax._src.clusters.cloud_tpu_cluster.running_in_cloud_tpu_vm", tpu)
    monkeypatch.delenv("TPU_SKIP_MDS_QUERY", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert meets() is expected


STEP = SLURM | {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2"}  # one process on each node
FOUR = STEP | {"SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"}
MPI = OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_RANK": "0"}
EIGHT = {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7", "SLURM_GPUS_ON_NODE": "8"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (STEP | EIGHT, []),  # all
        (STEP, []),
        (FOUR | EIGHT, [2, 3]),
        (FOUR | {"SLURM_GPUS_ON_NODE": "8"}, [2, 3]),
        (FOUR | {"CUDA_VISIBLE_DEVICES": "0,1,2,3", "SLURM_GPUS_ON_NODE": "4"}, [1]),
        (FOUR | {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_GPUS_ON_NODE": "8"}, []),  # each process sees its own
        (FOUR, None),  # no GPUs
        (STEP | EIGHT | {"JAX_LOCAL_DEVICE_IDS": "3"}, None),
        (MPI | EIGHT | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, []),
        (MPI | {"CUDA_VISIBLE_DEVICES": "4,5,6,7", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, [0, 1]),
        (MPI, None),
    ],
)
def test_the_gpus_of_a_node_are_shared_by_its_processes(
    variables: dict[str, str], expected: list[int] | None, meetings: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAX alone gives each process one."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert meets()
    assert meetings[0]["local_device_ids"] == expected


def test_jax_takes_no_gpus_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what an empty list says; without one it takes the number of the process on its node."""
    for name, value in STEP.items():
        monkeypatch.setenv(name, value)
    found = jax._src.clusters.ClusterEnv.auto_detect_unset_distributed_params
    assert found(None, None, None, [], None, 1)[3] == []
    assert found(None, None, None, None, None, 1)[3] == [0]


def unknown(*_: Any) -> None:
    """What a resolver says of a name that it does not know; a real one may need seconds to say it."""
    raise socket.gaierror(socket.EAI_NONAME, "unknown")


def test_the_name_of_process_0_may_come_later(meetings: list, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a pod, which has one once it has been started."""
    asked = []

    def find(*arguments: Any) -> None:
        asked.append(arguments)
        if len(asked) < 3:
            unknown(*arguments)

    monkeypatch.setattr(socket, "getaddrinfo", find)
    monkeypatch.setenv(processes.PATIENCE, "900")
    assert meets("pod-0.run:8476", 2, 1)
    assert asked == [("pod-0.run", 8476)] * 3
    assert meetings[0]["initialization_timeout"] > 900  # or JAX would end with a C++ stack


@pytest.mark.parametrize(("variable", "code"), [(None, 2), ("1", 1)])
def test_a_name_that_never_comes(
    variable: str | None, code: int, meetings: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr(processes, "PATIENCE_S", 1.0)
    if variable:
        monkeypatch.setenv(processes.PATIENCE, variable)
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.append(now.pop() + seconds))
    monkeypatch.setattr(processes, "time", clock)
    message = "--coordinator=no.invalid:1 cannot be resolved"
    with pytest.raises((ValueError, TimeoutError), match=message) as found:
        meets("no.invalid:1", 2, 1)
    assert 0.5 < now[0] <= 1.0
    assert command.exit_code(found.value) == code
    assert not meetings


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "inf", "two", "²", "9" * 30])
def test_a_patience_that_is_none(text: str, meetings: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(processes.PATIENCE, text)
    with pytest.raises(
        ValueError, match=f"{processes.PATIENCE}='{text}' must be an integer number of seconds"
    ):
        meets("127.0.0.1:1", 2, 1)


class Table:
    """What processes tell each other, in this one."""

    def __init__(self, values: dict[str, str]):
        self.values = values

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None:
        self.values[key] = value

    def key_value_dir_get(self, prefix: str) -> list[tuple[str, str]]:
        return list(self.values.items())


@pytest.mark.parametrize("code", [1, 2])
def test_the_others_end_with_the_same_exit_code(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table, ended, over = Table({}), [], threading.Event()
    monkeypatch.setattr(watch, "table", lambda: table)
    monkeypatch.setattr(watch, "BEAT_S", 0.05)
    monkeypatch.setattr(watch, "end", lambda *how: (ended.append(how), over.set()))
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    first = watch.Watch()
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    second = watch.Watch()
    second.leave("epochs=-1 is wrong", code)
    assert over.wait(HANG_S)
    for one in (first, second):
        one.stop()
    [(message, found)] = ended
    assert found == code
    assert message.startswith("process 1 has ended (epochs=-1 is wrong)")
    assert ("to resume the run" in message) == (code == 1)
    assert table.values["alive/0"].startswith(f"left: {code} process 1 has ended")  # which a third would see


def test_waiting_for_a_loss_ends_where_none_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "table", lambda: Table({}))
    monkeypatch.setattr(watch, "BEAT_S", 0.001)
    monkeypatch.setattr(jax, "process_count", lambda: 1)
    waiting = watch.Watch()
    waiting.wait_for_a_loss()
    assert not waiting.stopped.is_set()
    waiting.stop()


def test_processes_of_one_machine_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = memory.available()
    monkeypatch.setattr(processes, "neighbours", lambda: 2)
    assert memory.available() == whole // 2


def test_what_is_not_that_of_process_0_is_named() -> None:
    first = {"data": {"train": "96 ab", "test": "64 cd"}, "tokenizer": "ef", "code": {"source": "gh"}}
    fingerprints.check_same(first, first)
    other = first | {"data": {"train": "96 ij", "test": "64 cd"}, "code": {"source": "kl"}}
    message = r"other code and data than process 0 \(code.source gh -> kl; data.train 96 ab -> 96 ij\)"
    with pytest.raises(ValueError, match=message):
        fingerprints.check_same(first, other)


def start(words: list[str], folders: tuple[Path, Path] = (ROOT, ROOT)) -> list[subprocess.Popen]:
    """Starts two processes of a command, each in its folder, that meet."""
    meeting = [f"--coordinator=127.0.0.1:{free_port()}", "--num_processes=2"]
    return [program(1, *words, *meeting, f"--process_id={i}", cwd=folder) for i, folder in enumerate(folders)]


@pytest.mark.slow
@pytest.mark.parametrize("who", [0, 1])
def test_sigterm_before_the_loop_begins(who: int, few_reviews: str, tmp_path: Path) -> None:
    """It is not swallowed, and the other notices."""
    started = start(["waiting_program", *command_of(few_reviews, tmp_path / "run")[1:]])
    for process in started:
        assert process.stderr
        assert process.stderr.readline() == "met\n"
    started[who].terminate()
    assert started[who].wait(timeout=HANG_S) == -signal.SIGTERM
    _, err = started[1 - who].communicate(timeout=HANG_S)
    assert started[1 - who].returncode == 1
    assert err.startswith(f"error: process {who} has "), err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_other_data_in_one_process_end_all(few_reviews: str, data_dir: str, tmp_path: Path) -> None:
    """One command line, and a folder of that name on two machines."""
    for name, folder in (("a", few_reviews), ("b", data_dir)):
        (tmp_path / name).mkdir()
        shutil.copytree(folder, tmp_path / name / "data")
    started = start(command_of("data", tmp_path / "run"), (tmp_path / "a", tmp_path / "b"))
    for process in started:
        _, err = process.communicate(timeout=HANG_S)
        assert process.returncode == 2, err
        assert err.startswith("error: this process has other data ")
        assert "data.train 96 " in err
        assert "(process 1)" in err
        assert err.count("\n") == 1


@pytest.mark.slow
def test_process_0_names_the_directory(few_reviews: str, tmp_path: Path) -> None:
    words = [word for word in command_of(few_reviews, tmp_path) if not word.startswith("--workdir")]
    started = start(words, (tmp_path, tmp_path))
    for process in started:
        _, err = process.communicate(timeout=HANG_S)
        assert process.returncode == 0, err
    [where] = (tmp_path / "runs").iterdir()
    assert (where / "predictions.jsonl").exists()


@pytest.mark.slow
def test_who_waits_longer_may_start_again(few_reviews: str, tmp_path: Path) -> None:
    port, words = free_port(), command_of(few_reviews, tmp_path / "run")
    words += [f"--coordinator=127.0.0.1:{port}", "--num_processes=2", "--process_id=0"]
    process = program(1, *words, FOURIER_ATTN_PATIENCE_S="2")
    _, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    assert err.startswith(f"error: the 2 processes at 127.0.0.1:{port} did not all connect within 2 s"), err
    wait_for(lambda: not left(str(port)))
