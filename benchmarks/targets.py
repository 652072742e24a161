"""Runs `--mode=compile` for shipped configurations and absent devices: `python -m benchmarks.targets`.

It writes the verdict, bytes, collectives, the lower bound and the CPU seconds of each command to
results/benchmarks/targets.json as soon as they are known. Rows of the same commit are not compiled again.
Needs the extras aot-cuda and aot-tpu, but no accelerator. To compile for some targets only, name them after
the command. On an idle machine, add `--alone` to record the elapsed seconds of each command, too.

`python -m benchmarks.targets long` compiles one configuration for sequences of 1,048,576 tokens, which eight
devices share, and writes targets-long.json.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from absl import flags

from benchmarks.timing import RESULTS, Case, Row, complete, facts_and_rows
from fourier_attn import command
from fourier_attn.choices import check_choice
from fourier_attn.train.target.devices import DEVICES, parse
from fourier_attn.train.target.program import KINDS

CONFIGS = (
    "pretrain:fnet-base",
    "pretrain:bert-base",
    "imdb_small:attention",
    "lambda_vit:cifar10",
    "lm:attention-wikitext2",
)
TARGETS = ("h100:4", "v5e:2x2", "cpu:8")
LONG = "pretrain:fnet-base"
LONG_TARGETS = ("h100:8", "v5e:2x4")
LONG_OPTIONS = (
    "--config.data.length=1048576",
    "--config.model.positions=1048576",
    "--config.model.positions_kind=none",  # a table would need 13 GB with its optimizer
    "--config.data.mask_rate=0.001",
    "--config.data.batch=1",
    "--config.model.dtype=bfloat16",
    "--config.train.accumulate=1",
    "--config.train.remat=block",
    "--config.train.mesh=tokens=8",
)
KEPT = ("mesh", "batch", "blocks", "compiled_blocks", "verdict", "needed", "memory", "bound_s", "why")


def row(config: str, target: str, alone: bool, options: tuple[str, ...] = ()) -> list[Row]:
    """Runs one command in a separate process and returns its row.

    Args:
      config: the configuration.
      target: the devices.
      alone: whether to record the elapsed seconds of the command, too.
      options: further words of the command.
    Raises: RuntimeError if the command neither finishes nor refuses its input.
    """
    # A cached program would not be compiled again.
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        words = ["-m", "fourier_attn.main", f"--config={config}", "--mode=compile"]
        words += [f"--target={target}", *options]
        begin, before = time.perf_counter(), cpu_seconds()
        done = subprocess.run(
            [sys.executable, *words, f"--output={file}"], env=environment, capture_output=True, text=True
        )
        taken = {"cpu_s": round(cpu_seconds() - before, 1)}
        taken |= {"seconds": round(time.perf_counter() - begin, 1)} if alone else {}
        if not file.exists() and done.returncode != 2:  # a crash says nothing about the configuration
            raise RuntimeError(f"{' '.join(words)} ended with exit code {done.returncode}:\n{done.stderr}")
        if not file.exists():
            return [{"verdict": "refused", "why": " ".join(done.stderr.splitlines()[-1:])[:200]} | taken]
        report = json.loads(file.read_text())
    facts = report.get("facts", {})
    moved = {
        kind: {name: round(facts[f"{kind} {name}"]) for name in ("count", "bytes")}
        for kind in KINDS.split("|")
        if facts.get(f"{kind} count")
    }
    kept = {name: report[name] for name in KEPT if name in report}
    return [kept | {"collectives": moved} | taken | ({"options": options} if options else {})]


def cpu_seconds() -> float:
    """Returns the CPU time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cases(targets: tuple[str, ...], alone: bool) -> Iterator[Case]:
    for config in CONFIGS:
        for target in targets:
            yield {"config": config, "target": target}, partial(row, config, target, alone)


def long_cases(alone: bool) -> Iterator[Case]:
    for target in LONG_TARGETS:
        yield {"config": LONG, "target": target}, partial(row, LONG, target, alone, LONG_OPTIONS)


def define_flags() -> None:
    flags.DEFINE_bool("alone", False, "record the elapsed seconds of each command, on an idle machine")


def main(*targets: str) -> None:
    long, alone = targets == ("long",), flags.FLAGS.alone
    for target in () if long else targets:
        check_choice("target", target, TARGETS)
    chosen = LONG_TARGETS if long else targets or TARGETS
    path = RESULTS / ("targets-long.json" if long else "targets.json")
    packages = [DEVICES[parse(target).name].package for target in chosen]
    facts, known = facts_and_rows(path, *packages, setting="compiled, not run")
    complete(path, facts, known, long_cases(alone) if long else cases(chosen, alone))


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main, arguments=True))
