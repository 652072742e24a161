"""Reads the splits of a TFDS data set: texts or images with their labels."""

import io
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

from fourier_attn.data.examples import Examples, Pictures
from fourier_attn.data.tables.columns import Columns


def read_pictures(builder: Any, split: str, label: str = "label", question: str = "") -> Pictures:
    """Reads the images of a split, in TFDS's order.

    Args:
      builder: the TFDS builder.
      split: name of the split.
      label: feature with the label; default "label".
      question: feature with the question; default "": no questions.
    Raises: ValueError for a split that does not exist or cannot be read.
    """
    check_split(builder, split, ("image", label, *([question] if question else [])), "images")
    shape = builder.info.features["image"].shape
    try:
        decoders = {"image": tfds.decode.SkipDecoding()}  # TFDS's decoder needs TensorFlow or is slow
        source = builder.as_data_source(split, decoders=decoders)
        rows = source.__getitems__(range(len(source)))
        if len(rows) != builder.info.splits[split].num_examples:
            raise ValueError(f"{len(rows)} of {builder.info.splits[split].num_examples} examples")
        images = np.empty((len(rows), *shape), np.uint8)
        for i, row in enumerate(rows):
            images[i] = _decoded(row["image"], shape)
        labels = np.array([row[label] for row in rows])
        labels = labels.reshape(len(rows), -1) if labels.ndim > 1 else labels
        questions = np.array([row[question].decode() if question else "" for row in rows])
        ids = np.array([row["id"].decode() if "id" in row else str(i) for i, row in enumerate(rows)])
    except Exception as error:  # array_record, TFDS and Pillow raise many types of errors for a damaged file
        raise ValueError(_unreadable(builder, split, error)) from error
    return Pictures(images, labels, ids, np.zeros(len(rows), bool), questions)


def _decoded(contents: bytes, shape: tuple[int, ...]) -> np.ndarray:
    with Image.open(io.BytesIO(contents), formats=("PNG",)) as image:
        if image.size != (shape[1], shape[0]):
            raise ValueError(f"an image of {image.size[1]} x {image.size[0]} pixels")
        return np.asarray(image).reshape(shape)


def _unreadable(builder: Any, split: str, error: Exception) -> str:
    """Returns the message for a `split` of a `builder` that cannot be read because of an `error`."""
    return (
        f"split {split!r} of the data set in {builder.data_path} cannot be read "
        f"({type(error).__name__}: {str(error)[:200]}); move this folder and prepare the data set again"
    )


def check_split(builder: Any, split: str, features: tuple[str, ...], kind: str) -> None:
    """Checks that a split and its features exist.

    Args:
      builder: the TFDS builder.
      split: name of the split.
      features: names of the required features.
      kind: "texts" or "images", for the message.
    Raises: ValueError.
    """
    if split not in builder.info.splits:
        raise ValueError(
            f"the data set in {builder.data_path} has no split {split!r}; it has "
            f"{', '.join(builder.info.splits)}; give one of these, or move this folder and prepare the data "
            "set again"
        )
    if missing := set(features) - set(builder.info.features):
        raise ValueError(
            f"the data set in {builder.data_path} has no feature {', '.join(sorted(missing))}; it has "
            f"{', '.join(builder.info.features)}; give a data set with these {kind}"
        )


def check_texts(builder: Any, columns: Columns) -> None:
    """Checks that the features of `data.text` and `data.text_pair` are texts. Raises: ValueError."""
    features = builder.info.features
    texts = [name for name, feature in features.items() if _is_text(feature)]
    for knob in ("text", "text_pair"):
        name = getattr(columns, knob)
        if name and name not in texts:
            raise ValueError(
                f"data.{knob}={name}: this feature of the data set in {builder.data_path} is "
                f"{features[name]!r:.80}, not a text; give one of {', '.join(texts) or 'another data set'}"
            )


def _is_text(feature: Any) -> bool:
    """Returns whether a feature is one string, declared as `Text` or as `np.str_`."""
    one = isinstance(feature, tfds.features.Tensor) and feature.shape == ()
    return one and feature.np_dtype == np.object_


def class_names(builder: Any, feature: str) -> tuple[str, ...]:
    """Returns the classes of a feature; () for floating-point numbers. Raises: ValueError for others."""
    kind = builder.info.features[feature]
    if isinstance(kind, tfds.features.ClassLabel):
        return tuple(kind.names)
    if np.issubdtype(kind.np_dtype, np.floating):
        return ()
    raise ValueError(
        f"the feature {feature} of the data set in {builder.data_path} is {kind}, neither a class nor a "
        "floating-point number; set data.label to another feature"
    )


def read_split(
    builder: Any, split: str, texts: tuple[str, ...] = ("text",), label: str = "label"
) -> Examples:
    """Reads the texts of a split, in TFDS's order; missing labels are -1.

    Args:
      builder: the TFDS builder.
      split: name of the split.
      texts: features with the text, or with the two texts; default ("text",).
      label: feature with the label; default "label".
    Raises: ValueError for a split that does not exist or cannot be read.
    """
    check_split(builder, split, texts, "texts")
    try:
        expected = builder.info.splits[split].num_examples
        source = builder.as_data_source(split)
        rows = source.__getitems__(range(len(source)))
        if len(rows) != expected:
            raise ValueError(f"{len(rows)} of {expected} examples")
        columns = [[row[name].decode("utf-8") for row in rows] for name in texts]
        labels = np.array([row.get(label, -1) for row in rows])
        if labels.dtype.kind == "f" and np.isnan(labels).all():
            labels = np.full(len(rows), -1.0)  # not public
        idx = np.array([row.get("idx", i) for i, row in enumerate(rows)])
    except Exception as error:  # array_record and TFDS raise many types of errors for a damaged file
        raise ValueError(_unreadable(builder, split, error)) from error
    text_pairs = columns[1] if len(columns) > 1 else None
    return Examples(columns[0], text_pairs, labels, np.zeros(len(rows), bool), idx)
