"""Every mixer compiles for four TPU chips that are not here, and gathers no activation."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT

from benchmarks import aot
from fourier_attn.model import MIXERS
from fourier_attn.train.target.devices import environment, find_devices

B, T, D = 16, 64, 32


def compile_all() -> dict[str, dict]:
    """By mixer, method and engine, what the compiler says."""
    devices = find_devices(aot.TARGETS["v5e"])
    cases = aot.mixer_rows(devices, B, T, D, dtypes=("float32",))
    return {facts["what"]: compile_it() for facts, compile_it in cases}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs the extra aot-tpu")
def test_every_mixer_compiles_for_several_chips() -> None:
    result = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | environment(aot.TARGETS["v5e"]) | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout.splitlines()[-1])
    assert set(rows) >= {*MIXERS, *aot.engines()}
    assert [what for what, row in rows.items() if not row["compiles"]] == []
    for what, row in rows.items():
        # Gradients of filters are gathered; half of the examples of all chips would be as large as this.
        assert set(row["collectives"]) <= {"all-gather", "all-reduce"}, what
        gathered = row["collectives"].get("all-gather", {"largest": 0})
        assert gathered["largest"] < 4 * B * T * D / 2, what


if __name__ == "__main__":
    print(json.dumps(compile_all()))
