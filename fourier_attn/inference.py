"""A trained run put to use: its accuracy on a split, its answer to a text."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from fourier_attn import data, metrics, model, optim, steps, workdir
from fourier_attn.checkpoint import Checkpoints
from fourier_attn.config import Config, from_dict
from fourier_attn.data.text import encode, load_tokenizer


def restore(directory: Path) -> tuple[Config, model.Classifier, Any]:
    """The configuration, the network and its best parameters of the run in `directory`.

    Raises: ValueError where there is no run, no checkpoint, or a damaged one.
    """
    config = from_dict(workdir.load(directory))
    network = model.build(config.model)
    init = steps.make_init(network, optim.build(config.optim), config.train.seeds)
    like = jax.eval_shape(init, steps.keys(config.seed, config.train.seeds)[0])
    state = None
    if (directory / "checkpoints").is_dir():
        checkpoints = Checkpoints(directory, read_only=True)
        state = checkpoints.restore(like)
        checkpoints.close()
    if state is None:
        raise ValueError(f"workdir={directory} has no checkpoint yet; train it further first")
    trained = np.min(state.best_accuracy) >= 0  # before the first validation there is no best one
    return config, network, state.best_params if trained else state.params


def load(config: Config, directory: Path, data_dir: str | None = None) -> data.Splits:
    """The data of the run in `directory`, read with its own tokenizer.

    Raises: ValueError where the tokenizer or the data set cannot be used.
    """
    if data_dir is not None:
        config.data.dir = data_dir
    tokenizer_file = directory / "tokenizer.json"
    load_tokenizer(tokenizer_file)  # without it, another one would be fitted
    return data.load(config.data, tokenizer_file=tokenizer_file)


def evaluate(directory: str | Path, data_dir: str | None = None) -> dict[str, dict[str, Any]]:
    """Metrics of the run's best weights on validation and test; nothing is written into the directory.

    Args:
      data_dir: where TFDS keeps its data sets now; None: where it did when the run was made.
    Raises: ValueError where the run or its data set cannot be used.
    """
    directory = Path(directory).resolve()
    config, network, params = restore(directory)
    splits = load(config, directory, data_dir)
    eval_step = steps.make_eval_step(network, config.train.seeds)
    return {
        name: metrics.mean(steps.evaluate(eval_step, params, getattr(splits, name))[0])
        for name in ("validation", "test")
    }


def predict(directory: str | Path, text: str) -> tuple[str, float]:
    """The name of the class of `text` and its probability (mean over seeds).

    Raises: ValueError for a text without a character to read, or a run that cannot be used.
    """
    if not text.strip():
        raise ValueError(f"text={text!r} is empty; give a review, --text='...'")
    directory = Path(directory).resolve()
    config, network, params = restore(directory)
    tokenizer = load_tokenizer(directory / "tokenizer.json")
    row = encode(tokenizer, [text], config.data.length)[0]
    t = min(t for t in data.padded_lengths(config.data) if t >= len(row))
    tokens = np.zeros((1, t), np.int32)
    tokens[0, : len(row)] = row
    batch = {"tokens": tokens, "label": np.zeros(1, np.int32), "weight": np.ones(1, np.float32)}
    _, probability = steps.make_eval_step(network, config.train.seeds)(params, batch)
    mean = np.asarray(probability).reshape(-1, config.model.classes).mean(axis=0)
    return data.TASKS[config.data.task].labels[int(mean.argmax())], float(mean.max())
