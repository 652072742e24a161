"""Protects the files of a user's data, which no output may replace."""

from pathlib import Path

from fourier_attn import paths
from fourier_attn.data.corpus import names_files
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.tables.user_tables import SPLITS
from fourier_attn.data.tasks import FILES


def check_unchanged(path: Path, config: DataConfig, option: str) -> None:
    """Checks that a file to write is not part of the data of a run.

    Args:
      path: the file.
      config: the `data` part of the configuration.
      option: the option that names the file, for the message, such as "--output=a.csv".
    Raises: ValueError for a file that the data name, or that is in a folder that they name.
    """
    if knob := knob_of(path, config):
        raise ValueError(f"{option} is data.{knob} of the run, or in its folder; choose another place")


def knob_of(path: Path, config: DataConfig) -> str:
    """Returns the option of `data` that names a file or one of its folders, or "" if none does.

    For example, "train" for `rows/a.parquet` if `data.train` is the folder `rows`. A pattern names
    existing files.

    Args:
      path: the file.
      config: the `data` part of the configuration.
    """
    splits = SPLITS if config.task in FILES else ()
    named = {name: [paths.given(config[name])] for name in splits if config[name]}
    for name in ("corpora", "exclude"):
        named[name] = [file for entry in config[name] if names_files(entry) for file in paths.matching(entry)]
    for name, places in named.items():
        if any(paths.is_in(path, place) for place in places):
            return name
    return ""
