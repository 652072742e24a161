"""One device, several, several processes: the same run."""

import json
import math
import signal
from pathlib import Path

import pytest
from conftest import run_here, shrink
from distributed_runs import EPOCH, STEPS, Runs, answers, program
from jax.sharding import AbstractMesh, PartitionSpec

from fourier_attn import config, main
from fourier_attn.train import memory
from fourier_attn.train.distributed import processes, sharding
from fourier_attn.train.distributed.sharding import AXES, Placement
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


TOLERANCE = {"loss": 1e-6, "gradient_norm": 1e-4}  # sums in another order, after up to 200 steps


@pytest.fixture(scope="module")
def runs(few_reviews: str, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("devices"), few_reviews)


def assert_same_curve(a: Path, b: Path, steps: int = STEPS) -> None:
    """The same lines, the same losses to 6 digits, the same answers."""
    lines, others = read_lines(a), read_lines(b)
    assert [line["step"] for line in lines] == [line["step"] for line in others]
    assert len(lines) > steps
    for line, other in zip(lines, others, strict=True):
        for name in line.keys() & {"loss", "gradient_norm", "accuracy"}:
            tolerance = TOLERANCE.get(name, 0)
            assert math.isclose(line[name], other[name], rel_tol=tolerance), (name, line, other)
    for one, other in zip(answers(a), answers(b), strict=True):
        assert one.pop("probability") == pytest.approx(other.pop("probability"), abs=2e-6)  # 6 digits each
        assert one == other


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
    """And two epochs have the losses of one device."""
    fields = config.default(mixer=mixer).model.mixer.to_dict()
    if "length" in fields:
        fields["length"] = runs.config.data.length
    knobs = {"model.mixer": fields, "train.epochs": 2}
    alone, _ = runs.whole(**knobs)
    where, [facts] = runs.whole(8, **knobs, **{"train.mesh": "data=2,tokens=4"})
    assert_same_curve(alone, where, steps=2 * EPOCH)
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
