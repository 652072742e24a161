"""The one loop: epochs of training steps, validation, checkpoints, and the test set once at the end."""

import contextlib
import copy
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from fourier_attn import data, metrics, model, optim, steps, workdir
from fourier_attn.checkpoint import Checkpoints
from fourier_attn.config import Config
from fourier_attn.data.batches import Batches, prefetch


class Interrupted(KeyboardInterrupt):
    """The run was told to stop by a signal and has saved its state."""

    def __init__(self, signum: int):
        super().__init__(signum)
        self.signum = signum


def run(config: Config, directory: str | Path) -> dict[str, Any]:
    """Trains what the configuration describes and returns its metrics on the test set.

    The directory receives config.json, tokenizer.json, metrics.jsonl, curves.png, predictions.jsonl,
    TensorBoard events and checkpoints. Where it holds an unfinished run of the same configuration,
    that run goes on, to the same result bit for bit; where it holds a finished one, nothing is done.

    Raises:
      ValueError: for a configuration, a data set or a directory that cannot be used.
      Interrupted: after SIGTERM or Ctrl-C; the state has been saved.
    """
    directory = Path(directory).resolve()
    check(config)
    workdir.check(directory, config.to_dict())
    for line in metrics.read(directory):
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
    optim.build(config.optim)
    longest = jax.ShapeDtypeStruct((1, config.data.length), jnp.int32)
    jax.eval_shape(model.build(config.model).init, jax.random.key(0), longest)


class Run:
    """One run in its directory: data, network, state. `finish` does the work."""

    def __init__(self, config: Config, directory: Path, stop: "StopSignals"):
        self.directory, self.stop = directory, stop
        self.data = data.load(
            config.data,
            tokenizer_file=directory / "tokenizer.json",
            seed=config.seed,
            epochs=config.train.epochs,
        )
        stop.poll()
        self.config = copy.deepcopy(config)
        self.config.model.vocab = self.data.tokenizer.get_vocab_size()
        self.config.model.classes = len(data.TASKS[config.data.task].labels)
        self.config.optim.steps = len(self.data.train)
        self.network, self.optimizer = model.build(self.config.model), optim.build(self.config.optim)
        self.seeds, self.per_epoch = config.train.seeds, self.data.train.steps_per_epoch
        self.train_step = steps.make_train_step(
            self.network, self.optimizer, self.seeds, config.train.accumulate
        )
        self.eval_step = steps.make_eval_step(self.network, self.seeds)
        self.checkpoints = Checkpoints(directory)
        init_keys, self.keys = steps.keys(config.seed, self.seeds)
        init = steps.make_init(self.network, self.optimizer, self.seeds)
        restored = self.checkpoints.restore(jax.eval_shape(init, init_keys))
        self.state = init(init_keys) if restored is None else restored
        if restored is None:
            workdir.save(directory, self.config.to_dict())
        self.step = int(np.max(self.state.step))
        self.writer = metrics.Writer(directory, self.step)

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
        name = f"{data.TASKS[self.config.data.task].dataset} ({self.config.data.task})"
        tqdm.write(f"device      {device.device_kind} ({device.platform}, {jax.device_count()} device)")
        tqdm.write(f"parameters  {count:,}" + (f" x {self.seeds} seeds" if self.seeds > 1 else ""))
        tqdm.write(f"data        {name}: {', '.join(sizes)}; vocabulary {self.config.model.vocab:,}")
        tqdm.write(
            f"workdir     {self.directory}" + (f", going on from step {self.step}" if self.step else "")
        )

    def train(self) -> None:
        """Training steps until all epochs are done or validation stops getting better."""
        train = self.data.train
        self.clock = Clock(self.step)
        if self.step and self.step % self.per_epoch == 0 and np.max(self.state.sums["count"]) > 0:
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
            shown = {"loss": ".3f", "accuracy": ".3f", "examples_per_s": ".0f"}
            bar.set_postfix({name: format(values[name], form) for name, form in shown.items()}, refresh=False)
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
        total, _ = steps.evaluate(self.eval_step, self.state.params, self.data.validation, self.stop.poll)
        validation = metrics.mean(total)
        self.state = steps.close_epoch(self.state, jnp.asarray(total["correct"] / total["count"]))
        self.writer.write("train", self.step, epoch, train)
        self.writer.write("validation", self.step, epoch, validation)
        metrics.plot_curves(self.directory)
        self.checkpoints.save(self.step, self.state)
        tqdm.write(
            f"epoch {epoch:<4}  train loss {train['loss']:.4f} accuracy {percent(train)}   "
            f"validation loss {validation['loss']:.4f} accuracy {percent(validation)}   "
            f"{self.clock.total():.0f} s"
        )
        self.clock = Clock(self.step, self.clock.start)

    def stale(self) -> bool:
        """Whether no seed has improved for `patience` epochs."""
        patience = self.config.train.patience
        return bool(patience) and int(np.min(self.state.stale)) >= patience

    def test(self) -> dict[str, Any]:
        """Reads the test set once, with the best weights; writes its metrics and every prediction."""
        batches, in_train = self.data.test, self.data.in_train
        total, probability = steps.evaluate(self.eval_step, self.state.best_params, batches, self.stop.poll)
        result = metrics.mean(total)
        if in_train.any():
            right = (probability.argmax(-1) == batches.labels)[..., ~in_train]
            unseen = {"loss": total["loss"], "correct": right.sum(-1), "count": np.float64((~in_train).sum())}
            kept = {k: v for k, v in metrics.mean(unseen).items() if k.startswith("accuracy")}
            name = "accuracy_without_in_train"
            result |= {"in_train": int(in_train.sum())}
            result |= {key.replace("accuracy", name): value for key, value in kept.items()}
        write_predictions(self.directory / "predictions.jsonl", probability, batches)
        self.writer.write("test", self.step, self.step / self.per_epoch, result)
        return {"split": "test", "step": self.step, "epoch": self.step / self.per_epoch, **result}


