"""Parts 2 and 3 of `benchmarks.gpu`: training steps, a killed run, and whole runs."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import aot
from benchmarks.timing import Case, Row, milliseconds
from fourier_attn import config, model
from fourier_attn.config import Config
from fourier_attn.data.expected import expected_batch
from fourier_attn.studies import collect, runs
from fourier_attn.studies.side_by_side import interleave
from fourier_attn.train.init_from import restore_state
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.step import make_init, make_keys
from fourier_attn.train.target.step import training_step

# Architecture, and the implementation of attention without dropout of its weights; None: with dropout.
# Encoders are measured in this order, one length after the other. So a run that is cut off has compared FNet
# with the fastest attention.
ENCODERS = {
    "fnet": ("fnet", None),
    "bert, cudnn": ("bert", "cudnn"),
    "hybrid": ("hybrid", None),
    "lambda": ("lambda", None),
    "bert, xla": ("bert", "xla"),
    "circular": ("circular", None),
    "bert, xla, dropout": ("bert", None),
}
STEPS = ((32, 512), (2, 8192), (8, 2048))  # batch size and tokens, the extreme ones first
REPEATABLE = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
KILLED = "skills:conv_attention-recall"
RUNS = (
    *(f"skills:{name}-recall" for name in ("conv_attention", "attention", "circular", "lambda", "fourier")),
    *(f"imdb_articles:{name}-listing" for name in ("lambda", "attention", "circular-1d", "fnet")),
)
SPLITS = {"train": 256, "eval": 64, "test": 64}  # examples
SHORT = (*(f"--config.data.{name}_examples={n}" for name, n in SPLITS.items()), "--config.train.epochs=2")


def step_cases(tiny: bool) -> Iterator[Case]:
    """Yields a run that is killed and resumed, and training steps; with `tiny` a few small ones."""
    for flags in ("",) if tiny else ("", REPEATABLE):
        facts = {"part": "resume", "what": KILLED, "flags": flags}
        yield facts, partial(resume, SHORT if tiny else (), flags)
    for b, t in ((2, 16),) if tiny else STEPS:
        for what in ("lambda",) if tiny else ENCODERS:
            facts = {"part": "step", "what": what, "batch": b, "t": t}
            yield facts, partial(alone, what, b, t, tiny)


def alone(*arguments: Any) -> list[Row]:
    """Returns `step_row(*arguments)` of a process of its own, because a device keeps its peak of memory."""
    program = (
        f"import json; from benchmarks.gpu_training import step_row; print(json.dumps(step_row{arguments}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode:  # such as a lack of memory
        return [{"why": " ".join(done.stderr.splitlines()[-1:])[:200]}]
    return [json.loads(done.stdout.splitlines()[-1])]


def step_row(what: str, b: int, t: int, tiny: bool) -> Row:
    """Measures a training step: its time, its peak memory, and the memory that the compiler predicts.

    Args:
      what: a key of `ENCODERS`.
      b, t: batch size and tokens.
      tiny: whether to use an encoder of one block and size tiny.
    """
    name, implementation = ENCODERS[what]
    c = aot.encoder(name, 1 if tiny else 12, b, t, "tiny" if tiny else "base")
    if implementation:
        c.model.mixer.implementation, c.model.mixer.dropout = implementation, 0.0
    c = config.fitted_without_data(c)
    step = training_step(c)
    program = step.function.trace(*step.arguments).lower().compile()
    memory: Any = program.memory_analysis()  # None for some programs of a compilation cache
    predicted = memory and (
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
        + memory.temp_size_in_bytes
    )
    network, optimizer = model.build(c.model), build_optimizer(c.optim)
    first, key = make_keys(0, 1)
    init = make_init(network, optimizer, OBJECTIVES[c.model.head], model.example(c.model))
    state, batch = init(first), random_batch(c)

    def side() -> jax.Array:
        nonlocal state
        state = program(state, batch, key)
        return state.step + 0  # a copy, because the next call donates the state

    seconds = interleave({"": side}, rounds=2 if tiny else 10, calls=2 if tiny else 5)[""]
    row = milliseconds(seconds) | {"tokens_per_s": round(b * t / statistics.median(seconds))}
    peak = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    megabytes = {"predicted_mb": predicted, "peak_mb": peak}
    return row | {name: None if n is None else round(n / 1e6, 1) for name, n in megabytes.items()}


def random_batch(c: Config) -> dict[str, jax.Array]:
    """Returns a batch of random tokens, in which all examples have the full length."""
    random, batch = np.random.default_rng(0), {}
    last = {"inputs": c.model.vocab, "mlm_labels": c.model.vocab, "answer_positions": c.data.length}
    for name, (shape, dtype) in expected_batch(c.data, c.model).items():
        values = np.ones((c.data.batch, *shape))
        values = random.integers(0, last.get(name, 2), values.shape) if dtype.kind == "i" else values
        batch[name] = jnp.asarray(values.astype(dtype))
    return batch


def training(
    name: str, directory: Path, options: tuple[str, ...], flags: str = ""
) -> subprocess.Popen[bytes]:
    """Starts or resumes a run.

    Args:
      name: the configuration.
      directory: directory of the run.
      options: further words of the command line.
      flags: XLA's flags in addition to those of this process.
    """
    words = [
        sys.executable,
        "-m",
        "fourier_attn.main",
        f"--config={name}",
        f"--workdir={directory}",
        *options,
    ]
    flags = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    return subprocess.Popen(words, env=os.environ | {"XLA_FLAGS": flags}, stdout=subprocess.DEVNULL)


def resume(options: tuple[str, ...], flags: str) -> list[Row]:
    """Returns whether a killed and resumed run ends with exactly the parameters of an unbroken one.

    Args:
      options: options of the runs.
      flags: XLA's flags.
    """
    options = (*options, "--config.train.save_every=2", "--config.train.log_every=1")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        unbroken, killed = Path(folder) / "unbroken", Path(folder) / "killed"
        codes = [training(KILLED, unbroken, options, flags).wait()]
        first = training(KILLED, killed, options, flags)
        while first.poll() is None and not any(line["step"] >= 4 for line in read_lines(killed)):
            time.sleep(0.01)
        first.kill()
        codes += [first.wait(), training(KILLED, killed, options, flags).wait()]
        if codes[0] or codes[2]:
            return [{"why": f"exit codes {codes}"}]
        states = [restore_state(path, on_device=False)[3] for path in (unbroken, killed)]
    digests = [runs.weights_digest(state.params) for state in states]
    return [{"killed": codes[1] < 0, "same_bits": digests[0] == digests[1], "digest": digests[0]}]


def run_cases(tiny: bool, folder: Path, data: Path | None) -> Iterator[Case]:
    """Yields runs of recall, and of the articles' networks with their own recipe.

    Args:
      tiny: whether to train one network on recall, briefly.
      folder: folder of the runs; unfinished ones are resumed.
      data: data directory with IMDb; None: TFDS's default.
    """
    for name in ("skills:fourier-recall",) if tiny else RUNS:
        options = SHORT if tiny else (f"--config.data.dir={data}",) if data and "imdb" in name else ()
        yield {"part": "run", "what": name}, partial(run_rows, name, folder, options)


def run_rows(name: str, folder: Path, options: tuple[str, ...]) -> Iterator[Row]:
    """Trains a configuration; yields each validation that it makes, and at last its results.

    Args:
      name: the configuration.
      folder: folder of the runs.
      options: further words of the command line.
    """
    directory, known = folder / name.replace(":", "-"), None
    process = training(name, directory, options)
    while process.poll() is None:
        last = next((line for line in reversed(read_lines(directory)) if line["split"] == "validation"), None)
        if last != known and last is not None:
            known = last
            yield {"finished": False, "epochs": last["epoch"], "validation": collect.measured(last)}
        time.sleep(0.2)
    if process.returncode:
        yield {"finished": False, "why": f"exit code {process.returncode}"}
        return
    row = collect.row(directory)
    names = ("epochs", "seconds", "parameters", "metric", "test", "validation")
    yield {"finished": True} | {name: row[name] for name in names}
