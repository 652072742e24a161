"""Divides the cores and GPUs of this machine among processes."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """The cores and devices of one process.

    Args:
      cores: numbers of cores; (): any of them.
      environment: variables to set, or None to remove one.
    """

    cores: tuple[int, ...] = ()
    environment: Mapping[str, str | None] | None = None

    def __str__(self) -> str:
        gpus = (self.environment or {}).get("CUDA_VISIBLE_DEVICES")
        return (f"GPUs {gpus}, " if gpus else "") + f"cores {','.join(map(str, self.cores))}"


def shares(processes: int, virtual: int = 0) -> list[Share]:
    """Divides this machine's cores and GPUs among processes.

    Args:
      processes: number of processes, at least 1.
      virtual: number of CPU devices of each process, instead of GPUs; 0: the machine's own devices.
    Raises: ValueError if GPUs cannot be divided evenly.
    """
    if processes < 1:
        raise ValueError(f"processes={processes} must be at least 1")
    if virtual < 0:
        raise ValueError(f"devices={virtual} must be at least 0 (0: as the machine has them)")
    cores, gpus = split(available_cores(), processes), [] if virtual else visible_gpus()
    if len(gpus) % processes:
        raise ValueError(
            f"processes={processes} must divide the {len(gpus)} GPUs here; set CUDA_VISIBLE_DEVICES "
            "to the GPUs that you want to use"
        )
    return [Share(mine, environment(i, gpus, processes, virtual)) for i, mine in enumerate(cores)]


def environment(index: int, gpus: Sequence[str], processes: int, virtual: int) -> dict[str, str | None]:
    """Returns the environment variables that show process `index` only its own devices.

    Args:
      index: of the process.
      gpus: names of all GPUs.
      processes: number of processes, a divisor of the number of GPUs.
      virtual: number of virtual CPU devices per process; 0: none.
    """
    each = len(gpus) // processes
    mine = ",".join(gpus[index * each : (index + 1) * each])
    variables = {"CUDA_VISIBLE_DEVICES": mine or os.environ.get("CUDA_VISIBLE_DEVICES")}
    if virtual:
        count = f"--xla_force_host_platform_device_count={virtual}"
        variables["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {count}".strip()
        variables["JAX_PLATFORMS"] = "cpu"
    return variables


def available_cores() -> list[int]:
    """Returns the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def visible_gpus() -> list[str]:
    """Returns the GPUs of CUDA_VISIBLE_DEVICES, or else all that nvidia-smi lists."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name.strip() for name in chosen.split(",") if name.strip() not in ("", "-1")]
    if not shutil.which("nvidia-smi"):
        return []
    query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False, timeout=60)
    return answer.stdout.split() if answer.returncode == 0 else []


def split(things: Sequence[int], parts: int) -> list[tuple[int, ...]]:
    """Splits `things` into `parts` consecutive shares with sizes that differ by at most one.

    If there are fewer things than parts, several parts share one thing.
    """
    if len(things) < parts:
        return [(things[i % len(things)],) for i in range(parts)]
    ends = [i * len(things) // parts for i in range(parts + 1)]
    return [tuple(things[a:b]) for a, b in itertools.pairwise(ends)]
