"""Describes the devices that a program can be compiled for, and asks JAX for them."""

import importlib.util
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
from jax.experimental import topologies

from fourier_attn import provenance
from fourier_attn.choices import check_choice
from fourier_attn.extras import install


class Device(NamedTuple):
    """Holds the facts of one kind of device.

    Args:
      platform: JAX's name of the platform, "cuda", "tpu" or "cpu".
      memory: bytes that a program can use; None: this machine's memory, shared by its virtual devices.
      rates: peak FLOP/s of matrix products by the dtype of their inputs, at JAX's default precision. {}: not
        known.
      bandwidth: peak bytes/s of the memory; None: not known.
      module, package, extra: the compiler's Python module, its distribution, and the extra that installs it.
      source: where these numbers come from.
    """

    platform: str
    memory: int | None = None
    rates: Mapping[str, float] = MappingProxyType({})
    bandwidth: float | None = None
    module: str = ""
    package: str = "jaxlib"
    extra: str = ""
    source: str = "this machine"


# A float32 product rounds its inputs to TF32 on an H100 and to bfloat16 on a TPU, unless you set
# `jax_default_matmul_precision`. The memory of a TPU is what its compiler calls available: libtpu 0.0.42.
DEVICES = {
    "h100": Device(
        "cuda",
        84_929_347_584,  # of the driver, in h100.txt
        {"bfloat16": 989.4e12, "float16": 989.4e12, "float32": 494.7e12, "float64": 66.9e12},
        3.352e12,
        "jax_plugins.xla_cuda13",
        "jax-cuda13-plugin",
        "aot-cuda",
        "NVIDIA, H100 Tensor Core GPU Architecture: SXM5, products of dense matrices",
    ),
    "v5e": Device(
        "tpu",
        int(15.75 * 2**30),
        {"bfloat16": 197e12, "float32": 197e12},
        819e9,
        "libtpu",
        "libtpu",
        "aot-tpu",
        "cloud.google.com/tpu/docs/v5e",
    ),
    "v6e": Device(
        "tpu",
        int(31.25 * 2**30),
        {"bfloat16": 918e12, "float32": 918e12},
        1640e9,
        "libtpu",
        "libtpu",
        "aot-tpu",
        "cloud.google.com/tpu/docs/v6e",
    ),
    "cpu": Device("cpu"),
}
FORM = "write it like h100:4, v5e:2x2 or cpu:8"
# libtpu needs these on a machine without a TPU; several processes may load it at once.
ABSENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
NODE = 8  # GPUs of a machine


class Target(NamedTuple):
    """Names the devices that a program is compiled for.

    Args:
      name: a key of `DEVICES`.
      shape: number of devices, or of chips along each side of a TPU slice.
    """

    name: str
    shape: tuple[int, ...]

    @property
    def device(self) -> Device:
        """Returns the facts of the kind of device."""
        return DEVICES[self.name]

    @property
    def total(self) -> int:
        """Returns the number of devices."""
        return math.prod(self.shape)

    @property
    def memory(self) -> int:
        """Returns the bytes of memory of each device."""
        return self.device.memory or provenance.memory_bytes() // self.total

    def __str__(self) -> str:
        return f"{self.name}:{'x'.join(map(str, self.shape))}"


def parse(text: str) -> Target:
    """Returns the target that a text describes.

        >>> parse("v5e:2x2").total
        4

    Args:
      text: NAME:COUNT, or for TPUs NAME:ROWSxCOLUMNS; without a colon one device.
    Raises: ValueError for an unknown device and for a count that cannot be read.
    """
    name, colon, sizes = text.partition(":")
    check_choice("--target", name, DEVICES, f"; {FORM}")
    if not colon:
        sizes = "1x1" if DEVICES[name].platform == "tpu" else "1"
    sides = 2 if DEVICES[name].platform == "tpu" else 1
    if not re.fullmatch("x".join([r"[1-9]\d{0,3}"] * sides), sizes):
        raise ValueError(f"--target={text} is invalid; {FORM}")
    return Target(name, tuple(map(int, sizes.split("x"))))


def environment(target: Target) -> dict[str, str]:
    """Returns the environment variables that must be set before JAX starts, to compile for a target."""
    if target.device.platform != "cpu":
        return ABSENT
    flag = f"--xla_force_host_platform_device_count={target.total}"
    given = os.environ.get("XLA_FLAGS", "")
    return {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": given if flag in given.split() else f"{given} {flag}".strip(),
    }


def check_compiler(target: Target) -> None:
    """Checks that the compiler of a target is installed. Raises: ValueError with the command that does."""
    device = target.device
    try:
        there = not device.module or importlib.util.find_spec(device.module) is not None
    except ModuleNotFoundError:  # of the package that contains the module
        there = False
    if not there:
        raise ValueError(
            f"--target={target} needs {device.package}, which is not installed; {install(device.extra)}"
        )


def find_devices(target: Target) -> list[Any]:
    """Returns the devices of a target, which need not exist, in a process with its `environment`.

    Raises: ValueError for a compiler that is not installed, and for a slice that it does not know.
    """
    check_compiler(target)
    platform = target.device.platform
    if platform == "cpu":
        return jax.devices("cpu")[: target.total]
    if platform == "cuda":
        facts = (Path(__file__).parent / "h100.txt").read_text()
        hosts, each = divmod(target.total, NODE)
        if target.total > NODE and each:
            raise ValueError(f"--target={target} must be at most {NODE} or a multiple of {NODE}; change it")
        shape = f"1x{hosts}x{NODE}" if target.total > NODE else f"1x1x{target.total}"
        found = topologies.get_topology_desc(platform="cuda", target_config=facts, topology=shape)
        return list(found.devices)
    # libtpu does not describe single chips
    sides = "x".join(str(max(side, 2)) for side in target.shape)
    try:
        found = topologies.get_topology_desc(platform="tpu", topology_name=f"{target.name}:{sides}").devices
    except Exception as error:
        raise ValueError(f"--target={target} is not a slice; write one like {target.name}:2x4") from error
    if 1 < target.total < len(found):
        raise ValueError(f"--target={target} is not a slice; write one like {target.name}:2x4")
    return list(found)[: target.total]
