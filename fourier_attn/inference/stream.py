"""Predicts the rows of a file with a trained run, and writes the answers as JSON lines in the same order."""

import contextlib
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TextIO

import numpy as np

from fourier_attn import atomic, paths
from fourier_attn.data import Task
from fourier_attn.data.own_files import check_unchanged
from fourier_attn.data.tables import tagged
from fourier_attn.data.tables.files import ending
from fourier_attn.data.tables.inputs import STDIN, Input, read_inputs
from fourier_attn.data.tables.labels import NUMBER, is_hidden, label_of, labels_of
from fourier_attn.data.tables.sentence_inputs import read_sentences
from fourier_attn.inference import masked_tokens, span_answers, tagging
from fourier_attn.inference.evaluation import report_folder
from fourier_attn.inference.predictor import WINDOWED, Predictor, check_text
from fourier_attn.inference.tag_scores import TagScores, type_table
from fourier_attn.knobs import HUGE
from fourier_attn.train import entity_scores, label_scores, report, scores, span_scores
from fourier_attn.train.evaluate import show
from fourier_attn.train.rundir.metrics_log import strict_json

CHUNK = 2048  # rows that are predicted together
LETTERS = 2**24  # largest number of characters of these rows
WARN = 0.2  # share of unknown tokens above which an answer is unreliable
MOST = 20  # largest number of classes for which a table is printed
NAMED = 3  # rows without a usable label that a note lists


class Item(NamedTuple):
    """Holds one row: the inputs of the network, and the label.

    Args:
      row: the row as it was read.
      values: inputs of the network by name, for example "text".
      label: the index of the class, a number, the tags of the words, 0 or 1 for each class, or the correct
        answers to a question; None: missing, or not one of the classes.
    """

    row: Input
    values: dict[str, Any]
    label: Any

    def letters(self) -> int:
        """Returns the number of characters of the inputs."""
        return sum(len(value) for value in self.values.values() if isinstance(value, str | list))


