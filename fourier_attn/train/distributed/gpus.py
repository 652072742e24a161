"""Chooses the GPUs of this process among those of its node, if SLURM or Open MPI started it."""

import os
from collections.abc import Mapping

VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def share(environment: Mapping[str, str] = os.environ) -> list[int] | None:
    """Returns the indices of this process's GPUs among the visible ones.

    With several processes on a node, each one gets an equal share. JAX would give each process only one GPU.

    Args:
      environment: environment variables.
    Returns: the indices; [] for all visible GPUs; None if JAX_LOCAL_DEVICE_IDS is set, or if the number of
      processes or GPUs is unknown.
    """
    place = None if environment.get("JAX_LOCAL_DEVICE_IDS") else _place(environment)
    if place is None:
        return None
    index, processes = place
    seen = next((len(value.split(",")) for name in VISIBLE if (value := environment.get(name))), 0)
    here = int(environment.get("SLURM_GPUS_ON_NODE", "0"))
    if processes == 1 or 0 < seen * processes <= here:  # SLURM shows each process only its own GPUs
        return []
    count = seen or here
    if count < processes:
        return None
    return list(range(index * count // processes, (index + 1) * count // processes))


def _place(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """Returns the index of this process on its node, and the number of processes there; None if unknown."""
    try:
        if "SLURM_LOCALID" in environment:
            tasks, nodes = (int(environment[f"SLURM_STEP_NUM_{name}"]) for name in ("TASKS", "NODES"))
            return int(environment["SLURM_LOCALID"]), -(-tasks // nodes)
        names = ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
        index, processes = (int(environment[name]) for name in names)
        return index, processes
    except (KeyError, ValueError):
        return None
