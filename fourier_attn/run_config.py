"""Configures a command line that has --workdir=DIR and --config.OPTION=VALUE, but no --config."""

import sys

from absl import flags

from fourier_attn import paths
from fourier_attn.config import Config
from fourier_attn.train.rundir import config_file


def get_config(directory: str) -> Config:
    """Returns the configuration of the run in `directory`, to which the overrides are applied."""
    line = flags.FlagValues()  # the command's own flags are still being parsed
    flags.DEFINE_boolean("allow_code", False, "as the command has it", flag_values=line)
    line(sys.argv, known_only=True)
    if line.allow_code:
        for file in config_file.allow_code(paths.given(directory)):
            print(f"code        {file}", file=sys.stderr)
    return config_file.load(paths.given(directory))
