"""Mixers, tasks and optimizers from outside: registered, trained, found again, and never executed unasked."""

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest
from conftest import run_here

from fourier_attn import config, main, model, plugins
from fourier_attn.data import TASKS
from fourier_attn.data.tasks import Task, register_task
from fourier_attn.inference import export
from fourier_attn.layers.encoder import Block
from fourier_attn.model import MIXERS, register_mixer
from fourier_attn.studies import compare
from fourier_attn.studies.engine import robustness
from fourier_attn.studies.inside import query_keys
from fourier_attn.train.optimizer import OPTIMIZERS, build_optimizer
from fourier_attn.train.rundir import config_file
from fourier_attn.train.summary import summary

MODULE = """
    import flax.linen as nn
    import jax.numpy as jnp
    from fourier_attn.config import default
    from fourier_attn.data import TASKS
    from fourier_attn.data.tasks import register_task
    from fourier_attn.model import register_mixer
    from fourier_attn.train import register_optimizer
    import optax


    class Scaled(nn.Module):
        factor: float = 0.5
        dtype: jnp.dtype = jnp.dtype("float32")

        @nn.compact
        def __call__(self, x, *, mask=None, train=False):
            return self.factor * x


    register_mixer("scaled", Scaled)
    register_task("opinions", TASKS["reviews"])
    register_optimizer("rms", lambda c: optax.scale_by_rms(c["b2"], c["eps"]))
    with open({seen!r}, "a") as file:
        file.write("run ")


    def get_config(task="opinions"):
        config = default("scaled", task)
        config.optim.name = "rms"
        return config
"""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What a test registers is gone after it."""
    tables = (MIXERS, TASKS, OPTIMIZERS, plugins._origins, plugins._sources)
    before = [dict(table) for table in tables]
    yield
    for table, values in zip(tables, before, strict=True):
        table.clear()
        table.update(values)


def forget() -> None:
    """As a new process would know it."""
    for table, name in ((MIXERS, "scaled"), (TASKS, "opinions"), (OPTIMIZERS, "rms")):
        table.pop(name, None)
    plugins._origins.clear()
    plugins._sources.clear()


class Twice(nn.Module):
    times: int = 2
    dtype: jnp.dtype = jnp.dtype("float32")

    def __call__(self, x, *, mask=None, train=False):
        return self.times * x


class Maskless(nn.Module):
    def __call__(self, x: jax.Array) -> jax.Array:
        return x


class Silent(nn.Module):
    times: int = 2


class Shrinking(nn.Module):
    def __call__(self, x: jax.Array, *, mask: jax.Array | None = None, train: bool = False) -> jax.Array:
        return x.mean((0, 1), keepdims=True)


class NoDefault(nn.Module):
    times: int
    dtype: jnp.dtype = jnp.dtype("float32")


def test_knobs_are_the_fields() -> None:
    register_mixer("twice", Twice)
    c = config.default("twice")
    assert c.model.mixer.times == 2
    c.model.mixer.times = 3
    config.check(c)
    assert any("model.mixer.times" in line for line in config.describe())
    with pytest.raises(ValueError, match="has no rate; it has times"):
        model.build(dict(c.model) | {"mixer": {"name": "twice", "rate": 1}})


@pytest.mark.parametrize(
    ("name", "mixer", "message"),
    [
        ("fourier", Twice, "the mixer 'fourier' already exists"),
        ("number", 3, "give a class"),
        ("plain", dict, "give a class"),
        ("none", NoDefault, "no default for its field times"),
        ("maskless", Maskless, "must accept mask and train; define __call__"),
        ("silent", Silent, "must accept mask and train; define __call__"),
    ],
)
def test_what_is_no_mixer_is_refused(name: str, mixer: type, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model._add_mixer(name, mixer)


def test_a_mixer_that_returns_another_shape_is_named() -> None:
    """A smaller array would be broadcast into the sum, and mix the examples of a batch."""
    with pytest.raises(ValueError, match=r"Shrinking returns an array of shape \(1, 1, 4\) for tokens"):
        jax.eval_shape(lambda: Block(Shrinking, mlp=4).init(jax.random.key(0), jnp.ones((2, 3, 4))))


@pytest.mark.usefixtures("standard_promotion")
def test_who_registers_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration file that imports its class: that file registers, and both belong to the code."""
    where = {"layers_of_mine": "class Own(Twice):\n    pass\n"}
    where["mine"] = "from layers_of_mine import Own\nregister_mixer('own', Own)\n"
    imported = "from test_plugins import Twice\nfrom fourier_attn.model import register_mixer\n"
    for name, text in where.items():
        (tmp_path / f"{name}.py").write_text(imported + text)
    monkeypatch.syspath_prepend(tmp_path)
    plugins.run(plugins.Origin("mine", str(tmp_path / "mine.py")))
    assert plugins._origins["mixers", "own"].file == str(tmp_path / "mine.py")
    assert plugins.digests().keys() == {"mine.py", "layers_of_mine.py"}
    MIXERS.pop("own")
    plugins.run(plugins._origins["mixers", "own"])
    assert "own" in MIXERS
    (tmp_path / "mine.py").write_text("raise SystemExit")
    with pytest.raises(ValueError, match="cannot be run"):
        plugins.run(plugins._origins["mixers", "own"])


