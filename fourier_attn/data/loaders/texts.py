"""Loads texts from TFDS data sets."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from fourier_attn.data import cache, reading
from fourier_attn.data.batches import padded_lengths
from fourier_attn.data.cache import CachedSplit, CachedSplits
from fourier_attn.data.examples import Examples
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.loaders.encoding import (
    cut_note,
    model_knobs,
    restore_tokenizer,
    rows_to_fit,
    run_tokenizer,
    token_batches,
)
from fourier_attn.data.packed import encode_all
from fourier_attn.data.splits import Splits
from fourier_attn.data.tables.columns import Columns
from fourier_attn.data.tables.notes import describe_classes, describe_columns, unseen_classes
from fourier_attn.data.text import load_tokenizer, tokenizer_file
from fourier_attn.knobs import with_values


def load(config: DataConfig, directory: Path, say: Callable[[str], None], **order: int) -> Splits:
    """Loads the texts of a task, from the cache if they are in it.

    Args:
      config, directory, say: see `fourier_attn.data.load`.
      order: seed and epochs of the training set, see `fourier_attn.data.load`.
    """
    knobs = reading.tfds_knobs(config) if config.task == "tfds" else {}
    config = with_values(config, knobs)
    task, (parts, facts) = reading.split_names(config), _encoded(config, directory, say)
    tokenizer = load_tokenizer(tokenizer_file(directory))
    batches = token_batches(config, tokenizer, parts, order)
    validation, *other_validations = task.validations or ("validation",)
    test, *other_tests = task.tests
    notes = _tfds_notes(config, parts["train"].labels) if config.task == "tfds" else []
    return Splits(
        train=batches["train"],
        validation=batches[validation],
        test=batches[test],
        extra_evals={name: batches[name] for name in (*other_validations, *other_tests)},
        model=model_knobs(task, tokenizer.get_vocab_size()),
        lengths=padded_lengths(config),
        in_train=parts[test].in_train,
        idx={name: parts[name].idx for name in task.tests},
        tokenizer=tokenizer_file(directory),
        knobs=knobs,
        notes=(*notes, *facts["notes"]),
    )


def _encoded(config: DataConfig, directory: Path, say: Callable[[str], None]) -> CachedSplits:
    """Encodes the splits or takes them from the cache, and saves the tokenizer in the run's directory.

    Args:
      config, directory, say: see `load`.
    """
    place = cache.of_tfds(config)
    restore_tokenizer(place, config, directory)
    if cached := place.find(directory):
        return cached
    examples = reading.read(config)
    tokenizer = run_tokenizer(config, directory, texts_to_fit(config, examples["train"]), say, place)
    say(f"encoding {sum(map(len, examples.values())):,} examples ...")
    parts = {
        name: CachedSplit(
            encode_all(tokenizer, _rows(part), config.length), part.labels, part.in_train, part.idx
        )
        for name, part in examples.items()
    }
    encoded = CachedSplits(parts, {"notes": cut_note(parts["train"].rows, config.length)})
    place.store(directory, encoded)
    return encoded


def texts_to_fit(config: DataConfig, train: Examples) -> list[str]:
    """Returns the texts that a tokenizer is fitted on, of pairs both.

    Args:
      config: the `data` part of the configuration.
      train: the training set.
    """
    part = train.limit(rows_to_fit(config, pairs=train.text_pairs is not None))
    return [*part.texts, *(part.text_pairs or [])]


def _rows(part: Examples) -> Iterable[tuple[str, ...]]:
    return zip(part.texts, part.text_pairs, strict=True) if part.text_pairs else zip(part.texts, strict=True)


def _tfds_notes(config: DataConfig, labels: np.ndarray) -> list[str]:
    """Returns notes on the features of a TFDS data set, and on the classes with their training examples."""
    taken, names = Columns(config.text, config.text_pair, config.label), config.labels
    notes = [describe_columns(taken, ())]
    if names:
        notes += [describe_classes(names, labels), *unseen_classes(names, labels)]
    return notes
