"""The one loop: epochs of training steps, validation, checkpoints, and the test set once at the end."""

import contextlib
import copy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from fourier_attn import data, model
from fourier_attn.config import Config
from fourier_attn.data.batches import Split, prefetch
from fourier_attn.data.sources.glue import write_submission
from fourier_attn.data.text import copy_tokenizer, tokenizer_file
from fourier_attn.train import init_from, metrics, workdir
from fourier_attn.train.checkpoint import Checkpoints
from fourier_attn.train.evaluate import compute_metrics, evaluate_split, show, summary, write_predictions
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.signals import Interrupted, StopSignals
from fourier_attn.train.step import State, close_epoch, make_eval_step, make_init, make_keys, make_train_step
from fourier_attn.train.writer import Writer, plot_curves, read_lines


def run(config: Config, directory: str | Path) -> dict[str, Any]:
    """Trains what the configuration describes and returns its metrics on the test set.

    The directory receives config.json, the tokenizer, metrics.jsonl, curves.png, predictions.jsonl, for GLUE
    the files to hand in, TensorBoard events and checkpoints. Where it holds an unfinished run of the same
    configuration, that run goes on, to the same result bit for bit; where it holds a finished one, nothing
    is done.

    Raises:
      ValueError: for a configuration, a data set or a directory that cannot be used.
      Interrupted: after SIGTERM or Ctrl-C; the state has been saved.
    """
    directory = Path(directory).resolve()
    config = init_from.adopt(config, directory)
    check(config)
    if not tokenizer_file(directory).exists():
        init_from.tokenizer(config)
    workdir.check(directory, config.to_dict())
    for line in read_lines(directory):
        if line["split"] == "test":
            tqdm.write(f"{directory} is finished. {summary(line)}")
            return line
    with workdir.lock(directory), StopSignals() as stop:
        if not (directory / "config.json").exists():
            workdir.save(directory, config.to_dict())
        try:
            return Run(config, directory, stop).finish()
        except Interrupted:
            tqdm.write(f"Stopped. Give --workdir={directory} again to go on.")
            raise


def check(config: Config) -> None:
    """Finds what is wrong with a configuration without touching any data.

    Raises: ValueError.
    """
    for key in ("epochs", "seeds", "accumulate", "log_every", "save_every"):
        if config.train[key] < 1:
            raise ValueError(f"train.{key}={config.train[key]} must be at least 1")
    if config.train.patience < 0:
        raise ValueError(f"train.patience={config.train.patience} must not be negative; 0 means never stop")
    data.check(config.data)
    if config.data.batch % config.train.accumulate:
        raise ValueError(
            f"train.accumulate={config.train.accumulate} must divide data.batch={config.data.batch}"
        )
    build_optimizer(config.optim)
    longest = jax.ShapeDtypeStruct((1, config.data.length), jnp.int32)
    network = model.build(dict(config.model) | {"head": data.TASKS[config.data.task].head})
    jax.eval_shape(network.init, jax.random.key(0), longest)