class StopSignals:
    """Notices SIGTERM and Ctrl-C inside `with`, to act between two steps; a second one acts at once."""

    def __init__(self) -> None:
        self.received = 0

    def __enter__(self) -> "StopSignals":
        self.previous = {}
        if threading.current_thread() is threading.main_thread():  # Python allows handlers there only
            for signum in (signal.SIGTERM, signal.SIGINT):
                self.previous[signum] = signal.signal(signum, self.receive)
        return self

    def __exit__(self, *exception: object) -> None:
        for signum, handler in self.previous.items():
            signal.signal(signum, handler)

    def receive(self, signum: int, frame: object) -> None:
        if self.received:
            raise KeyboardInterrupt
        self.received = signum

    def poll(self) -> None:
        if self.received:
            raise Interrupted(self.received)


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


def percent(values: dict[str, Any], name: str = "accuracy") -> str:
    """An accuracy in percent, with its deviation over the seeds where there are several."""
    deviation = f" +- {100 * values[f'{name}_std']:.2f}" if f"{name}_std" in values else ""
    return f"{100 * values[name]:.2f}{deviation} %"


def summary(result: dict[str, Any]) -> str:
    """The line of test accuracy."""
    line = f"test accuracy {percent(result)}"
    if "in_train" in result:
        rest = percent(result, "accuracy_without_in_train")
        line += f" ({rest} without the {result['in_train']} texts that are also in train)"
    return line


def write_predictions(path: Path, probability: np.ndarray, batches: Batches) -> None:
    """One line per example: its number in the split, label, predicted class and that class's probability.

    With several seeds the probability is their mean.
    """
    mean = probability.reshape(-1, *probability.shape[-2:]).mean(axis=0)
    with path.open("w") as file:
        for index, (label, row) in enumerate(zip(batches.labels.tolist(), mean, strict=True)):
            best = int(row.argmax())
            line = {
                "index": index,
                "label": label,
                "prediction": best,
                "probability": round(float(row[best]), 6),
            }
            file.write(json.dumps(line) + "\n")
