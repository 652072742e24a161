"""Rewrites published weights: python -m fourier_attn.pretrained.convert --source=PATH --to=PATH.

The suffix of --to says the format, .safetensors or .msgpack. Prints what was read; without --to, only that.
"""

import sys
from pathlib import Path

from absl import flags

from fourier_attn import command, pretrained
from fourier_attn.pretrained import architecture, files, names

SOURCE = flags.DEFINE_string("source", None, "weights: a file, or a folder with model.safetensors")
TO = flags.DEFINE_string("to", None, "the file to write, NAME.safetensors or NAME.msgpack")
MIXER = flags.DEFINE_enum(
    "mixer", None, architecture.PARAMETERLESS, "of blocks without parameters, where the file does not say it"
)
HEAD = flags.DEFINE_enum("head", None, tuple(names.HEADS), "of the model, where the file does not say it")


def convert(source: str | Path, to: str | Path, mixer: str | None = None, head: str | None = None) -> None:
    """Writes the weights of `source` to `to`, and prints what they are.

    Raises: ValueError for weights that cannot be read, a file that exists, and a suffix of another format.
    """
    to = Path(to)
    if to.suffix[1:] not in files.FORMATS:
        raise ValueError(f"to={to} has no known suffix; end it with .{' or .'.join(files.FORMATS)}")
    files.absent(to)
    weights = pretrained.read(source, mixer, head)
    print(weights.report())
    style = pretrained.save(to, weights.config, weights.params, to.suffix[1:])
    print(f"written: {to}; names of {style}")


def main() -> None:
    if not SOURCE.value:
        raise ValueError("--source is needed, for example --source=f_net_checkpoint --to=model.safetensors")
    if TO.value:
        convert(SOURCE.value, TO.value, MIXER.value, HEAD.value)
    else:
        print(pretrained.read(SOURCE.value, MIXER.value, HEAD.value).report())


if __name__ == "__main__":
    sys.exit(command.run(main))
