"""launch: what it would run, what it refuses, tables, and the JobSet; nothing is started."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from conftest import ROOT, run_here

from fourier_attn import paths
from launch import cluster, devices, grid, jobset, local, program, results, slurm, sweep
from launch.running import exit_code

FNET = "--config=configs/fnet.py"
GPUS = ["--accelerator=nvidia-h100-80gb", "--machines=2"]
TPUS = ["--accelerator=tpu-v5-lite-podslice", "--topology=2x4"]
JOBSET = ["--name=fnet", "--image=registry/fnet:1", "--volume=runs:/data"]
MOUNTED = ["--", FNET, "--workdir=/data/a"]


def call(module, *words: str) -> tuple[int, str, str]:
    return run_here(module, *words, arguments=True)


def test_points_of_a_grid() -> None:
    points = grid.points(["optim.learning_rate=1e-3,5e-4", "seed=0,1,2"])
    assert [tuple(point.values()) for point in points] == [
        ("1e-3", "0"), ("1e-3", "1"), ("1e-3", "2"), ("5e-4", "0"), ("5e-4", "1"), ("5e-4", "2"),
    ]  # fmt: skip
    assert [grid.name(point) for point in points[:2]] == [
        "optim.learning_rate=1e-3,seed=0",
        "optim.learning_rate=1e-3,seed=1",
    ]
    assert grid.words(points[5]) == ["--config.optim.learning_rate=5e-4", "--config.seed=2"]


def test_a_grid_of_mixers_and_configurations() -> None:
    points = grid.points(["config=fnet:reviews,attention:reviews", "mixer=lambda,fourier", "seed=0"])
    assert grid.name(points[0]) == "config=fnet-reviews,mixer=lambda,seed=0"
    assert grid.words(points[0]) == ["--config=fnet:reviews", "--mixer=lambda", "--config.seed=0"]
    found = grid.check(["--recipe=small"], points, "fourier_attn.main")
    assert [c.model.mixer.name for c in found] == ["lambda", "fourier"] * 2
    assert {c.data.vocab for c in found} == {20_000}
    own = ["--config.data.vocab=64"]
    whole = ["--config=fnet:reviews", *own, "--mixer=lambda", "--config.seed=0"]
    assert grid.arguments(own, points[0]) == whole
    assert {c.data.vocab for c in grid.check(own, points, "fourier_attn.main")} == {64}
    with pytest.raises(ValueError, match="--config is in the arguments and in the grid"):
        grid.check(["--config=fnet"], points, "fourier_attn.main")
    with pytest.raises(ValueError, match=r"mixer=huge,seed=0: model.mixer.name='huge' is unknown"):
        grid.check(["--config=fnet"], grid.points(["mixer=huge", "seed=0"]), "fourier_attn.main")


def test_a_grid_has_one_metric_and_one_directory_for_each_point() -> None:
    points = grid.points(["train.monitor=accuracy,loss"])
    with pytest.raises(ValueError, match=r"accuracy on reviews and loss on reviews, which one table cannot"):
        grid.check(["--config=fnet:reviews"], points, "fourier_attn.main")
    with pytest.raises(ValueError, match="same directory, config=fnet-reviews: .* rename a configuration"):
        grid.check([], grid.points(["config=fnet:reviews,configs/fnet.py:reviews"]), "fourier_attn.main")


def test_means_over_seeds() -> None:
    """By hand: 0.6 and 0.8 have mean 0.7 and deviation sqrt(0.02); an open run does not count."""
    scores = {("a", "0"): 0.6, ("a", "1"): 0.8, ("b", "0"): 0.75, ("b", "1"): None}
    rows = [
        results.Row("", {"mixer": mixer, "seed": seed}, "done" if value else "open", "accuracy", value, value)
        for (mixer, seed), value in scores.items()
    ]
    assert [(m.values, m.runs, m.validation, m.validation_sd) for m in results.means(rows)] == [
        ({"mixer": "b"}, 1, 0.75, None),
        ({"mixer": "a"}, 2, pytest.approx(0.7), pytest.approx(0.02**0.5)),
    ]
    assert results.means(rows[::2]) == []  # one seed each
    assert results.table(rows).splitlines()[7].split() == ["1", "0.75", "-", "0.75", "-", "b"]


def test_a_name_of_an_earlier_sweep_is_found_again() -> None:
    assert grid.name({"model.layout": "('a', 'b')"}) == "model.layout=(%27a%27,%27b%27)"


def test_a_start_may_be_shorter_than_the_texts() -> None:
    """The architecture is that of the weights, whose positions are interpolated."""
    own = ["--config=configs/fnet.py", "--config.data.length=100"]
    with pytest.raises(ValueError, match="100 tokens exceeds positions=48"):
        grid.check_point(own, {"seed": "0"})
    assert grid.check_point([*own, "--config.init_from=runs/a"], {"seed": "0"}).data.length == 100


def test_values_may_have_commas_within_brackets() -> None:
    points = grid.points(["data.buckets=(64, 128),(),[1,(2,3)]"])
    assert [point["data.buckets"] for point in points] == ["(64, 128)", "()", "[1,(2,3)]"]


@pytest.mark.parametrize("value", ["a/b", "../x", "a b", "é", "%2F", ".", "['a','b']", "a\\b", "gs:", "*"])
def test_a_name_is_one_directory_whatever_the_value(value: str, tmp_path: Path) -> None:
    where = tmp_path / grid.name({"init_from": value})
    where.mkdir()
    assert where.parent.resolve() == where.resolve().parent == tmp_path.resolve()
    assert paths.folder(where, "workdir") == where


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (["--workdir=a"], "a"),
        (["--workdir", "a b"], "a b"),
        (["-workdir=a"], "a"),
        (["--workdir=a", "--workdir=b"], "b"),
        (["--workdirs=a"], None),
        (["--workdir="], ""),
        (["--config=a"], None),
    ],
)
def test_an_option_among_words(given: list[str], value: str | None) -> None:
    assert program.option(given, "workdir") == value


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize("cores", [1, 2, 7, 8])
def test_cores_are_shared_out(processes: int, cores: int) -> None:
    parts = devices.split(range(cores), processes)
    used = [core for part in parts for core in part]
    assert len(parts) == processes
    assert set(used) == set(range(cores)) if cores >= processes else set(used) <= set(range(cores))
    assert len(used) == max(cores, processes)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_gpus_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    seen = [part.environment["CUDA_VISIBLE_DEVICES"] for part in devices.shares(2)]
    assert seen == ["4,5", "6,7"]
    with pytest.raises(ValueError, match="processes=3 must divide the 4 GPUs"):
        devices.shares(3)
    virtual = devices.shares(3, virtual=2)[0].environment
    assert virtual["XLA_FLAGS"].endswith("--xla_force_host_platform_device_count=2")
    assert virtual["JAX_PLATFORMS"] == "cpu"


def test_gpus_that_nvidia_smi_lists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\nprintf '0\\n1\\n'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [part.environment["CUDA_VISIBLE_DEVICES"] for part in devices.shares(2)] == ["0", "1"]


@pytest.mark.parametrize(
    ("codes", "received", "whole"),
    [
        ([0, 0], 0, 0),
        ([0, 1], 0, 1),
        ([1, 2], 0, 2),  # bad input explains the other
        ([137, 1], 0, 137),
        ([1, 137], 0, 1),
        ([143, 143], 15, 143),
        ([130, 1], 2, 130),
        ([1, 130], 2, 130),
        ([0, 0], 15, 0),  # done before the signal came
    ],
)
def test_exit_code_of_the_whole(codes: list[int], received: int, whole: int) -> None:
    assert exit_code(codes, received) == whole


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("1:30:00", 90), ("0:00:01", 1), ("2-00:00:00", 2880), ("1-01:01:01", 1502)],
)
def test_time_limits(text: str, minutes: int) -> None:
    assert cluster.minutes(text) == minutes


@pytest.mark.parametrize(
    ("module", "words", "shown"),
    [
        (local, ["--processes=2", "--", FNET, "--workdir=a"], ["main --config=configs/fnet.py --workdir=a",
            "process 0", "process 1", "output      a.launch"]),
        (local, ["--", "--config=configs/fnet.py:imdb"], ["--workdir=runs/fnet-imdb-2"]),
        (slurm, ["--nodes=2", "--gpus_per_node=8", "--time=2:00:00", "--account=us", "--", FNET],
            ["nodes 2", "gpus_per_node 8", "time 120", "account us", "--workdir=runs/fnet-2"]),
        (sweep, ["--grid=seed=0,1", "--directory=s", "--", FNET],
            ["--config.seed=0 --workdir=s/seed=0\n", "--config.seed=1 --workdir=s/seed=1\n"]),
        (sweep, ["--grid=seed=0,1", "--executor=slurm", "--nodes=3", "--", FNET], ["nodes 3", "seed=1"]),
    ],
)  # fmt: skip
def test_a_dry_run_prints_and_does_nothing(
    module, words: list[str], shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    monkeypatch.setattr("subprocess.Popen", lambda *given, **named: started.append(given))
    monkeypatch.setattr(Path, "mkdir", lambda *given, **named: started.append(given))
    code, out, err = call(module, "--dry_run", *words)
    assert (code, err, started) == (0, "", [])
    for text in shown:
        assert text in out


BAD = [
    (local, [], "the command has no arguments; give them after --"),
    (local, ["--processes=0", "--", FNET], "processes=0 must be at least 1"),
    (local, ["--devices=-1", "--", FNET], "devices=-1 must be at least 0"),
    (local, ["--grace=-1", "--", FNET], "grace=-1.0 must be at least 0"),
    (local, ["--", FNET, "--workdir="], "--workdir= is empty"),
    (local, ["--processes=2", FNET], "Unknown command line flag"),
    (slurm, ["--nodes=0", "--", FNET], "--nodes=0 must be at least 1"),
    (slurm, ["--requeues=-1", "--", FNET], "--requeues=-1 must be at least 0"),
    (slurm, ["--time=soon", "--", FNET], "--time='soon' is not a time limit"),
    (slurm, ["--time=0", "--", FNET], "--time='0' is not a time limit"),
    (slurm, [], "the command has no arguments; give them after --"),
    (sweep, ["--", FNET], "the grid is empty; give --grid="),
    (sweep, ["--grid=seed", "--", FNET], "--grid=seed is not a grid"),
    (sweep, ["--grid=seed=", "--", FNET], "--grid=seed= is not a grid"),
    (sweep, ["--grid=seed=0,,1", "--", FNET], "is not a grid"),
    (sweep, ["--grid=seed=0,0", "--", FNET], "has 0 more than once"),
    (sweep, ["--grid=seed=0", "--grid=seed=1", "--", FNET], "names seed a second time"),
    (sweep, ["--grid=seed=0", "--", FNET, "--config.seed=1"], "in the arguments and in the grid"),
    (sweep, ["--grid=seed=0", "--", FNET, "--workdir=a"], "leave --workdir out"),
    (sweep, ["--grid=seed=0", "--", "--config.d=1"], "needs a configuration"),
    (sweep, ["--grid=optim.learning_rat=1", "--", FNET], 'Did you mean "learning_rate"'),
    (sweep, ["--grid=nothing.like=1", "--", FNET], "nothing.like is not an option"),
    (sweep, ["--grid=seed=0,-1", "--", FNET], "seed=-1 must be at least 0"),
    (sweep, ["--grid=seed=0,x", "--", FNET], "seed=x"),
    (sweep, ["--grid=model.mixer.padding=zero,none", "--", FNET], "padding='none' is unknown"),
    (sweep, ["--grid=data.batch=4,6", "--", FNET, "--config.train.accumulate=4"], "must divide data.batch=6"),
    (sweep, ["--grid=seed=0", "--", "--config=configs/none.py"], "configs/none.py"),
    (sweep, ["--grid=seed=0", "--jobs=0", "--", FNET], "--jobs=0 must be at least 1"),
    (sweep, ["--grid=init_from=" + 300 * "a", "--", FNET], "use fewer knobs"),
    (jobset, [*JOBSET[1:], *GPUS, *MOUNTED], "--name is missing"),
    (jobset, ["--name=Fnet", *JOBSET[1:], *GPUS, *MOUNTED], "--name=Fnet must be lower-case"),
    (jobset, [f"--name={60 * 'a'}", *JOBSET[1:], *GPUS, *MOUNTED], "must be lower-case"),
    (jobset, [*JOBSET, TPUS[0], *MOUNTED], "--topology=None"),
    (jobset, [*JOBSET, TPUS[0], "--topology=2x3", *MOUNTED], "must divide the 6"),
    (jobset, [*JOBSET, *GPUS, "--topology=2x4", *MOUNTED], "is for TPUs"),
    (jobset, [*JOBSET, *GPUS, "--gpus_per_machine=0", *MOUNTED], "--gpus_per_machine=0 must be at least 1"),
    (jobset, [*JOBSET, *GPUS, "--restarts=-1", *MOUNTED], "--restarts=-1 must be at least 0"),
    (jobset, [*JOBSET[:2], *GPUS, *MOUNTED], "--volume=None is not a volume"),
    (jobset, [*JOBSET, *GPUS, "--", FNET], "--workdir=None must be in the volume"),
    (jobset, [*JOBSET, *GPUS, "--", FNET, "--workdir=/data/../a"], "must be in the volume"),
    (jobset, [*JOBSET, *GPUS, "--", FNET, "--workdir=/database/a"], "must be in the volume"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "words", "message"), BAD)
def test_bad_input_is_one_line_and_exit_code_2(module, words: list[str], message: str) -> None:
    code, out, err = call(module, *words)
    assert (code, out) == (2, ""), err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("module", [slurm, sweep])
def test_without_slurm(module, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    more = ["--grid=seed=0", "--executor=slurm"] if module is sweep else []
    code, _, err = call(module, *more, "--", FNET, *([] if more else [f"--workdir={tmp_path / 'a'}"]))
    assert code == 2
    assert err == "error: SLURM is not installed on this machine (sbatch is not found); use launch.local\n"
    assert not list(tmp_path.iterdir())


def test_a_squeue_that_fails_now_and_then_ends_no_sweep(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\necho slurm_load_jobs error >&2\nexit 1\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    queue = cluster.Queue()
    for _ in range(cluster.FAILURES - 1):
        assert queue.ask(["7", "8"]) is None
    note = "note: squeue does not answer (slurm_load_jobs error); it is asked again\n"
    assert capsys.readouterr().err == note  # once
    squeue.write_text("#!/bin/sh\necho 7\n")
    assert queue.ask(["7", "8"]) == {"7"}
    squeue.write_text("#!/bin/sh\nexec sleep 9\n")
    monkeypatch.setattr(cluster, "ANSWER", 0.05)
    assert [queue.ask(["7"]) for _ in range(cluster.FAILURES - 1)] == [None] * (cluster.FAILURES - 1)
    message = "the jobs keep running; give the same command again to wait for them"
    with pytest.raises(RuntimeError, match=message):
        queue.ask(["7"])
    assert queue.ask([]) == set()


@pytest.mark.parametrize("name", ["local", "slurm", "sweep", "jobset"])
def test_help_answers(name: str) -> None:
    code, out, _ = call(importlib.import_module(f"launch.{name}"), "--help")
    assert code == 0
    assert "--module" in out
    assert ("--partition" in out) == (name in ("slurm", "sweep"))


@pytest.mark.slow
def test_table_of_a_sweep(toy_run: Path, tmp_path: Path) -> None:
    done = results.row(toy_run, {"seed": "0"}, None)
    failed = results.row(tmp_path / "seed=1", {"seed": "1"}, 2, "error: as told")
    stopped = results.row(tmp_path / "seed=2", {"seed": "2"}, 143)
    open_ = results.row(tmp_path / "seed=3", {"seed": "3"}, None)
    lines = (toy_run / "metrics.jsonl").read_text().splitlines()
    scores = [json.loads(line)["accuracy"] for line in lines if '"split": "validation"' in line]
    assert [row.state for row in (done, failed, stopped, open_)] == ["done", "failed", "stopped", "open"]
    assert (done.metric, done.validation) == ("accuracy", max(scores))
    assert done.test == json.loads(lines[-1])["accuracy"]
    text = results.table([failed, stopped, done])
    assert text.splitlines()[0].split() == ["validation", "accuracy", "test", "accuracy", "seed", "state"]
    assert text.splitlines()[1].split()[2:] == ["0", "done"]
    assert text.splitlines()[-1] == "failed: seed=1: error: as told"
    results.write(tmp_path, [failed, done])
    assert [row["state"] for row in json.loads((tmp_path / results.FILE).read_text())] == ["done", "failed"]


def test_a_finished_run_of_another_configuration_is_none_of_the_sweep(
    toy_run: Path, few_reviews: str, tmp_path: Path
) -> None:
    shutil.copytree(toy_run, tmp_path / "seed=0")
    knobs = {"data.dir": few_reviews, "data.train_examples": 96, "data.batch": 16, "data.buckets": "()"}
    knobs |= {"model.depth": 1, "model.d": 8, "model.mlp": 16, "train.log_every": 2, "train.save_every": 4}
    words = ["--grid=seed=0", f"--directory={tmp_path}", "--", FNET]
    given = [f"--config.{name}={value}" for name, value in knobs.items()]
    code, out, err = call(sweep, *words, *given)
    assert code == 0, err
    assert out.startswith("finished    ")
    for other in ("--config.model.mlp=32", "--recipe=small"):
        code, out, err = call(sweep, *words, *given, other)
        assert (code, out) == (2, "")
        assert "has a run with another configuration: " in err
        assert err.endswith("for a sweep, give another --directory\n")
    assert "data.vocab is 50000 there, 20000 now" in err


def test_the_best_comes_first() -> None:
    rows = [results.Row(str(i), {}, "done", "accuracy", value) for i, value in enumerate([0.5, None, 0.9])]
    assert [row.run for row in results.ordered(rows)] == ["2", "0", "1"]


def rendered(*words: str) -> dict:
    code, out, err = call(jobset, *JOBSET, *words)
    assert code == 0, err
    return yaml.safe_load(out)


@pytest.mark.parametrize("pool", [GPUS, TPUS, [*TPUS[:1], "--topology=2x2"], [*GPUS[:1], "--machines=1"]])
def test_the_jobs_of_a_jobset_are_sound(pool: list[str]) -> None:
    (replicated,) = rendered(*pool, *MOUNTED)["spec"]["replicatedJobs"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, **replicated["template"]}
    kubernetes_validate.validate(job, "1.33", strict=True)
    assert job["spec"]["completions"] == job["spec"]["parallelism"]


def test_the_validator_refuses_what_is_unknown() -> None:
    (replicated,) = rendered(*GPUS, *MOUNTED)["spec"]["replicatedJobs"]
    replicated["template"]["spec"]["backofLimit"] = 0
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, **replicated["template"]}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, "1.33", strict=True)


# kubernetes-sigs/jobset, api/jobset/v1alpha2/jobset_types.go
SPEC = {
    "replicatedJobs", "network", "successPolicy", "failurePolicy", "startupPolicy", "suspend", "coordinator",
    "managedBy", "ttlSecondsAfterFinished", "volumeClaimPolicies",
}  # fmt: skip
ACTIONS = {
    "FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts", "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
}  # fmt: skip
JOB_REASONS = {"BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded",
    "PodFailurePolicy"}  # fmt: skip


@pytest.mark.parametrize("pool", [GPUS, TPUS])
def test_a_jobset_has_the_fields_of_its_crd(pool: list[str]) -> None:
    found = rendered(*pool, *MOUNTED)
    spec = found["spec"]
    assert (found["apiVersion"], found["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    assert spec.keys() <= SPEC
    assert spec["network"].keys() <= {"enableDNSHostnames", "subdomain", "publishNotReadyAddresses"}
    assert spec["successPolicy"]["operator"] in {"All", "Any"}
    assert spec["failurePolicy"].keys() <= {"maxRestarts", "restartStrategy", "rules"}
    for rule in spec["failurePolicy"]["rules"]:
        assert rule["action"] in ACTIONS
        assert set(rule["onJobFailureReasons"]) <= JOB_REASONS
        assert rule.keys() <= {"name", "action", "onJobFailureReasons", "targetReplicatedJobs"}
    for job in spec["replicatedJobs"]:
        assert job.keys() <= {"name", "groupName", "template", "replicas", "dependsOn"}
        assert type(job["replicas"]) is int


def test_a_jobset_goes_on_but_not_after_bad_input() -> None:
    spec = rendered(*GPUS, "--restarts=3", *MOUNTED)["spec"]
    job = spec["replicatedJobs"][0]["template"]["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]
    assert spec["failurePolicy"]["maxRestarts"] == 3
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [2])
    assert rule["onExitCodes"]["containerName"] == job["template"]["spec"]["containers"][0]["name"]
    assert job["template"]["spec"]["restartPolicy"] == "Never"  # which a podFailurePolicy asks for


@pytest.mark.parametrize(
    ("topology", "machines", "chips"),
    [("1x1", 1, 1), ("2x2", 1, 4), ("2x4", 2, 4), ("4x4", 4, 4), ("2x2x2", 2, 4), ("4x4x4", 16, 4)],
)
def test_machines_of_a_slice(topology: str, machines: int, chips: int) -> None:
    spec = rendered(TPUS[0], f"--topology={topology}", *MOUNTED)["spec"]["replicatedJobs"][0]["template"][
        "spec"
    ]
    pod = spec["template"]["spec"]
    assert spec["parallelism"] == machines
    assert pod["containers"][0]["resources"]["limits"] == {"google.com/tpu": chips}
    assert pod["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == topology


def test_processes_of_a_gpu_pool_meet_at_the_first_pod() -> None:
    found = rendered(*GPUS, *MOUNTED)
    container = found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    # <jobSet.name>-<replicatedJob.name>-<job-index>-<pod-index>.<jobSet.name>
    assert variables["JAX_COORDINATOR_ADDRESS"] == "fnet-workers-0-0.fnet:8476"
    assert variables["JAX_NUM_PROCESSES"] == "2"
    assert "JAX_PROCESS_ID" in variables
    assert variables["FOURIER_ATTN_PATIENCE_S"] == "900"
    assert container["command"] == ["python", "-m", "fourier_attn.main", FNET, "--workdir=/data/a"]


@pytest.mark.parametrize(("topology", "expected"), [("2x2", {}), ("2x4", {"FOURIER_ATTN_PATIENCE_S": "900"})])
def test_jax_itself_finds_the_processes_of_a_slice(topology: str, expected: dict) -> None:
    found = rendered(TPUS[0], f"--topology={topology}", *MOUNTED)
    container = found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert {entry["name"]: entry["value"] for entry in container["env"]} == {
        "PYTHONUNBUFFERED": "1"
    } | expected


def test_a_sweep_takes_no_gpu_from_its_runs() -> None:
    """And they have the environment that it was started in."""
    program = (
        "import os; from fourier_attn import command; from launch import sweep; sweep.define_flags()\n"
        "assert command.run(sweep.main, arguments=True) == 0\n"
        "import jax; print(jax.config.jax_platforms, os.environ['JAX_PLATFORMS'])"
    )
    words = ["--grid=seed=0,1", "--dry_run", "--", FNET]
    result = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=ROOT,
        env=os.environ | {"JAX_PLATFORMS": "cuda,cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.endswith("\ncpu cuda,cpu\n"), result.stderr


def test_the_interpreter_is_this_one() -> None:
    _, out, _ = call(local, "--dry_run", "--", FNET)
    assert f"command     {sys.executable} -m fourier_attn.main" in out
    assert os.sep in sys.executable