def predict_file(
    directory: str | Path,
    source: str,
    target: str,
    skip_bad: bool = False,
    devices: Mapping[str, str] = MappingProxyType({}),
    long: str = "cut",
    sampling: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Predicts every row of a file, writes the answers, and returns a summary in words.

    The rows have the columns of the run's own data, or `text` (for pairs also `text_pair`), or `image` (for
    questions about images also `text`). Each line of the output is an answer of `Predictor` with the `file`
    and the `line` that it belongs to (in Parquet the row).

    If rows have labels, each answer also has `true`. The scores are then part of the summary, and next to an
    output NAME.jsonl they are written to NAME.metrics.json. A label that is not one of the classes is
    reported and not scored.

    Args:
      directory: directory of the run.
      source: any file that `read_inputs` reads; "-": standard input.
      target: file of JSON lines; "-": standard output. The file is written only if no error occurs.
      skip_bad: whether to skip invalid rows, with a note for each, instead of raising an error.
      devices: files of measured devices that replace those of the training, by option.
      long: how to read texts longer than `data.length`, "cut" or "windows", see `Predictor`.
      sampling: options of text generation, see `Predictor`.
    Raises: ValueError that names an invalid row, and for a run that cannot be used.
    """
    scored = None if target == "-" else _metrics_file(target)
    outputs = {} if scored is None else {paths.given(target): "", scored: f" (its scores, {scored.name})"}
    for path, which in outputs.items():
        paths.check_output(path, "--output")
        if source not in STDIN and path.exists() and paths.is_in(path, paths.given(source)):
            raise ValueError(
                f"--output={target}{which} would overwrite a file of --input; choose another name"
            )
    predictor = Predictor.load(directory, devices=devices, long=long, sampling=sampling)
    for path, which in outputs.items():
        check_unchanged(path, predictor.config.data, f"--output={target}{which}")
    tally = Tally(predictor.task, predictor.config.data.length)
    with _written(target) as out:
        for chunk in _chunks(_items(source, predictor, skip_bad, tally)):
            for item, answer in zip(chunk, _answers(predictor, chunk), strict=True):
                out.write(json.dumps(tally.add(item, answer), ensure_ascii=False) + "\n")
            out.flush()
        if not tally.predicted:
            raise ValueError(f"--input={source} has no valid row; add at least one")
    if scored is not None and (values := tally.scores()):
        atomic.write(scored, strict_json(values) + "\n")
    elif scored is not None and _has_scores(scored):
        scored.unlink()  # scores of earlier answers
    return tally.words()


def evaluate_file(
    directory: str | Path,
    source: str,
    skip_bad: bool = False,
    devices: Mapping[str, str] = MappingProxyType({}),
    long: str = "cut",
    output: str | None = None,
) -> str:
    """Evaluates a run on the labelled rows of a file, and returns the scores in words.

    Args:
      directory, source, skip_bad, devices, long: see `predict_file`.
      output: folder for the report on the classes; default None: no report.
    Raises: ValueError that names an invalid row, for a file without labels, and for a run that cannot be
      used.
    """
    predictor = Predictor.load(directory, devices=devices, long=long)
    if predictor.task.fills_masks or predictor.task.head == "lm":
        raise ValueError(
            f"--input={source} with --mode=eval scores labels, but task {predictor.config.data.task!r} has "
            "none; leave --input out to compute the perplexity of its test split"
        )
    folder, tally = report_folder(output, predictor.task), Tally(predictor.task, predictor.config.data.length)
    for chunk in _chunks(_items(source, predictor, skip_bad, tally)):
        for item, answer in zip(chunk, _answers(predictor, chunk), strict=True):
            tally.add(item, answer)
    if not tally.scores():
        if tally.unlike:
            raise ValueError(f"--input={source}: {tally.unlike_words()}; fix them, or use --mode=predict")
        own = predictor.config.data.label or predictor.task.label
        raise ValueError(
            f"--input={source} has no usable labels in a column {own!r}; add it, or use --mode=predict"
        )
    if folder:
        report.write(folder, tally.scores())
    return tally.words()


class Tally:
    """Counts answers, and compares them with the labels.

    Args:
      task: the task of the run.
      length: number of tokens that are read of a text.
    """

    def __init__(self, task: Task, length: int):
        self.task, self.length = task, length
        self.predicted = self.skipped = self.unknown = self.cut = self.windowed = 0
        self.unlike, self.examples = 0, list[str]()  # rows with a label that is not one of the classes
        self.labels: list[Any] = []
        self.answers: list[Any] = []
        self.tags = TagScores(task.labels)  # for tagging
        self.spans: list[tuple[str, list[str]]] = []  # for questions: the answer, and the correct answers

    def add(self, item: Item, answer: dict[str, Any]) -> dict[str, Any]:
        """Counts the `answer` to the row of `item`; returns it with the row's file, line and label."""
        self.predicted += 1
        self.unknown += answer.get("unknown", 0.0) > WARN
        self.cut += answer.get("cut", 0.0) > 0
        self.windowed += answer.get("windows", 1) > 1
        names, true = self.task.labels, {}
        if item.label is not None and self.task.tagged:
            self.tags.add(item.label, answer)
            true = {"true": item.label}
        elif item.label is not None and self.task.head == "spans":
            self.spans.append((answer["text"], item.label))
            true = {"true": item.label}
        elif item.label is not None and self.task.multi_label:
            self.labels.append(item.label)
            self.answers.append([int(name in answer["labels"]) for name in names])
            true = {"true": [name for name, there in zip(names, item.label, strict=True) if there]}
        elif item.label is not None:
            self.labels.append(item.label)
            self.answers.append(names.index(answer["label"]) if names else answer["score"])
            true = {"true": names[int(item.label)] if names else item.label}
        elif not is_hidden(value := item.row.values.get("label")):
            self.unlike += 1
            self.examples += [f"{item.row.where} ({value!r:.40})"] if self.unlike <= NAMED else []
        return {"file": item.row.where.rpartition(", ")[0], "line": item.row.number, **true, **answer}

    def scores(self) -> dict[str, Any]:
        """Returns the scores of the answers to labelled rows; {} without such rows."""
        if self.task.tagged:
            return self.tags.scores()
        if self.task.head == "spans":
            values = span_scores.scored(*zip(*self.spans, strict=True)) if self.spans else {}
            return {"examples": len(self.spans), **values, "undefined": {}} if values else {}
        if not self.labels or (not self.task.labels and set(self.labels) == {-1.0}):  # hidden labels are -1
            return {}
        if self.task.multi_label and not np.any(self.labels):  # hidden labels are all 0
            return {}
        if self.task.labels:
            answers, labels = (np.array(each, np.int64) for each in (self.answers, self.labels))
            of_classes = label_scores.per_label if self.task.multi_label else scores.per_class
            return of_classes(answers, labels, self.task.labels)
        pair = (self.answers, self.labels)
        undefined = {name: scores.why_undefined(name, *pair) for name in scores.NUMBER_SCORES}
        values = {name: scores.SCORES[name](*pair) for name in scores.NUMBER_SCORES}
        reasons = {name: why for name, why in undefined.items() if why}
        return {"examples": len(self.labels), **values, "undefined": reasons}

    def unlike_words(self) -> str:
        """Returns a sentence on the rows whose label is not one of the classes."""
        known = f"one of {', '.join(self.task.labels)}"[:200] if self.task.labels else "a number"
        more = ", .." if self.unlike > NAMED else ""
        return (
            f"{self.unlike:,} rows have a label that is not {known}, and are not scored: "
            f"{'; '.join(self.examples)}{more}"
        )

    def words(self) -> str:
        """Returns a summary: counts, shortcomings of answers, and the scores."""
        said = f"{self.predicted:,} predicted" + (f", {self.skipped:,} skipped" if self.skipped else "")
        if self.unknown:
            said += f"; {self.unknown:,} have more than {WARN:.0%} unknown tokens"
        if self.cut:
            cure = " (--long=windows reads all of them)" if self.task.head in WINDOWED else ""
            said += f"; {self.cut:,} were cut at data.length={self.length} tokens{cure}"
        if self.windowed:
            said += f"; {self.windowed:,} are longer than data.length={self.length} and were read in windows"
        if self.unlike:
            said += f"\nnote: {self.unlike_words()}"
        return "\n".join([said, *_table(self.scores())])


