"""Strict JAX, toy runs, and the data the tests train on."""

import contextlib
import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import flax.linen as nn
import jax
import numpy as np
import pytest
import type_checks as type_checks  # before the modules that it checks
from absl import app
from absl.testing import flagsaver
from ml_collections import ConfigDict
from numpy.typing import ArrayLike, DTypeLike
from PIL import Image

from fourier_attn import command, config, model, train
from fourier_attn.data.sources import reviews, shapes
from fourier_attn.train import loop, report
from fourier_attn.train.distributed import signals
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.rundir import config_file
from fourier_attn.train.rundir.checkpoint import Checkpoints
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.step import State, make_init, make_keys

# Background jobs of a shell start with SIGINT ignored, and so would the runs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Tracing makes many short-lived objects, and JAX lets XLA collect at each pass: a fifth of a test's time.
gc.set_threshold(50_000, 20, 10)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
# XLA's optimisations take longer than these small programs save.
# Commands, sharding and the synthetic reviews run with them.
jax.config.update("jax_disable_most_optimizations", True)
# So do its emitters of fused loops, which take two fifths of a compilation; later releases have no others.
# To split a small program into parts for several threads of LLVM takes another third.
if jax.__version_info__ < (0, 11):
    faster = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {faster}".strip()

ROOT = Path(__file__).parent.parent
SHARED = Path(os.environ.get("FOURIER_ATTN_DATA", ROOT.parent / "shared" / "data"))


def normal(*shape: int, seed: int = 0) -> jax.Array:
    """Standard normal numbers; NumPy's, since JAX's would be compiled for every shape."""
    return array(np.random.default_rng(seed).standard_normal(shape), np.float32)


def array(values: ArrayLike, dtype: DTypeLike | None = None) -> jax.Array:
    """These values on the device; `jnp.asarray` would compile a program for every shape, in some 10 ms."""
    return jax.device_put(np.asarray(values, dtype))


