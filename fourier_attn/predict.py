"""A trained run put to use: its metrics on a split, its answer to a text or an image."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fourier_attn import data
from fourier_attn.config import Config
from fourier_attn.data.batches import Batches
from fourier_attn.data.images import ImageBatches, read_image
from fourier_attn.data.text import encode, load_tokenizer, special, tokenizer_file
from fourier_attn.train import metrics
from fourier_attn.train.evaluate import compute_metrics, evaluate_split
from fourier_attn.train.init_from import restore
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.step import make_eval_step


def load(config: Config, directory: Path, data_dir: str | None = None) -> data.Splits:
    """The data of the run in `directory`, read with its own tokenizer.

    Raises: ValueError where the tokenizer or the data set cannot be used.
    """
    if data_dir is not None:
        config.data.dir = data_dir
    if config.model.inputs == "tokens":
        load_tokenizer(tokenizer_file(directory))  # without it, another one would be fitted
    return data.load(config.data, directory=directory)


def evaluate(directory: str | Path, data_dir: str | None = None) -> dict[str, dict[str, Any]]:
    """Metrics of the run's best weights on validation and test; nothing is written into the directory.

    A test split whose labels are not public is left out.

    Args:
      data_dir: where TFDS keeps its data sets now; None: where it did when the run was made.
    Raises: ValueError where the run or its data set cannot be used.
    """
    directory = Path(directory).resolve()
    config, network, params = restore(directory)
    splits, task = load(config, directory, data_dir), data.TASKS[config.data.task]
    eval_step = make_eval_step(network, OBJECTIVES[task.head], config.train.seeds)
    found = {}
    for name, batches in splits.evals.items():
        if batches.labels.min() >= 0:
            judged = compute_metrics(
                task, *evaluate_split(eval_step, params, batches, title=name), batches.labels
            )
            found[name] = metrics.over_seeds(judged)
    return found


def predict(directory: str | Path, text: str, text_pair: str | None = None) -> list[tuple[str, float]]:
    """The answer to a text, or to a text_pair of texts, with its probability (means over seeds).

    Of a task with classes the name of the class; of one without, ("score", number); of pre-training the five
    likeliest tokens for each "[MASK]".

    Raises: ValueError for a text without a character to read, or a run that cannot be used.
    """
    for name, value in (("text", text), ("text_pair", text_pair)):
        if value is not None and not value.strip():
            raise ValueError(f"{name}={value!r} is empty; give a text, --{name}='...'")
        if any("\ud800" <= letter <= "\udfff" for letter in value or ""):
            raise ValueError(f"{name}={value!r} is not UTF-8; give a text in this encoding")
    directory = Path(directory).resolve()
    config, network, params = restore(directory)
    if config.model.inputs != "tokens":
        raise ValueError(
            f"the task {config.data.task!r} is about images; give --image=FILE instead of a text"
        )
    task, tokenizer = data.TASKS[config.data.task], load_tokenizer(tokenizer_file(directory))
    if (text_pair is not None) != (len(task.texts) == 2) and task.head != "pretraining":
        raise ValueError(
            f"the task {config.data.task!r} is about {len(task.texts)} text(s); give --text"
            + (" and --text_pair" if len(task.texts) == 2 else " alone")
        )
    text_pairs, fill_in = None if text_pair is None else [text_pair], task.head == "pretraining"
    rows = encode(tokenizer, [text], config.data.length, text_pairs, masks=fill_in)
    ids, lengths = special(tokenizer), data.padded_lengths(config.data)
    batch = Batches(rows, np.zeros(1, np.int32), buckets=lengths, batch=1, pad=ids.pad, sep=ids.sep)[0]
    if fill_in:
        return fill_mask(network, params, tokenizer, batch, config.train.seeds)
    _, answers = make_eval_step(network, OBJECTIVES[task.head], config.train.seeds)(params, batch)
    if not task.labels:
        return [("score", float(np.mean(answers)))]
    mean = np.asarray(answers).reshape(-1, config.model.classes).mean(axis=0)
    return [(task.labels[int(mean.argmax())], float(mean.max()))]


def predict_image(directory: str | Path, image: str | Path) -> list[tuple[str, float]]:
    """The classes of an image, the likeliest first, with their probabilities (means over seeds).

    The image is scaled to the size that the network was made for.

    Raises: ValueError for a file that cannot be used, or a run that cannot, or is not about images.
    """
    directory = Path(directory).resolve()
    config, network, params = restore(directory)
    if config.model.inputs != "patches":
        raise ValueError(f"the task {config.data.task!r} is about texts; give --text instead of --image")
    task = data.TASKS[config.data.task]
    pixels = read_image(Path(image), tuple(config.model.image))
    batch = ImageBatches(pixels[None], np.zeros(1, np.int32), batch=1)[0]
    _, answers = make_eval_step(network, OBJECTIVES[task.head], config.train.seeds)(params, batch)
    mean = np.asarray(answers).reshape(-1, config.model.classes).mean(axis=0)
    return [(task.labels[i], float(mean[i])) for i in np.argsort(-mean, kind="stable")]


def fill_mask(network: Any, params: Any, tokenizer: Any, batch: Any, seeds: int) -> list[tuple[str, float]]:
    """The five likeliest tokens for each [MASK] in a batch of one row, with their probabilities.

    Raises: ValueError for a row without [MASK].
    """
    mlm_positions = np.flatnonzero(batch["inputs"][0] == special(tokenizer).mask)
    if not len(mlm_positions):
        raise ValueError(
            f"the text has no [MASK] among its first {batch['inputs'].shape[1]} tokens; "
            "put one where a token is to be found"
        )
    probability = np.zeros((len(mlm_positions), tokenizer.get_vocab_size()))
    for seed in range(seeds):
        one = jax.tree.map(lambda p, seed=seed: jnp.asarray(p if seeds == 1 else p[seed]), params)
        given = {
            "mask": batch["mask"],
            "types": batch["types"],
            "mlm_positions": mlm_positions[None].astype(np.int32),
        }
        given = {name: jnp.asarray(value) for name, value in given.items()}
        outputs = network.apply({"params": one}, jnp.asarray(batch["inputs"]), **given)
        probability += np.asarray(jax.nn.softmax(outputs["mlm"][0])) / seeds
    best = np.argsort(-probability, axis=1)[:, :5]
    return [
        (tokenizer.id_to_token(int(i)), float(p[i]))
        for p, row in zip(probability, best, strict=True)
        for i in row
    ]
