"""Converts published weights: python -m fourier_attn.pretrained.convert --source=PATH --to=PATH.

The ending of --to selects the format: .safetensors, .msgpack or .weights.h5. Without --to the command only
prints a description of the weights. Weights with the names of Hugging Face or Keras Hub get a config.json
next to them, so that these libraries can load the folder.
"""

import sys

from absl import flags

from fourier_attn import command, pretrained
from fourier_attn.pretrained import architecture, names
from fourier_attn.pretrained.rewrite import rewrite


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string(
        "source", None, "weights to read: a file, or a folder with model.safetensors or model.weights.h5"
    )
    flags.DEFINE_string("to", None, "file to write: NAME.safetensors, NAME.msgpack or NAME.weights.h5")
    flags.DEFINE_enum(
        "mixer",
        None,
        architecture.PARAMETERLESS,
        "mixer of blocks without parameters, if the file does not contain it",
    )
    flags.DEFINE_enum("head", None, tuple(names.HEADS), "head of the model, if the file does not contain it")


def main() -> None:
    """Converts or describes the weights that the flags name. Raises: ValueError."""
    options = flags.FLAGS
    if not options.source:
        raise ValueError("--source is required, for example --source=f_net_checkpoint --to=model.safetensors")
    if options.to:
        rewrite(options.source, options.to, options.mixer, options.head)
    else:
        print(pretrained.read(options.source, options.mixer, options.head).report())


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
