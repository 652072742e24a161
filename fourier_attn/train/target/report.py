"""Reports whether the training step of a configuration fits devices that need not exist."""

import time
from pathlib import Path
from typing import Any

from fourier_attn import config as configuration
from fourier_attn import provenance
from fourier_attn.config import Config
from fourier_attn.train import monitor
from fourier_attn.train.distributed import sharding
from fourier_attn.train.target import devices
from fourier_attn.train.target.devices import Target
from fourier_attn.train.target.program import KINDS
from fourier_attn.train.target.step import Facts, TargetFull, compiled_facts, scaled_facts

RESERVED = 0.75  # share of a GPU's memory that JAX reserves by default
CURE = "reduce data.batch or data.length, or set train.remat=block, train.accumulate or train.mesh"


def compile_for(config: Config, target: Target, all_blocks: bool = False) -> dict[str, Any]:
    """Compiles the training step of a configuration for a target, and returns what is known about it.

    Args:
      config: the complete configuration.
      target: the devices; the process needs their `environment`.
      all_blocks: whether to compile all blocks instead of a few; default False.
    Returns: the quantities by name. Bytes are those of one device.
    Raises: ValueError for a configuration or a target that cannot be used, and MemoryError if this machine
      lacks the memory to compile the step.
    """
    begin = time.perf_counter()
    configuration.check(config)
    monitor.check(config)
    config = configuration.fitted_without_data(config)
    found = devices.find_devices(target)
    placement = sharding.place(config.train, config.data.batch, found)
    report: dict[str, Any] = {"target": str(target), "mesh": str(placement), "batch": config.data.batch}
    report |= {"blocks": config.model.depth, "memory": target.memory}
    try:
        if all_blocks:
            facts, blocks = compiled_facts(config, placement), config.model.depth
        else:
            facts, blocks = scaled_facts(config, placement)
    except TargetFull as error:
        why = str(error)
        return report | {"fits": False, "why": why, "seconds": round(time.perf_counter() - begin, 1)}
    except MemoryError as error:
        raise MemoryError(
            f"this machine lacks the memory to compile the step ({str(error) or 'no details'}); use one with "
            "more, or reduce data.length"
        ) from error
    needed = sum(facts[name] for name in ("arguments", "new results", "temporary"))
    report |= {"compiled_blocks": blocks, "needed": needed, "fits": needed <= target.memory, "facts": facts}
    return report | _bound(facts, target) | {"seconds": round(time.perf_counter() - begin, 1)}


def _bound(facts: Facts, target: Target) -> dict[str, float]:
    """Returns the roofline's lower bound of the time of a step, in seconds; {} if the device is not known.

        c = sum_d F_d / R_d,    m = B / W

    The bound is the larger one of c and m. $F_d$ are the FLOPs of matrix products with inputs of dtype d, and
    $R_d$ their peak rate. B are the bytes of parameters and optimizer state, read and written once, and of
    the batch. W is the memory's bandwidth.

    Args:
      facts: the facts of the step.
      target: the devices.
    """
    device = target.device
    if device.bandwidth is None:
        return {}
    fastest = max(device.rates.values())
    flops = {name.removeprefix("flops "): n for name, n in facts.items() if name.startswith("flops ")}
    products = sum(count / device.rates.get(dtype, fastest) for dtype, count in flops.items())
    memory = facts["touched"] / device.bandwidth
    return {"products_s": products, "memory_s": memory, "bound_s": max(products, memory)}


def lines(report: dict[str, Any], target: Target) -> list[str]:
    """Returns the lines that the command prints.

    Args:
      report: the result of `compile_for`.
      target: the devices.
    """
    rows = [("target", f"{target}, mesh {report['mesh']}, batch {report['batch']}")]
    if "facts" not in report:
        rows += [("memory", report["why"]), ("verdict", _verdict(report, target))]
        return [f"{name:<12}{text}" for name, text in rows]
    facts = report["facts"]
    how = "all compiled"
    if report["compiled_blocks"] < report["blocks"]:
        how = f"{report['compiled_blocks']} and one more of each kind compiled, the rest scaled"
    flops = sum(n for name, n in facts.items() if name.startswith("flops "))
    rows += [
        ("blocks", f"{report['blocks']}: {how}"),
        ("parameters", f"{facts['parameters']:,.0f}"),
        (
            "memory",
            f"{_size(report['needed'])} of {_size(report['memory'])} on each device: state and batch "
            f"{_size(facts['arguments'])}, temporary {_size(facts['temporary'])}",
        ),
        ("collectives", _communication(facts)),
        ("products", f"{flops:.3g} FLOP on each device"),
    ]
    if "estimated flops" in facts:
        accessed = _size(facts["estimated bytes accessed"])
        estimated = f"{facts['estimated flops']:.3g} FLOP, {accessed} accessed"
        rows.append(("estimate", f"{estimated} (the compiler's own, loops counted once)"))
    rows.append(("lower bound", _time(report, target)))
    rows.append(("verdict", _verdict(report, target)))
    return [f"{name:<12}{text}" for name, text in rows]


def _communication(facts: Facts) -> str:
    parts = [
        f"{round(facts[f'{kind} count'])} {kind}, {_size(facts[f'{kind} bytes'])}"
        for kind in KINDS.split("|")
        if facts.get(f"{kind} count")
    ]
    return "; ".join(parts) or "none"


def _time(report: dict[str, Any], target: Target) -> str:
    if "bound_s" not in report:
        return f"not known, because the rates of {target.name} are not known"
    return (
        f"{1e3 * report['bound_s']:.3g} ms a step: products {1e3 * report['products_s']:.3g} ms, memory "
        f"{1e3 * report['memory_s']:.3g} ms, without communication"
    )


def _verdict(report: dict[str, Any], target: Target) -> str:
    if not report["fits"]:
        return f"does not fit; {CURE}"
    if target.device.platform == "cuda" and report["needed"] > RESERVED * report["memory"]:
        return f"fits with XLA_PYTHON_CLIENT_MEM_FRACTION=.95; JAX's default is {RESERVED}"
    return "fits"


def _size(count: int | float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.4g} TB"


def save(report: dict[str, Any], target: Target, file: Path) -> None:
    """Writes a report, its verdict and its provenance to a JSON file.

    Args:
      report: the result of `compile_for`.
      target: the devices.
      file: the file.
    """
    record = provenance.record(target.device.package)
    setting = {"setting": f"compiled for {target}, not run", "source": target.device.source}
    provenance.write(file, record | setting | report | {"verdict": _verdict(report, target)})
