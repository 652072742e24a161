"""Tokenizers: text to integers, through the libraries `tokenizers` and `sentencepiece`."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from tokenizers import decoders as decoding

from fourier_attn import atomic, causes, paths
from fourier_attn.data import tokenizer_checks
from fourier_attn.data.beginnings import ids_of
from fourier_attn.data.tables import files

KINDS = ("words", "whitespace", "bytes", "bpe", "unigram")
WORDS = ("words", "whitespace")
# of a subword tokenizer, with FNet's ids: 0 to 6
SUBWORD_TOKENS = ["<unk>", "<s>", "</s>", "<pad>", "[CLS]", "[SEP]", "[MASK]"]
WORD = 1000  # characters of a word from which subwords are learned
LONG = re.compile(rf"\S{{{WORD}}}(?=\S)")
LARGEST_FILE = 2**26  # bytes: those of published tokenizers have up to 2**25


class Special(NamedTuple):
    """Ids that are no text; None where the tokenizer has no such token."""

    pad: int
    unknown: int
    begin: int | None
    end: int | None  # of a document
    cls: int | None
    sep: int | None
    mask: int | None


def special(tokenizer: Any) -> Special:
    """The special ids of a tokenizer.

    Raises: ValueError for one without a token for padding or for the unknown.
    """

    def find(*names: str) -> int | None:
        ids = [tokenizer.token_to_id(name) for name in names]
        return next((i for i in ids if i is not None), None)

    pad, unknown = find("[PAD]", "<pad>"), find("[UNK]", "<unk>")
    if pad is None or unknown is None:
        raise ValueError("the tokenizer has no token '<pad>' or no '<unk>'; use another one")
    return Special(pad, unknown, find("<s>"), find("</s>"), find("[CLS]"), find("[SEP]"), find("[MASK]"))


def words(kind: str, texts: Iterable[str], vocab: int) -> Tokenizer:
    """Fits a word-level tokenizer: lower case, the `vocab` most frequent words.

    "words" has words and punctuation apart, and no marks of line breaks; "whitespace" splits at white space
    alone, as torchtext did for the articles, so that "film." and "film" are two words.

    Ids: padding 0, unknown 1.
    """
    tokenizer, apart = Tokenizer(models.WordLevel(unk_token="[UNK]")), kind == "words"
    breaks = [normalizers.Replace("<br />", " ")] if apart else []
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), *breaks, normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace() if apart else pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab, special_tokens=["[PAD]", "[UNK]"], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def utf8() -> Tokenizer:
    """A byte-level tokenizer: one token for each of the 256 bytes, besides padding 0 and unknown 1."""
    letters = ["[PAD]", "[UNK]", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    model = models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[])
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return tokenizer


def subwords(kind: str, texts: Iterable[str], vocab: int) -> Tokenizer:
    """Fits a subword tokenizer, "bpe" or "unigram": lower case, pieces of words, punctuation apart.

    Fitted twice "bpe" is the same; the library's "unigram" has scores that differ in their last digits.

    Ids: those of FNet, unknown 0, padding 3, [CLS] 4, [SEP] 5, [MASK] 6; a word's first piece begins
    with "▁".
    """
    common = {"vocab_size": vocab, "special_tokens": SUBWORD_TOKENS, "show_progress": False}
    if kind == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        trainer: Any = trainers.UnigramTrainer(unk_token="<unk>", **common)
    else:
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
        trainer = trainers.BpeTrainer(**common)
    blanks = normalizers.Replace(Regex(r"\s+"), " ")
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.Replace("<br />", " "),
            normalizers.Lowercase(),
            blanks,
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()]
    )
    tokenizer.decoder = decoding.Metaspace()
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


class Pieces(Iterable[str]):
    """Texts whose words have at most `WORD` characters; `cut` is the number of those that had longer ones."""

    def __init__(self, texts: Iterable[str]):
        self.texts, self.cut = texts, 0

    def __iter__(self) -> Iterator[str]:
        for text in self.texts:
            pieces, count = LONG.subn(r"\g<0> ", text)
            self.cut += count > 0
            yield pieces


def fit(
    kind: str, texts: Iterable[str], vocab: int, say: Callable[[str], None] = lambda line: None
) -> Tokenizer:
    """Makes the tokenizer of that kind, fitted on `texts` ("bytes" needs none).

    Subwords are learned from words of at most `WORD` characters, as time grows with the square of a word's
    length. Longer ones are taken in pieces, and `say` is told how many texts have some.

    Raises: ValueError for an unknown kind, or a vocabulary without room for a word.
    """
    check_kind(kind, vocab)
    if kind == "bytes":
        return utf8()
    if kind in WORDS:
        tokenizer = words(kind, texts, vocab)
    else:
        pieces = Pieces(texts)
        tokenizer = subwords(kind, pieces, vocab)
        if pieces.cut:
            say(f"note: {pieces.cut:,} texts have words of more than {WORD:,} characters, fitted in pieces")
    tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
    return tokenizer


def names_file(kind: str) -> bool:
    """Returns whether the choice of a tokenizer names a file."""
    return files.ending(kind) in (".json", ".model")


def check_kind(kind: str, vocab: int) -> None:
    """Checks the choice of a tokenizer: a kind, or the path of a file. Raises: ValueError."""
    if names_file(kind):
        return
    if kind not in KINDS:
        raise ValueError(
            f"data.tokenizer={kind!r} is unknown; choose one of {', '.join(KINDS)}, or name a file "
            "(tokenizer.json, or a SentencePiece .model)"
        )
    least = 3 if kind in (*WORDS, "bytes") else len(SUBWORD_TOKENS) + 1
    if vocab < least:
        raise ValueError(f"data.vocab={vocab} must be at least {least}: special tokens and one word")


def check_file(kind: str) -> None:
    """Checks that a tokenizer that is named by its file is there and can be used. Raises: ValueError."""
    if names_file(kind):
        if not paths.given(kind).is_file():
            raise ValueError(f"data.tokenizer={kind} is no file; name one, or choose of {', '.join(KINDS)}")
        load_tokenizer(paths.given(kind))


class SentencePiece:
    """A SentencePiece model with the methods of `tokenizers.Tokenizer` that are used here.

    Raises: ValueError for a file that is no such model, or whose normaliser multiplies texts.
    """

    def __init__(self, contents: bytes):
        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2

        self.processor: Any = sentencepiece.SentencePieceProcessor()
        try:
            self.processor.LoadFromSerializedProto(contents)
        except RuntimeError as error:
            raise ValueError("it is no SentencePiece model") from error
        messages: Any = sentencepiece_model_pb2  # made at run time
        model = messages.ModelProto.FromString(contents)
        tokenizer_checks.check_table(model.normalizer_spec.precompiled_charsmap)

    def get_vocab_size(self) -> int:
        return self.processor.GetPieceSize()

    def token_to_id(self, token: str) -> int | None:
        index = self.processor.PieceToId(token)
        return index if self.processor.IdToPiece(index) == token else None

    def id_to_token(self, index: int) -> str:
        return self.processor.IdToPiece(index)

    def encode_batch_fast(self, texts: Sequence[str], add_special_tokens: bool = False) -> list["Ids"]:
        return [Ids(self.processor.EncodeAsIds(text)) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return self.processor.DecodeIds(list(ids))


class Ids(NamedTuple):
    ids: list[int]


def tokenizer_file(directory: Path) -> Path:
    """Returns where the tokenizer of a run, or of a folder of published weights, is.

    A SentencePiece model is `tokenizer.model` or, as Hugging Face calls it, `spiece.model`; any other
    tokenizer is `tokenizer.json`.
    """
    models = (directory / name for name in ("tokenizer.model", "spiece.model"))
    return next((model for model in models if model.exists()), directory / "tokenizer.json")


def load_tokenizer(path: Path) -> Any:
    """Reads a saved tokenizer.

    Raises: ValueError where there is none, it cannot be read, or is of no use to a model: ids without a row
      in it, texts that grow without measure or become all the same, no token for padding or the unknown.
    """
    contents = _read(path)
    try:
        tokenizer = SentencePiece(contents) if files.ending(path) == ".model" else _from_json(contents)
        special(tokenizer)
        tokenizer_checks.check_use(tokenizer)
        return tokenizer
    except BaseException as error:  # the libraries raise nothing more special for a damaged file
        if not (isinstance(error, Exception) or causes.of_rust(error)):
            raise
        raise ValueError(f"{path} cannot be used: {error}; give another tokenizer") from error


def _read(path: Path) -> bytes:
    with files.open_regular(path, path) as file:
        contents = file.read(LARGEST_FILE + 1)
    if len(contents) > LARGEST_FILE:
        raise ValueError(
            f"{path} has more than {LARGEST_FILE:,} bytes, which is no tokenizer; give another one"
        )
    return contents


def _from_json(contents: bytes) -> Tokenizer:
    text = contents.decode("utf-8")
    tokenizer_checks.check_patterns(text)
    tokenizer_checks.check_normaliser(text)
    tokenizer = Tokenizer.from_str(text)
    tokenizer_checks.check_ids(tokenizer, tokenizer.get_vocab())
    tokenizer.no_padding()  # published files may ask for these; batches see to them here
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


def save_tokenizer(tokenizer: Any, directory: Path) -> None:
    """Writes the tokenizer of a run."""
    atomic.write(directory / "tokenizer.json", tokenizer.to_str().encode("utf-8"))


def copy_tokenizer(source: Path, directory: Path) -> None:
    """Gives a run the tokenizer in the file `source`, byte for byte (reading and writing may round scores).

    Raises: ValueError for a file that is no tokenizer.
    """
    load_tokenizer(source)
    name = "tokenizer.model" if files.ending(source) == ".model" else "tokenizer.json"
    atomic.write(directory / name, _read(source))


def encode(
    tokenizer: Any,
    texts: Sequence[str],
    length: int,
    text_pairs: Sequence[str] | None = None,
    masks: bool = False,
) -> list[np.ndarray]:
    """Token ids of each text or pair of texts, at most `length` of them.

        [CLS] text [SEP]          or          [CLS] text [SEP] second [SEP]

    Without [CLS] and [SEP] in the tokenizer a row is the text alone. A text too long is cut at its end, of
    a pair the longer one; a text without any token becomes one unknown where there is no [CLS]. The name of
    a special token in a text is text like any other; with `masks` "[MASK]" alone is the token.

    Raises: ValueError for pairs and a tokenizer without [SEP].
    """
    return encode_with_cut(tokenizer, texts, length, text_pairs, masks)[0]


def encode_with_cut(
    tokenizer: Any,
    texts: Sequence[str],
    length: int,
    text_pairs: Sequence[str] | None = None,
    masks: bool = False,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns token ids as `encode` does, and the share of the tokens of each text or pair that was cut."""
    ids = special(tokenizer)
    first, counts = _ids(tokenizer, texts, masks, length)
    if ids.cls is None or ids.sep is None:
        if text_pairs is not None:
            raise ValueError("pairs of texts need a tokenizer with [SEP]; use data.tokenizer='bpe'")
        rows = [np.asarray(row[:length] or [ids.unknown], np.int32) for row in first]
        return rows, _cut(counts, length)
    if text_pairs is None:
        rows = [np.asarray([ids.cls, *row[: length - 2], ids.sep], np.int32) for row in first]
        return rows, _cut(counts, length - 2)
    second, others = _ids(tokenizer, text_pairs, masks, length)
    rows, room = [], length - 3
    for a, b in zip(first, second, strict=True):
        keep = max(room - len(b), min(len(a), (room + 1) // 2))  # what b leaves, or half
        a = a[:keep]
        rows.append(np.asarray([ids.cls, *a, ids.sep, *b[: room - len(a)], ids.sep], np.int32))
    return rows, _cut([a + b for a, b in zip(counts, others, strict=True)], room)


def _cut(tokens: Sequence[int], room: int) -> np.ndarray:
    """Returns the share of the tokens of each text, in these numbers, for which there is no room."""
    counts = np.asarray(tokens, np.float64)
    return np.maximum(counts - room, 0.0) / np.maximum(counts, 1.0)


def encode_questions(tokenizer: Any, texts: Sequence[str], length: int) -> np.ndarray:
    """Token ids of questions about images, (n, length), and -1 after each one's last.

    Raises: ValueError for a question with no word or too many.
    """
    found = np.full((len(texts), length), -1, np.int32)
    for row, text, known in zip(found, texts, ids_of(tokenizer, texts)[0], strict=True):
        if not 0 < len(known) <= length:
            raise ValueError(f"the question {text!r} has {len(known)} words; ask with 1 to {length}")
        row[: len(known)] = known
    return found


def check_known(tokenizer: Any, text: str) -> None:
    """Checks that a tokenizer knows all words of a text. Raises: ValueError."""
    unknown = special(tokenizer).unknown
    if unknown in ids_of(tokenizer, [text])[0][0]:
        words = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
        asked = ", ".join(word for word in sorted(words) if word.isalpha())
        raise ValueError(f"the question {text!r} has a word that the task does not know; ask with {asked}")


def _ids(
    tokenizer: Any, texts: Sequence[str], masks: bool, most: int = 0
) -> tuple[list[list[int]], list[int]]:
    """Returns at least the first `most` ids of each text, or all for 0, and about how many it has."""
    if not masks:
        return ids_of(tokenizer, texts, most)
    mask, result = special(tokenizer).mask, []
    for text in texts:
        [first, *others], _ = ids_of(tokenizer, text.split("[MASK]"))
        result.append(first + [i for part in others for i in (mask, *part)])
    return result, [len(row) for row in result]