class Run:
    """One run in its directory: data, network, state. `finish` does the work."""

    def __init__(self, config: Config, directory: Path, stop: StopSignals):
        self.directory, self.stop, self.task = directory, stop, data.TASKS[config.data.task]
        if not tokenizer_file(directory).exists() and (given := init_from.tokenizer(config)):
            copy_tokenizer(given, directory)
        epochs = config.train.epochs
        self.data = data.load(config.data, directory=directory, seed=config.seed, epochs=epochs)
        stop.poll()
        self.config = fitted(config, self.data)
        self.network, self.optimizer = model.build(self.config.model), build_optimizer(self.config.optim)
        self.objective = OBJECTIVES[self.task.head]
        self.best = self.task.metrics[0]
        self.seeds, self.per_epoch = config.train.seeds, self.data.train.steps_per_epoch
        self.train_step = make_train_step(
            self.network, self.optimizer, self.objective, self.seeds, config.train.accumulate
        )
        self.eval_step = make_eval_step(self.network, self.objective, self.seeds)
        self.checkpoints = Checkpoints(directory)
        init_keys, self.keys = make_keys(config.seed, self.seeds)
        init = make_init(self.network, self.optimizer, self.objective, self.seeds)
        restored = self.checkpoints.restore(jax.eval_shape(init, init_keys, {}))
        self.notes: tuple[str, ...] = ()
        if restored is None:
            params, self.notes = init_from.start(self.config)
            restored = init(init_keys, params)
            workdir.save(directory, self.config.to_dict())
        self.state: State = restored
        self.step = int(np.max(self.state.step))
        self.writer = Writer(directory, self.step)

    def finish(self) -> dict[str, Any]:
        """Trains to the end, or as far as a signal allows, then reads the test set."""
        try:
            self.introduce()
            self.train()
            result = self.test()
            tqdm.write(f"Everything is in {self.directory}\n{summary(result)}")
            return result
        except Interrupted:
            self.checkpoints.save(self.step, self.state)
            tqdm.write(f"Step {self.step} of {len(self.data.train)} is saved.")
            raise
        finally:
            self.checkpoints.close()
            self.writer.close()

    def introduce(self) -> None:
        """Says what is about to happen."""
        device, splits = jax.devices()[0], self.data
        count = sum(p.size for p in jax.tree.leaves(self.state.params)) // self.seeds
        sizes = [f"{len(getattr(splits, name).rows):,} {name}" for name in ("train", "validation", "test")]
        name = f"{self.task.dataset or ', '.join(self.config.data.corpora)} ({self.config.data.task})"
        tqdm.write(f"device      {device.device_kind} ({device.platform}, {jax.device_count()} device)")
        tqdm.write(f"parameters  {count:,}" + (f" x {self.seeds} seeds" if self.seeds > 1 else ""))
        tqdm.write(f"data        {name}: {', '.join(sizes)}; vocabulary {self.config.model.vocab:,}")
        if self.config.init_from:
            tqdm.write(f"weights     {self.config.init_from}, whose architecture is used")
            for note in self.notes:
                tqdm.write(f"            {note}")
        tqdm.write(
            f"workdir     {self.directory}" + (f", going on from step {self.step}" if self.step else "")
        )

    def train(self) -> None:
        """Training steps until all epochs are done or validation stops getting better."""
        train = self.data.train
        self.clock = Clock(self.step)
        examples_seen = max(np.max(s[..., 1]) for s in jax.tree.leaves(self.state.sums))
        if self.step and self.step % self.per_epoch == 0 and examples_seen > 0:
            self.checkpoints.delete(self.step)  # a signal came before the validation was through
            self.close_epoch()
        batches = prefetch(train, self.step)
        with tqdm(total=len(train), initial=self.step, unit="step", disable=None, dynamic_ncols=True) as bar:
            while self.step < len(train) and not self.stale():
                with self.clock.waiting():
                    batch = next(batches)
                self.state = self.train_step(self.state, batch, self.keys)
                self.step += 1
                self.after_step(bar)
                self.stop.poll()  # after the step's line and save, or they would be missing on resume

    def after_step(self, bar: tqdm) -> None:
        """Whatever is due at this step: the end of an epoch, a line of metrics, a checkpoint."""
        if self.step % self.per_epoch == 0:
            self.close_epoch()
        elif self.step % self.config.train.log_every == 0:
            values = self.progress()
            self.writer.write("train", self.step, self.step / self.per_epoch, values)
            shown = {name: f"{values[name]:.3f}" for name in self.objective.names}
            bar.set_postfix(shown | {"examples_per_s": f"{values['examples_per_s']:.0f}"}, refresh=False)
            bar.update(self.step - bar.n)
        if self.step % self.config.train.save_every == 0:
            self.checkpoints.save(self.step, self.state)

    def progress(self) -> dict[str, Any]:
        """Means over the epoch so far, and how fast it goes."""
        means = metrics.mean(jax.device_get(self.state.sums))
        return means | self.clock.read(self.step, self.config.data.batch)

    def close_epoch(self) -> None:
        """Validates, keeps the weights if they are the best so far, writes, plots and saves."""
        epoch = self.step // self.per_epoch
        train = self.progress()
        validation, _ = self.evaluate(self.data.validation, self.state.params)
        score = validation[self.best] if self.seeds > 1 else validation[self.best][0]
        self.state = close_epoch(self.state, jnp.asarray(score, jnp.float32))
        validation = metrics.over_seeds(validation)
        self.writer.write("train", self.step, epoch, train)
        self.writer.write("validation", self.step, epoch, validation)
        plot_curves(self.directory, self.best)
        self.checkpoints.save(self.step, self.state)
        line = [f"{name.replace('_', ' ')} {show(train, name)}" for name in self.objective.names]
        names = dict.fromkeys((*self.objective.names, *self.task.metrics))
        held = [f"{name.replace('_', ' ')} {show(validation, name)}" for name in names]
        tqdm.write(
            f"epoch {epoch:<4}  train {' '.join(line)}   validation {' '.join(held)}   "
            f"{self.clock.total():.0f} s"
        )
        self.clock = Clock(self.step, self.clock.start)

    def stale(self) -> bool:
        """Whether no seed has improved for `patience` epochs."""
        patience = self.config.train.patience
        return bool(patience) and int(np.min(self.state.stale)) >= patience

    def evaluate(self, batches: Split, params: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Metrics of a split, each with one value for each seed, and its answers."""
        total, answers = evaluate_split(self.eval_step, params, batches, self.stop.poll)
        return compute_metrics(self.task, total, answers, batches.labels), answers

    def test(self) -> dict[str, Any]:
        """Reads the test splits once, with the best weights; writes their metrics and every answer.

        Labels that are not public are -1; there are answers then, but no metrics.
        """
        epoch, found = self.step / self.per_epoch, {}
        for name, batches in {**self.data.extra_evals, "test": self.data.test}.items():
            judged, answers = self.evaluate(batches, self.state.best_params)
            hidden = batches.labels.min() < 0
            found[name] = {"examples": len(batches.labels)} if hidden else metrics.over_seeds(judged)
            if name == "test" and self.data.in_train.any() and "accuracy" in found[name]:
                found[name] |= self.without_in_train(answers)
            self.write_answers(name, answers, batches)
        for name, values in found.items():  # all at once, "test" last: it says that the run is finished
            self.writer.write(name, self.step, epoch, values)
            if name != "test":
                tqdm.write(summary(values, name))
        return {"split": "test", "step": self.step, "epoch": epoch, **found["test"]}

    def without_in_train(self, answers: np.ndarray) -> dict[str, Any]:
        """Accuracy on those test examples that do not stand in train too."""
        unseen = ~self.data.in_train
        right = (answers.argmax(-1) == self.data.test.labels)[..., unseen]
        accuracy = {"accuracy_without_in_train": np.atleast_1d(right.mean(-1))}
        return {"in_train": int((~unseen).sum()), **metrics.over_seeds(accuracy)}

    def write_answers(self, name: str, answers: np.ndarray, batches: Split) -> None:
        """Every answer of a split, and of GLUE's test splits the file to hand in; none of pre-training."""
        if self.task.head == "pretraining":
            return
        file = "predictions.jsonl" if name == "test" else f"predictions-{name}.jsonl"
        chosen = write_predictions(self.directory / file, self.task, answers, batches)
        names = dict(zip(self.task.tests, self.task.submissions, strict=False))
        split = self.task.tests[0] if name == "test" else name
        if split in names:
            write_submission(self.directory / names[split], self.task.dataset, chosen, self.data.idx[split])


def fitted(config: Config, splits: data.Splits) -> Config:
    """The configuration with what the data determine: vocabulary, classes, head, steps.

    Raises: ValueError for weights of another vocabulary.
    """
    config, task = copy.deepcopy(config), data.TASKS[config.data.task]
    vocab = splits.tokenizer.get_vocab_size()
    if config.init_from and vocab != config.model.vocab:
        raise ValueError(
            f"init_from={config.init_from} has a vocabulary of {config.model.vocab}, "
            f"the tokenizer one of {vocab}; name the tokenizer that belongs to it (data.tokenizer)"
        )
    config.model.vocab, config.model.head = vocab, task.head
    config.model.classes = max(len(task.labels), 1)
    config.optim.steps = len(splits.train)
    for mixer in (config.model.mixer, *config.model.others.values()):
        if "lengths" in mixer:
            mixer.lengths = data.padded_lengths(config.data)
    return config


class Clock:
    """Rows of batches a second since `step`, and which share of the time went to waiting for data."""

    def __init__(self, step: int, start: float | None = None):
        self.first, self.begin, self.waited = step, time.perf_counter(), 0.0
        self.start = self.begin if start is None else start

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.waited += time.perf_counter() - begin

    def read(self, step: int, batch: int) -> dict[str, float]:
        elapsed = time.perf_counter() - self.begin
        return {"examples_per_s": (step - self.first) * batch / elapsed, "data_wait": self.waited / elapsed}

    def total(self) -> float:
        """Seconds since the start of the run."""
        return time.perf_counter() - self.start
