"""Finds the files of a user's data, which no output may replace."""

from pathlib import Path

from fourier_attn import paths
from fourier_attn.data.corpus import SPLITS, names_files
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.tasks import FILES


def knob_of(path: Path, config: DataConfig) -> str:
    """Returns the option of `data` that names a file or one of its folders, or "" if none does.

    For example, "train" for `rows/a.parquet` if `data.train` is the folder `rows`. A pattern names
    existing files.

    Args:
      path: the file.
      config: the `data` part of the configuration.
    """
    splits = SPLITS if config.task in FILES else ()
    named = {name: [config[name]] for name in splits if config[name]}
    for name in ("corpora", "exclude"):
        named[name] = [file for entry in config[name] if names_files(entry) for file in paths.matching(entry)]
    return next(
        (name for name, entries in named.items() if any(paths.is_in(path, paths.given(e)) for e in entries)),
        "",
    )
