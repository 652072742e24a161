"""Rewrites published weights: python -m fourier_attn.pretrained.convert --source=PATH --to=PATH.

The suffix of --to says the format, .safetensors or .msgpack. Prints what was read; without --to, only that.
Weights with the names of Hugging Face get a config.json beside them, so that its library loads the folder.
"""

import sys

from absl import flags

from fourier_attn import command, pretrained
from fourier_attn.pretrained import architecture, names
from fourier_attn.pretrained.rewrite import rewrite

SOURCE = flags.DEFINE_string("source", None, "weights: a file, or a folder with model.safetensors")
TO = flags.DEFINE_string("to", None, "the file to write, NAME.safetensors or NAME.msgpack")
MIXER = flags.DEFINE_enum(
    "mixer", None, architecture.PARAMETERLESS, "of blocks without parameters, where the file does not say it"
)
HEAD = flags.DEFINE_enum("head", None, tuple(names.HEADS), "of the model, where the file does not say it")


def main() -> None:
    if not SOURCE.value:
        raise ValueError("--source is needed, for example --source=f_net_checkpoint --to=model.safetensors")
    if TO.value:
        rewrite(SOURCE.value, TO.value, MIXER.value, HEAD.value)
    else:
        print(pretrained.read(SOURCE.value, MIXER.value, HEAD.value).report())


if __name__ == "__main__":
    sys.exit(command.run(main))
