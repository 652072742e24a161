"""One device, several, several processes: the same run; and what happens where one of them is lost."""

import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_here, shrink
from jax.sharding import AbstractMesh, PartitionSpec
from waiting import HANG_S, wait_for

from fourier_attn import config, main
from fourier_attn.train import memory
from fourier_attn.train.distributed import processes, sharding
from fourier_attn.train.distributed.sharding import AXES, Placement
from fourier_attn.train.rundir.checkpoint import checkpoint_ids
from fourier_attn.train.rundir.config_file import flat
from fourier_attn.train.rundir.metrics_log import read_lines

SPLIT = {"seed": 1, "data": 1, "fsdp": 1, "tokens": 1}


@pytest.mark.parametrize(
    ("mesh", "seeds", "rows", "devices", "expected"),
    [
        ("", 1, 32, 1, {}),
        ("", 1, 32, 8, {"data": 8}),
        ("", 1, 12, 8, {"data": 4}),  # the rest is not used
        ("", 1, 7, 8, {}),
        ("", 4, 32, 8, {"seed": 4, "data": 2}),
        ("", 8, 32, 4, {"seed": 4}),
        ("", 3, 32, 4, {"data": 4}),
        ("data=4,fsdp=2", 1, 8, 8, {"data": 4, "fsdp": 2}),
        (" fsdp = 8 ", 1, 8, 8, {"fsdp": 8}),
        ("data=8", 4, 8, 8, {"data": 8}),
        ("seed=2,data=2,fsdp=2", 4, 4, 8, {"seed": 2, "data": 2, "fsdp": 2}),
        ("data=2,tokens=4", 1, 2, 8, {"data": 2, "tokens": 4}),
    ],
)
def test_devices_along_each_axis(mesh: str, seeds: int, rows: int, devices: int, expected: dict) -> None:
    assert sharding.sizes(mesh, seeds, rows, devices) == SPLIT | expected


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        ("data", "'data' is invalid"),
        ("data=0", "is invalid"),
        ("data=-8", "is invalid"),
        ("rows=8", "is invalid"),
        ("data=8,", "is invalid"),
        ("data=4,data=8", "has data twice"),
        ("data=" + "9" * 30, "is invalid"),
        ("data=4", "needs 4 devices, but 8 are available"),
        ("data=999999,fsdp=999999", "needs 999998000001 devices"),
        ("seed=8", "seed=8 must divide train.seeds=4"),
        ("seed=2,data=4", "the 6 rows of a .micro-.batch do not divide by data x fsdp = 4"),
        ("seed=2,data=2,fsdp=2", "do not divide by data x fsdp = 4"),
    ],
)
def test_a_mesh_that_does_not_fit_is_refused(mesh: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sharding.sizes(mesh, 4, 6, 8)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((), ()),
        ((128,), ()),  # too small
        ((64, 128), (None, "fsdp")),
        ((512, 128), ("fsdp",)),
        ((510, 128), (None, "fsdp")),  # 510 does not divide
        ((511, 129), ()),
        ((3, 2, 4096), (None, None, "fsdp")),
    ],
)
def test_the_longest_axis_that_divides_is_split(shape: tuple[int, ...], expected: tuple) -> None:
    assert Placement(AbstractMesh((1, 1, 4, 1), AXES)).spec(shape) == PartitionSpec(*expected)
    assert Placement(AbstractMesh((1, 4, 1, 1), AXES)).spec(shape) == PartitionSpec()


@pytest.mark.parametrize("n", range(1, 33))
def test_prime_factors(n: int) -> None:
    found = sharding.primes(n)
    assert math.prod(found) == n
    assert found == sorted(found)
    assert all(factor % k for factor in found for k in range(2, factor))


