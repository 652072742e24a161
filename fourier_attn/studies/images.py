"""The evidence on images: as `fourier_attn.studies.imdb`, for one task on images after the other.

    python -m fourier_attn.studies.images --list
    python -m fourier_attn.studies.images --tasks=fashion_mnist,cifar10 --data_dir=DIR
    python -m fourier_attn.studies.report --results=results/images

What is done stays done; see `fourier_attn.studies.suite` for the networks.
"""

import sys

from absl import flags

from fourier_attn import command
from fourier_attn.studies import imdb

TASKS = ("shapes", "fashion_mnist", "cifar10", "pixels")


def define_flags() -> None:
    imdb.define_suite_flags()
    flags.adopt_module_key_flags(imdb)
    flags.DEFINE_list("tasks", list(TASKS), "which of them, in this order")
    flags.FLAGS.set_default("results", "results/images")
    flags.FLAGS.set_default("runs", "runs/images")


def main() -> int:
    if unknown := set(flags.FLAGS.tasks) - set(TASKS):
        raise ValueError(f"tasks={','.join(sorted(unknown))} is unknown; choose of {', '.join(TASKS)}")
    return imdb.train(*flags.FLAGS.tasks)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
