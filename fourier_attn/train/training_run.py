"""Holds one training run: its data, network, compiled steps and state, and the files that it writes."""

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tqdm import tqdm

from fourier_attn import config as configuration
from fourier_attn import data, model
from fourier_attn.config import Config
from fourier_attn.data.batches import Split
from fourier_attn.train import class_loss, init_from, monitor
from fourier_attn.train.distributed import processes, sharding
from fourier_attn.train.distributed.signals import SharedStopSignals, StopSignals
from fourier_attn.train.evaluate import evaluate_split, measure
from fourier_attn.train.losses import OBJECTIVES, Objective
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.progress import Clock, introduction
from fourier_attn.train.ranges import BATCHES, Watcher
from fourier_attn.train.rundir import config_file, fingerprints
from fourier_attn.train.rundir.checkpoint import CheckpointId, Checkpoints, checkpoint_ids
from fourier_attn.train.rundir.curves import plot_curves
from fourier_attn.train.rundir.metrics_log import Writer, check_no_metrics
from fourier_attn.train.step import State, earlier_form, make_eval_step, make_init, make_keys, make_train_step

PLOT_SECONDS = 20  # smallest time between two plots of the curves; a plot takes about 0.3 s


class Run:
    """Holds one run: data, network, compiled steps and state.

    `set_up` makes everything that does not change from step to step. `restore_or_initialise` makes the state.

    Args:
      initial: the configuration, and initial weights.
      directory: directory of the run.
      signals: stops the run between two steps.
      tracker: a key of `fourier_attn.train.rundir.trackers.TRACKERS`; default "tensorboard".
    """

    placement: sharding.Placement
    stop: SharedStopSignals
    splits: data.Splits
    config: Config  # fitted to the data
    task: data.Task
    metric: str  # the metric that chooses the best weights
    objective: Objective  # for evaluation; that of training may have class weights and label smoothing
    class_weights: np.ndarray | None
    fingerprints: dict[str, Any]
    network: model.Model
    optimizer: optax.GradientTransformation
    watcher: Watcher
    seeds: int
    steps: int
    per_epoch: int
    skip_limit: int
    train_step: Callable[..., State]
    eval_step: Callable[..., Any]
    checkpoints: Checkpoints
    keys: jax.Array  # keys of dropout and of an engine's noise
    state: State
    step: int
    validated: bool  # whether all validations up to this step are part of the state
    resumed_at: int  # step; 0 for a new run
    out_of_patience: bool
    writer: Writer | None  # only on the primary process
    clock: Clock

    def __init__(
        self,
        initial: init_from.InitialWeights,
        directory: Path,
        signals: StopSignals,
        tracker: str = "tensorboard",
    ):
        self.initial, self.directory, self.signals, self.tracker = initial, directory, signals, tracker
        self.primary = processes.is_primary()
        self.began = time.perf_counter()
        self.plotted = -math.inf  # time of the last plot
        self.unplotted = False  # whether a later epoch is not in it

    def set_up(self) -> None:
        """Reads the data, fits the configuration to them, and builds the network and the compiled steps."""
        config = self.initial.config
        self.placement = sharding.place(config.train, config.data.batch)
        self.stop = SharedStopSignals(self.signals, self.placement)
        tqdm.write(f"data        {data.source(config.data)} ({config.data.task}): reading ...")
        self.splits = processes.primary_first(
            lambda: data.load(
                config.data,
                directory=self.directory,
                seed=config.seed,
                epochs=config.train.epochs,
                tokenizer=self.initial.tokenizer,
                say=lambda line: tqdm.write(f"            {line}"),
            )
        )
        self.poll()
        self.config = config = configuration.fitted(config, self.splits)
        self.task = monitor.monitored(data.task_of(config.data), config.train.monitor)
        self.metric, self.objective = self.task.metrics[0], OBJECTIVES[self.task.head]
        class_loss.check_options(config.train, self.task)
        weights, smoothing = config.train.class_weights, config.train.label_smoothing
        self.class_weights = class_loss.class_weights(weights, self.task.labels, self.splits.train.labels)
        training = class_loss.training_objective(self.task.head, self.class_weights, smoothing)
        self.fingerprints = {
            **self.splits.fingerprints(),
            "device": fingerprints.device_fingerprint(config),
            "code": fingerprints.code_fingerprint(),
            "settings": fingerprints.settings_fingerprint(),
        }
        if self.initial.fingerprints:
            self.fingerprints["weights"] = dict(self.initial.fingerprints)
        primary = processes.broadcast(lambda: self.fingerprints)
        processes.barrier(lambda: fingerprints.check_same(primary, self.fingerprints))
        self.network, self.optimizer = model.build(config.model), build_optimizer(config.optim)
        self.watcher = Watcher(self.network)
        self.seeds, self.steps = config.train.seeds, len(self.splits.train)
        self.per_epoch = self.splits.train.steps_per_epoch
        self.skip_limit = min(config.train.skip_limit, self.per_epoch)  # at most a whole epoch is wasted
        self.train_step = make_train_step(
            self.network,
            self.optimizer,
            training,
            self.seeds,
            config.train.accumulate,
            self.skip_limit,
            self.placement,
            config.train.remat,
            config.train.fixed_parts,
        )
        self.eval_step = make_eval_step(
            self.network,
            self.objective,
            self.seeds,
            placement=self.placement,
            fixed_parts=config.train.fixed_parts,
        )
        self.checkpoints = Checkpoints(self.directory)

    def restore_or_initialise(self, allow_drift: Iterable[str] = ()) -> None:
        """Restores the newest intact checkpoint, or initialises the state of a new run and saves it.

        The first checkpoint is written before metrics.jsonl. If only this file exists, a checkpoint was lost.

        Args:
          allow_drift: fingerprints that may have changed since the run started; default none.
        Raises: ValueError for changed fingerprints and for lost checkpoints.
        """
        init_keys, self.keys = make_keys(self.config.seed, self.seeds, self.placement)
        example = model.example(self.config.model)
        init = make_init(self.network, self.optimizer, self.objective, example, self.seeds, self.placement)
        # check first, because other code could take an intact checkpoint for a damaged one
        drifted = processes.barrier(lambda: self.check_drift(allow_drift))
        abstract = self.placement.abstract(jax.eval_shape(init, init_keys, {}))
        restored = self.checkpoints.restore(abstract, earlier=earlier_form)
        if restored:
            name, state = restored
            if self.primary:
                at = (name.step, name.validated)
                fingerprints.note_drift(self.directory, drifted, self.config, self.fingerprints, at)
            self.state = self.without_other_best(self.with_new_patience(state, name.step), name)
        else:
            processes.barrier(lambda: check_no_metrics(self.directory))
            initial = self.initial
            params = init_from.at_resolution(initial.params, initial.config.model, self.config.model) or {}
            name = CheckpointId(0)
            self.state, _ = self.calibrated(init(init_keys, params), 0)
            if self.primary:
                config_file.save(self.directory, self.config, self.fingerprints)
            self.checkpoints.save(name, self.state)
            self.checkpoints.wait()
        self.step = self.resumed_at = name.step
        self.validated = name.validated
        self.out_of_patience = self.has_lost_patience(self.state)
        self.writer = None
        if self.primary:
            options = config_file.flat(self.config.to_dict())
            self.writer = Writer(self.directory, self.step, self.validated, self.tracker, options)
        self.clock = Clock(self.step)

    def check_drift(self, allowed: Iterable[str]) -> list[str]:
        """Returns the names of fingerprints that changed since the run started (none for a new run).

        Raises: ValueError for a change that is not `allowed`.
        """
        if not checkpoint_ids(self.directory):
            return []
        return fingerprints.check_drift(self.directory, self.fingerprints, allowed)

    def with_new_patience(self, state: State, step: int) -> State:
        """Resets the early-stopping counter of a run that was stopped early and extended at this step.

        Args:
          state: the restored state.
          step: its step.
        """
        extended = processes.broadcast(lambda: config_file.extended_at(self.directory)) == step
        if not extended or not self.has_lost_patience(state):
            return state
        return state._replace(epochs_since_best=state.epochs_since_best * 0)

    def without_other_best(self, state: State, name: CheckpointId) -> State:
        """Removes the best score if the validation set has changed and another validation follows.

        Args:
          state: the restored state.
          name: its checkpoint.
        """
        at = (name.step, name.validated)
        other = processes.broadcast(lambda: fingerprints.validated_differently(self.directory, at))
        if not other or (name.validated and name.step >= self.steps):
            return state
        return state._replace(
            best_score=jnp.minimum(state.best_score, -jnp.inf), epochs_since_best=state.epochs_since_best * 0
        )

    def has_lost_patience(self, state: State) -> bool:
        """Returns whether no seed of a `state` has improved for `train.patience` epochs."""
        patience = self.config.train.patience
        return bool(patience) and int(np.min(sharding.to_host(state.epochs_since_best))) >= patience

    def trained(self) -> bool:
        """Returns whether all training steps are done."""
        return self.step >= self.steps or self.out_of_patience

    def calibrated(self, state: State, step: int) -> tuple[State, dict[str, float]]:
        """Calibrates converters on the latest batches, or on the first ones before training.

        Args:
          state: the state to calibrate.
          step: number of training steps made.
        Returns: the state with new ranges; and the shares of conversions that the old ranges clip.
        """
        if not self.watcher.engines:
            return state, {}
        last = step or min(BATCHES, self.steps)
        batches = [self.splits.train[i] for i in range(max(last - BATCHES, 0), last)]
        params, rates = self.watcher.calibrate(state.params, batches, self.seeds)
        return state._replace(params=params), rates

    def introduce(self) -> None:
        """Prints data, devices, network and directory."""
        about = (self.config, self.splits, self.placement, self.parameters(), self.initial.notes)
        loss = (self.class_weights, self.config.train.label_smoothing, self.task.labels)
        for line in (*introduction(*about, self.directory, self.step), *class_loss.describe(*loss)):
            tqdm.write(line)

    def parameters(self) -> int:
        """Returns the number of parameters of one network."""
        return sum(p.size for p in jax.tree.leaves(self.state.params)) // self.seeds

    def seconds_elapsed(self) -> float:
        """Returns the seconds since this process created the run."""
        return time.perf_counter() - self.began

    def poll(self) -> None:
        """Stops the run if a signal has arrived. Raises: Interrupted."""
        self.stop.poll()

    def save(self, name: CheckpointId) -> None:
        """Starts to save the state as checkpoint `name`, after syncing the metrics before it to the disk."""
        if self.writer:
            self.writer.sync()
        self.checkpoints.save(name, self.state)

    def close(self) -> None:
        """Waits until everything is on the disk."""
        self.checkpoints.close()
        if self.writer:
            self.writer.close()

    def write(self, split: str, epoch: int | float, values: dict[str, Any]) -> None:
        """Writes one line of metrics at the current step.

        Args:
          split: "train", "validation", or the name of a test split.
          epoch: number of epochs done, which may be a fraction.
          values: metrics by name.
        """
        if self.writer:
            self.writer.write(split, self.step, epoch, values)

    def updated(self) -> bool:
        """Returns whether the last update was made, so that a diverging run may return to this state."""
        return not np.max(sharding.to_host(self.state.skipped))

    def plot_epoch(self) -> None:
        """Plots the curves after an epoch, unless the last plot is too recent."""
        self.unplotted = True
        if time.perf_counter() - self.plotted > PLOT_SECONDS:
            self.plot()

    def plot_last_epochs(self) -> None:
        """Plots the curves of a run that stops, if epochs are missing in the plot."""
        if self.unplotted:
            self.plot()

    def plot(self) -> None:
        """Plots the curves so far."""
        if self.primary:
            known = self.metric == "accuracy" and self.task.labels
            chance = 1 / len(self.task.labels) if known else None
            plot_curves(self.directory, self.metric, chance)
        self.plotted = time.perf_counter()
        self.unplotted = False

    def evaluate(self, title: str, batches: Split, params: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Returns the metrics of a split, each with one value per seed, and its answers.

        Args:
          title: title of the progress bar.
          batches: the split.
          params: parameters of the network.
        """
        total, answers = evaluate_split(
            self.eval_step, params, batches, self.poll, title, self.placement.shard_batch, tqdm.write
        )
        return measure(self.config, self.task, total, answers, batches), answers
