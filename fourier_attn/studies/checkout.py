"""What only a checkout of the repository has: `launch`. From a wheel, a command that needs it says so."""

import sys
from pathlib import Path

try:
    from launch import grid
except ModuleNotFoundError as error:
    if error.name != "launch":
        raise
    said = "this needs a checkout of the repository, whose folder launch is not in the package; run it there"
    if Path(sys.argv[0]).parent == Path(__file__).parent:  # python -m fourier_attn.studies.NAME
        print(f"error: {said}", file=sys.stderr)
        sys.exit(2)
    raise ModuleNotFoundError(said, name="launch") from error

__all__ = ["grid"]
