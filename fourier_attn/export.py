"""Exports a trained run: python -m fourier_attn.export --workdir=DIR --to=DIR [--format=...].

`fourier_attn.inference.export` describes the formats.
"""

import sys

from fourier_attn import command
from fourier_attn.inference.export import define_flags, main

if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
