"""Files of finished cells, as the tests make them."""

from pathlib import Path
from typing import Any

from evidence.suite import cells, ledger
from fourier_attn.studies import collect


def finding(name: str, **facts: object) -> dict[str, Any]:
    """What the file of a finished cell says, with nothing in it but for `facts`."""
    cell = cells.EVERY[name]
    whole = dict.fromkeys(ledger.FACTS) | {"cell": name, "tier": cell.tier, "model": cell.model}
    whole |= {"config": cell.config, "task": cell.task, "metric": "accuracy", "knobs": {}}
    whole |= {"seed": cell.seed, "split_seed": cell.split_seed, "validation": [], "epochs": [], "test": {}}
    whole |= {"processes": 1, "counted": 1, "date": "", "allowed_drift": [], "fingerprints": {}}
    return whole | facts


def written(directory: Path, name: str = "toy-fnet-0", **more: object) -> Path:
    """The file of a finished cell with the knobs of today."""
    cell = cells.EVERY[name]
    knobs = collect.differing(collect.plain(cell.read()))
    facts = finding(name, knobs=knobs, test={"accuracy": 0.5}, cpu_seconds=18.0)
    return ledger.Ledger(directory).write(facts | more)
