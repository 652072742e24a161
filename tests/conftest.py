"""Configures JAX for the tests, and provides toy runs and their data."""

import contextlib
import gc
import importlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import flax.linen as nn
import jax
import numpy as np
import pytest
import type_checks as type_checks  # must be imported before the modules that it checks
from absl import app
from absl.testing import flagsaver
from ml_collections import ConfigDict
from numpy.typing import ArrayLike, DTypeLike
from PIL import Image

from fourier_attn import command, config, model, train
from fourier_attn.data.sources import reviews, shapes
from fourier_attn.train import report, training_run
from fourier_attn.train.distributed import signals
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.rundir import config_file
from fourier_attn.train.rundir.checkpoint import Checkpoints
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.step import State, make_init, make_keys

# Background jobs of a shell ignore SIGINT. The runs that tests interrupt would inherit this.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Tracing creates many short-lived objects, and collecting them would take a fifth of the time of a test.
gc.set_threshold(50_000, 20, 10)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
# XLA's optimisations take longer than they save in these small programs. Tests of commands, sharding and the
# synthetic reviews turn them on, except those that stop processes or lose them.
jax.config.update("jax_disable_most_optimizations", True)
# XLA's emitters of fused loops take two fifths of the compilation time. Later releases have no others.
# Splitting a small program for several LLVM threads takes another third.
if jax.__version_info__ < (0, 11):
    faster = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {faster}".strip()

ROOT = Path(__file__).parent.parent
SHARED = Path(os.environ.get("FOURIER_ATTN_DATA", ROOT.parent / "shared" / "data"))

# Options of a small network on a table of one's own, which --config.data.train names.
OWN_TABLE = (
    "--config=configs/fnet.py:files",
    "--config.train.epochs=1",
    "--config.data.length=16",
    "--config.data.buckets=()",
    "--config.data.tokenizer=words",
    "--config.model.positions=16",
    "--config.model.depth=1",
    "--config.model.d=8",
    "--config.model.mlp=16",
)


def normal(*shape: int, seed: int = 0) -> jax.Array:
    """Returns standard normal numbers from NumPy, because JAX would compile a program for every shape."""
    return array(np.random.default_rng(seed).standard_normal(shape), np.float32)


def array(values: ArrayLike, dtype: DTypeLike | None = None) -> jax.Array:
    """Returns an array on the device. `jnp.asarray` would compile a program for every shape, in 10 ms."""
    return jax.device_put(np.asarray(values, dtype))


