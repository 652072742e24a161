"""The evidence on images: as `evidence.suite.train`, for one task on images after the other.

    python -m evidence.suite.images --list
    python -m evidence.suite.images --tasks=fashion_mnist,cifar10 --data_dir=DIR
    python -m evidence.report.write --results=results/evidence/images

What is done stays done; see `evidence.suite.cells` for the networks.
"""

import sys

from absl import flags

from evidence.suite import train
from fourier_attn import command

TASKS = ("shapes", "fashion_mnist", "cifar10", "pixels")


def define_flags() -> None:
    train.define_suite_flags()
    flags.adopt_module_key_flags(train)
    flags.DEFINE_list("tasks", list(TASKS), "which of them, in this order")
    flags.FLAGS.set_default("results", "results/evidence/images")
    flags.FLAGS.set_default("runs", "runs/images")


def main() -> int:
    if unknown := set(flags.FLAGS.tasks) - set(TASKS):
        raise ValueError(f"tasks={','.join(sorted(unknown))} is unknown; choose of {', '.join(TASKS)}")
    return train.train(*flags.FLAGS.tasks)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
