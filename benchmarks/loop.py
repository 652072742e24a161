"""Times the training loop around the step: `python -m benchmarks.loop`.

Needs the prepared imdb_reviews and cifar10. Compares the loop with the bare jitted step on the same batches,
and length buckets with padding everything to 512 tokens. Measures waiting for data, recompilation, and
waiting for images that are flipped, cropped and mixed. `--data_dir=DIR` as in `data.prepare`.
"""

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import optax
from absl import flags

from benchmarks.timing import compare, report
from configs import fnet, mixer
from fourier_attn import command, data, model
from fourier_attn.data.batches import Batches
from fourier_attn.studies.side_by_side import interleave
from fourier_attn.train import loop as training
from fourier_attn.train import metrics
from fourier_attn.train.distributed.signals import StopSignals
from fourier_attn.train.init_from import InitialWeights
from fourier_attn.train.loop import train_epochs, validate
from fourier_attn.train.progress import Clock
from fourier_attn.train.rundir.checkpoint import CheckpointId
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.step import State, make_init, make_keys, model_inputs
from fourier_attn.train.training_run import Run

IMAGES = 3840  # of an epoch


class TimedValidation:
    """Validates after each epoch, and then runs the epoch's steps again, without the loop around them."""

    def __init__(self):
        self.loop, self.bare, self.waits, self.compilations = [], [], [], []
        self.saves, self.compiled = [], 0
        jax.monitoring.register_event_duration_secs_listener(self.count)

    def count(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        self.compiled += event.endswith("backend_compile_duration")

    def __call__(self, run: Run) -> None:
        jax.block_until_ready(run.state)
        self.loop.append(time.perf_counter() - run.clock.begin)
        self.waits.append(run.clock.waited / self.loop[-1])
        validate(run)
        self.compilations.append(self.compiled)
        run.checkpoints.wait()  # or it would write during the bare steps
        first = run.step - run.per_epoch
        batches = [run.placement.shard_batch(run.splits.train[i]) for i in range(first, run.step)]
        state = jax.tree.map(lambda x: x.copy(), run.state)
        jax.block_until_ready(state)
        begin = time.perf_counter()
        for batch in batches:
            state = run.train_step(state, batch, run.keys)
        jax.block_until_ready(state)
        self.bare.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        run.checkpoints.save(CheckpointId(run.step + 1_000_000), run.state)
        self.saves.append(time.perf_counter() - begin)
        run.checkpoints.wait()
        shutil.rmtree(run.checkpoints.directory / str(CheckpointId(run.step + 1_000_000)))
        run.clock, self.compiled = Clock(run.step), 0


def train_only(run: Run) -> None:
    """Trains a run without evaluating it on the test set."""
    run.set_up()
    run.restore_or_initialise()
    train_epochs(run)
    run.close()


def loop() -> tuple[list[dict[str, Any]], Run]:
    config = fnet.get_config("imdb")
    config.data.dir, config.data.train_examples = flags.FLAGS.data_dir, flags.FLAGS.examples
    config.train.epochs, config.train.patience = flags.FLAGS.epochs, 0
    with tempfile.TemporaryDirectory() as directory:
        run, timed = Run(InitialWeights(config), Path(directory), StopSignals()), TimedValidation()
        with mock.patch.object(training, "validate", timed):
            train_only(run)
    ratios = [a / b - 1 for a, b in zip(timed.loop[1:], timed.bare[1:], strict=True)]
    save_interval = config.train.save_every * statistics.median(timed.bare) / run.per_epoch
    rows = [
        percent(f"loop over bare step, {run.per_epoch} steps an epoch", ratios),
        percent("share of the loop's time spent waiting for data", timed.waits[1:]),
        {"what": "a checkpoint holds up the loop", "unit": "ms"}
        | {"value": round(1e3 * statistics.median(timed.saves))},
        percent(
            f"the same, share of its interval of {config.train.save_every} steps",
            [save / save_interval for save in timed.saves],
        ),
        {"what": "compilations after the first epoch", "unit": "", "value": sum(timed.compilations[1:])},
    ]
    return rows, run


def images(mix: str) -> list[dict[str, Any]]:
    """Measures how long the cheapest network on images waits for augmented ones."""
    config = mixer.get_config("identity-cifar10")
    config.data.dir, config.data.train_examples, config.data.mix = flags.FLAGS.data_dir, IMAGES, mix
    config.data.eval_examples = config.data.test_examples = 128
    config.train.epochs = flags.FLAGS.epochs
    with tempfile.TemporaryDirectory() as directory:
        train_only(Run(InitialWeights(config), Path(directory), StopSignals()))
        lines = [line for line in read_lines(Path(directory)) if line["split"] == "train"]
    waits = [line["data_wait"] for line in lines if line["epoch"] > 1]
    return [percent(f"the same of images, flipped, cropped and mixed ({mix}), mixer identity", waits)]


def percent(what: str, shares: list[float]) -> dict[str, Any]:
    values = {"value": statistics.median(shares), "lowest": min(shares), "highest": max(shares)}
    return {"what": what, "unit": "%"} | {name: round(100 * share, 2) for name, share in values.items()}


def buckets(run: Run) -> list[dict[str, Any]]:
    """Times a pass over the same examples in length buckets, and padded to the full length."""
    train, config = run.splits.train, run.config
    init_key, key = make_keys(0, 1)
    state = make_init(run.network, run.optimizer, run.objective, model.example(config.model))(init_key)

    def one_pass(lengths: tuple[int, ...]) -> Callable[[], Any]:
        batches = Batches(train.rows, train.labels, buckets=lengths, batch=config.data.batch, seed=0)
        ready = [run.placement.shard_batch(batches[i]) for i in range(len(batches))]

        def go() -> Any:
            now = jax.tree.map(lambda x: x.copy(), state)
            for batch in ready:
                now = run.train_step(now, batch, key)
            return now

        return go

    bucketed = data.padded_lengths(config.data)
    seconds = interleave({"buckets": one_pass(bucketed), "padded": one_pass((config.data.length,))}, rounds=3)
    result = compare(seconds, "buckets", "padded")
    what = f"an epoch in buckets {bucketed} against padding to {config.data.length}"
    row = {"what": what, "unit": "times faster", "value": result["times_faster"]}
    return [row | {"lowest": result["lowest"], "highest": result["highest"]}]


def watch(run: Run) -> list[dict[str, Any]]:
    """Times the step of the loop against one without the check for finite updates, on the same batch."""
    (init_key, key), objective = make_keys(0, 1), run.objective
    batch = run.placement.shard_batch(run.splits.train[0])
    init = make_init(run.network, run.optimizer, objective, model.example(run.config.model))

    def loss(params: Any, batch: Any, key: Any) -> tuple[Any, Any]:
        draws = {"dropout": key, "noise": jax.random.fold_in(key, 0)}
        inputs, others = batch["inputs"], model_inputs(batch)
        outputs = run.network.apply({"params": params}, inputs, **others, train=True, rngs=draws)
        sums = objective.sums(outputs, batch)
        return objective.loss(sums, objective.counts(batch)), sums

    def plain(state: State, batch: Any, key: Any) -> State:
        key = jax.random.fold_in(key, state.step)
        grads, total = jax.grad(loss, has_aux=True)(state.params, batch, key)
        updates, opt_state = run.optimizer.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        sums = {**state.sums, **metrics.add({name: state.sums[name] for name in total}, total)}
        return state._replace(step=state.step + 1, params=params, opt_state=opt_state, sums=sums)

    states = {"watched": init(init_key), "plain": init(init_key)}
    steps = {"watched": run.train_step, "plain": jax.jit(plain, donate_argnums=0)}

    def side(name: str) -> Callable[[], Any]:
        def go() -> Any:
            states[name] = steps[name](states[name], batch, key)
            return states[name].step

        return go

    seconds = interleave({name: side(name) for name in steps}, rounds=101)
    shares = [a / b - 1 for a, b in zip(seconds["watched"], seconds["plain"], strict=True)]
    middle = sorted(shares)[len(shares) // 4 : -len(shares) // 4]
    b, t = batch["inputs"].shape
    return [percent(f"the watch over updates, of a step at {b} x {t} tokens; range: middle half", middle)]


def define_flags() -> None:
    flags.DEFINE_string("data_dir", "", "directory of TFDS data sets; default: that of TFDS")
    flags.DEFINE_integer("examples", 960, "training examples per epoch")
    flags.DEFINE_integer("epochs", 5, "epochs; the first, which compiles, is not counted")


def main() -> None:
    rows, run = loop()
    report("loop", rows[:2] + images("cutmix") + images("mixup") + rows[2:] + buckets(run) + watch(run))


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