def drawn(module: nn.Module, *inputs: jax.Array, **options: jax.Array) -> dict:
    """Returns random variables for a module, with the scale of the initial ones.

    Use it in tests of the forward pass. Compiling the initializers takes longer than compiling the module.

    Args:
      module: the Flax module.
      inputs: the positional arguments of its call.
      options: the keyword arguments of its call.
    """
    shapes = jax.eval_shape(module.init, jax.random.key(0), *inputs, **options)
    random = np.random.default_rng(0)

    def draw(path: tuple[jax.tree_util.DictKey, ...], leaf: jax.ShapeDtypeStruct) -> jax.Array:
        spread = leaf.shape[0] ** -0.5 if leaf.ndim > 1 else 0.3
        centre = 1 if path[-1].key == "scale" else 0
        return array(centre + spread * random.standard_normal(leaf.shape), leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def pytest_collection_finish() -> None:
    """Excludes modules and test cases from garbage collection, because they live until the end."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Shares compiled programs among the workers and the commands that tests start."""
    where = str(tmp_path_factory.getbasetemp().parent / "compiled")
    for name, value in (("compilation_cache_dir", where), ("persistent_cache_min_compile_time_secs", 0.0)):
        jax.config.update(f"jax_{name}", value)
        os.environ[f"JAX_{name.upper()}"] = str(value)


@pytest.fixture(scope="session", autouse=True)
def no_pictures() -> Iterator[None]:
    """Replaces figures by empty files, because drawing takes half of the time of a toy run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_run, "plot_curves", lambda workdir, *_: (workdir / "curves.png").touch())
        patch.setattr(report, "plot_confusion", lambda path, *_: path.touch())
        yield


@pytest.fixture(scope="module", autouse=True)
def forget_programs() -> Iterator[None]:
    """Clears compiled programs after each module, because all of them would fill the memory."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns a TFDS data directory with the synthetic reviews."""
    where = str(tmp_path_factory.mktemp("tfds"))
    reviews.builder(where).download_and_prepare()
    return where


@pytest.fixture(scope="session")
def few_reviews(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns a TFDS data directory with few synthetic reviews, for tests that ignore the accuracy."""
    where = str(tmp_path_factory.mktemp("few"))
    with pytest.MonkeyPatch.context() as patch:
        sizes = {"train": 200, "validation": 64, "test": 200}
        patch.setattr(reviews.SyntheticReviews, "sizes", sizes)
        reviews.builder(where).download_and_prepare()
    return where


@pytest.fixture(scope="session")
def few_shapes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns a TFDS data directory with few images of shapes."""
    where = str(tmp_path_factory.mktemp("shapes"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "SPLITS", {"train": 160, "validation": 16, "test": 20})
        shapes.builder(where).download_and_prepare()
    return where


@pytest.fixture(scope="session")
def shapes_picture(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns the file of one image of shapes."""
    path = tmp_path_factory.mktemp("files") / "shapes.png"
    Image.fromarray(next(shapes.examples("test", 1)).image).save(path)
    return str(path)


@pytest.fixture(scope="session")
def sentencepiece_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a small SentencePiece BPE model with FNet's special token ids."""
    import sentencepiece

    texts = [
        f"The cats  saw<br />{a} dogs,\nand {b} ran." for a in ("red", "blue", "old") for b in ("one", "two")
    ]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 5),
        model_writer=model,
        vocab_size=60,
        model_type="bpe",
        pad_id=3,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path = tmp_path_factory.mktemp("spm") / "vocab.model"
    path.write_bytes(model.getvalue())
    return path


@pytest.fixture
def standard_promotion() -> Iterator[None]:
    """Allows dtype promotion, which Optax's bias correction and Flax's normalisation in bfloat16 need."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def optimised() -> Iterator[None]:
    """Compiles programs with all optimisations, as for users."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def toy(few_reviews: str) -> ConfigDict:
    """Returns a configuration for a run of a few seconds: 96 reviews, 3 epochs of 6 steps, 1 block."""
    return shrink(config.default(), few_reviews)


@pytest.fixture
def stopped_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[ConfigDict, Path, int], None]:
    """Returns a function that trains a run up to a step, and then sends it SIGTERM."""

    def stop(c: ConfigDict, where: Path, step: int) -> None:
        poll = training_run.Run.poll

        def interrupt(run: training_run.Run) -> None:
            if getattr(run, "step", None) == step:
                os.kill(os.getpid(), signal.SIGTERM)
            poll(run)

        with monkeypatch.context() as patch:
            patch.setattr(training_run.Run, "poll", interrupt)
            with pytest.raises(signals.Interrupted):
                train.run(c, where)
        assert int(final_state(where).step) == step

    return stop


@pytest.fixture(scope="session")
def toy_run(few_reviews: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the directory of a finished run of `toy`. Tests must not change it."""
    where = tmp_path_factory.mktemp("toy_run")
    with jax.numpy_dtype_promotion("standard"):
        train.run(shrink(config.default(), few_reviews), where)
    return where


def shrink(c: ConfigDict, data_dir: str) -> ConfigDict:
    """Reduces a configuration to toy size and returns it.

    Args:
      c: the configuration, which is changed.
      data_dir: a TFDS data directory with the synthetic reviews.
    """
    c.data.dir, c.data.task, c.data.train_examples, c.data.batch = data_dir, "reviews", 96, 16
    c.data.length, c.data.buckets, c.model.positions = 48, (), 48
    c.model.depth, c.model.d, c.model.mlp = 1, 8, 16
    if "length" in c.model.mixer:
        c.model.mixer.length = 48
    if c.model.mixer.get("shape"):
        c.model.mixer.shape, c.model.mixer.kernel = (4, 2), c.model.mixer.kernel and (3, 1)
    if c.model.mixer.get("engine"):
        c.model.mixer.engine.shape = (4, 4)
        if "heads" in c.model.mixer:
            c.model.mixer.heads = 1
    c.train.epochs, c.train.log_every, c.train.save_every = 3, 2, 4
    return c


def configuration(name: str, argument: str) -> ConfigDict:
    """Returns the configuration of a file in configs for an argument."""
    return importlib.import_module(f"configs.{name}").get_config(argument)


def small_family(c: ConfigDict) -> ConfigDict:
    """Reduces a configuration of the FNet family to toy size, one block of width 16, and returns it."""
    c.model.update({"depth": 1, "d": 16, "emb": 12, "mlp": 24, "positions": 40, "layout": ()})
    c.data.length, c.data.buckets, c.data.batch, c.data.vocab = 40, (), 8, 60
    c.optim.warmup_steps, c.optim.learning_rate = 2, 3e-3
    c.train.log_every, c.train.save_every = 2, 4
    return config.fit_length(c)


@pytest.fixture(autouse=True)
def signals_are_left_alone() -> Iterator[None]:
    """Checks that a test restores signal handlers.

    Another action for SIGPIPE would end the process in a later test, when a socket is closed.
    """
    watched = (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(each) for each in watched]
    yield
    assert [signal.getsignal(each) for each in watched] == before


def run_here(program: ModuleType, *words: str, arguments: bool = False) -> tuple[int, str, str]:
    """Runs a command in this process, because a new process would need seconds for its imports.

    Args:
      program: the module of the command.
      words: its arguments.
      arguments: whether the command accepts arguments that are not flags.
    Returns: the exit code, the standard output and the standard error.
    """
    out, err = io.StringIO(), io.StringIO()
    app.define_help_flags()
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(sys, "argv", [program.__name__, *words])
        for manager in (
            contextlib.chdir(ROOT),
            jax.numpy_dtype_promotion("standard"),
            flagsaver.flagsaver(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            stack.enter_context(manager)
        getattr(program, "define_flags", lambda: None)()
        code = command.run(program.main, arguments=arguments)
    return code, out.getvalue(), err.getvalue()


def on_devices(*words: str, devices: int = 8) -> str:
    """Runs Python in a process with virtual CPU devices, whose number JAX reads when it starts.

    Args:
      words: arguments of Python, for example a test file that is a program, too.
      devices: number of devices.
    Returns: the last line of the output.
    """
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    }
    done = subprocess.run(
        [sys.executable, *words], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def final_state(directory: Path) -> State:
    """Returns the state in the newest checkpoint of a run."""
    c = config_file.load(directory)
    objective = OBJECTIVES[c.model.head]
    network = model.build(c.model)
    init = make_init(network, build_optimizer(c.optim), objective, model.example(c.model), c.train.seeds)
    checkpoints = Checkpoints(directory, read_only=True)
    found = checkpoints.restore(jax.eval_shape(init, make_keys(c.seed, c.train.seeds)[0], {}))
    checkpoints.close()
    return found[1]


def numbers(directory: Path) -> list[dict]:
    """Returns the metrics of a run without timings and memory, which differ between processes."""
    varying = ("examples_per_s", "data_wait", "seconds", "memory_gib")
    return [{k: v for k, v in line.items() if k not in varying} for line in read_lines(directory)]


def assert_same_run(a: Path, b: Path) -> None:
    """Checks that two finished runs are bitwise identical."""
    jax.tree.map(np.testing.assert_array_equal, final_state(a), final_state(b))
    assert numbers(a) == numbers(b)
    assert (a / "predictions.jsonl").read_text() == (b / "predictions.jsonl").read_text()
