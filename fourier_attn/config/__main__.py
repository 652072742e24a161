"""Prints every option with its default and its meaning: `python -m fourier_attn.config`."""

import sys

from fourier_attn import command
from fourier_attn.config.describe import describe

if __name__ == "__main__":
    sys.exit(command.run(lambda: print("\n".join(describe()))))
