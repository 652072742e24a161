"""`python -m fourier_attn.standalone MIXER` prints a mixer as one file."""

import sys

from fourier_attn import command
from fourier_attn.model import MIXERS
from fourier_attn.standalone import standalone


def main(*names: str) -> None:
    """Prints the file of the one mixer that is named."""
    if len(names) != 1:
        raise ValueError(f"name one mixer, not {len(names)}; choose one of {', '.join(MIXERS)}")
    print(standalone(names[0]), end="")


if __name__ == "__main__":
    sys.exit(command.run(main, arguments=True))
