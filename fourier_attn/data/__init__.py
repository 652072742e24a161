"""From a task's name to batches of token ids, or of images."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fourier_attn import paths
from fourier_attn.data import cache
from fourier_attn.data.batches import Batches, Split
from fourier_attn.data.beginnings import ids_of
from fourier_attn.data.cache import CachedSplit, CachedSplits, DataCache
from fourier_attn.data.corpus import check_corpora, read_corpora
from fourier_attn.data.images import Augmentation, ImageBatches, grey, statistics
from fourier_attn.data.masking import MaskedBatches
from fourier_attn.data.packed import PackedTokens, encode_all
from fourier_attn.data.reading import check_available, read, read_images, split_names, tfds_knobs
from fourier_attn.data.sources import glue
from fourier_attn.data.tables import user_tables
from fourier_attn.data.tables.columns import (
    LIMITS,
    Columns,
    describe_classes,
    describe_columns,
    unseen_classes,
)
from fourier_attn.data.tasks import (
    TASKS,
    Task,
    check_task,
    task_of,
)
from fourier_attn.data.text import (
    KINDS,
    WORDS,
    check_kind,
    copy_tokenizer,
    encode_questions,
    fit,
    load_tokenizer,
    names_file,
    save_tokenizer,
    special,
    tokenizer_file,
)
from fourier_attn.data.tfds import Examples, Pictures

__all__ = [
    "TASKS",
    "Origin",
    "Splits",
    "Task",
    "check",
    "check_available",
    "hidden",
    "load",
    "padded_lengths",
    "source",
    "task_of",
    "write_submission",
]


class Origin(NamedTuple):
    """Where an example comes from.

    Args:
      file: as the configuration names it, a table or the folder of one; or a file that is an example.
      row: its number there from 1, without the header and empty lines; None of a file that is an example.
    """

    file: str
    row: int | None


class Origins(Sequence[Origin]):
    """The origins of the examples of a split, which come from rows of one file."""

    def __init__(self, file: str, rows: np.ndarray):
        self.file, self.rows = file, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return Origin(self.file, int(self.rows[index]))


class Splits(NamedTuple):
    """The batches of each split, and what they ask of a model.

    Args:
      extra_evals: further validation and test splits, by name.
      model: knobs of the model that the data determine: its inputs, head, classes and vocabulary.
      lengths: to which inputs are padded, rising; () for images.
      in_train: which test examples stand in train too (bool, n).
      idx: GLUE's numbers of the examples of each test split, which TFDS has in another order.
      tokenizer: its file in the run's directory, where inputs are texts.
      knobs: of the data that own data determine: columns and classes.
      notes: on own data, what people should know about them.
      files: of own data, name and hash of each.
      origins: of own data, by split, the file and the row of each example.
    """

    train: Split
    validation: Split
    test: Split
    extra_evals: Mapping[str, Split]
    model: Mapping[str, Any]
    lengths: tuple[int, ...]
    in_train: np.ndarray
    idx: Mapping[str, np.ndarray]
    tokenizer: Path | None = None
    knobs: Mapping[str, Any] = MappingProxyType({})
    notes: tuple[str, ...] = ()
    files: Mapping[str, str] = MappingProxyType({})
    origins: Mapping[str, Sequence[Origin]] = MappingProxyType({})

    @property
    def evals(self) -> dict[str, Split]:
        """Everything that is evaluated, by name; "test" last."""
        return {"validation": self.validation, **self.extra_evals, "test": self.test}

    @property
    def spec(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Shape without the batch and dtype of each array of a batch, at the length of the first one."""
        return {name: (array.shape[1:], array.dtype) for name, array in self.train[0].items()}

    def describe(self) -> str:
        """Sizes, in words."""
        sizes = [f"{len(getattr(self, name).rows):,} {name}" for name in ("train", "validation", "test")]
        if "vocab" in self.model:
            sizes[-1] += f"; vocabulary {self.model['vocab']:,}"
        return ", ".join(sizes)

    def fingerprints(self) -> dict[str, Any]:
        """Of the data, for each split its size and a hash of all rows and labels, in their order; and a hash
        of the tokenizer."""
        found = {}
        for name, split in {"train": self.train, **self.evals}.items():
            digest = hashlib.blake2b(digest_size=8)
            for record in _records(split):
                digest.update(record)
            questions = getattr(split, "questions", None)
            digest.update(b"" if questions is None else questions.tobytes())
            found[name] = f"{len(split.rows)} {digest.hexdigest()}"
        found |= {f"files.{name}": fingerprint for name, fingerprint in self.files.items()}
        if self.tokenizer is None:
            return {"data": found}
        return {"data": found, "tokenizer": hashlib.sha256(self.tokenizer.read_bytes()).hexdigest()[:16]}


