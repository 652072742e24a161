"""Files of finished cells, as the tests make them."""

from typing import Any

from fourier_attn.studies import ledger, suite


def finding(name: str, **facts: object) -> dict[str, Any]:
    """What the file of a finished cell says, with nothing in it but for `facts`."""
    cell = suite.EVERY[name]
    whole = dict.fromkeys(ledger.FACTS) | {"cell": name, "tier": cell.tier, "model": cell.model}
    whole |= {"config": cell.config, "task": cell.task, "metric": "accuracy", "knobs": {}}
    whole |= {"seed": cell.seed, "split_seed": cell.split_seed, "validation": [], "epochs": [], "test": {}}
    whole |= {"processes": 1, "counted": 1, "date": "", "allowed_drift": [], "fingerprints": {}}
    return whole | facts