def test_memory_is_that_of_one_device() -> None:
    c = config.default()
    whole, half = (memory.traced(c, SPLIT | {"fsdp": n}) for n in (1, 2))
    [(name, size)] = whole.items()
    copies = memory.COPIES + 2  # and Adam's means
    assert half[name] * 2 * copies == size * (copies + 2)  # gathered for the step, too
    name = next(name for name in memory.cheap(c) if "activations" in name)
    split = memory.cheap(c, SPLIT | {"data": 4})[name]
    assert split * 4 == memory.cheap(c)[name]
    c.train.seeds = 4
    assert memory.traced(c, SPLIT | {"seed": 4}) == whole


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config.train.mesh=data=3"], "train.mesh='data=3' needs 3 devices, but 1 are available"),
        (["--config.train.mesh=all"], "train.mesh='all' is invalid"),
        (["--num_processes=2"], "belong together; give all three"),
        (["--coordinator=a:1", "--num_processes=2", "--process_id=2"], "must be at least 0 and"),
        (["--coordinator=a", "--num_processes=2", "--process_id=0"], "must be host:port"),
        (["--coordinator=a:99999", "--num_processes=2", "--process_id=0"], "must be host:port"),
        (["--coordinator=no.invalid:1", "--num_processes=2", "--process_id=0"], "cannot be resolved"),
    ],
)
def test_bad_words_are_one_line(
    words: list[str], message: str, few_reviews: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PATIENCE_S", 0.1)
    given = ["--config=configs/fnet.py", f"--config.data.dir={few_reviews}", f"--workdir={tmp_path / 'run'}"]
    code, out, err = run_here(main, *given, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


STEPS, EPOCH = 200, 25
TOLERANCE = {"loss": 1e-6, "gradient_norm": 1e-4}  # sums in another order, after up to 200 steps


class Runs:
    """Toy runs in processes of their own; `whole` keeps those that it has made.

    Args:
      folder: where the runs are made.
      data_dir: the data directory.
      steps: how many steps a run has.
      optimised: whether programs are compiled with all of XLA's optimisations, which takes longer.
    """

    def __init__(self, folder: Path, data_dir: str, steps: int = STEPS, optimised: bool = True):
        c = shrink(config.default(), data_dir)
        c.data.train_examples, c.data.batch, c.model.dropout = 200, 8, 0.1
        c.model.activation = "gelu"  # relu makes a jump of a last bit, now and then
        c.model.d, c.model.mlp = 64, 128  # large enough to be split
        c.train.epochs, c.train.patience = steps // EPOCH, 0
        c.train.log_every, c.train.save_every = 1, 20
        self.folder, self.config, self.made = folder, c, {}
        self.variables = {"JAX_DISABLE_MOST_OPTIMIZATIONS": str(int(not optimised))}

    def start(
        self, where: Path, devices: int = 1, count: int = 1, knobs: Mapping[str, Any] = {}, **order: Any
    ) -> list[subprocess.Popen]:
        """Starts each process of a run."""
        c = config.from_dict(self.config.to_dict())
        c.update_from_flattened_dict(dict(knobs))
        order |= {"config": c.to_dict(), "workdir": str(where), "processes": count}
        if count > 1:
            order["port"] = free_port()
        words = [json.dumps(order | {"process": i}) for i in range(count)]
        return [program(devices, word, **self.variables) for word in words]

    def whole(self, devices: int = 1, count: int = 1, **knobs: Any) -> tuple[Path, list[dict[str, Any]]]:
        """The directory of a finished run, and what each process found."""
        key = json.dumps([devices, count, knobs])
        if key not in self.made:
            where = self.folder / f"run{len(self.made)}"
            self.made[key] = where, self.end(self.start(where, devices, count, knobs))
        return self.made[key]

    def end(self, started: list[subprocess.Popen], code: int = 0) -> list[dict[str, Any]]:
        """Waits for the end of each process."""
        said = [process.communicate(timeout=HANG_S) for process in started]
        assert [process.returncode for process in started] == [code] * len(started), said
        return [json.loads(out.splitlines()[-1]) for out, _ in said if not code]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def program(devices: int, *words: str, cwd: Path = ROOT, **variables: str) -> subprocess.Popen:
    """Starts a process of a run, with so many devices."""
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
        "TQDM_DISABLE": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", *(words if len(words) > 1 else ("device_program", *words))],
        cwd=cwd,
        env=environment | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def runs(few_reviews: str, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("devices"), few_reviews)


@pytest.fixture(scope="module")
def quick_runs(few_reviews: str, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs that are stopped, or lose a process or a checkpoint. All are compiled alike."""
    return Runs(tmp_path_factory.mktemp("quick"), few_reviews, steps=100, optimised=False)


def assert_same_curve(a: Path, b: Path) -> None:
    """The same lines, the same losses to 6 digits, the same answers."""
    lines, others = read_lines(a), read_lines(b)
    assert [line["step"] for line in lines] == [line["step"] for line in others]
    assert len(lines) > STEPS
    for line, other in zip(lines, others, strict=True):
        for name in line.keys() & {"loss", "gradient_norm", "accuracy"}:
            tolerance = TOLERANCE.get(name, 0)
            assert math.isclose(line[name], other[name], rel_tol=tolerance), (name, line, other)
    for one, other in zip(answers(a), answers(b), strict=True):
        assert one.pop("probability") == pytest.approx(other.pop("probability"), abs=2e-6)  # 6 digits each
        assert one == other


def answers(where: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (where / "predictions.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("devices", "count", "mesh"),
    [
        (8, 1, ""),
        (1, 2, ""),
        (2, 1, "fsdp=2"),
        (8, 1, "data=2,fsdp=4"),
        (2, 2, "data=2,fsdp=2"),
    ],
)
def test_the_run_is_that_of_one_device(runs: Runs, devices: int, count: int, mesh: str) -> None:
    alone, _ = runs.whole()
    where, found = runs.whole(devices, count, **({"train.mesh": mesh} if mesh else {}))
    assert_same_curve(alone, where)
    assert len({facts["hash"] for facts in found}) == 1  # bit for bit in all processes
    assert {facts["said"] for facts in found[1:]} <= {""}
    assert {facts["neighbours"] for facts in found} == {count}
    wanted = mesh.replace("=", " ").replace(",", ", ") or f"data {devices * count}"
    shared = f" in {count} processes" if count > 1 else ""
    assert f"device      {devices * count} devices{shared}: {wanted}; " in found[0]["said"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mixer", "exchanges"),
    [("fourier", 4), ("global_filter", 4), ("long_conv", 4), ("afno", 4), ("linear", 4), ("attention", 8)],
)
def test_tokens_move_and_no_activation_is_gathered(runs: Runs, mixer: str, exchanges: int) -> None:
    """And 200 steps have the losses of one device."""
    knobs = {} if mixer == "fourier" else {"model.mixer": config.default(mixer=mixer).model.mixer.to_dict()}
    if "length" in knobs.get("model.mixer", {}):
        knobs["model.mixer"]["length"] = runs.config.data.length
    alone, _ = runs.whole(**knobs)
    where, [facts] = runs.whole(8, **knobs, **{"train.mesh": "data=2,tokens=4"})
    assert_same_curve(alone, where)
    assert facts["collectives"]["all-to-all"]["count"] == exchanges * runs.config.model.depth
    assert set(facts["collectives"]) <= {"all-to-all", "all-reduce", "all-gather"}
    assert set(facts["gathered"]) <= set(facts["shapes"])
    assert "device      8 devices: data 2, tokens 4; " in facts["said"]


@pytest.mark.slow
def test_one_device_communicates_nothing(runs: Runs) -> None:
    _, [facts] = runs.whole()
    assert facts["collectives"] == {}


@pytest.mark.slow
def test_data_sums_gradients_and_moves_nothing_else(runs: Runs) -> None:
    _, [facts] = runs.whole(8)
    assert set(facts["collectives"]) == {"all-reduce"}


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["fsdp=2", "data=2,fsdp=4"])
def test_fsdp_gathers_parameters_and_no_activation(runs: Runs, mesh: str) -> None:
    _, [facts] = runs.whole(2 if mesh == "fsdp=2" else 8, **{"train.mesh": mesh})
    assert set(facts["collectives"]) <= {"all-gather", "all-reduce", "reduce-scatter"}
    assert facts["gathered"]
    assert set(facts["gathered"]) <= set(facts["shapes"])
    assert facts["split"]  # parameters, and as many of each of Adam's means
    assert set(facts["gathered"]) == set(facts["split"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mixer", "devices", "mesh"), [("fourier", 4, ""), ("circular", 12, "data=2,fsdp=6")]
)
def test_an_engine_with_an_odd_number_of_examples_on_a_device(
    runs: Runs, tmp_path: Path, mixer: str, devices: int, mesh: str
) -> None:
    """Pairs, and rows that share a frame, then do not divide by the devices; the answers are the same."""
    c = shrink(config.default(mixer=mixer, engine="chip_11x11"), runs.config.data.dir)
    c.data.train_examples, c.data.batch, c.data.length, c.model.positions = 48, devices, 12, 12
    c.train.epochs, c.train.log_every, c.train.mesh = 1, 1, mesh
    for place, count in (("alone", 1), ("shared", devices)):
        c.train.mesh = mesh if count > 1 else ""
        order = {"config": c.to_dict(), "workdir": str(tmp_path / place), "processes": 1, "process": 0}
        runs.end([program(count, json.dumps(order))])
    for line, other in zip(*(read_lines(tmp_path / place) for place in ("alone", "shared")), strict=True):
        assert line["loss"] == pytest.approx(other["loss"], rel=1e-4)  # a level of a converter, now and then


@pytest.mark.slow
def test_seeds_on_devices_of_their_own(runs: Runs) -> None:
    """And with fewer of them than devices, by data, too."""
    knobs = {"train.seeds": 2, "train.epochs": 2}
    (alone, _), (two, [apart]), (four, [shared]) = (runs.whole(n, **knobs) for n in (1, 2, 4))
    assert apart["collectives"] == {}
    assert "seed 2;" in apart["said"]
    assert "seed 2, data 2;" in shared["said"]
    for where in (two, four):
        for line, other in zip(read_lines(alone), read_lines(where), strict=True):
            assert line["loss_seeds"] == pytest.approx(other["loss_seeds"], rel=1e-6)


@pytest.mark.slow
def test_micro_batches_of_several_devices(runs: Runs) -> None:
    """Which work off the same examples together as one device does, and move none."""
    knobs = {"train.accumulate": 2, "train.epochs": 2}
    (alone, _), (four, [facts]) = (runs.whole(n, **knobs) for n in (1, 4))
    assert set(facts["collectives"]) == {"all-reduce"}
    for line, other in zip(read_lines(alone), read_lines(four), strict=True):
        assert line["loss"] == pytest.approx(other["loss"], rel=1e-6)


@pytest.mark.slow
def test_a_batch_that_does_not_divide(runs: Runs) -> None:
    """By default fewer devices are used, and that is said."""
    _, [facts] = runs.whole(3, **{"train.epochs": 1})
    assert "note        2 of 3 devices are not used: 8 rows" in facts["said"]


@pytest.mark.slow
def test_saved_on_eight_devices_resumed_on_two_and_one(runs: Runs, tmp_path: Path) -> None:
    where = tmp_path / "run"
    stop = {"signum": signal.SIGTERM, "who": 0}
    runs.end(runs.start(where, 8, at=60, **stop), 128 + signal.SIGTERM)
    runs.end(runs.start(where, 1, 2, at=130, **stop), 128 + signal.SIGTERM)
    runs.end(runs.start(where, 1))
    assert_same_curve(runs.whole()[0], where)


@pytest.mark.slow
@pytest.mark.parametrize("who", [0, 1])
def test_a_signal_to_one_process_stops_all(quick_runs: Runs, who: int, tmp_path: Path) -> None:
    where = tmp_path / "run"
    started = quick_runs.start(where, 1, 2, at=60, signum=signal.SIGTERM, who=who)
    quick_runs.end(started, 128 + signal.SIGTERM)
    assert checkpoint_ids(where)[0].step == 62  # all at the same step: what has come is known two steps later
    quick_runs.end(quick_runs.start(where, 1, 2))
    whole, _ = quick_runs.whole(1, 2)
    assert [line.get("loss") for line in read_lines(where)] == [
        line.get("loss") for line in read_lines(whole)
    ]
    assert answers(where) == answers(whole)


@pytest.mark.slow
@pytest.mark.parametrize(("signum", "who"), [(signal.SIGKILL, 0), (signal.SIGKILL, 1), (signal.SIGSTOP, 1)])
def test_a_lost_process_ends_the_others(quick_runs: Runs, signum: int, who: int, tmp_path: Path) -> None:
    where = tmp_path / "run"
    started = quick_runs.start(where, 1, 2, at=60, signum=signum, who=who)
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
    quick_runs.end(quick_runs.start(where, 1, 2))
    assert answers(where) == answers(quick_runs.whole(1, 2)[0])


@pytest.mark.slow
def test_a_finished_run_and_a_damaged_checkpoint(quick_runs: Runs, tmp_path: Path) -> None:
    """Two processes notice either together."""
    where = tmp_path / "run"
    stopped = quick_runs.start(where, 1, 2, at=60, signum=signal.SIGTERM, who=0)
    quick_runs.end(stopped, 128 + signal.SIGTERM)
    newest = where / "checkpoints" / str(checkpoint_ids(where)[0])
    largest = max((newest / "state").rglob("*"), key=lambda path: path.is_file() * path.stat().st_size)
    largest.write_bytes(bytes(largest.stat().st_size))
    said = quick_runs.end(quick_runs.start(where, 1, 2))[0]["said"]
    assert f"The checkpoint {newest} is damaged" in said
    assert answers(where) == answers(quick_runs.whole(1, 2)[0])
    again = quick_runs.end(quick_runs.start(where, 1, 2))
    assert f"{where} is finished" in again[0]["said"]
    assert again[1] == {"said": ""}


@pytest.mark.slow
def test_what_one_process_does_not_see_no_other_takes(quick_runs: Runs, tmp_path: Path) -> None:
    """And process 0 alone says whether a run is finished."""
    where = tmp_path / "run"
    quick_runs.end(quick_runs.start(where, 1, 2, at=60, signum=signal.SIGTERM, who=0), 128 + signal.SIGTERM)
    newest = checkpoint_ids(where)[0]
    said = quick_runs.end(quick_runs.start(where, 1, 2, blind=1, unseen=str(newest)))[0]["said"]
    assert f"checkpoints/{newest} is damaged ({newest} is not there (process 1))" in said
    assert "resuming at step 60" in said
    assert answers(where) == answers(quick_runs.whole(1, 2)[0])
    again = quick_runs.end(quick_runs.start(where, 1, 2, blind=1, unseen=""))
    assert f"{where} is finished" in again[0]["said"]
    assert again[1] == {"said": ""}


def halted(process: subprocess.Popen) -> bool:
    """Whether a process was stopped, or has ended."""
    if process.poll() is not None:
        return True
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def command_of(few_reviews: str, where: Path) -> list[str]:
    """The toy run, as words for the command."""
    small, usual = flat(shrink(config.default(), few_reviews).to_dict()), flat(config.default().to_dict())
    changed = {key: value for key, value in small.items() if value != usual[key]}
    words = [f"--config.{key}={value}" for key, value in changed.items()]
    return ["fourier_attn.main", f"--config={ROOT / 'configs' / 'fnet.py'}", f"--workdir={where}", *words]


BAD = {  # devices of each process, words of all, words of the second, message
    "another configuration": (
        1,
        [],
        ["--config.seed=7"],
        "the processes differ: .*process 1",
    ),
    "a mesh": (2, ["--config.train.mesh=data=3"], [], "needs 3 devices, but 4 are available"),
    "rows": (3, ["--config.train.mesh=data=6"], [], "the 16 rows of a .micro-.batch do not divide by"),
    "rows by default": (3, [], [], "16 rows does not divide by the 6 devices of 2 processes"),
    "a knob": (1, ["--config.train.epochs=-1"], [], "train.epochs=-1 must be at least 1"),
}


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


def left(text: str) -> list[str]:
    """Command lines of processes that have to do with it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += [line] if text in line else []
    return found