def _table(result: dict[str, Any]) -> Iterator[str]:
    """Yields the lines of a table of scores."""
    if not result:
        return
    shown = [name for name in result if name not in ("examples", "undefined", "classes")]
    shown = ["accuracy", "macro_f1", "weighted_f1"] if "confusion" in result else shown
    shown = [*entity_scores.NAMES, "accuracy"] if "types" in result else shown
    line = ", ".join(f"{name.replace('_', ' ')} {show(result, name)}" for name in shown)
    yield f"{line} of {result['examples']:,} rows with labels"
    if "types" in result:
        yield from type_table(result)
        return
    classes, confusion = result.get("classes", {}), result.get("confusion", [])
    if not 0 < len(classes) <= MOST:
        return
    width = max(len("class"), *(len(name) for name in classes))
    counts = [len(f"{count}") for row in confusion for count in row]
    column = max(*counts, len(f"{len(classes)}")) if confusion else 0
    head = " ".join(f"{i:>{column}}" for i in range(1, len(classes) + 1))
    head = f"  predicted as {head}" if confusion else ""
    yield f"   {'class':<{width}}  precision  recall      f1  rows{head}"
    for i, (name, each) in enumerate(classes.items()):
        three = ["-" if each[key] is None else f"{each[key]:.4f}" for key in ("precision", "recall", "f1")]
        cells = "  ".join(f"{cell:>{size}}" for cell, size in zip(three, (9, 6, 6), strict=True))
        counted = " ".join(f"{count:>{column}}" for count in confusion[i]) if confusion else ""
        line = f"{i + 1:>2} {name:<{width}}  {cells}  {each['examples']:>4}"
        yield f"{line}  {'':>12} {counted}" if confusion else line


