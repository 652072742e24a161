"""Loads custom tables without holding all their texts in memory."""

from collections.abc import Callable, Sequence
from pathlib import Path

from fourier_attn.data import cache
from fourier_attn.data.batches import padded_lengths
from fourier_attn.data.cache import CachedSplit, CachedSplits, DataCache
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.loaders.encoding import (
    cut_note,
    model_knobs,
    restore_tokenizer,
    rows_to_fit,
    run_tokenizer,
    token_batches,
)
from fourier_attn.data.splits import Origins, Splits
from fourier_attn.data.tables import user_tables
from fourier_attn.data.tasks import task_of
from fourier_attn.data.text import load_tokenizer, tokenizer_file
from fourier_attn.knobs import with_values


def load(config: DataConfig, directory: Path, say: Callable[[str], None], **order: int) -> Splits:
    """Loads the tables `train`, `validation` and `test`.

    Args:
      config, directory, say: see `fourier_attn.data.load`.
      order: seed and epochs of the training set, see `fourier_attn.data.load`.
    """
    columns, files = user_tables.columns_of(config)._asdict(), user_tables.fingerprints(config)
    config = with_values(config, columns)
    place = cache.of_tables(config, files)
    restore_tokenizer(place, config, directory)
    encoded = place.find(directory)
    if encoded is None or not _has_classes(encoded, config.labels):
        encoded = _encoded(config, directory, place, say)
        if user_tables.fingerprints(config) != files:
            raise ValueError(f"{config.train}: a table changed while it was read; start again")
        place.store(directory, encoded)
    parts, facts = encoded
    knobs = columns | {"labels": tuple(facts["labels"])}
    config = with_values(config, knobs)
    tokenizer = load_tokenizer(tokenizer_file(directory))
    batches = token_batches(config, tokenizer, parts, order)
    return Splits(
        train=batches["train"],
        validation=batches["validation"],
        test=batches["test"],
        extra_evals={},
        model=model_knobs(task_of(config), tokenizer.get_vocab_size()),
        lengths=padded_lengths(config),
        in_train=parts["test"].in_train,
        tokenizer=tokenizer_file(directory),
        knobs=knobs,
        notes=tuple(facts["notes"]),
        files=files,
        origins={name: Origins(config[name] or config.train, part.idx) for name, part in parts.items()},
    )


def _has_classes(cached: CachedSplits, labels: Sequence[str]) -> bool:
    """Returns whether the cached rows have the classes `labels`; (): those of the training set."""
    return list(labels) == cached.facts["labels"] if labels else not cached.facts["named"]


def _encoded(
    config: DataConfig, directory: Path, place: DataCache, say: Callable[[str], None]
) -> CachedSplits:
    """Encodes the tables, and saves the tokenizer in the run's directory.

    Args:
      config: the `data` part of the configuration.
      directory: directory of the run.
      place: the cache.
      say: called with a line before each slow step.
    """
    read = user_tables.read(config)
    texts = read.texts("train", rows_to_fit(config, pairs=bool(config.text_pair)))
    tokenizer = run_tokenizer(config, directory, texts, say, place)
    say(f"encoding {sum(map(len, read.parts.values())):,} rows ...")
    rows = read.encode(tokenizer, config.length)
    parts = {
        name: CachedSplit(rows[name], part.labels, part.in_train, part.rows + 1)
        for name, part in read.parts.items()
    }
    notes = [*read.notes, *cut_note(rows["train"], config.length)]
    facts = {"labels": [*read.labels], "named": bool(config.labels), "notes": notes}
    return CachedSplits(parts, facts)
