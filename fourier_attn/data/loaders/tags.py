"""Loads tagged sentences; the tag of each word is the label of its first token."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fourier_attn.data.batches import IGNORED, Batches, padded_lengths
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.loaders.encoding import model_knobs, run_tokenizer
from fourier_attn.data.splits import Origins, Splits
from fourier_attn.data.tables import tagged, user_tables
from fourier_attn.data.tables.sentences import Sentence
from fourier_attn.data.tasks import task_of
from fourier_attn.data.text import special, tokenizer_file
from fourier_attn.data.text.places import encode_words, table_of
from fourier_attn.knobs import with_values


def load(config: DataConfig, directory: Path, say: Callable[[str], None], **order: int) -> Splits:
    """Loads the tagged sentences of `train`, `validation` and `test`.

    A batch also has answer_positions (b, p), the first token of each word, and label (b, p), its tag. Unused
    places have the label `IGNORED`, and words that are cut off have no label.

    Args:
      config, directory, say: see `fourier_attn.data.load`.
      order: seed and epochs of the training set, see `fourier_attn.data.load`.
    """
    read = tagged.read(config)
    knobs = {"labels": read.labels}
    config = with_values(config, knobs)
    texts = (" ".join(words) for words in tagged.words_of(read.parts["train"]))
    tokenizer = run_tokenizer(config, directory, texts, say)
    say(f"encoding {sum(map(len, read.parts.values())):,} sentences ...")
    encoded = {
        name: encode_words(tokenizer, [*tagged.words_of(part)], config.length)
        for name, part in read.parts.items()
    }
    width = max(len(each) for _, places in encoded.values() for each in places)
    ids, lengths = special(tokenizer), padded_lengths(config)

    def batches(name: str, **order: int) -> Batches:
        rows, places = encoded[name]
        labels = labels_of(read.parts[name].sentences, read.labels, places, width)
        return Batches(
            rows,
            labels,
            buckets=lengths,
            batch=config.batch,
            pad=ids.pad,
            sep=ids.sep,
            more={"answer_positions": table_of(places, width, 0)},
            **order,
        )

    test = read.parts["test"]
    return Splits(
        train=batches("train", **order),
        validation=batches("validation"),
        test=batches("test"),
        extra_evals={},
        model=model_knobs(task_of(config), tokenizer.get_vocab_size()),
        lengths=lengths,
        in_train=np.zeros(len(test), bool),
        tokenizer=tokenizer_file(directory),
        knobs=knobs,
        notes=(
            *read.notes,
            *(note for name in encoded for note in _cut(name, read.parts[name], encoded[name][1], config)),
        ),
        files=user_tables.fingerprints(config),
        origins={name: Origins(part.file, part.rows + 1) for name, part in read.parts.items()},
    )


def labels_of(
    sentences: Sequence[Sentence], names: Sequence[str], places: Sequence[np.ndarray], width: int
) -> np.ndarray:
    """Returns the class of each word that was read (n, width); -1 for words without a tag.

    Args:
      sentences: n sentences.
      names: names of the tags.
      places: first token of each word that was read, for each sentence.
      width: number of columns; unused ones are `IGNORED`.
    """
    numbers = {name: i for i, name in enumerate(names)}
    rows = [
        np.array([numbers[tag] for tag in sentence.tags] if sentence.tags else [-1] * len(sentence.words))
        for sentence in sentences
    ]
    read = [row[: len(each)] for row, each in zip(rows, places, strict=True)]
    return table_of(read, width, IGNORED)


def _cut(name: str, part: tagged.TaggedSplit, places: Sequence[np.ndarray], config: DataConfig) -> list[str]:
    """Returns a note on the words of a split that are cut off; [] if none is.

    Args:
      name: name of the split.
      part: its sentences.
      places: first token of each word that was read, for each sentence.
      config: the `data` part of the configuration.
    """
    words = sum(len(sentence.words) for sentence in part.sentences)
    read = sum(map(len, places))
    if words == read:
        return []
    what = "learned" if name == "train" else "scored"
    return [
        f"{name}: {words - read:,} of {words:,} words exceed data.length={config.length} tokens and are not "
        f"{what}"
    ]
