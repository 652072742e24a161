"""Defines the tasks of GLUE, reads their tsv files, and writes submission files."""

import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tensorflow_datasets.text import glue as tfds_glue  # TFDS may fail before it imports this builder

from fourier_attn import atomic
from fourier_attn.data.tables import files


class Glue(NamedTuple):
    """Describes one task, with TFDS's names.

    Args:
      folder: folder of its files in GLUE's archives.
      texts: features with the sentence, or with the two sentences.
      labels: names of the classes; (): the label is a number from 0 to 5.
      metrics: names in `scores.SCORES`, in the order of most papers.
      submissions: submission file for each of `tests`.
      named: whether submissions have names of labels instead of indices; default False.
      validations, tests: names of the splits; default ("validation",) and ("test",).
    """

    folder: str
    texts: tuple[str, ...]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    submissions: tuple[str, ...]
    named: bool = False
    validations: tuple[str, ...] = ("validation",)
    tests: tuple[str, ...] = ("test",)

    @property
    def splits(self) -> tuple[str, ...]:
        return ("train", *self.validations, *self.tests)


ONE = ("sentence",)
TWO = ("sentence1", "sentence2")
ENTAILED_OR_NOT = ("entailment", "not_entailment")
GLUE = {  # by TFDS name
    "glue/cola": Glue(
        folder="CoLA",
        texts=ONE,
        labels=("unacceptable", "acceptable"),
        metrics=("matthews", "accuracy"),
        submissions=("CoLA.tsv",),
    ),
    "glue/sst2": Glue(
        folder="SST-2",
        texts=ONE,
        labels=("negative", "positive"),
        metrics=("accuracy",),
        submissions=("SST-2.tsv",),
    ),
    "glue/mrpc": Glue(
        folder="MRPC",
        texts=TWO,
        labels=("not_equivalent", "equivalent"),
        metrics=("f1", "accuracy"),
        submissions=("MRPC.tsv",),
    ),
    "glue/qqp": Glue(
        folder="QQP",
        texts=("question1", "question2"),
        labels=("not_duplicate", "duplicate"),
        metrics=("f1", "accuracy"),
        submissions=("QQP.tsv",),
    ),
    "glue/stsb": Glue(
        folder="STS-B",
        texts=TWO,
        labels=(),
        metrics=("spearman", "pearson", "mae", "rmse"),
        submissions=("STS-B.tsv",),
    ),
    "glue/mnli": Glue(
        folder="MNLI",
        texts=("premise", "hypothesis"),
        labels=("entailment", "neutral", "contradiction"),
        metrics=("accuracy",),
        submissions=("MNLI-m.tsv", "MNLI-mm.tsv"),
        named=True,
        validations=("validation_matched", "validation_mismatched"),
        tests=("test_matched", "test_mismatched"),
    ),
    "glue/qnli": Glue(
        folder="QNLI",
        texts=("question", "sentence"),
        labels=ENTAILED_OR_NOT,
        metrics=("accuracy",),
        submissions=("QNLI.tsv",),
        named=True,
    ),
    "glue/rte": Glue(
        folder="RTE",
        texts=TWO,
        labels=ENTAILED_OR_NOT,
        metrics=("accuracy",),
        submissions=("RTE.tsv",),
        named=True,
    ),
    "glue/wnli": Glue(
        folder="WNLI",
        texts=TWO,
        labels=("not_entailment", "entailment"),
        metrics=("accuracy",),
        submissions=("WNLI.tsv",),
    ),
}
MRPC_COLUMNS = {"sentence1": "#1 String", "sentence2": "#2 String"}  # TFDS reads another format
NUMBER = re.compile(r"\d+(\.\d*)?")
COLA_HEADER = ["source", "is_acceptable", "mark", "sentence"]  # only test.tsv has a header


def available(source: Path) -> list[str]:
    """Returns the tasks that have a folder in `source`. Raises: ValueError if none has."""
    names = [name for name, task in GLUE.items() if (source / task.folder).is_dir()]
    if not names:
        folders = ", ".join(task.folder for task in GLUE.values())
        raise ValueError(f"source={source} is not a copy of glue; expected a folder with one of {folders}")
    return names


def splits(builder: tfds_glue.Glue, source: Path) -> dict[str, Iterator]:
    """Reads the splits of a task from {train,dev,test}.tsv[.xz] in `source` or in the task's folder there.

    As in TFDS, labels of the test split are -1, except those of SST-2 if test_labeled.tsv exists.
    """
    config: Any = builder.builder_config
    name = f"glue/{config.name}"
    task = GLUE[name]
    folder = source / task.folder if (source / task.folder).is_dir() else source
    file_of = {split: f"{split.replace('validation', 'dev')}.tsv" for split in task.splits}
    paths = {split: path for split, file in file_of.items() if (path := files.find(folder, file))}
    missing = [file for split, file in file_of.items() if split not in paths]
    if missing:
        raise ValueError(
            f"source={source} is not a copy of {name}; expected {task.folder} with "
            f"{', '.join(file_of.values())} (or .tsv.xz), but {', '.join(missing)} is missing"
        )
    made = {}
    for split, path in paths.items():
        made[split] = _examples(config, path, source, labelled=split not in task.tests)
    answers = files.find(folder, "test_labeled.tsv")
    if name == "glue/sst2" and answers:
        print(
            f"note: the labels of the split 'test' of {name} are from {answers.name}, of the original SST "
            "test set; in TFDS they are -1"
        )
        made["test"] = _answered(made["test"], _examples(config, answers, source, labelled=True), answers)
    return made


