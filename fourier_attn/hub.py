"""Downloads published weights by name, "hf:owner/name" or "hf:owner/name@REV", with `huggingface_hub`.

Only the files in `FILES` are downloaded: weights in safetensors or of Keras Hub, tokenizers and JSON, never a
pickle or code. The cache of `huggingface_hub` keeps them, so a later start needs no network.
"""

import hashlib
import os
import re
import textwrap
from pathlib import Path

from fourier_attn import extras, paths

PREFIX = "hf:"
NAME = re.compile(r"hf:(?P<repo>[\w-][\w.-]*/[\w-][\w.-]*)(@(?P<revision>[\w-][\w./-]*))?")
WEIGHTS = ("model.safetensors", "model.weights.h5")  # a repository has one of them
FILES = (
    *WEIGHTS,
    "task.weights.h5",
    "task.json",
    "assets/tokenizer/vocabulary.spm",
    "config.json",
    "preprocessor.json",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "tokenizer.model",
    "spiece.model",
    "SHA256SUMS",
)
SHA256 = re.compile(r"[0-9a-f]{64}")


def is_hub_name(name: str | Path) -> bool:
    """Returns whether `name` refers to the hub; write ./hf:NAME for a local file or folder of that name."""
    return os.fspath(name).startswith(PREFIX)


def local(name: str | Path) -> Path:
    """Returns the local path of a file or folder, downloaded if `name` is on the hub. Raises: ValueError."""
    return fetch(name)[0] if is_hub_name(name) else paths.given(name)


def fetch(name: str | Path) -> tuple[Path, dict[str, str]]:
    """Downloads the files of "hf:owner/name@REV", and returns their folder and their fingerprints.

    Args:
      name: name on the hub; without @REV the newest revision, or the cached one if the hub is unreachable.
    Returns: the folder; the commit and the SHA-256 of each file.
    Raises: ValueError for a name that is malformed or unknown, for a repository without such weights, for a
      file whose sum is not the published one, and where `huggingface_hub` is not installed.
    """
    text = os.fspath(name)
    match = NAME.fullmatch(text)
    if not match:
        raise ValueError(f"{text} is not a name of the hub; give hf:owner/name or hf:owner/name@REVISION")
    folder = _download(text, match["repo"], match["revision"])
    if not any((folder / name).is_file() for name in WEIGHTS):
        raise ValueError(
            f"{text} has no {WEIGHTS[0]}, and pickles are not opened; name a revision that has it "
            f"(hf:{match['repo']}@REVISION), or get the weights as safetensors or msgpack, rewrite them with "
            f"python -m fourier_attn.pretrained.convert --source=FILE --to={WEIGHTS[0]} and name that file"
        )
    return folder, {"commit": folder.name, **_sums(folder)}


def _download(text: str, repo: str, revision: str | None) -> Path:
    """Returns the folder of a snapshot in the cache of `huggingface_hub`, whose name is the commit."""
    try:
        from huggingface_hub import errors, snapshot_download
    except ImportError as error:
        raise ValueError(
            f"{text} needs the package huggingface_hub; {extras.install('hub')}, or download the folder "
            "yourself and give its path"
        ) from error
    try:
        return Path(snapshot_download(repo, revision=revision, allow_patterns=list(FILES)))
    except errors.GatedRepoError as error:
        raise ValueError(f"{text} has terms; accept them on its page and log in (hf auth login)") from error
    except errors.RepositoryNotFoundError as error:
        raise ValueError(f"{text} does not exist, or is private; fix the name or log in") from error
    except errors.RevisionNotFoundError as error:
        raise ValueError(f"{text}: the revision {revision} does not exist; name another") from error
    except Exception as error:  # the network fails in many ways
        reason = textwrap.shorten(str(error), 200, placeholder=" ..")
        raise ValueError(
            f"{text} is not in the cache and cannot be downloaded ({type(error).__name__}: {reason}); "
            "connect this machine once, or copy the folder to it and give its path"
        ) from error


def _sums(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file; the hub's large files have theirs as the name of their blob.

    Raises: ValueError for a file that differs from what was published.
    """
    found = {}
    for name in FILES:
        path = folder / name
        if not path.is_file():
            continue
        with path.open("rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        published = path.resolve().name
        if SHA256.fullmatch(published) and published != found[name]:
            raise ValueError(
                f"{path} is damaged: its SHA-256 is {found[name]}, not {published}; delete "
                f"{path.resolve()} and fetch it again"
            )
    return found
