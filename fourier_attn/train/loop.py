"""The one loop: epochs of training steps, validation, checkpoints, and the test set once at the end."""

import contextlib
import hashlib
import json
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from tqdm import tqdm

from fourier_attn import config as configuration
from fourier_attn import data, model
from fourier_attn.config import Config
from fourier_attn.data.batches import Split, prefetch
from fourier_attn.train import init_from, memory, metrics, processes, sharding, workdir
from fourier_attn.train.checkpoint import Checkpoints, Name, names
from fourier_attn.train.clock import Clock
from fourier_attn.train.evaluate import (
    accuracy_without,
    compute_metrics,
    evaluate_split,
    show,
    summary,
    write_predictions,
)
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer, build_schedule
from fourier_attn.train.signals import Interrupted, StopSignals
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
from fourier_attn.train.writer import Writer, plot_curves, read_lines


class Diverged(Exception):
    """Updates were not finite again after the run had gone back to an earlier state."""


def run(config: Config, directory: str | Path, allow_drift: Iterable[str] = ()) -> dict[str, Any]:
    """Trains what the configuration describes and returns its metrics on the test set.

    The directory receives config.json, the tokenizer, metrics.jsonl, curves.png, predictions.jsonl, for GLUE
    the files to hand in, TensorBoard events and checkpoints. Where it holds an unfinished run of the same
    configuration, that run goes on, to the same result bit for bit; where it holds a finished one, nothing
    is done.

    Args:
      allow_drift: what may differ from the beginning of a run that goes on: "data", "tokenizer", "code".
    Raises:
      ValueError: for a configuration, a data set or a directory that cannot be used.
      Diverged: where updates are not finite, twice.
      Interrupted: after SIGTERM, SIGHUP or Ctrl-C; the state has been saved.
    """
    directory = Path(directory).resolve()

    def prepare() -> tuple[init_from.Start, dict[str, Any] | None]:
        check(config)
        start = init_from.load(config, directory)
        if start.config is not config:
            check(start.config)
        workdir.check(directory, start.config)
        return start, finished(directory)

    with contextlib.ExitStack() as stack:
        if not processes.lead():
            stack.enter_context(contextlib.redirect_stdout(None))
        start, done = processes.agree(prepare, same=f"workdir={directory} and {_hash(config)}")
        if done:
            tqdm.write(f"{directory} is finished. {summary(done)}")
            return done

        def take() -> None:
            if processes.lead():
                stack.enter_context(workdir.lock(directory))
                workdir.check(directory, start.config)  # another run may have come first
                workdir.clear(directory)

        processes.agree(take)
        stop = stack.enter_context(StopSignals())
        try:
            return Run(start, directory, stop, allow_drift).finish()
        except Interrupted:
            tqdm.write(f"Stopped. Give --workdir={directory} again to go on.")
            raise


def check(config: Config) -> None:
    """Checks a configuration without touching any data: every knob's range, and the memory it asks for.

    Raises: ValueError.
    """
    configuration.check(config)
    place(config)
    memory.check(config)


def place(config: Config) -> sharding.Placement:
    """Where the arrays of a run lie. Raises: ValueError."""
    rows = config.data.batch // config.train.accumulate
    return sharding.place(config.train.mesh, config.train.seeds, rows)


def _hash(config: Config) -> str:
    text = json.dumps(config.to_dict(), sort_keys=True, default=str)
    return f"config {hashlib.sha256(text.encode()).hexdigest()[:8]}"


