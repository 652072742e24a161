"""Runs an exported classifier: python classify.py "a text" "another text". For pairs, give each text and its
second text in turn. For tagging, separate the words of a text by blanks. This file needs only jax, numpy,
tokenizers, flatbuffers and the files next to it."""

import hashlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import jax.export
import numpy as np
from tokenizers import Tokenizer

SUMS = "SHA256SUMS"  # in an exported folder, in the form that `sha256sum --check` reads
THRESHOLD = 0.5  # smallest probability of a predicted label, for tasks with several labels
MOST = 256  # largest number of rows of a call; more rows are split


def check_sums(folder: Path, foreign: bool = False) -> None:
    """Compares the files of an exported folder with its SHA256SUMS, if it has this file.

    Args:
      folder: the folder.
      foreign: whether the folder may be that of another project, whose lines can have another form or name
        files that are not there; default False.
    Raises: ValueError that names the first missing or changed file.
    """
    file = folder / SUMS
    for line in file.read_text().splitlines() if file.is_file() else ():
        expected, _, name = line.partition("  ")
        path = folder / name
        if foreign and not (re.fullmatch("[0-9a-f]{64}", expected) and path.is_file()):
            continue
        inside = ".." not in Path(name).parts and not Path(name).is_absolute()
        if not inside or not path.is_file() or checksum(path) != expected:
            raise ValueError(
                f"{path} has changed since the export (its sum in {SUMS} differs); copy or download the "
                f"folder again, or remove {SUMS} if you changed the file yourself"
            )


