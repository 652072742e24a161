"""Runs the training loop: steps, validation after each epoch, checkpoints, and one test at the end."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from tqdm import tqdm

from fourier_attn import causes
from fourier_attn.data.batches import prefetch
from fourier_attn.train import final_test, memory, metrics, monitor
from fourier_attn.train.distributed import sharding
from fourier_attn.train.distributed.signals import Interrupted
from fourier_attn.train.evaluate import reasons, show, summary
from fourier_attn.train.optimizer import build_schedule, updates_made
from fourier_attn.train.progress import Clock, TrainingProgress
from fourier_attn.train.rundir.checkpoint import CheckpointId
from fourier_attn.train.step import close_epoch, roll_back
from fourier_attn.train.training_run import Run


class Diverged(Exception):
    """Raised if updates are not finite again after the run has returned to an earlier checkpoint."""


@causes.computing()
def train(run: Run, allow_drift: Iterable[str] = ()) -> dict[str, Any]:
    """Trains a run until it is finished or a signal stops it, and returns its metrics on the test set.

    Args:
      run: the run, before `set_up`.
      allow_drift: fingerprints that may have changed since the run started, see `fingerprints.DRIFT`.
    Raises:
      ValueError: for data or a directory that cannot be used.
      Diverged: if updates become non-finite again after a return to an earlier checkpoint.
      Interrupted: after a signal; the state has been saved.
    """
    run.set_up()
    run.restore_or_initialise(allow_drift)
    try:
        run.introduce()
        train_epochs(run)
        result = final_test.evaluate_test_splits(run)
        if run.writer:
            run.writer.sync()
        tqdm.write(f"Everything is in {run.directory}\n{summary(result)}")
        return result
    except Interrupted:
        run.save(CheckpointId(run.step, run.validated, regular=False))
        run.checkpoints.wait()
        tqdm.write(f"Step {run.step} of {run.steps} is saved.")
        run.plot_last_epochs()
        raise
    except Diverged:
        run.plot_last_epochs()
        raise
    finally:
        run.close()


def train_epochs(run: Run) -> None:
    """Makes training steps until all epochs are done or validation has stopped improving."""
    options = run.config.train
    if not run.validated:  # a signal interrupted the validation at this step
        validate(run)
    if not run.trained():
        tqdm.write("compiling   the first steps take longer: a program for each padded length")
    run.clock, batches = Clock(run.step), prefetch(run.splits.train, run.step)
    with TrainingProgress(run.objective.names, run.steps, run.config.data.batch, run.step) as progress:
        while not run.trained():
            with run.clock.waiting():
                batch = next(batches)
            run.state = run.train_step(run.state, run.placement.shard_batch(batch), run.keys)
            run.step += 1
            end_of_epoch, log = run.step % run.per_epoch == 0, run.step % options.log_every == 0
            run.validated = not end_of_epoch
            progress.follow(run.step, run.state, at_once=end_of_epoch or log)
            if end_of_epoch or log:
                guard_against_divergence(run)
            if end_of_epoch:
                validate(run)
                progress.resume(run.step)
            else:
                if log:
                    run.write("train", run.step / run.per_epoch, training_metrics(run))
                if run.step % options.save_every == 0:
                    run.save(CheckpointId(run.step, regular=run.updated()))
            run.poll()  # after this step's metrics and checkpoint, which a resumed run does not write again
    if run.step < run.steps:
        tqdm.write(describe_early_stopping(run))
    run.checkpoints.wait()  # the last state must be on the disk before the metrics that finish the run


def validate(run: Run) -> None:
    """Ends an epoch: validates, updates the best weights, writes metrics and saves a checkpoint."""
    epoch, train = run.step // run.per_epoch, training_metrics(run)
    # a signal during the validation saves the state before calibration, which is then repeated
    state, rates = run.calibrated(run.state, run.step)
    train |= rates
    values, answers = run.evaluate("validation", run.splits.validation, state.params)
    score = monitor.sign(run.metric) * values[run.metric]
    score = score if run.seeds > 1 else score[0]
    sums = sharding.to_host(run.state.sums)
    run.state = close_epoch(state, np.asarray(score, np.float32), run.placement)
    run.validated, run.out_of_patience = True, run.has_lost_patience(run.state)
    why = reasons(run.task, values, answers, run.splits.validation.labels)
    validation = metrics.over_seeds(values) | why
    run.write("train", epoch, train)
    run.write("validation", epoch, validation)
    run.plot_epoch()
    run.save(CheckpointId(run.step, regular=run.updated()))
    trained = [f"{name.replace('_', ' ')} {show(train, name)}" for name in run.objective.names]
    counts = {name: int(np.max(sums[name][..., 0])) for name in ("skipped", "spikes")}
    trained += [f"{count} {name}" for name, count in counts.items() if count]
    names = dict.fromkeys((*run.objective.names, *run.task.metrics))
    validated = [f"{name.replace('_', ' ')} {show(validation, name)}" for name in names]
    tqdm.write(
        f"epoch {epoch:<4}  train {' '.join(trained)}   validation {' '.join(validated)}   "
        f"{run.seconds_elapsed():.0f} s{describe_best(run)}"
    )
    run.clock = Clock(run.step)


def guard_against_divergence(run: Run) -> None:
    """Returns to an earlier checkpoint after too many non-finite updates, and stops at the second time.

    Raises: Diverged.
    """
    counts = sharding.to_host(run.state.skipped)
    skipped = int(np.max(counts))
    if skipped < run.skip_limit:
        return
    what = f"{skipped} updates up to step {run.step} were not finite and were skipped"
    lost = counts >= run.skip_limit
    if np.any(lost & (sharding.to_host(run.state.rollbacks) > 0)):
        raise Diverged(
            f"{what}, again after returning to a checkpoint: the run has diverged; lower "
            "optim.learning_rate, set optim.clip_norm, or use model.dtype=float32, in a new workdir"
        )

    def regular(name: CheckpointId) -> bool:
        """Returns whether an uninterrupted run also has this checkpoint."""
        return name.validated and name.regular

    run.checkpoints.wait()
    restored = run.checkpoints.restore(run.placement.abstract(run.state), regular)
    if restored is None:
        raise Diverged(f"{what}, and no checkpoint exists to return to")
    name, good = restored
    tqdm.write(f"note        {what}: continuing from the state of step {name.step}, once")
    run.state = roll_back(run.state, good, lost, run.placement)
    run.save(CheckpointId(run.step, run.validated))


def training_metrics(run: Run) -> dict[str, Any]:
    """Returns means over the epoch so far, the latest learning rate, memory and speed."""
    means = metrics.mean(sharding.to_host(run.state.sums))
    made = max(int(np.max(sharding.to_host(updates_made(run.state.opt_state)))) - 1, 0)
    rate = np.asarray(build_schedule(run.config.optim)(made)).item()
    speed = run.clock.read(run.step, run.config.data.batch)
    return means | {"learning_rate": rate, "memory_gib": memory.used_gib()} | speed


def describe_best(run: Run) -> str:
    """Returns "   best accuracy so far" after the best validation; "" after any other."""
    better = np.atleast_1d(sharding.to_host(run.state.epochs_since_best)) == 0
    if not better.any():
        return ""
    seeds = "" if better.all() else f" for {better.sum()} of {len(better)} seeds"
    return f"   best {run.metric.replace('_', ' ')} so far{seeds}"


def describe_early_stopping(run: Run) -> str:
    """Returns a message with the best score on validation and its epoch, after early stopping."""
    stale, scores = sharding.to_host((run.state.epochs_since_best, run.state.best_score))
    epochs = sorted({int(run.step // run.per_epoch - each) for each in np.atleast_1d(stale)})
    best = show({run.metric: monitor.sign(run.metric) * float(np.mean(scores))}, run.metric)
    return (
        f"stopped     {run.metric.replace('_', ' ')} on validation has not improved for "
        f"train.patience={run.config.train.patience} epochs: best {best} after epoch "
        f"{' and '.join(map(str, epochs))}"
    )