def finished(directory: Path) -> dict[str, Any] | None:
    """The line with a finished run's metrics on the test set; None for a run that has to go on.

    A line alone does not say it: the state after the last step is there, sound, and so are all answers.
    """
    lines = read_lines(directory) if (directory / "config.json").exists() else []
    tests = [line for line in lines if line["split"] == "test"]
    saved = names(directory)
    if not tests or not saved or saved[0].step != tests[-1]["step"] or not saved[0].validated:
        return None
    line, settings = tests[-1], workdir.load(directory)
    task, answers = data.TASKS[settings.data.task], directory / "predictions.jsonl"
    known = set(line) & {"examples", *task.metrics, *OBJECTIVES[task.head].names}
    given = answers.read_bytes().count(b"\n") if answers.exists() else 0
    expected = line.get("examples", given)  # earlier versions did not say it
    if not known or (task.head != "pretraining" and (given != expected or not given)):
        return None
    try:
        _, _, name, state = init_from.restore_state(directory)
    except ValueError:  # none is sound: going on says so
        return None
    patience = settings.train.patience
    stopped = bool(patience) and int(np.min(state.stale)) >= patience
    ended = line["step"] == settings.optim.steps or stopped
    return line if name == saved[0] and ended else None


class Run:
    """One run in its directory: data, network, state. `finish` does the work."""

    def __init__(
        self, start: init_from.Start, directory: Path, stop: StopSignals, allow_drift: Iterable[str] = ()
    ):
        config = start.config
        self.directory, self.stop, self.task = directory, stop, data.TASKS[config.data.task]
        self.start, self.notes = time.perf_counter(), start.notes
        name = f"{self.task.dataset or ', '.join(config.data.corpora)} ({config.data.task})"
        tqdm.write(f"data        {name}: reading ...")
        self.lead, self.placement, self.stops = processes.lead(), place(config), deque[jax.Array]()
        self.data = processes.first(
            lambda: data.load(
                config.data,
                directory=directory,
                seed=config.seed,
                epochs=config.train.epochs,
                tokenizer=start.tokenizer,
            )
        )
        self.poll()
        self.config = configuration.fitted(config, self.data)
        self.fingerprints = {**self.data.fingerprints(), "code": workdir.code_fingerprint()}
        self.network, self.optimizer = model.build(self.config.model), build_optimizer(self.config.optim)
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
        self.state, self.keys, name = processes.agree(lambda: self.begin(start.params, allow_drift))
        self.first = self.step = name.step
        self.validated = name.validated  # whether all validations up to this step are part of the state
        self.stale = self.is_stale()
        self.writer = Writer(directory, self.step, self.validated) if self.lead else None

    def begin(self, params: Any, allow_drift: Iterable[str]) -> tuple[State, jax.Array, Name]:
        """The state to go on with, the keys of dropout, and which state it is.

        The first state is on the disk before metrics.jsonl is: where there is this file and no checkpoint,
        something was lost.
        """
        draw = jax.jit(make_keys, static_argnums=(0, 1), out_shardings=self.placement.keys)
        init_keys, keys = draw(self.config.seed, self.seeds)
        example = model.example(self.config.model)
        self.init = make_init(
            self.network, self.optimizer, self.objective, example, self.seeds, self.placement
        )
        differing = []
        if names(self.directory):  # before a state is read, which other code may take for damaged
            differing = workdir.check_drift(self.directory, self.fingerprints, allow_drift)
        like = self.placement.like(jax.eval_shape(self.init, init_keys, {}))
        found = self.checkpoints.restore(like, earlier=earlier_form)
        if found:
            if self.lead:
                workdir.note_drift(self.directory, differing)
            return found[1], keys, found[0]
        if (self.directory / "metrics.jsonl").exists():
            steps = max((line["step"] for line in read_lines(self.directory)), default=0)
            raise ValueError(
                f"workdir={self.directory} has metrics of {steps} steps and no checkpoint; put its folder "
                "checkpoints back, or begin anew in another workdir"
            )
        state = self.init(init_keys, params or {})
        if self.lead:
            workdir.save(self.directory, self.config, self.fingerprints)
        self.checkpoints.save(Name(0), state)
        self.checkpoints.wait()
        return state, keys, Name(0)

    def finish(self) -> dict[str, Any]:
        """Trains to the end, or as far as a signal allows, then reads the test set."""
        try:
            self.introduce()
            self.train()
            result = self.test()
            tqdm.write(f"Everything is in {self.directory}\n{summary(result)}")
            return result
        except Interrupted:
            self.checkpoints.save(Name(self.step, self.validated, regular=False), self.state)
            self.checkpoints.wait()
            tqdm.write(f"Step {self.step} of {len(self.data.train)} is saved.")
            raise
        finally:
            self.close()

    def close(self) -> None:
        """Sees that everything is on the disk."""
        self.checkpoints.close()
        if self.writer:
            self.writer.close()

    def introduce(self) -> None:
        """Says what is about to happen."""
        tqdm.write(f"            {self.data.describe()}")
        self.introduce_devices()
        tqdm.write(
            f"parameters  {self.parameters():,}" + (f" x {self.seeds} seeds" if self.seeds > 1 else "")
        )
        if self.config.init_from:
            tqdm.write(f"weights     {self.config.init_from}, whose architecture is used")
            for note in self.notes:
                tqdm.write(f"            {note}")
        if self.config.optim.warmup_steps >= len(self.data.train):
            tqdm.write(
                f"note        optim.warmup_steps={self.config.optim.warmup_steps} is the whole schedule of "
                f"{len(self.data.train)} steps: the learning rate never reaches its peak"
            )
        tqdm.write(
            f"workdir     {self.directory}" + (f", going on from step {self.step}" if self.step else "")
        )

    def introduce_devices(self) -> None:
        """How many there are, what they do, and which are not used."""
        device, count, used = jax.devices()[0], jax.device_count(), self.placement.mesh.devices.size
        shared = f" in {jax.process_count()} processes" if jax.process_count() > 1 else ""
        split = f"{used} devices{shared}: {self.placement}; " if used > 1 else ""
        tqdm.write(f"device      {split}{device.device_kind} ({device.platform})")
        if used < count:
            rows = self.config.data.batch // self.config.train.accumulate
            tqdm.write(
                f"note        {count - used} of {count} devices are not used: {rows} rows of a (micro-)batch "
                "do not divide by more; change data.batch"
            )

    def poll(self) -> None:
        """Raises Interrupted where a signal has come: to any process, in all of them at the same step."""
        if jax.process_count() == 1:
            self.stop.poll()
            return
        self.stops.append(self.placement.highest(self.stop.received))
        if len(self.stops) <= 2:  # read when it has long been there, so that nothing waits
            return
        if signum := int(self.stops.popleft()):
            raise Interrupted(signum)

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
        with tqdm(total=len(train), initial=self.step, unit="step", disable=None, dynamic_ncols=True) as bar:
            while self.step < len(train) and not self.stale:
                if first:
                    tqdm.write("compiling   the first steps take longer: a program for each padded length")
                    first = False
                with self.clock.waiting():
                    batch = next(batches)
                self.state = self.train_step(self.state, self.placement.put(batch), self.keys)
                self.step += 1
                self.validated = self.step % self.per_epoch != 0
                self.after_step(bar)
                self.poll()  # after the step's line and save, or they would be missing on resume
        self.checkpoints.wait()  # the last state is on the disk before anything says that the run is done

    def after_step(self, bar: tqdm) -> None:
        """Whatever is due at this step: the end of an epoch, a line of metrics, a checkpoint."""
        end, due = self.step % self.per_epoch == 0, self.step % self.config.train.log_every == 0
        if end or due:
            bar.update(self.step - bar.n)
            self.look_after()
        if end:
            self.close_epoch()
            return
        if due:
            values = self.progress()
            self.write("train", self.step / self.per_epoch, values)
            shown = {name: f"{values[name]:.3f}" for name in self.objective.names}
            bar.set_postfix(shown | {"examples_per_s": f"{values['examples_per_s']:.0f}"})
        if self.step % self.config.train.save_every == 0:
            self.checkpoints.save(Name(self.step, regular=self.sound()), self.state)

    def sound(self) -> bool:
        """Whether the last update was made; if not, the state is none to go back to."""
        return not np.max(sharding.fetch(self.state.skipped))

    def look_after(self) -> None:
        """Goes back once where too many updates in a row were not finite; stops the second time.

        Raises: Diverged.
        """
        counts = sharding.fetch(self.state.skipped)
        skipped = int(np.max(counts))
        if skipped < self.skip_limit:
            return
        what = f"{skipped} updates up to step {self.step} were not finite and were not made"
        lost = counts >= self.skip_limit
        if np.any(lost & (sharding.fetch(self.state.rollbacks) > 0)):
            raise Diverged(
                f"{what}, again after going back: the run has diverged; lower optim.learning_rate, set "
                "optim.clip_norm, or use model.dtype=float32, in another workdir"
            )

        def regular(name: Name) -> bool:
            """One that there would be without an interruption, too."""
            return name.validated and name.regular

        self.checkpoints.wait()
        found = self.checkpoints.restore(self.placement.like(self.state), regular)
        if found is None:
            raise Diverged(f"{what}, and there is no checkpoint to go back to")
        tqdm.write(f"note        {what}: going on from the state of step {found[0].step}, once")
        self.state = roll_back(self.state, found[1], lost, self.placement)
        self.checkpoints.save(Name(self.step, self.validated), self.state)

    def progress(self) -> dict[str, Any]:
        """Means over the epoch so far, the learning rate of the latest update, and how fast it goes."""
        means = metrics.mean(sharding.fetch(self.state.sums))
        count = optax.tree.get_all_with_path(self.state.opt_state, "count")[-1][1]
        made = max(int(np.max(sharding.fetch(count))) - 1, 0)
        rate = np.asarray(build_schedule(self.config.optim)(made)).item()
        return means | {"learning_rate": rate} | self.clock.read(self.step, self.config.data.batch)

    def close_epoch(self) -> None:
        """Validates, keeps the weights if they are the best so far, writes, plots and saves."""
        epoch = self.step // self.per_epoch
        train = self.progress()
        validation, _ = self.evaluate("validation", self.data.validation, self.state.params)
        score = validation[self.best] if self.seeds > 1 else validation[self.best][0]
        sums = sharding.fetch(self.state.sums)
        counted = {name: int(np.max(sums[name][..., 0])) for name in ("skipped", "spikes")}
        score = np.asarray(score, np.float32)
        self.state, self.validated = close_epoch(self.state, score, self.placement), True
        validation = metrics.over_seeds(validation)
        self.write("train", epoch, train)
        self.write("validation", epoch, validation)
        self.plot()
        self.stale = self.is_stale()
        self.checkpoints.save(Name(self.step, regular=self.sound()), self.state)
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

    def is_stale(self) -> bool:
        """Whether no seed has improved for `patience` epochs."""
        patience = self.config.train.patience
        return bool(patience) and int(np.min(sharding.fetch(self.state.stale))) >= patience

    def evaluate(self, title: str, batches: Split, params: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Metrics of a split, each with one value for each seed, and its answers."""
        total, answers = evaluate_split(self.eval_step, params, batches, self.poll, title, self.placement.put)
        return compute_metrics(self.task, total, answers, batches.labels), answers

    def test(self) -> dict[str, Any]:
        """Reads the test splits once, with the best weights; writes their metrics and every answer.

        Labels that are not public are -1; there are answers then, but no metrics.
        """
        epoch, found = self.step / self.per_epoch, {}
        for name, batches in {**self.data.extra_evals, "test": self.data.test}.items():
            tqdm.write(f"{name:<12}{len(batches.labels):,} examples, with the best weights ...")
            judged, answers = self.evaluate(name, batches, self.state.best_params)
            hidden = batches.labels.min() < 0
            found[name] = {} if hidden else metrics.over_seeds(judged)
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
        chosen = write_predictions(self.directory / file, self.task, answers, batches)
        data.write_submission(self.config.data, self.data, name, chosen, self.directory)
