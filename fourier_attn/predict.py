"""A trained run put to use: its metrics on a split, its answer to a text or an image."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from fourier_attn import data
from fourier_attn.config import Config
from fourier_attn.data.batches import Batches
from fourier_attn.data.images import ImageBatches, read_image
from fourier_attn.data.text import (
    check_known,
    encode,
    encode_questions,
    load_tokenizer,
    special,
    tokenizer_file,
)
from fourier_attn.model import grid
from fourier_attn.train import metrics
from fourier_attn.train.evaluate import compute_metrics, evaluate_split
from fourier_attn.train.init_from import restore
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.step import make_eval_step, model_inputs


def load(config: Config, directory: Path, data_dir: str | None = None) -> data.Splits:
    """The data of the run in `directory`, read with its own tokenizer.

    Raises: ValueError where the tokenizer or the data set cannot be used.
    """
    if data_dir is not None:
        config.data.dir = data_dir
    if data.TASKS[config.data.task].fitted:
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
    if data.TASKS[config.data.task].images:
        how = "as well" if data.TASKS[config.data.task].question else "instead of a text"
        raise ValueError(f"the task {config.data.task!r} is about images; give --image=FILE {how}")
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


def predict_image(
    directory: str | Path, image: str | Path, question: str | None = None, picture: str | Path | None = None
) -> list[tuple[str, float]]:
    """The classes of an image, the likeliest first, with their probabilities (means over seeds).

    Of a task on patches the likeliest class of each, row by row. The image is scaled to the size that the
    network was made for.

    Args:
      question: what is asked, of a task with questions.
      picture: file that gets the attention map, the mean over heads of `attention_maps`.
    Raises: ValueError for a file that cannot be used, a question with words that the task does not know, or a
      run that cannot be used, or is not about images.
    """
    directory = Path(directory).resolve()
    config, network, params = restore(directory)
    if config.model.inputs != "patches":
        if data.TASKS[config.data.task].images:
            raise ValueError(f"the task {config.data.task!r} reads no patches; name a run that does")
        raise ValueError(f"the task {config.data.task!r} is about texts; give --text instead of --image")
    task, asked, labels = data.TASKS[config.data.task], None, np.zeros(1, np.int32)
    if (question is not None) != bool(task.question):
        cure = "give one with --text" if task.question else "leave --text out"
        raise ValueError(f"an image of task {config.data.task!r} and text={question!r}: {cure}")
    pixels = read_image(Path(image), tuple(config.model.image))
    if question is not None:
        tokenizer = load_tokenizer(tokenizer_file(directory))
        check_known(tokenizer, question)
        asked = encode_questions(tokenizer, [question], config.data.length)
    rows, cols = grid(config.model)
    if task.head == "tokens":
        labels = np.zeros((1, rows * cols), np.int32)
    batch = ImageBatches(pixels[None], labels, batch=1, questions=asked)[0]
    if picture is not None:
        weights = attention_maps(network, params, batch, config.train.seeds)[0].mean(axis=0)
        write_map(Path(picture), pixels, weights[-rows * cols :].reshape(rows, cols))
    _, answers = make_eval_step(network, OBJECTIVES[task.head], config.train.seeds)(params, batch)
    mean = np.asarray(answers).reshape(-1, *labels.shape[1:], config.model.classes).mean(axis=0)
    if task.head == "tokens":
        best = zip(np.ndindex(rows, cols), mean.argmax(axis=-1), mean.max(axis=-1), strict=True)
        return [(f"{row} {col} {task.labels[label]}", float(p)) for (row, col), label, p in best]
    return [(task.labels[i], float(mean[i])) for i in np.argsort(-mean, kind="stable")]


def attention_maps(network: Any, params: Any, batch: Any, seeds: int) -> np.ndarray:
    """The weight that each head gives each token (b, h, t) for the answers to a batch, the mean over seeds.

    Of a question it is that of the question token; otherwise, in the last block with attention, the class
    token's, where it is what is read, or the mean over the tokens.

    Raises: ValueError for a network without attention.
    """
    total = []
    for seed in range(seeds):
        one = jax.tree.map(lambda p, seed=seed: jnp.asarray(p if seeds == 1 else p[seed]), params)
        given = {name: jnp.asarray(value) for name, value in model_inputs(batch).items()}
        inputs, draws = jnp.asarray(batch["inputs"]), {"noise": jax.random.key(0)}
        _, seen = network.apply({"params": one}, inputs, **given, rngs=draws, mutable=["intermediates"])
        total.append(np.asarray(_last_weights(seen.get("intermediates", {}))))
    weights = np.mean(total, axis=0)
    return weights[:, :, 0] if network.pooling == "class" else weights.mean(axis=2)


def _last_weights(seen: Any) -> jax.Array:
    """The weights (b, h, t, s) of the head, or else of the last block that has some."""
    if "head" in seen:
        return seen["head"]["attention"]["weights"][0]
    blocks = seen.get("encoder", {})
    if not blocks:
        raise ValueError("the network has no attention, and so no map; leave --map out")
    last = max(blocks, key=lambda name: int(name.removeprefix("block_")))
    return blocks[last]["mixer"]["weights"][0]


def write_map(path: Path, pixels: np.ndarray, weights: np.ndarray, width: int = 400) -> None:
    """Writes the image beside itself under its map: the brighter a patch, the more weight it has.

    Args:
      pixels: (rows, cols, channels), bytes.
      weights: of the patches, rows and columns.
      width: of each of the two, in pixels.
    Raises: ValueError for a file that cannot be written.
    """
    rows, cols, _ = pixels.shape
    size = (width, max(width * rows // cols, 1))
    plain = Image.fromarray(pixels.squeeze()).convert("RGB").resize(size, Image.Resampling.NEAREST)
    shares = Image.fromarray(np.uint8(255 * weights / weights.max())).resize(size, Image.Resampling.NEAREST)
    both = Image.new("RGB", (2 * width, size[1]))
    both.paste(plain, (0, 0))
    both.paste(plain, (width, 0), shares)
    try:
        both.save(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"map={path} cannot be written ({error}); name a file like map.png") from error


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