def _records(split: Split) -> Iterator[bytes]:
    """Each row with its length before it and its label behind it."""
    if isinstance(split.rows, PackedTokens):
        yield from split.rows.records(split.labels)
        return
    for row, label in zip(split.rows, split.labels, strict=True):
        yield len(row).to_bytes(4, "little") + np.ascontiguousarray(row).tobytes() + label.tobytes()


def load(
    config: Any,
    *,
    directory: Path,
    seed: int = 0,
    epochs: int = 1,
    tokenizer: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Splits:
    """Reads and encodes the data of `config.task`.

    The tokenizer is the one in the run's `directory`, or else made as `config.tokenizer` says, from train
    where it is to be fitted, and written there. The order of train is drawn from `seed`; validation and
    test keep theirs.

    Args:
      tokenizer: a file to be taken instead of what `config.tokenizer` says.
      say: is told what takes long, before it begins.
    Raises: ValueError for anything amiss with the configuration or the data set.
    """
    if tokenizer and not tokenizer_file(directory).exists():
        copy_tokenizer(tokenizer, directory)
    if config["task"] == "pretraining":
        return _load_pretraining(config, directory, seed, epochs, say)
    if config["task"] == "files":
        return _load_own(config, directory, seed, epochs, say)
    if TASKS[config["task"]].images:
        kind = _load_images if TASKS[config["task"]].inputs == "patches" else _load_pixels
        return kind(config, directory, seed, epochs)
    knobs = tfds_knobs(config) if config["task"] == "tfds" else {}
    config = dict(config) | knobs
    task, (parts, facts) = split_names(config), _encoded(config, directory, say)
    ids = special(load_tokenizer(tokenizer_file(directory)))

    def batches(split: str, **order: int) -> Batches:
        lengths, size = padded_lengths(config), config["batch"]
        rows, labels = parts[split].rows, parts[split].labels
        return Batches(rows, labels, buckets=lengths, batch=size, pad=ids.pad, sep=ids.sep, **order)

    names = [*(task.validations or ("validation",)), *task.tests]
    splits = {name: batches(name) for name in names}
    validation, test = names[0], task.tests[0]
    extra_evals = {name: splits[name] for name in names if name not in (validation, test)}
    train = batches("train", seed=seed, epochs=epochs)
    idx = {name: parts[name].idx for name in task.tests}
    told = _told(task, load_tokenizer(tokenizer_file(directory)))
    in_train = parts[test].in_train
    lengths = padded_lengths(config)
    notes = _tfds_notes(config, parts["train"].labels) if config["task"] == "tfds" else []
    return Splits(
        train,
        splits[validation],
        splits[test],
        extra_evals,
        told,
        lengths,
        in_train,
        idx,
        tokenizer_file(directory),
        knobs,
        (*notes, *facts["notes"]),
    )


def _load_own(config: Any, directory: Path, seed: int, epochs: int, say: Callable[[str], None]) -> Splits:
    """Tables of the user's own, whose texts are never held in memory."""
    columns, files = user_tables.columns_of(config)._asdict(), user_tables.fingerprints(config)
    config = dict(config) | columns
    place = cache.of_tables(config, files)
    found = _kept(place, config, directory)
    if found is None or not _as_asked(found, config["labels"]):
        found = _encoded_own(config, directory, place, say)
        if user_tables.fingerprints(config) != files:
            raise ValueError(f"{config['train']}: a table has changed while it was read; start again")
        place.keep(directory, found)
    knobs = columns | {"labels": tuple(found.facts["labels"])}
    config |= knobs
    tokenizer = load_tokenizer(tokenizer_file(directory))
    ids, lengths = special(tokenizer), padded_lengths(config)

    def batches(split: str, **order: int) -> Batches:
        (rows, labels, *_), size = found.parts[split], config["batch"]
        return Batches(rows, labels, buckets=lengths, batch=size, pad=ids.pad, sep=ids.sep, **order)

    return Splits(
        batches("train", seed=seed, epochs=epochs),
        batches("validation"),
        batches("test"),
        {},
        _told(task_of(config), tokenizer),
        lengths,
        found.parts["test"].in_train,
        {},
        tokenizer_file(directory),
        knobs,
        tuple(found.facts["notes"]),
        files,
        {name: Origins(config[name] or config["train"], part.idx) for name, part in found.parts.items()},
    )


def _as_asked(found: CachedSplits, labels: Sequence[str]) -> bool:
    """Whether rows were kept with the classes that are named now, or none is and they are those of train."""
    return list(labels) == found.facts["labels"] if labels else not found.facts["named"]


def _encoded_own(config: Any, directory: Path, place: DataCache, say: Callable[[str], None]) -> CachedSplits:
    """The user's own tables as token ids; the tokenizer is in the run's directory then."""
    read = user_tables.read(config)
    fits = _fits(config, directory, say)
    tokenizer = _tokenizer(config, directory, read.texts("train", config["fit_examples"]), say)
    if fits:
        place.keep_tokenizer(directory)
    say(f"encoding {sum(map(len, read.parts.values())):,} rows ...")
    rows = read.encode(tokenizer, config["length"])
    parts = {
        name: CachedSplit(rows[name], part.labels, part.in_train, part.rows + 1)
        for name, part in read.parts.items()
    }
    notes = [*read.notes, *_cut_note(rows["train"], config["length"])]
    facts = {"labels": [*read.labels], "named": bool(config["labels"]), "notes": notes}
    return CachedSplits(parts, facts)


def _cut_note(rows: PackedTokens, length: int) -> list[str]:
    """Returns a note on the texts of train that are longer than `data.length`."""
    count = 0 if rows.cut is None else int(rows.cut.sum())
    if not count:
        return []
    return [
        f"train: {count:,} of {len(rows):,} texts ({count / len(rows):.1%}) are cut at data.length={length}"
    ]


def source(config: Any) -> str:
    """What the data are read from, in words."""
    task = TASKS[config["task"]]
    return task.dataset or config["dataset"] or config["train"] or ", ".join(config["corpora"])


def hidden(labels: np.ndarray) -> bool:
    """Whether the labels of a split are not public: all are -1."""
    return bool((labels == -1).all())


def _encoded(config: Any, directory: Path, say: Callable[[str], None]) -> CachedSplits:
    """The splits as token ids, and notes on them; the tokenizer is in the run's directory then."""
    place = cache.of_tfds(config)
    if found := _kept(place, config, directory):
        return found
    examples = read(config)
    train = examples["train"]
    fits = _fits(config, directory, say)
    tokenizer = _tokenizer(config, directory, [*train.texts, *(train.text_pairs or [])], say)
    if fits:
        place.keep_tokenizer(directory)
    say(f"encoding {sum(map(len, examples.values())):,} examples ...")
    parts = {
        name: CachedSplit(
            encode_all(tokenizer, _columns(part), config["length"]),
            part.labels,
            part.in_train,
            part.idx,
        )
        for name, part in examples.items()
    }
    found = CachedSplits(parts, {"notes": _cut_note(parts["train"].rows, config["length"])})
    place.keep(directory, found)
    return found


def _tfds_notes(config: Any, labels: np.ndarray) -> list[str]:
    """Returns which features of a TFDS data set were taken, and the classes with their counts in train."""
    taken, names = Columns(config["text"], config["text_pair"], config["label"]), config["labels"]
    notes = [describe_columns(taken, ())]
    if names:
        counts = np.bincount(labels, minlength=len(names)).tolist()
        notes += [describe_classes(names, counts), *unseen_classes(names, labels)]
    return notes


def _kept(place: DataCache, config: Any, directory: Path) -> CachedSplits | None:
    """What an earlier start has kept; the tokenizer is in the run's directory then, if it has one."""
    if config["tokenizer"] in KINDS:
        place.give_tokenizer(directory)
    return place.find(directory)


def _fits(config: Any, directory: Path, say: Callable[[str], None]) -> bool:
    """Whether a tokenizer has to be fitted, which takes a while."""
    fits = config["tokenizer"] in KINDS and not tokenizer_file(directory).exists()
    if fits:
        say(f"fitting the tokenizer {config['tokenizer']!r} ...")
    return fits


def _columns(part: Examples) -> Iterable[tuple[str, ...]]:
    return zip(part.texts, part.text_pairs, strict=True) if part.text_pairs else zip(part.texts, strict=True)


def _told(task: Task, tokenizer: Any) -> dict[str, Any]:
    """What a model must be told about texts."""
    classes = max(len(task.labels), 1)
    return {
        "inputs": "tokens",
        "vocab": tokenizer.get_vocab_size(),
        "head": task.head,
        "classes": classes,
    }


def _load_pretraining(
    config: Any, directory: Path, seed: int, epochs: int, say: Callable[[str], None]
) -> Splits:
    texts = read_corpora(config)
    tokenizer = _tokenizer(config, directory, texts["train"], say)

    def batches(split: str, **order: int) -> MaskedBatches:
        documents = [np.asarray(row, np.int32) for row in ids_of(tokenizer, texts[split])[0]]
        sizes = {"length": config["length"], "batch": config["batch"], "rate": config["mask_rate"]}
        return MaskedBatches(documents, tokenizer, **sizes, most=config[LIMITS[split]], **order)

    train, validation, test = (
        batches("train", seed=seed, epochs=epochs),
        batches("validation"),
        batches("test"),
    )
    told = _told(TASKS["pretraining"], tokenizer)
    lengths, in_train = (config["length"],), np.zeros(len(test.rows), bool)
    file = tokenizer_file(directory)
    return Splits(train, validation, test, {}, told, lengths, in_train, {}, file)


def _load_images(config: Any, directory: Path, seed: int, epochs: int) -> Splits:
    examples, knobs, notes = read_images(config)
    task = task_of(dict(config) | knobs)
    train = examples.pop("train")
    ways = Augmentation(config["flip"], config["crop"], config["mix"])
    if ways.crop >= min(train.images.shape[1:3]):
        raise ValueError(
            f"data.crop={ways.crop} would leave nothing of images of {train.images.shape[1]} x "
            f"{train.images.shape[2]} pixels; make it smaller"
        )
    tokenizer = _tokenizer(config, directory, train.questions.tolist()) if task.question else None

    def batches(part: Pictures, **order: Any) -> ImageBatches:
        asked = encode_questions(tokenizer, part.questions.tolist(), config["length"]) if tokenizer else None
        return ImageBatches(part.images, part.labels, batch=config["batch"], questions=asked, **order)

    splits = {name: batches(part) for name, part in examples.items()}
    mean, deviation = statistics(train.images)
    told = {
        "inputs": task.inputs,
        "image": train.images.shape[1:],
        "pixel_mean": mean,
        "pixel_deviation": deviation,
        "head": task.head,
        "classes": len(task.labels),
    }
    if tokenizer:
        told["vocab"] = tokenizer.get_vocab_size()
    first = batches(train, augmentation=ways, seed=seed, epochs=epochs)
    test, *others = task.tests
    extra_evals = {name: splits[name] for name in (*others, *task.held)}
    in_train = examples[test].in_train
    file = tokenizer_file(directory) if tokenizer else None
    found = Splits(
        first, splits["validation"], splits[test], extra_evals, told, (), in_train, {}, file, knobs, notes
    )
    if config["task"] != "image_files":
        return found
    folder_of = {split: Path(config[split] or config["train"]) for split in ("validation", "test")}
    return found._replace(
        origins={
            split: [Origin(str(folder / name), None) for name in examples[split].ids]
            for split, folder in folder_of.items()
        }
    )


def _load_pixels(config: Any, directory: Path, seed: int, epochs: int) -> Splits:
    task, (examples, _, _) = TASKS[config["task"]], read_images(config)

    def batches(split: str, **order: int) -> Batches:
        rows = grey(examples[split].images)
        if rows.shape[1] != config["length"]:
            raise ValueError(
                f"data.length={config['length']} must be {rows.shape[1]}, the pixels of an image of task "
                f"{config['task']!r}"
            )
        labels, size = examples[split].labels, config["batch"]
        return Batches(list(rows), labels, buckets=rows.shape[1:], batch=size, **order)

    train = batches("train", seed=seed, epochs=epochs)
    splits = {name: batches(name) for name in examples if name != "train"}
    told = {"inputs": "tokens", "vocab": 256, "head": task.head, "classes": len(task.labels)}
    test, *others = task.tests
    extra_evals = {name: splits[name] for name in (*others, *task.held)}
    in_train, lengths = examples[test].in_train, (config["length"],)
    return Splits(train, splits["validation"], splits[test], extra_evals, told, lengths, in_train, {})


def write_submission(config: Any, splits: Splits, name: str, answers: np.ndarray, directory: Path) -> None:
    """The file that GLUE takes for a test split whose labels are not public; nothing for other splits.

    GLUE takes the answers to a whole split only.

    Args:
      name: "test", or one of the further evaluations.
    """
    task = TASKS[config["task"]]
    split = task.tests[0] if name == "test" else name
    files = dict(zip(task.tests, task.submissions, strict=False))
    if split in files and not config["test_examples"]:
        glue.write_submission(directory / files[split], task.dataset, answers, splits.idx[split])


def _tokenizer(
    config: Any, directory: Path, texts: Iterable[str], say: Callable[[str], None] = lambda line: None
) -> Any:
    file = tokenizer_file(directory)
    if file.exists():
        return load_tokenizer(file)
    if names_file(config["tokenizer"]):
        copy_tokenizer(paths.given(config["tokenizer"]), directory)
        return load_tokenizer(tokenizer_file(directory))
    chosen = islice(texts, config["fit_examples"] or None)
    tokenizer = fit(config["tokenizer"], chosen, config["vocab"], say)
    save_tokenizer(tokenizer, directory)
    return tokenizer


def padded_lengths(config: Any) -> tuple[int, ...]:
    """The lengths that texts are padded to: `buckets` below `length`, then `length`."""
    return (*(t for t in config["buckets"] if t < config["length"]), config["length"])


def check(config: Any) -> None:
    """Checks the `data` part of a configuration without reading any data.

    Raises: ValueError for a knob out of its range, and for knobs that do not fit each other.
    """
    check_task(config)
    check_kind(config["tokenizer"], config["vocab"])
    pretraining = config["task"] == "pretraining"
    separated = pretraining or len(TASKS[config["task"]].texts) > 1
    if separated and config["tokenizer"] in (*WORDS, "bytes"):
        raise ValueError(
            f"data.tokenizer={config['tokenizer']!r} has no [SEP], which task {config['task']!r} needs; "
            "use 'bpe'"
        )
    if pretraining:
        check_corpora(config)
    if pretraining and config["length"] < 8:
        raise ValueError(
            f"data.length={config['length']} must be at least 8 for two segments and their special tokens"
        )