def test_files_of_the_same_name_are_both_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("a", "b"):
        file = tmp_path / folder / "mine.py"
        file.parent.mkdir()
        file.write_text(folder)
        monkeypatch.setitem(plugins._origins, ("tasks", folder), plugins.Origin("", str(file)))
    before = plugins.digests()
    for folder in ("a", "b"):
        (tmp_path / folder / "mine.py").write_text("other")
        assert plugins.digests() != before
        (tmp_path / folder / "mine.py").write_text(folder)
    assert plugins.digests() == before


def test_what_is_no_task_is_refused() -> None:
    with pytest.raises(ValueError, match="a task 'imdb' exists already"):
        register_task("imdb", TASKS["reviews"])
    assert isinstance(TASKS["imdb"], Task)


def test_where_a_module_lies_is_noted_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--config=mine.py: a run that is used from another folder finds it again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "__file__", "mine.py")
    register_mixer("twice", Twice)
    register_task("opinions", TASKS["reviews"])
    files = {origin.file for origin in plugins._origins.values()}
    assert files == {str(tmp_path / "mine.py")}


@pytest.fixture
def trained(tmp_path: Path, few_reviews: str) -> Path:
    """A run with a mixer and a task of a configuration file."""
    (tmp_path / "mine.py").write_text(textwrap.dedent(MODULE.format(seen=str(tmp_path / "seen"))))
    small = {"data.dir": few_reviews, "data.train_examples": 64, "model.depth": 1, "model.d": 8}
    small |= {"train.epochs": 1, "data.test_examples": 32, "model.mlp": 8}
    knobs = [f"--config.{name}={value}" for name, value in small.items()]
    place = tmp_path / "run"
    words = (f"--config={tmp_path / 'mine.py'}", f"--workdir={place}", "--config.model.mixer.factor=0.25")
    code, _, error = run_here(main, *words, *knobs)
    assert code == 0, error
    (tmp_path / "seen").unlink()
    forget()
    return place


@pytest.mark.usefixtures("standard_promotion")
def test_a_run_does_not_execute_what_it_names(trained: Path) -> None:
    """Not in any mode, unless somebody says so."""
    seen, named = trained.parent / "seen", f"--workdir={trained}"
    recorded = json.loads((trained / "config.json").read_text())["plugins"]
    files = {kind: found[name]["file"] for kind, found in recorded.items() for name in found}
    assert files == dict.fromkeys(("mixers", "tasks", "optimizers"), str(trained.parent / "mine.py"))
    for words in (["--mode=predict", "--text=a dull film"], ["--mode=eval"], [], ["--extend=1"]):
        code, _, error = run_here(main, named, *words)
        assert code == 2, words
        assert "if you trust that file, add --allow_code" in error
        assert not seen.exists(), words
    code, out, error = run_here(main, named, "--mode=predict", "--text=a dull film", "--allow_code")
    assert code == 0, error
    assert out.split()[0] in TASKS["reviews"].labels
    assert seen.read_text() == "run "
    assert config_file.load(trained).model.mixer.factor == 0.25
    forget()
    words = (f"--to={trained.parent / 'weights'}", "--format=safetensors")
    code, _, error = run_here(export, named, *words)
    assert (code, "add --allow_code" in error) == (2, True)
    code, _, error = run_here(export, named, *words, "--allow_code")
    assert code == 0, error
    forget()
    for study, needed in (
        (query_keys, "name a run of one network with"),
        (robustness, "without optical form"),
    ):
        code, _, error = run_here(study, named)
        assert (code, "if you trust that file, add --allow_code" in error) == (2, True)
        code, _, error = run_here(study, named, "--allow_code")
        assert (code, needed in error) == (2, True)
        assert f"code        {trained.parent / 'mine.py'}" in error
        forget()
    (trained.parent / "mine.py").unlink()
    code, _, error = run_here(main, named, "--mode=eval", "--allow_code")
    assert (code, "is not a Python module" in error) == (2, True)