def _chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yields lists of at most `CHUNK` items with about `LETTERS` characters."""
    chunk, letters = [], 0
    for item in items:
        chunk.append(item)
        letters += item.letters()
        if len(chunk) == CHUNK or letters > LETTERS:
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk


def _answers(predictor: Predictor, chunk: list[Item]) -> list[dict[str, Any]]:
    inputs, *seconds = [[item.values[name] for item in chunk] for name in _columns(predictor.task)]
    return predictor(inputs, *seconds)


def _columns(task: Task) -> dict[str, tuple[str, ...]]:
    """Returns the inputs of a row, in the order of `Predictor`, with the possible names of their columns."""
    if task.images:
        return {"image": ("image",)} | ({"text": ("text", task.question)} if task.question else {})
    names = ("text", "text_pair")
    return {name: (*dict.fromkeys((own, name)),) for name, own in zip(names, task.texts, strict=False)}


def _items(source: str, predictor: Predictor, skip_bad: bool, tally: Tally) -> Iterator[Item]:
    """Yields the inputs and the label of each row.

    Args:
      source: the file; "-": standard input.
      predictor: the run.
      skip_bad: whether to skip invalid rows.
      tally: counts the skipped rows.
    Raises: ValueError that names an invalid row.
    """
    task, wanted = predictor.task, _columns(predictor.task)
    scored = not task.fills_masks and task.head not in ("tokens", "lm")  # one label for each row
    own = predictor.config.data.label or task.label
    asked = wanted | ({"label": (*dict.fromkeys((own, "label")),)} if scored else {})
    if task.head == "spans" and span_answers.is_squad(source):
        rows = span_answers.read_squad(source)
    elif task.tagged:
        rows = read_sentences(source, tagged.columns_of(predictor.config.data), task.labels)
    else:
        rows = read_inputs(source, asked, optional=("label",))
    for row in rows:
        try:
            if row.error:
                raise ValueError(row.error)
            yield Item(row, *_checked(row, predictor, wanted))
        except (ValueError, RecursionError) as error:
            if not skip_bad:
                reason = str(error).removesuffix("; fix that line")
                raise ValueError(
                    f"{row.where}: {reason}; fix that line, or skip invalid lines with --skip_bad"
                ) from error
            tally.skipped += 1
            print(f"note: {row.where} is skipped: {error}", file=sys.stderr)


def _checked(row: Input, predictor: Predictor, wanted: Iterable[str]) -> tuple[dict[str, Any], Any]:
    """Returns the inputs of a row, by the names in `wanted`, and its label.

    Args:
      row: the row as it was read.
      predictor: checks that the network can read the inputs.
      wanted: names of the inputs.
    Raises: ValueError for inputs that the network cannot read.
    """
    values = {name: row.values[name] for name in wanted}
    if predictor.task.images:
        predictor.image(values["image"])
    else:
        check = tagging.check if predictor.task.tagged else check_text
        for name, value in values.items():
            check(name, value)
    if predictor.task.question:
        predictor.questions([values["text"]])
    if predictor.task.fills_masks:
        [tokens] = predictor.text_batches([values["text"]]).rows
        masked_tokens.check(predictor.tokenizer, tokens, "its text")
    if predictor.task.head == "lm":
        predictor.generator.prompts([values["text"]], predictor.sampling.tokens)
    task = predictor.task
    if task.head == "spans":
        return values, _right(row)
    label = _tags if task.tagged else _several if task.multi_label else _label
    return values, label(row, task.labels)


def _right(row: Input) -> list[str] | None:
    """Returns the correct answers to a question; None if the file has none."""
    label = row.values.get("label")
    return [label] if isinstance(label, str) else label


def _tags(row: Input, names: tuple[str, ...]) -> list[str] | None:
    """Returns the tags of a row's words; None if they are missing or not all among the classes."""
    tags = row.values.get("label")
    return tags if tags and set(tags) <= set(names) else None


def _several(row: Input, names: tuple[str, ...]) -> list[int] | None:
    """Returns 0 or 1 for each class; None if the labels are missing or not all among the classes."""
    try:
        labels = labels_of("", "label", row.values.get("label"))
    except ValueError:
        return None
    return [int(name in labels) for name in names] if set(labels) <= set(names) else None


def _label(row: Input, names: tuple[str, ...]) -> float | None:
    """Returns the index of a row's class, or its number for tasks without classes; None: not a valid label.

    Labels may be indices of classes if no class has a number as its name.
    """
    value = row.values.get("label")
    try:
        label = label_of("", "label", value)
    except ValueError:  # missing, or several words
        return None
    if not names:
        return float(label) if NUMBER.fullmatch(label) and abs(float(label)) <= HUGE else None
    if label not in names and is_hidden(value):
        return None
    if NUMBER.fullmatch(label) and label not in names and float(label).is_integer():
        label = str(int(float(label)))  # data frames write 1.0 in a column with gaps
    if label in names:
        return float(names.index(label))
    numbered = label.isdecimal() and int(label) < len(names) and not any(map(NUMBER.fullmatch, names))
    return float(label) if numbered else None


def _metrics_file(target: str) -> Path:
    """Returns the path of the file of scores that belongs to a file of answers."""
    path = paths.given(target)
    return path.with_name((path.stem if ending(path) == ".jsonl" else path.name) + ".metrics.json")


def _has_scores(path: Path) -> bool:
    """Returns whether a file contains scores that this command wrote."""
    try:
        saved = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(saved, dict):
        return False
    return "examples" in saved and bool({"confusion", "undefined"} & saved.keys())


@contextlib.contextmanager
def _written(target: str) -> Iterator[TextIO]:
    """Yields standard output, or a file that exists under its name only once it is complete."""
    if target == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # the encoding of JSON
        yield sys.stdout
        return
    path = paths.given(target)
    if path.exists() and not path.is_file():
        raise ValueError(f"--output={target} is not a file; give a file, or - for standard output")
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(atomic.writing(path))
        except OSError as error:
            raise ValueError(
                f"--output={target} cannot be written ({error.strerror}); give another file"
            ) from error
        text = io.TextIOWrapper(file, encoding="utf-8")
        yield text
        text.detach()
