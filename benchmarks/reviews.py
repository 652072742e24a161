"""Trains every configuration on the synthetic reviews: `python -m benchmarks.reviews [--all] [--seeds=N]`.

Those whose default task they are, without the optical ones unless --all is given. The result of each is
written as soon as it is finished; what exists from the same commit is not trained again, unless
--again is given. The exit code is 0 if all ran; whether a number pleases is for the reader.
"""

import importlib
import inspect
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import jax
from absl import flags

from benchmarks.timing import COMMIT, RESULTS
from fourier_attn import command, provenance, train
from fourier_attn.data.sources import reviews
from fourier_attn.studies import collect

CONFIGS = Path(__file__).parent.parent / "configs"


def names() -> list[str]:
    """Returns each mixer of configs/mixer.py, and NAME or NAME-VARIANT of files about the reviews."""
    names = list(module("mixer").EPOCHS)
    for path in sorted(CONFIGS.glob("*.py")):
        if default_task(path.stem) == "reviews":
            variants = getattr(module(path.stem), "VARIANTS", ())
            names += [f"{path.stem}-{variant}" for variant in variants] or [path.stem]
    return names


def default_task(name: str) -> Any:
    argument = next(iter(inspect.signature(module(name).get_config).parameters.values()))
    return argument.default


def module(name: str) -> Any:
    return importlib.import_module(f"configs.{name}")


def result(name: str, seed: int, folder: str) -> dict[str, Any]:
    """Trains a configuration on the synthetic reviews and returns its row.

    Args:
      name: the configuration.
      seed: its seed.
      folder: folder for data and runs.
    """
    file, argument = source(name)
    config = module(file).get_config(argument)
    config.data.dir, config.seed = folder, seed
    directory = Path(folder) / "runs" / run_name(name, seed)
    begin = time.perf_counter()
    train.run(config, directory)
    seconds = round(time.perf_counter() - begin, 1)
    given = f"configs/{file}.py" + (f":{argument}" if argument != "reviews" else "")
    facts = provenance.record() | {"commit": COMMIT, "config": given, "seconds": seconds}
    return collect.row(directory) | facts


def source(name: str) -> tuple[str, str]:
    """Returns the configuration file of a name, and its argument."""
    if name in module("mixer").EPOCHS:
        return "mixer", f"{name}-reviews"
    file, _, variant = name.partition("-")
    return file, f"reviews-{variant}" if variant else "reviews"


def run_name(name: str, seed: int) -> str:
    return f"{name}-{seed}"


def define_flags() -> None:
    flags.DEFINE_bool("all", False, "also run the optical configurations")
    flags.DEFINE_bool("again", False, "also repeat runs of the same commit")
    flags.DEFINE_enum("only", None, names(), "run one configuration")
    flags.DEFINE_integer("seeds", 1, "number of seeds of each configuration: 0, 1, ..", lower_bound=1)


def main() -> int:
    options = flags.FLAGS
    chosen = [options.only] if options.only else names()
    if not (options.all or options.only):
        chosen = [name for name in chosen if not name.startswith("optical")]
    path = RESULTS / f"reviews-{jax.default_backend()}.json"
    done = {(row["run"], row["commit"]) for row in collect.rows(path)}
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        reviews.builder(folder).download_and_prepare()
        for name, seed in [(name, seed) for seed in range(options.seeds) for name in chosen]:
            clean = COMMIT is not None and not COMMIT.endswith("+")  # else the commit names no sources
            if clean and (run_name(name, seed), COMMIT) in done and not options.again:
                print(f"{run_name(name, seed)} exists already")
                continue
            try:
                collect.merge(path, [result(name, seed, folder)])
            except Exception:
                traceback.print_exc()
                failed.append(run_name(name, seed))
    print(f"written to results/benchmarks/{path.name}")
    if failed:
        print(f"these did not run: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
