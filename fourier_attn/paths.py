"""Checks and expands paths that users give. Paths that libraries would misread are refused."""

import hashlib
import os
import re
import stat
from pathlib import Path

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# Orbax, TensorStore, TFDS and array_record read such a path as a pattern, a range or another kind of storage.
# No escape works for all of them.
UNSAFE = re.compile(r"[*?\[\\]|[^/]+:(?=/|$)")

# Names of the files that a run writes into its directory, up to the first dot or hyphen.
RUN_FILES = ("config", "confusion", "curves", "metrics", "predictions", "report", "tokenizer", "wandb")
SUBMISSIONS = ("CoLA", "MNLI", "MRPC", "QNLI", "QQP", "RTE", "SST", "STS", "WNLI")  # those for GLUE, likewise


def given(name: str | Path) -> Path:
    """Returns the path that a user gives, with `~` expanded, because no shell expands it after "=".

    A relative path stays relative.

    Raises: ValueError for an empty or unsafe name, a URL, and the home of an unknown user.
    """
    text = os.fspath(name)
    if not text:
        raise ValueError("the name of a file or folder is empty; give one")
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise ValueError(f"the name {text!r} has control characters; rename that file or folder")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the name {text!r} is not UTF-8; rename that file or folder") from error
    if URL.match(text):
        raise ValueError(f"{text} is a URL; copy it to this machine and name the file or folder")
    path = Path(text)
    if not path.parts or not path.parts[0].startswith("~"):
        return path
    try:
        return Path.cwd() / path if text.startswith("./") else path.expanduser()
    except RuntimeError as error:
        if len(path.parts) > 1 and not Path.cwd().joinpath(path.parts[0]).exists():
            user = path.parts[0][1:]
            raise ValueError(
                f"{text}: the user {user} is unknown; write ./{text} for a folder here"
            ) from error
        return Path.cwd() / path  # absolute, so that its ~ does not mean a home folder


def stem(name: str | Path, option: str) -> Path:
    """Returns the path of files that will be written, without their endings.

    Args:
      name: the path that the user gave.
      option: name of the option for the message, for example "--out".
    Raises: ValueError for a folder, like `.`, for files of a run, and as `given`.
    """
    path = given(name)
    if path.name in ("", "..") or os.fspath(name).endswith("/"):
        raise ValueError(f"{option}={name} is a folder; add a name for the files, {option}={path / 'NAME'}")
    check_output(path, option)
    return path


def check_output(path: Path, option: str) -> None:
    """Checks that a file to write is not one of the files that a run has written.

    Args:
      path: the file, with or without its ending.
      option: name of the option for the message, for example "--output".
    Raises: ValueError for a file of a run.
    """
    there = path.resolve()
    in_a_run = all((there.parent / name).exists() for name in ("config.json", "metrics.jsonl"))
    if in_a_run and re.split("[.-]", there.name)[0] in (*RUN_FILES, *SUBMISSIONS):
        raise ValueError(
            f"{option}={path} would overwrite a file of the run in {there.parent}; choose another name"
        )


def is_in(path: Path, place: Path) -> bool:
    """Returns whether a file is a place, or in the folder that is that place, by whatever name of either.

    A link is also in the folder that it is in, because a file that replaces it changes that folder.

    Args:
      path: the file, which may be missing.
      place: a file or a folder.
    """
    if not place.exists():
        return False
    names = (path.resolve(), path.parent.resolve() / path.name)
    around = {each for name in names for each in (name, *name.parents) if each.exists()}
    return any(each.samefile(place) for each in around)


def check_new(path: Path, cure: str) -> None:
    """Checks that nothing exists yet at a path that will be written.

    Args:
      path: the file or folder to write.
      cure: advice for the message.
    Raises: ValueError if it exists.
    """
    if path.exists() or path.is_symlink():
        raise ValueError(f"{path} exists and is not overwritten; {cure}")


def absolute(name: str) -> str:
    """Returns a path as an absolute one, which is stored in a configuration; "" is returned unchanged.

    `..` is not resolved, because after a symbolic link it leads to another folder than the text suggests.
    """
    return str(Path.cwd() / given(name)) if name else ""


def folder(name: str | Path, option: str) -> Path:
    """Returns the resolved path of a folder that other libraries can use.

    Args:
      name: the path that the user gave.
      option: name of the option for the message, for example "workdir".
    Raises: ValueError for a path that these libraries would misread.
    """
    path = given(name).resolve()
    if wrong := UNSAFE.search(os.fspath(path)):
        raise ValueError(
            f"{option}={path} contains {wrong[0]!r}, which the libraries that use this folder would misread; "
            r"choose a path without * ? [ \ and without a colon at the end of a name"
        )
    return path


def matching(pattern: str) -> list[Path]:
    """Returns the files that a glob pattern matches, sorted. A path that exists is not read as a pattern."""
    path = given(pattern)
    literal = next(place for place in (path, *path.parents) if place.exists())
    matches = [path] if literal == path else literal.glob(str(path.relative_to(literal)))
    return sorted(each for each in matches if each.is_file())


def exposed(path: Path) -> str:
    """Returns how another user could change or replace a folder; "" if nobody else can.

    The check starts at the root, so that no folder that passed can be replaced during the check.
    """
    for folder in (*reversed(path.parents), path):
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return f"{folder} is a link or a file, not a folder"
        if status.st_uid not in (0, os.geteuid()):
            return f"{folder} belongs to another user"
        sticky = status.st_mode & stat.S_ISVTX and folder != path  # users can rename only their own entries
        if status.st_mode & 0o022 and not sticky:
            return f"other users can write to {folder}"
    return ""


def digest(path: Path) -> str:
    """Returns a hash of a file's contents; "none" if the file does not exist."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else "none"