def checksum(path: Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def share_cut(count: int, room: int) -> float:
    """Returns the share of `count` tokens that do not fit."""
    return max(count - room, 0) / max(count, 1)


def word_places(ends: Any, words: Any) -> np.ndarray:
    """Returns the index of each word's first token: the first token that ends after the word begins.

    Args:
      ends: the end of each token, in characters of the words joined by blanks.
      words: the words.
    """
    begins = np.cumsum([0, *(len(word) + 1 for word in words)])[:-1]
    return np.searchsorted(np.asarray(ends, np.int64), begins, side="right")


def entities(tags: Any) -> list[tuple[str, int, int]]:
    """Returns the type, the first and the last word of each entity that tags mark, as conlleval reads them.

    A tag is O, or a prefix, a hyphen and a type. A word begins an entity if it has the prefix B or S, if the
    word before it is O, E or S, or if that word has another type. Any other word continues the entity. These
    rules hold for IOB1, IOB2 and BIOES. The prefixes L, U and M of other schemes mean E, S and I.

    >>> entities(["B-PER", "I-PER", "O", "I-LOC", "I-PER"])
    [('PER', 0, 1), ('LOC', 3, 3), ('PER', 4, 4)]
    """
    found, before, kind_before = list[tuple[str, int, int]](), "O", ""
    for place, tag in enumerate(tags):
        prefix, _, kind = tag.partition("-")
        prefix = {"L": "E", "U": "S", "M": "I"}.get(prefix, prefix)
        if prefix != "O":
            begins = prefix in ("B", "S") or before in ("O", "E", "S") or kind != kind_before
            first = place if begins else found.pop()[1]
            found.append((kind, first, place))
        before, kind_before = prefix, kind
    return found


def context_windows(
    question: list[int], context: list[int], length: int, stride: int, cls: Any, sep: Any
) -> list[tuple[list[int], int, int]]:
    """Returns rows with a question and a window of its context.

        [CLS] question [SEP] window [SEP]

    The last window ends with the context. A question that would fill more than half of a row is cut.

    Args:
      question, context: token ids.
      length: largest number of tokens of a row.
      stride: number of tokens from one window to the next; smaller if windows would skip tokens.
      cls, sep: ids of [CLS] and [SEP].
    Returns: for each row its tokens, the index of its first token of the context, and the number of these.
    """
    question = question[: (length - 3) // 2]
    room = length - 3 - len(question)
    last = max(len(context) - room, 0)
    windows = []
    for begin in (*range(0, last, min(stride, room)), last):
        window = context[begin : begin + room]
        windows.append(([cls, *question, sep, *window, sep], begin, len(window)))
    return windows


def span_probabilities(logits: np.ndarray) -> np.ndarray:
    """Returns the probabilities (p, 2) that each token is the first and the last one of the answer."""
    logits = logits.astype(np.float64)
    weights = np.exp(logits - logits.max(axis=0))
    return weights / weights.sum(axis=0)


def answer_of(
    context: str, offsets: Any, windows: list[np.ndarray], begins: list[int], most: int, unanswerable: bool
) -> dict[str, Any]:
    """Returns the likeliest answer: its text, its characters `start` and `end`, and its probability.

        p(i, j) = p_first(i) p_last(j),    i <= j < i + most,    the largest over all windows

    With `unanswerable`, the answer is "" if p(0, 0), the probability of no answer, is larger in every window.

    Args:
      context: the text.
      offsets: characters (begin, end) of each token of the context.
      windows: for each window the probabilities (1 + tokens, 2); the first row means no answer.
      begins: index of the first token of the context in each window.
      most: largest number of tokens of an answer.
      unanswerable: whether questions may have no answer.
    """
    best, first, last = -1.0, 0, 0
    for window, begin in zip(windows, begins, strict=True):
        pairs = np.outer(window[1:, 0], window[1:, 1])
        pairs = np.triu(pairs) - np.triu(pairs, most)
        if pairs.size and pairs.max() > best:
            best = float(pairs.max())
            first, last = (begin + int(place) for place in np.unravel_index(pairs.argmax(), pairs.shape))
    none = min(float(window[0].prod()) for window in windows)
    if best < 0 or (unanswerable and none > best):
        return {"text": "", "start": 0, "end": 0, "probability": none}
    start, end = offsets[first][0], offsets[last][1]
    text = context[start:end]
    start, end = start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
    return {"text": context[start:end], "start": start, "end": end, "probability": best}


class Classifier:
    """Loads the programs of an exported folder, and predicts with them.

        classifier = Classifier("exported")
        classifier(["a fine film"])   # probabilities (1, classes)

    The number of rows is padded to a power of two, up to `MOST`, so that at most nine programs are compiled
    for each padded length. `cut` has, for each text of the latest call, the share of tokens that were not
    read because the text is longer than `length` in manifest.json.

    Args:
      folder: the exported folder.
    Raises: ValueError for files that changed since the export.
    """

    cut: tuple[float, ...] = ()

    def __init__(self, folder: str | Path):
        folder = Path(folder)
        check_sums(folder)
        self.facts = json.loads((folder / "manifest.json").read_text())
        read = {length: (folder / name).read_bytes() for length, name in self.facts["programs"].items()}
        self.programs = {int(t): jax.export.deserialize(bytearray(program)) for t, program in read.items()}
        if self.facts["inputs"] == "tokens":
            self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self.tokenizer.no_padding()
            self.tokenizer.no_truncation()
            self.tokenizer.encode_special_tokens = True

    def __call__(self, inputs: Any, text_pairs: Any = None) -> Any:
        """Returns probabilities (n, classes) or scores (n,).

        For tagging, the result is a list with the probabilities (words, classes) of each text, without words
        that were cut. For questions and their contexts it is a list of answers, see `answer_of`. Without
        inputs it is an empty array.

        Args:
          inputs: n texts, or images as bytes (n, rows, cols, 3).
          text_pairs: the second text of each pair, or the context of each question; default None.
        Raises: ValueError for inputs that do not fit the network.
        """
        if isinstance(inputs, str | bytes):
            raise ValueError(f"inputs={inputs!r:.40} is one text; give a list of texts")
        if self.facts["inputs"] != "tokens":
            return self.run(0, np.asarray(inputs, np.uint8)) if len(inputs) else np.zeros((0,), np.float32)
        inputs, text_pairs = list(inputs), None if text_pairs is None else list(text_pairs)
        if not inputs:
            return np.zeros((0,), np.float32)
        for text in (*inputs, *(text_pairs or ())):
            if not isinstance(text, str):
                raise ValueError(f"{text!r:.40} is not a text; give strings")
        if (text_pairs is None) == self.facts["pairs"]:
            raise ValueError(
                f"this network classifies {'pairs; give' if text_pairs is None else 'texts; omit'} text_pairs"
            )
        if self.facts.get("words"):
            return self.tagged([text.split() for text in inputs])
        if self.facts.get("spans"):
            return [self.found(*texts) for texts in zip(inputs, text_pairs or (), strict=True)]
        pairs = zip(inputs, text_pairs or [None] * len(inputs), strict=True)
        encoded = [self.row(*texts) for texts in pairs]
        rows, self.cut = [row for row, _ in encoded], tuple(share for _, share in encoded)
        return np.stack(self.answers(rows))

    def tagged(self, sentences: list[list[str]]) -> list[np.ndarray]:
        """Returns class probabilities (words, classes) for each of the `sentences`, without cut words."""
        framed = self.facts["cls"] is not None and self.facts["sep"] is not None
        room, rows, places = self.facts["length"] - 2 * framed, list[list[int]](), list[np.ndarray]()
        for words in sentences:
            if not words:
                raise ValueError("a text has no words; give at least one")
            read = self.tokenizer.encode(" ".join(words), add_special_tokens=False)
            first = word_places([end for _, end in read.offsets], words)
            rows.append(self.row(" ".join(words), None)[0])
            places.append(first[first < room] + framed)
        self.cut = tuple(1 - len(p) / len(words) for p, words in zip(places, sentences, strict=True))
        return [answer[place] for answer, place in zip(self.answers(rows), places, strict=True)]

    def found(self, question: str, context: str) -> dict[str, Any]:
        """Returns the answer to a question, a span of its context, see `answer_of`."""
        asked, read = (self.tokenizer.encode(text, add_special_tokens=False) for text in (question, context))
        cls, sep, length, options = (self.facts[name] for name in ("cls", "sep", "length", "spans"))
        windows = context_windows(asked.ids, read.ids, length, options["stride"], cls, sep)
        rows, begins = [row for row, *_ in windows], [begin for _, begin, _ in windows]
        found = []
        for answer, (row, _, count) in zip(self.answers(rows), windows, strict=True):
            head = len(row) - 1 - count
            found.append(answer[[0, *range(head, head + count)]])
        most, unanswerable = options["answer_tokens"], options["unanswerable"]
        return answer_of(context, read.offsets, found, begins, most, unanswerable)

    def answers(self, rows: list[list[int]]) -> list[np.ndarray]:
        """Returns the programs' answers to rows of tokens; answers of tokens include those of padding."""
        fitting = [min(t for t in self.programs if t >= len(row)) for row in rows]
        found: dict[int, np.ndarray] = {}
        for t in sorted(set(fitting)):
            places = [i for i, fits in enumerate(fitting) if fits == t]
            tokens = np.full((len(places), t), self.facts["pad"], np.int32)
            mask = np.zeros(tokens.shape, bool)
            for place, i in enumerate(places):
                tokens[place, : len(rows[i])], mask[place, : len(rows[i])] = rows[i], True
            ends = tokens == (-1 if self.facts["sep"] is None else self.facts["sep"])
            types = mask & (np.cumsum(ends, axis=-1) - ends > 0)
            found |= dict(zip(places, self.run(t, tokens, mask, types.astype(np.int32)), strict=True))
        return [found[i] for i in range(len(rows))]

    def row(self, text: str, pair: str | None) -> tuple[list[int], float]:
        """Returns the tokens of a text or a pair, cut as in training, and the share that was cut."""
        cls, sep, length = self.facts["cls"], self.facts["sep"], self.facts["length"]
        a = self.tokenizer.encode(text, add_special_tokens=False).ids
        if cls is None or sep is None:
            return a[:length] or [self.facts["unknown"]], share_cut(len(a), length)
        if pair is None:
            return [cls, *a[: length - 2], sep], share_cut(len(a), length - 2)
        b = self.tokenizer.encode(pair, add_special_tokens=False).ids
        cut = share_cut(len(a) + len(b), length - 3)
        a = a[: max(length - 3 - len(b), min(len(a), (length - 2) // 2))]
        return [cls, *a, sep, *b[: length - 3 - len(a)], sep], cut

    def run(self, program: int, *arrays: np.ndarray) -> np.ndarray:
        """Returns the answers to all rows, with few different numbers of rows per call.

        Args:
          program: padded length of the program; 0 for images.
          arrays: its inputs, with one row for each example.
        """
        rows, parts = len(arrays[0]), []
        count = self.facts["batch"] or min(MOST, 1 << (rows - 1).bit_length())
        for start in range(0, rows, count):
            inputs = [array[start : start + count] for array in arrays]
            short = count - len(inputs[0])
            inputs = [np.concatenate([array, array[:1].repeat(short, axis=0)]) for array in inputs]
            parts.append(np.asarray(self.programs[program].call(*inputs))[: count - short])
        return np.concatenate(parts)


def main(words: list[str]) -> None:
    """Prints the answer to each text of a command line. Raises: ValueError for invalid inputs."""
    classifier = Classifier(Path(__file__).parent)
    if classifier.facts["inputs"] != "tokens":
        size = classifier.programs[0].in_avals[0].shape[1:]
        raise ValueError(
            f"{words[0]!r}: this network takes images, which this command cannot read; in Python, call "
            f"classify.Classifier(folder) with an array of bytes (n, {', '.join(map(str, size))})"
        )
    texts, pairs = words, None
    if classifier.facts["pairs"]:
        texts, pairs = words[::2], words[1::2]
        if len(texts) > len(pairs):
            raise ValueError(f"{texts[-1]!r} lacks its second text; give texts in pairs")
    for line, answer in zip(texts, classifier(texts, pairs), strict=True):
        if classifier.facts.get("words"):
            for word, row in zip(line.split(), answer, strict=False):
                print(f"{classifier.facts['labels'][int(row.argmax())]}\t{row.max():.4f}\t{word}")
            print()
            continue
        if classifier.facts.get("spans"):
            print(f"{answer['text']}\t{answer['probability']:.4f}\t{line}")
            continue
        names = classifier.facts["labels"]
        if classifier.facts.get("multi_label"):
            likely = [f"{name} {p:.4f}" for name, p in zip(names, answer, strict=True) if p >= THRESHOLD]
            print(f"{', '.join(likely) or '-'}\t{line}")
            continue
        best = names[int(answer.argmax())] if names else "score"
        print(f"{best}\t{answer.max():.4f}\t{line}")
    if cut := sum(share > 0 for share in classifier.cut):
        limit = classifier.facts["length"]
        print(f"note: {cut} texts are longer than {limit} tokens and were cut", file=sys.stderr)


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # escape letters that the terminal cannot show
    try:
        main(sys.argv[1:])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