def drawn(module: nn.Module, *inputs: jax.Array, **options: jax.Array) -> dict:
    """Variables for a module, all of them random, of the size that initial ones have.

    For tests of what a module computes: to compile its initialisers takes longer than to compile the module.
    """
    shapes = jax.eval_shape(module.init, jax.random.key(0), *inputs, **options)
    random = np.random.default_rng(0)

    def draw(path: tuple[jax.tree_util.DictKey, ...], leaf: jax.ShapeDtypeStruct) -> jax.Array:
        spread = leaf.shape[0] ** -0.5 if leaf.ndim > 1 else 0.3
        centre = 1 if path[-1].key == "scale" else 0
        return array(centre + spread * random.standard_normal(leaf.shape), leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def pytest_collection_finish() -> None:
    """Modules and cases stay to the end, so the collector need not visit them."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What one worker or one command has compiled, the others take over."""
    where = str(tmp_path_factory.getbasetemp().parent / "compiled")
    for name, value in (("compilation_cache_dir", where), ("persistent_cache_min_compile_time_secs", 0.0)):
        jax.config.update(f"jax_{name}", value)
        os.environ[f"JAX_{name.upper()}"] = str(value)


@pytest.fixture(scope="session", autouse=True)
def no_pictures() -> Iterator[None]:
    """Runs draw empty curves: half of what a toy run costs is its picture after each epoch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "plot_curves", lambda workdir, *_: (workdir / "curves.png").touch())
        patch.setattr(report, "plot_confusion", lambda path, *_: path.touch())
        yield


@pytest.fixture(scope="module", autouse=True)
def forget_programs() -> Iterator[None]:
    """Compiled programs of a whole suite would fill the memory."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A TFDS data directory that holds the synthetic reviews."""
    where = str(tmp_path_factory.mktemp("tfds"))
    reviews.builder(where).download_and_prepare()
    return where


@pytest.fixture(scope="session")
def few_reviews(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A TFDS data directory with few synthetic reviews, for runs of which only the mechanics are tested."""
    where = str(tmp_path_factory.mktemp("few"))
    with pytest.MonkeyPatch.context() as patch:
        sizes = {"train": 200, "validation": 64, "test": 200}
        patch.setattr(reviews.SyntheticReviews, "sizes", sizes)
        reviews.builder(where).download_and_prepare()
    return where


@pytest.fixture(scope="session")
def few_shapes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A TFDS data directory with few shapes."""
    where = str(tmp_path_factory.mktemp("shapes"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "SPLITS", {"train": 160, "validation": 16, "test": 20})
        shapes.builder(where).download_and_prepare()
    return where


@pytest.fixture(scope="session")
def shapes_picture(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of an image of shapes."""
    path = tmp_path_factory.mktemp("files") / "shapes.png"
    Image.fromarray(next(shapes.examples("test", 1)).image).save(path)
    return str(path)


@pytest.fixture(scope="session")
def sentencepiece_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small SentencePiece model with FNet's special ids, in BPE as FNet's own."""
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
    """Optax's bias correction and Flax's normalisation in bfloat16 mix dtypes; strict promotion refuses."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def optimised() -> Iterator[None]:
    """Programs as users run them."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def toy(few_reviews: str) -> ConfigDict:
    """A run of a few seconds: 96 reviews, 3 epochs of 6 steps, a network of 1 block."""
    return shrink(config.default(), few_reviews)


@pytest.fixture
def stopped_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[ConfigDict, Path, int], None]:
    """Trains a run up to a step, at which it gets a signal."""

    def stop(c: ConfigDict, where: Path, step: int) -> None:
        poll = loop.Run.poll

        def interrupt(run: loop.Run) -> None:
            if getattr(run, "step", None) == step:
                os.kill(os.getpid(), signal.SIGTERM)
            poll(run)

        with monkeypatch.context() as patch:
            patch.setattr(loop.Run, "poll", interrupt)
            with pytest.raises(signals.Interrupted):
                train.run(c, where)
        assert int(final_state(where).step) == step

    return stop


@pytest.fixture(scope="session")
def toy_run(few_reviews: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished run of `toy`, to be read, not to be changed."""
    where = tmp_path_factory.mktemp("toy_run")
    with jax.numpy_dtype_promotion("standard"):
        train.run(shrink(config.default(), few_reviews), where)
    return where


def shrink(c: ConfigDict, data_dir: str) -> ConfigDict:
    """Makes a configuration toy-sized."""
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
    """That of a file in configs."""
    return importlib.import_module(f"configs.{name}").get_config(argument)


def small_family(c: ConfigDict) -> ConfigDict:
    """A member of the FNet family in a toy size: one block of width 16."""
    c.model.update({"depth": 1, "d": 16, "emb": 12, "mlp": 24, "positions": 40, "layout": ()})
    c.data.length, c.data.buckets, c.data.batch, c.data.vocab = 40, (), 8, 60
    c.optim.warmup_steps, c.optim.learning_rate = 2, 3e-3
    c.train.log_every, c.train.save_every = 2, 4
    return config.fit_length(c)


@pytest.fixture(autouse=True)
def signals_are_left_alone() -> Iterator[None]:
    """With another action for SIGPIPE a closed socket would end the process, in whichever test comes next."""
    watched = (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(each) for each in watched]
    yield
    assert [signal.getsignal(each) for each in watched] == before


def run_here(program: ModuleType, *words: str, arguments: bool = False) -> tuple[int, str, str]:
    """Runs a command in this process, with flags of its own: exit code, standard output, standard error.

    A process of its own would be some seconds of imports.
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


def final_state(directory: Path) -> State:
    """The newest checkpoint of a run."""
    c = config_file.load(directory)
    objective = OBJECTIVES[c.model.head]
    network = model.build(c.model)
    init = make_init(network, build_optimizer(c.optim), objective, model.example(c.model), c.train.seeds)
    checkpoints = Checkpoints(directory, read_only=True)
    found = checkpoints.restore(jax.eval_shape(init, make_keys(c.seed, c.train.seeds)[0], {}))
    checkpoints.close()
    return found[1]


def numbers(directory: Path) -> list[dict]:
    """What a run's metrics.jsonl says, without what another process has otherwise: timings, memory."""
    varying = ("examples_per_s", "data_wait", "seconds", "memory_gib")
    return [{k: v for k, v in line.items() if k not in varying} for line in read_lines(directory)]


def assert_same_run(a: Path, b: Path) -> None:
    """Checks that two finished runs are the same bit for bit."""
    jax.tree.map(np.testing.assert_array_equal, final_state(a), final_state(b))
    assert numbers(a) == numbers(b)
    assert (a / "predictions.jsonl").read_text() == (b / "predictions.jsonl").read_text()
