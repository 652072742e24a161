"""Reads, checks and writes tokenizer files of the libraries `tokenizers` and `sentencepiece`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from fourier_attn import atomic, causes, paths
from fourier_attn.data.tables import files
from fourier_attn.data.text import tokenizer_checks
from fourier_attn.data.text.encoding import special
from fourier_attn.data.text.fitting import KINDS, names_file

SENTENCEPIECE = (".model", ".spm")  # endings of SentencePiece files
KERAS_HUB = "assets/tokenizer/vocabulary.spm"  # in presets; their tokenizer.json has another format
LARGEST_FILE = 2**26  # bytes; published tokenizers have up to 2**25


def check_file(kind: str) -> None:
    """Checks that a tokenizer file in `data.tokenizer` exists and can be used. Raises: ValueError.

    Args:
      kind: `data.tokenizer` of the configuration.
    """
    if names_file(kind):
        if not paths.given(kind).is_file():
            raise ValueError(
                f"data.tokenizer={kind} is not a file; give an existing file, or one of {', '.join(KINDS)}"
            )
        load_tokenizer(paths.given(kind))


class SentencePiece:
    """Gives a SentencePiece model those methods of `tokenizers.Tokenizer` that this project uses.

    Args:
      contents: contents of the file.
    Raises: ValueError for a file that is not such a model, and for a normaliser that makes texts much longer.
    """

    def __init__(self, contents: bytes):
        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2

        self.processor: Any = sentencepiece.SentencePieceProcessor()
        try:
            self.processor.LoadFromSerializedProto(contents)
        except RuntimeError as error:
            raise ValueError("not a SentencePiece model") from error
        messages: Any = sentencepiece_model_pb2  # its classes are created at run time
        model = messages.ModelProto.FromString(contents)
        tokenizer_checks.check_table(model.normalizer_spec.precompiled_charsmap)

    def get_vocab_size(self) -> int:
        """Returns the number of tokens."""
        return self.processor.GetPieceSize()

    def token_to_id(self, token: str) -> int | None:
        """Returns the id of a `token`; None for an unknown one."""
        index = self.processor.PieceToId(token)
        return index if self.processor.IdToPiece(index) == token else None

    def id_to_token(self, index: int) -> str:
        """Returns the token with the id `index`."""
        return self.processor.IdToPiece(index)

    def encode_batch_fast(self, texts: Sequence[str], add_special_tokens: bool = False) -> list["Ids"]:
        """Returns the ids of each of the `texts`; `add_special_tokens` is not used."""
        return [Ids(self.processor.EncodeAsIds(text)) for text in texts]

    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool = False) -> list["Ids"]:
        """Returns ids and characters of each of the `texts`; `add_special_tokens` is not used."""
        return [self._pieces(text) for text in texts]

    def _pieces(self, text: str) -> "Ids":
        """Returns ids and characters of one text; the library counts in bytes."""
        pieces = self.processor.encode(text, return_type="proto").pieces
        ends = np.cumsum([len(letter.encode()) for letter in text])  # end of each character in bytes
        begins, stops = (
            np.searchsorted(ends, [getattr(piece, name) for piece in pieces], side="right").tolist()
            for name in ("begin", "end")
        )
        return Ids([piece.id for piece in pieces], list(zip(begins, stops, strict=True)))

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of token `ids`."""
        return self.processor.DecodeIds(list(ids))


class Ids(NamedTuple):
    """Holds the token ids of a text, and the characters (begin, end) of each token."""

    ids: list[int]
    offsets: Sequence[tuple[int, int]] = ()


def tokenizer_file(directory: Path) -> Path:
    """Returns the path of the tokenizer of a run or of a folder of published weights.

    A SentencePiece model is `tokenizer.model`, `spiece.model` (Hugging Face), or an asset of Keras Hub. Any
    other tokenizer is `tokenizer.json`, and this path is also returned if there is no file.

    Args:
      directory: the directory of the run, or the folder.
    """
    models = (directory / name for name in ("tokenizer.model", "spiece.model", KERAS_HUB))
    return next((model for model in models if model.exists()), directory / "tokenizer.json")


def load_tokenizer(path: Path) -> Any:
    """Reads and checks a tokenizer file.

    Args:
      path: the file.
    Raises: ValueError for a file that is missing or cannot be read, and for a tokenizer without padding or
      unknown token, with invalid ids, or that returns the same or too many tokens for all texts.
    """
    contents = _read(path)
    try:
        tokenizer = SentencePiece(contents) if files.ending(path) in SENTENCEPIECE else _from_json(contents)
        special(tokenizer)
        tokenizer_checks.check_use(tokenizer)
        return tokenizer
    except BaseException as error:  # the libraries raise general errors for a damaged file
        if not (isinstance(error, Exception) or causes.of_rust(error)):
            raise
        raise ValueError(f"{path} cannot be used: {error}; give another tokenizer") from error


def _read(path: Path) -> bytes:
    return files.read_text(path, path, LARGEST_FILE, "tokenizer")


def _from_json(contents: bytes) -> Tokenizer:
    text = contents.decode("utf-8")
    tokenizer_checks.check_patterns(text)
    tokenizer_checks.check_normaliser(text)
    tokenizer = Tokenizer.from_str(text)
    tokenizer_checks.check_ids(tokenizer, tokenizer.get_vocab())
    tokenizer.no_padding()  # published files may set these; here batches pad and cut texts
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


def save_tokenizer(tokenizer: Any, directory: Path) -> None:
    """Writes the tokenizer of a run into its directory, as tokenizer.json.

    Args:
      tokenizer: a tokenizer of the library `tokenizers`.
      directory: of the run.
    """
    atomic.write(directory / "tokenizer.json", tokenizer.to_str().encode("utf-8"))


def copy_tokenizer(source: Path, directory: Path) -> None:
    """Copies a tokenizer file into a run's directory, byte for byte, so that no score is rounded.

    Args:
      source: the file.
      directory: of the run.
    Raises: ValueError for a file that is not a usable tokenizer.
    """
    load_tokenizer(source)
    name = "tokenizer.model" if files.ending(source) in SENTENCEPIECE else "tokenizer.json"
    atomic.write(directory / name, _read(source))