def _examples(
    config: tfds_glue.GlueConfig, path: Path, source: Path, *, labelled: bool
) -> Iterator[tuple[int, dict]]:
    """Yields the examples that TFDS reads from a file; `idx` counts all rows, also skipped ones.

    Args:
      config: TFDS's configuration of the task.
      path: the file.
      source: the folder of the copy.
      labelled: whether the file has labels.
    """
    column_of = MRPC_COLUMNS if config.name == "mrpc" else config.text_features
    rows = _rows(path, source)
    if config.name == "cola" and labelled:
        where, header = "", COLA_HEADER
    else:
        where, header = next(rows, (f"{path}", []))
    wanted = set(column_of.values())
    if labelled:
        wanted.add(config.label_column)
    missing = sorted(wanted.difference(header))
    if missing:
        raise ValueError(f"{where} has no column {', '.join(missing)}; add it to the first line")
    kept = broken = 0
    for index, (where, row) in enumerate(rows):
        if config.name == "qqp" and len(row) < len(header):
            broken += 1  # in the published file, a line break within a question makes two short rows
            continue
        if len(row) != len(header):
            raise ValueError(f"{where} has {len(row)} columns instead of {len(header)}; fix or remove it")
        fields = dict(zip(header, row, strict=True))
        example: dict[str, Any] = {feature: fields[column] for feature, column in column_of.items()}
        example["label"] = -1
        if config.label_column in fields:
            example["label"] = _label(config, fields[config.label_column], where)
        example["idx"] = index
        yield index, example
        kept += 1
    if broken:
        print(f"note: {broken} rows of {path} with too few columns are skipped, as in TFDS")
    if not kept:
        raise ValueError(f"{path} has no examples; check the copy")


def _rows(path: Path, source: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields the place of each row, for messages, and its columns, without empty lines."""
    for where, line in files.lines(path, source):
        if line:
            yield where, line.split("\t")


def _label(config: tfds_glue.GlueConfig, text: str, where: str) -> int | float:
    """Returns the class, which a file has as a name or index, or the number of a task without classes.

    Args:
      config: TFDS's configuration of the task.
      text: the label as the file has it.
      where: place of the row, for the message.
    Raises: ValueError for an unknown label.
    """
    names = config.label_classes or []
    numbers = [str(number) for number in range(len(names))]
    for known in (names, numbers):
        if text in known:
            return known.index(text)
    if not names and NUMBER.fullmatch(text) and 0 <= float(text) <= 5:
        return float(text)
    expected = f"one of {', '.join([*numbers, *names])}" if names else "a number from 0 to 5"
    raise ValueError(f"{where} has the label {text!r:.40}; expected {expected}")


def _answered(unlabelled: Iterator, labelled: Iterator, path: Path) -> Iterator[tuple[int, dict]]:
    """Yields examples of test.tsv with the labels of another file with the same sentences.

    Args:
      unlabelled: examples of test.tsv.
      labelled: examples with labels, in the same order; brackets may differ.
      path: the file with labels.
    Raises: ValueError for other sentences.
    """
    examples = list(unlabelled)
    answers = list(labelled)
    same = 0
    for (_, example), (_, answer) in zip(examples, answers, strict=False):
        same += _letters(example) == _letters(answer)
    if len(answers) != len(examples) or same < 0.9 * len(examples):
        raise ValueError(
            f"{path} has {len(answers)} sentences, and {same} of them equal those of test.tsv, which has "
            f"{len(examples)}; give a file with the same sentences in the same order"
        )
    for (index, example), (_, answer) in zip(examples, answers, strict=True):
        yield index, example | {"label": answer["label"]}


def _letters(example: dict) -> str:
    return files.letters(example["sentence"]).replace(" ", "")


def write_submission(
    path: Path, task: str, predictions: Iterable[Any], index: Iterable[Any] | None = None
) -> None:
    """Writes GLUE's submission file for a test split: a header, then index and prediction per line.

    Args:
      path: the file.
      task: a key of `GLUE`.
      predictions: indices of classes; for glue/stsb numbers, which are clipped to 0 .. 5.
      index: the `idx` of each example, by which lines are sorted; default None: predictions are in GLUE's
        order, which differs from that of TFDS.
    Raises: ValueError for a prediction that is not a class of the task, and for indices that are not 0, 1, ..
    """
    answers = [_answer(GLUE[task], prediction) for prediction in predictions]
    places = range(len(answers)) if index is None else [int(i) for i in index]
    if sorted(places) != [*range(len(answers))]:
        raise ValueError(
            f"index must contain each of 0 to {len(answers) - 1} once; predict a whole test split"
        )
    lines = [f"{place}\t{answer}\n" for place, answer in sorted(zip(places, answers, strict=True))]
    atomic.write(path, "".join(["index\tprediction\n", *lines]))


def _answer(task: Glue, prediction: Any) -> str:
    number = float(prediction)
    if not task.labels and not math.isnan(number):
        return f"{min(max(number, 0.0), 5.0):.3f}"
    if number not in range(len(task.labels)):
        raise ValueError(
            f"prediction {prediction} is not one of the {len(task.labels)} classes of {task.folder}; use a "
            "network that was trained on this task"
        )
    return task.labels[int(number)] if task.named else str(int(number))