@pytest.mark.usefixtures("standard_promotion")
def test_runs_are_compared_without_what_they_name(trained: Path, few_reviews: str) -> None:
    """As they were written: knobs, validation, test, and that they are done."""
    other = trained.parent / "other"
    shutil.copytree(trained, other)
    facts = json.loads((other / "config.json").read_text())
    facts["config"]["model"]["mixer"]["factor"] = 0.5
    del facts["fingerprints"]["config"]
    (other / "config.json").write_text(json.dumps(facts))
    (trained.parent / "seen").unlink(missing_ok=True)
    code, out, error = run_here(compare, str(trained), str(other), arguments=True)
    assert code == 0, error
    head, *rows = (line.split() for line in out.splitlines())
    assert head[-1] == "model.mixer.factor"
    assert {row[0]: row[-1] for row in rows} == {"run": "0.25", "other": "0.5"}
    assert all("done" in row for row in rows)
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    found = summary(trained)
    assert found.test == lines[-1]["accuracy"]
    assert [value for _, value in found.curve] == [x["accuracy"] for x in lines if x["split"] == "validation"]
    assert not (trained.parent / "seen").exists()
    assert "scaled" not in MIXERS
    facts["extended"] = [{"step": lines[-1]["step"], "epochs": 2, "commit": None}]
    (other / "config.json").write_text(json.dumps(facts))
    assert summary(other).state == "open"


@pytest.mark.parametrize("damage", [3, {"mixers": 4}, {"mixers": {"a": {}}}, {"tasks": [1]}])
def test_a_damaged_record_is_named(toy_run: Path, tmp_path: Path, damage: object) -> None:
    facts = json.loads((toy_run / "config.json").read_text()) | {"plugins": damage}
    (tmp_path / "config.json").write_text(json.dumps(facts))
    with pytest.raises(ValueError, match="is damaged"):
        config_file.load(tmp_path)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An installed package with a mixer and a task among its entry points."""
    (tmp_path / "waves_for_test.py").write_text(
        "import flax.linen as nn\nimport jax.numpy as jnp\nfrom fourier_attn.data import TASKS\n"
        "class Waves(nn.Module):\n    rate: float = 2.0\n    dtype: jnp.dtype = jnp.dtype('float32')\n"
        "    def __call__(self, x, *, mask=None, train=False):\n        return x\n"
        "letters = TASKS['reviews']\nimport optax\ndef plain(config):\n    return optax.identity()\n"
    )
    info = tmp_path / "waves_for_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: waves-for-test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[fourier_attn.mixers]\nwaves = waves_for_test:Waves\nbroken = waves_for_test:nothing\n"
        "[fourier_attn.tasks]\nletters = waves_for_test:letters\n"
        "[fourier_attn.optimizers]\nplain = waves_for_test:plain\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "places", lambda: [str(tmp_path)])
    yield "waves_for_test"
    sys.modules.pop("waves_for_test", None)


def test_what_lies_in_the_working_directory_is_not_installed(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run's directory may hold what looks like a package."""
    monkeypatch.undo()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="'waves' is unknown"):
        config.default("waves")
    assert package not in sys.modules


def test_an_installed_package_is_found_by_name(package: str, tmp_path: Path) -> None:
    c = config.default("waves", "letters")
    assert c.model.mixer.rate == 2.0
    c.optim.name = "plain"
    build_optimizer(c.optim)
    config_file.save(tmp_path, c)
    written = json.loads((tmp_path / "config.json").read_text())["plugins"]
    assert written["mixers"]["waves"] == {"module": f"{package}:Waves", "file": ""}
    assert written["optimizers"]["plain"] == {"module": f"{package}:plain", "file": ""}
    forget()
    MIXERS.pop("waves")
    TASKS.pop("letters")
    OPTIMIZERS.pop("plain")
    assert config_file.load(tmp_path).model.mixer.rate == 2.0
    build_optimizer(config_file.load(tmp_path).optim)
    with pytest.raises(ValueError, match="'broken' cannot be loaded"):
        config.default("broken")
