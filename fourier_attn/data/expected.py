"""States, without reading data, which batches a configuration has and which options of a model they set."""

from typing import Any

import numpy as np

from fourier_attn import paths
from fourier_attn.data import skills
from fourier_attn.data.batches import padded_lengths
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.loaders.pixels import GREY_VALUES
from fourier_attn.data.tasks import OWN, Task, task_of
from fourier_attn.data.text import fit, load_tokenizer, names_file

Spec = dict[str, tuple[tuple[int, ...], np.dtype]]
INTEGER, REAL, BYTE, TRUTH = map(np.dtype, ("int32", "float32", "uint8", "bool"))


def expected_model(config: DataConfig, classes: int) -> dict[str, Any]:
    """Returns the options of a model that the data will determine, as far as the configuration says them.

    A fitted vocabulary counts as `data.vocab`, its largest size. A custom dataset without `data.labels`
    counts as one with `classes` classes.

    Args:
      config: the `data` part of the configuration.
      classes: number of classes of a custom dataset without names of its classes.
    """
    task = task_of(config)
    known = config.task not in OWN or config.labels
    found: dict[str, Any] = {"inputs": task.inputs, "head": task.head}
    if not known and task.head == "score":
        found["head"] = "classes"
    found["classes"] = max(len(task.labels), 1) if known else classes
    if config.task == "image_files":
        found["image"] = (config.image_size, config.image_size, 3)
    if task.inputs == "tokens" or task.question:
        found["vocab"] = _vocabulary(config, task)
    return found


def expected_lengths(config: DataConfig) -> tuple[int, ...]:
    """Returns the padded lengths of the inputs in increasing order; () for images."""
    task = task_of(config)
    if task.inputs == "patches":
        return ()
    whole = task.corpora or task.skill or task.images
    return (config.length,) if whole else padded_lengths(config)


def expected_batch(config: DataConfig, model: Any) -> Spec:
    """Returns the shape of one example and the dtype for each array of a training batch, as `Splits.spec`.

    Texts have the largest length. Words of tagged sentences and places of answers, whose largest number only
    the data tell, count as one for each token.

    Args:
      config: the `data` part of the configuration.
      model: the `model` part, with the options of `expected_model`.
    """
    task, t = task_of(config), config.length
    spec: Spec = {"weight": ((), REAL), "index": ((), INTEGER), "label": ((), INTEGER)}
    if task.inputs == "patches":
        return spec | _images(config, task, model)
    spec["inputs"] = ((t,), INTEGER)
    if task.head == "pretraining":
        return (
            spec
            | _masked(config, t - 3, ("mlm_labels",))
            | {
                "types": ((t,), INTEGER),
                "mlm_weights": ((_masked_tokens(config, t - 3),), REAL),
            }
        )
    if task.corpora:
        if task.head == "mlm":
            return spec | _masked(config, t - 2)
        return spec | {"label": ((t,), INTEGER), "words": ((), REAL)}
    if task.skill:
        places = skills.SKILLS[config.task].asked(skills.knobs_of(config))
        spec |= dict.fromkeys(("answer_positions", "label"), ((places,), INTEGER))
        return spec | (_masked(config, t) if config.masked else {})
    spec |= {"mask": ((t,), TRUTH), "types": ((t,), INTEGER)}
    if config.masked:
        return spec | _masked(config, t)
    if task.head == "spans":
        return spec | {
            "answer_positions": ((t,), INTEGER),
            "places": ((), INTEGER),
            "label": ((2,), INTEGER),
        }
    if task.tagged:
        return spec | dict.fromkeys(("answer_positions", "label"), ((t,), INTEGER))
    if task.multi_label:
        return spec | {"label": ((model.classes,), INTEGER)}
    return spec | {"label": ((), REAL if model.head == "score" else INTEGER)}


def _vocabulary(config: DataConfig, task: Task) -> int:
    if task.images and not task.question:
        return GREY_VALUES
    if task.skill:
        return config.vocab
    if names_file(config.tokenizer):
        return load_tokenizer(paths.given(config.tokenizer)).get_vocab_size()
    return fit("bytes", (), config.vocab).get_vocab_size() if config.tokenizer == "bytes" else config.vocab


def _masked_tokens(config: DataConfig, length: int) -> int:
    return max(1, round(config.mask_rate * length))


def _masked(config: DataConfig, length: int, names: tuple[str, ...] = ("label",)) -> Spec:
    """Returns the arrays of masked tokens.

    Args:
      config: the `data` part of the configuration.
      length: number of tokens of a row that are not special.
      names: names of the arrays with the original tokens.
    """
    return dict.fromkeys(("answer_positions", *names), ((_masked_tokens(config, length),), INTEGER))


def _images(config: DataConfig, task: Task, model: Any) -> Spec:
    spec: Spec = {"inputs": (tuple(model.image), BYTE)}
    if task.head == "tokens":
        rows, columns, _ = model.image
        spec["label"] = (((rows // model.patch) * (columns // model.patch),), INTEGER)
    if task.question:
        spec["question"] = ((config.length,), INTEGER)
    if config.mix:
        spec |= {"second_label": ((), INTEGER), "share": ((), REAL)}
    return spec
