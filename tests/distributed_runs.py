"""Runs in processes of their own, with several devices each, that train one network."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conftest import ROOT, shrink
from waiting import HANG_S

from fourier_attn import config
from fourier_attn.train.rundir.config_file import flat

STEPS, EPOCH = 200, 25


class Runs:
    """Toy runs in processes of their own; `whole` keeps those that it has made.

    Args:
      folder: where the runs are made.
      data_dir: the data directory.
      steps: how many steps a run has.
      optimised: whether programs are compiled with all of XLA's optimisations, which takes longer.
    """

    def __init__(self, folder: Path, data_dir: str, steps: int = STEPS, optimised: bool = True):
        c = shrink(config.default(), data_dir)
        c.data.train_examples, c.data.batch, c.model.dropout = 200, 8, 0.1
        c.model.activation = "gelu"  # relu makes a jump of a last bit, now and then
        c.model.d, c.model.mlp = 64, 128  # large enough to be split
        c.train.epochs, c.train.patience = steps // EPOCH, 0
        c.train.log_every, c.train.save_every = 1, 20
        self.folder, self.config, self.made = folder, c, {}
        self.variables = {"JAX_DISABLE_MOST_OPTIMIZATIONS": str(int(not optimised))}

    def start(
        self, where: Path, devices: int = 1, count: int = 1, knobs: Mapping[str, Any] = {}, **order: Any
    ) -> list[subprocess.Popen]:
        """Starts each process of a run."""
        c = config.from_dict(self.config.to_dict())
        c.update_from_flattened_dict(dict(knobs))
        order |= {"config": c.to_dict(), "workdir": str(where), "processes": count}
        if count > 1:
            order["port"] = free_port()
        words = [json.dumps(order | {"process": i}) for i in range(count)]
        return [program(devices, word, **self.variables) for word in words]

    def whole(self, devices: int = 1, count: int = 1, **knobs: Any) -> tuple[Path, list[dict[str, Any]]]:
        """The directory of a finished run, and what each process found."""
        key = json.dumps([devices, count, knobs])
        if key not in self.made:
            where = self.folder / f"run{len(self.made)}"
            self.made[key] = where, self.end(self.start(where, devices, count, knobs))
        return self.made[key]

    def end(self, started: list[subprocess.Popen], code: int = 0) -> list[dict[str, Any]]:
        """Waits for the end of each process."""
        said = [process.communicate(timeout=HANG_S) for process in started]
        codes = [process.returncode for process in started]
        assert codes == [code] * len(started), (codes, said)
        return [json.loads(out.splitlines()[-1]) for out, _ in said if not code]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def program(devices: int, *words: str, cwd: Path = ROOT, **variables: str) -> subprocess.Popen:
    """Starts a process of a run, with so many devices."""
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
        "TQDM_DISABLE": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", *(words if len(words) > 1 else ("device_program", *words))],
        cwd=cwd,
        env=environment | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def command_of(few_reviews: str, where: Path) -> list[str]:
    """The toy run, as words for the command."""
    small, usual = flat(shrink(config.default(), few_reviews).to_dict()), flat(config.default().to_dict())
    changed = {key: value for key, value in small.items() if value != usual[key]}
    words = [f"--config.{key}={value}" for key, value in changed.items()]
    return ["fourier_attn.main", f"--config={ROOT / 'configs' / 'fnet.py'}", f"--workdir={where}", *words]


def left(text: str) -> list[str]:
    """Command lines of processes that have to do with it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += [line] if text in line else []
    return found


def answers(where: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (where / "predictions.jsonl").read_text().splitlines()]
