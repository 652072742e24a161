"""The one loop: epochs of training steps, validation, checkpoints, and the test set once at the end."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from fourier_attn import config as configuration
from fourier_attn import data, model
from fourier_attn.data.batches import Split, prefetch
from fourier_attn.train import init_from, memory, metrics
from fourier_attn.train.clock import Clock
from fourier_attn.train.distributed import processes, sharding
from fourier_attn.train.distributed.signals import Interrupted, SharedStopSignals, StopSignals
from fourier_attn.train.evaluate import (
    accuracy_without,
    compute_metrics,
    evaluate_split,
    reasons,
    show,
    summary,
    write_predictions,
)
from fourier_attn.train.introduction import introduction
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer, build_schedule, updates_made
from fourier_attn.train.progress import Progress
from fourier_attn.train.ranges import BATCHES, Watcher
from fourier_attn.train.rundir import config_file, fingerprints
from fourier_attn.train.rundir.checkpoint import CheckpointId, Checkpoints, checkpoint_ids
from fourier_attn.train.rundir.curves import plot_curves
from fourier_attn.train.rundir.metrics_log import Writer, read_lines
from fourier_attn.train.step import (
    State,
    close_epoch,
    earlier_form,
    make_eval_step,
    make_init,
    make_keys,
    make_train_step,
    roll_back,
)


class Diverged(Exception):
    """Updates were not finite again after the run had gone back to an earlier state."""


class Run:
    """One run in its directory: data, network, state. `finish` does the work."""

    def __init__(
        self,
        start: init_from.InitialWeights,
        directory: Path,
        stop: StopSignals,
        allow_drift: Iterable[str] = (),
    ):
        config = start.config
        self.directory, self.lead = directory, processes.is_primary()
        self.start, self.notes = time.perf_counter(), start.notes
        self.placement = sharding.place(config.train, config.data.batch)
        self.stop = SharedStopSignals(stop, self.placement)
        name = f"{data.source(config.data)} ({config.data.task})"
        tqdm.write(f"data        {name}: reading ...")
        self.data = processes.primary_first(
            lambda: data.load(
                config.data,
                directory=directory,
                seed=config.seed,
                epochs=config.train.epochs,
                tokenizer=start.tokenizer,
                say=lambda line: tqdm.write(f"            {line}"),
            )
        )
        self.stop.poll()
        self.config = configuration.fitted(config, self.data)
        self.task = data.task_of(self.config.data)
        self.fingerprints = {
            **self.data.fingerprints(),
            "device": fingerprints.device_fingerprint(self.config),
            "code": fingerprints.code_fingerprint(),
            "settings": fingerprints.settings_fingerprint(),
        }
        first = processes.broadcast(lambda: self.fingerprints)
        processes.barrier(lambda: fingerprints.check_same(first, self.fingerprints))
        self.network, self.optimizer = model.build(self.config.model), build_optimizer(self.config.optim)
        self.watcher = Watcher(self.network)
        self.objective = OBJECTIVES[self.task.head]
        self.best = self.task.metrics[0]
        self.seeds, self.per_epoch = config.train.seeds, self.data.train.steps_per_epoch
        self.skip_limit = min(config.train.skip_limit, self.per_epoch)  # an epoch for nothing is too much
        self.train_step = make_train_step(
            self.network,
            self.optimizer,
            self.objective,
            self.seeds,
            config.train.accumulate,
            self.skip_limit,
            self.placement,
        )
        self.eval_step = make_eval_step(self.network, self.objective, self.seeds, placement=self.placement)
        self.checkpoints = Checkpoints(directory)
        params = init_from.at_resolution(start.params, config.model, self.config.model)
        self.state, self.keys, name = self.begin(params, allow_drift)
        self.first = self.step = name.step
        self.validated = name.validated  # whether all validations up to this step are part of the state
        self.epochs_since_best = self.is_stale(self.state)
        self.writer = Writer(directory, self.step, self.validated) if self.lead else None
        # a step that is to be shown, what is ready when it has been made, and its sums
        self.latest: tuple[int, jax.Array, dict[str, jax.Array]] | None = None

    def begin(self, params: Any, allow_drift: Iterable[str]) -> tuple[State, jax.Array, CheckpointId]:
        """The state to go on with, the keys of dropout, and which state it is.

        The first state is on the disk before metrics.jsonl is: where there is this file and no checkpoint,
        something was lost.
        """
        init_keys, keys = make_keys(self.config.seed, self.seeds, self.placement)
        example = model.example(self.config.model)
        self.init = make_init(
            self.network, self.optimizer, self.objective, example, self.seeds, self.placement
        )
        # before a state is read, which other code may take for damaged
        differing = processes.barrier(lambda: self.drift(allow_drift))
        like = self.placement.abstract(jax.eval_shape(self.init, init_keys, {}))
        found = self.checkpoints.restore(like, earlier=earlier_form)
        if found:
            name, state = found
            if self.lead:
                at = (name.step, name.validated)
                fingerprints.note_drift(self.directory, differing, self.config, self.fingerprints, at)
            return self.judged_anew(self.patient(state, name.step), name), keys, name
        processes.barrier(self.check_new)
        state, _ = self.calibrated(self.init(init_keys, params or {}), 0)
        if self.lead:
            config_file.save(self.directory, self.config, self.fingerprints)
        self.checkpoints.save(CheckpointId(0), state)
        self.checkpoints.wait()
        return state, keys, CheckpointId(0)

    def patient(self, state: State, step: int) -> State:
        """The state of a run that had lost its patience and then got more epochs, with new patience."""
        extended = processes.broadcast(lambda: config_file.extended_at(self.directory)) == step
        return (
            state._replace(epochs_since_best=state.epochs_since_best * 0)
            if extended and self.is_stale(state)
            else state
        )

    def judged_anew(self, state: State, name: CheckpointId) -> State:
        """The state without a best score where that was of another validation, and there will be one more."""
        at = (name.step, name.validated)
        other = processes.broadcast(lambda: fingerprints.validated_differently(self.directory, at))
        if not other or (name.validated and name.step >= len(self.data.train)):
            return state
        return state._replace(
            best_score=jnp.minimum(state.best_score, -jnp.inf), epochs_since_best=state.epochs_since_best * 0
        )

    def calibrated(self, state: State, step: int) -> tuple[State, dict[str, float]]:
        """The state with ranges of converters from the latest batches, at first from those that come first.

        And the shares of conversions that the ranges before clip in these batches.
        """
        if not self.watcher.engines:
            return state, {}
        last = step or min(BATCHES, len(self.data.train))
        batches = [self.data.train[i] for i in range(max(last - BATCHES, 0), last)]
        params, rates = self.watcher.calibrate(state.params, batches, self.seeds)
        return state._replace(params=params), rates

    def drift(self, allowed: Iterable[str]) -> list[str]:
        """What is not as it was when the run began, if it has begun. Raises: ValueError."""
        begun = checkpoint_ids(self.directory)
        return fingerprints.check_drift(self.directory, self.fingerprints, allowed) if begun else []

    def check_new(self) -> None:
        """Checks that nothing says that there was a state. Raises: ValueError."""
        if (self.directory / "metrics.jsonl").exists():
            steps = max((line["step"] for line in read_lines(self.directory)), default=0)
            raise ValueError(
                f"workdir={self.directory} has metrics of {steps} steps and no checkpoint; put its folder "
                "checkpoints back, or begin anew in another workdir"
            )

    def finish(self) -> dict[str, Any]:
        """Trains to the end, or as far as a signal allows, then reads the test set."""
        try:
            self.introduce()
            self.train()
            result = self.test()
            if self.writer:
                self.writer.sync()
            tqdm.write(f"Everything is in {self.directory}\n{summary(result)}")
            return result
        except Interrupted:
            self.save(CheckpointId(self.step, self.validated, regular=False))
            self.checkpoints.wait()
            tqdm.write(f"Step {self.step} of {len(self.data.train)} is saved.")
            raise
        finally:
            self.close()

    def introduce(self) -> None:
        """Says what is about to happen."""
        about = (self.config, self.data, self.placement, self.parameters(), self.notes)
        for line in introduction(*about, self.directory, self.step):
            tqdm.write(line)

    def save(self, name: CheckpointId) -> None:
        """Starts to save the state, once the lines before it, which no run writes again, are on the disk."""
        if self.writer:
            self.writer.sync()
        self.checkpoints.save(name, self.state)

    def close(self) -> None:
        """Sees that everything is on the disk."""
        self.checkpoints.close()
        if self.writer:
            self.writer.close()

    def write(self, split: str, epoch: int | float, values: dict[str, Any]) -> None:
        """A line of metrics at this step."""
        if self.writer:
            self.writer.write(split, self.step, epoch, values)

    def seconds(self) -> float | None:
        """Since the start; None for a run that was resumed, of which it does not know them all."""
        return round(time.perf_counter() - self.start, 1) if self.first == 0 else None

    def parameters(self) -> int:
        """Of one network."""
        return sum(p.size for p in jax.tree.leaves(self.state.params)) // self.seeds

    def train(self) -> None:
        """Training steps until all epochs are done or validation stops getting better."""
        train = self.data.train
        self.clock = Clock(self.step)
        if not self.validated:
            self.close_epoch()
        batches, first = prefetch(train, self.step), True
        options: dict[str, Any] = {"unit": "step", "first": self.step, "leave": True, "say": tqdm.write}
        with Progress("train", len(train), self.config.data.batch, **options) as progress:
            while self.step < len(train) and not self.epochs_since_best:
                if first:
                    tqdm.write("compiling   the first steps take longer: a program for each padded length")
                    first = False
                with self.clock.waiting():
                    batch = next(batches)
                self.state = self.train_step(self.state, self.placement.shard_batch(batch), self.keys)
                self.step += 1
                self.validated = self.step % self.per_epoch != 0
                self.after_step(progress)
                self.stop.poll()  # after the step's line and save, or they would be missing on resume
        if self.step < len(train):
            tqdm.write(self.stopped_early())
        self.checkpoints.wait()  # the last state is on the disk before anything says that the run is done

    def after_step(self, progress: Progress) -> None:
        """Whatever is due at this step: the end of an epoch, a line of metrics, a checkpoint."""
        end, due = self.step % self.per_epoch == 0, self.step % self.config.train.log_every == 0
        self.show(progress, at_once=end or due)
        if end or due:
            self.look_after()
        if end:
            self.close_epoch()
            progress.resume(self.step)
            return
        if due:
            self.write("train", self.step / self.per_epoch, self.progress())
        if self.step % self.config.train.save_every == 0:
            self.save(CheckpointId(self.step, regular=self.sound()))

    def show(self, progress: Progress, at_once: bool) -> None:
        """Shows this step, or the one before: the devices compute this one while the next batch is read."""
        if at_once:
            jax.block_until_ready(self.state.step)
            progress.show(self.step, self.words(self.sums_here()))
        elif self.latest:
            step, done, sums = self.latest
            jax.block_until_ready(done)
            progress.show(step, self.words(sums))
        self.latest = None
        if not at_once and progress.due(self.step):
            # The next step takes the memory of this one's state.
            done = jnp.copy(self.state.step.addressable_data(0))
            self.latest = self.step, done, jax.tree.map(_copy, self.sums_here())

    def sums_here(self) -> dict[str, jax.Array]:
        """Returns the sums of the epoch so far, none where other processes hold a part of them.

        Progress is shown when a clock says so, and clocks differ: nothing may wait for another process here.
        """
        sums = {name: self.state.sums[name] for name in self.objective.names}
        here = all(each.is_fully_addressable or each.is_fully_replicated for each in sums.values())
        return sums if here else {}

    def words(self, sums: dict[str, jax.Array]) -> str:
        """Returns the metrics of sums in words."""
        means = metrics.mean(sharding.to_host(sums))
        return ", ".join(f"{name.replace('_', ' ')} {means[name]:.3f}" for name in sums)

    def stopped_early(self) -> str:
        """Returns the line that says why the run ends before its last epoch."""
        stale, scores = sharding.to_host((self.state.epochs_since_best, self.state.best_score))
        epochs = sorted({int(self.step // self.per_epoch - each) for each in np.atleast_1d(stale)})
        best = show({self.best: float(np.mean(scores))}, self.best)
        return (
            f"stopped     {self.best.replace('_', ' ')} on validation has not improved for "
            f"train.patience={self.config.train.patience} epochs: best {best} after epoch "
            f"{' and '.join(map(str, epochs))}"
        )

    def sound(self) -> bool:
        """Whether the last update was made; if not, the state is none to go back to."""
        return not np.max(sharding.to_host(self.state.skipped))

    def look_after(self) -> None:
        """Goes back once where too many updates in a row were not finite; stops the second time.

        Raises: Diverged.
        """
        counts = sharding.to_host(self.state.skipped)
        skipped = int(np.max(counts))
        if skipped < self.skip_limit:
            return
        what = f"{skipped} updates up to step {self.step} were not finite and were not made"
        lost = counts >= self.skip_limit
        if np.any(lost & (sharding.to_host(self.state.rollbacks) > 0)):
            raise Diverged(
                f"{what}, again after going back: the run has diverged; lower optim.learning_rate, set "
                "optim.clip_norm, or use model.dtype=float32, in another workdir"
            )

        def regular(name: CheckpointId) -> bool:
            """One that there would be without an interruption, too."""
            return name.validated and name.regular

        self.checkpoints.wait()
        found = self.checkpoints.restore(self.placement.abstract(self.state), regular)
        if found is None:
            raise Diverged(f"{what}, and there is no checkpoint to go back to")
        tqdm.write(f"note        {what}: going on from the state of step {found[0].step}, once")
        self.state = roll_back(self.state, found[1], lost, self.placement)
        self.save(CheckpointId(self.step, self.validated))

    def progress(self) -> dict[str, Any]:
        """Means over the epoch so far, the learning rate of the latest update, memory, how fast it goes."""
        means = metrics.mean(sharding.to_host(self.state.sums))
        made = max(int(np.max(sharding.to_host(updates_made(self.state.opt_state)))) - 1, 0)
        rate = np.asarray(build_schedule(self.config.optim)(made)).item()
        speed = self.clock.read(self.step, self.config.data.batch)
        return means | {"learning_rate": rate, "memory_gib": memory.used_gib()} | speed

    def close_epoch(self) -> None:
        """Validates, keeps the weights if they are the best so far, writes, plots and saves."""
        epoch = self.step // self.per_epoch
        train = self.progress()
        # a signal saves the state before, for which the same rates are found again
        state, rates = self.calibrated(self.state, self.step)
        train |= rates
        validation, answers = self.evaluate("validation", self.data.validation, state.params)
        why = reasons(self.task, validation, answers, self.data.validation.labels)
        score = validation[self.best] if self.seeds > 1 else validation[self.best][0]
        sums = sharding.to_host(self.state.sums)
        counted = {name: int(np.max(sums[name][..., 0])) for name in ("skipped", "spikes")}
        score = np.asarray(score, np.float32)
        self.state, self.validated = close_epoch(state, score, self.placement), True
        validation = metrics.over_seeds(validation) | why
        self.write("train", epoch, train)
        self.write("validation", epoch, validation)
        self.plot()
        self.epochs_since_best = self.is_stale(self.state)
        self.save(CheckpointId(self.step, regular=self.sound()))
        line = [f"{name.replace('_', ' ')} {show(train, name)}" for name in self.objective.names]
        names = dict.fromkeys((*self.objective.names, *self.task.metrics))
        held = [f"{name.replace('_', ' ')} {show(validation, name)}" for name in names]
        health = [f"{count} {name}" for name, count in counted.items() if count]
        tqdm.write(
            f"epoch {epoch:<4}  train {' '.join((*line, *health))}   validation {' '.join(held)}   "
            f"{time.perf_counter() - self.start:.0f} s"
        )
        self.clock = Clock(self.step)

    def plot(self) -> None:
        """Draws the curves so far."""
        if not self.lead:
            return
        chance = 1 / len(self.task.labels) if self.best == "accuracy" else None
        plot_curves(self.directory, self.best, chance)

    def is_stale(self, state: State) -> bool:
        """Whether no seed has improved for `patience` epochs."""
        patience = self.config.train.patience
        return bool(patience) and int(np.min(sharding.to_host(state.epochs_since_best))) >= patience

    def evaluate(self, title: str, batches: Split, params: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Metrics of a split, each with one value for each seed, and its answers."""
        total, answers = evaluate_split(
            self.eval_step, params, batches, self.stop.poll, title, self.placement.shard_batch, tqdm.write
        )
        return compute_metrics(self.task, total, answers, batches.labels), answers

    def test(self) -> dict[str, Any]:
        """Reads the test splits once, with the best weights; writes their metrics and every answer.

        Labels that are not public are -1; there are answers then, but no metrics.
        """
        epoch, found = self.step / self.per_epoch, {}
        for name, batches in {**self.data.extra_evals, "test": self.data.test}.items():
            tqdm.write(f"{name:<12}{len(batches.labels):,} examples, with the best weights ...")
            judged, answers = self.evaluate(name, batches, self.state.best_params)
            hidden = data.hidden(batches.labels)
            why = {} if hidden else reasons(self.task, judged, answers, batches.labels)
            found[name] = {} if hidden else metrics.over_seeds(judged) | why
            found[name]["examples"] = len(batches.labels)
            if name == "test" and self.data.in_train.any() and "accuracy" in found[name]:
                found[name] |= accuracy_without(self.data.in_train, answers, batches.labels)
            self.write_answers(name, answers, batches)
        facts = {"parameters": self.parameters(), "seconds": self.seconds()}
        found["test"] |= facts
        for name, values in found.items():
            self.write(name, epoch, values)
            if name != "test":
                tqdm.write(summary(values, name))
        self.plot()
        return {"split": "test", "step": self.step, "epoch": epoch, **found["test"]}

    def write_answers(self, name: str, answers: np.ndarray, batches: Split) -> None:
        """Every answer of a split, and of GLUE's test splits the file to hand in; none of pre-training."""
        if self.task.head == "pretraining" or not self.lead:
            return
        file = "predictions.jsonl" if name == "test" else f"predictions-{name}.jsonl"
        origins = self.data.origins.get(name)
        chosen = write_predictions(self.directory / file, self.task, answers, batches, origins)
        data.write_submission(self.config.data, self.data, name, chosen, self.directory)


def _copy(leaf: jax.Array) -> jax.Array:
    """A copy of what this process holds: no other one takes part."""
    return jnp.copy(leaf.addressable_data(0) if leaf.is_fully_replicated else leaf)
