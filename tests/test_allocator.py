import os
import platform
import subprocess
import sys

import pytest

from fourier_attn.allocator import TOLD

PROGRAM = """
import resource
import numpy as np
from fourier_attn.allocator import keep_memory

kept = keep_memory()
faults = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]
for _ in range(3):
    np.empty(1 << 26, np.uint8).fill(1)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(kept, faults[2] - faults[1], faults[3] - faults[2])
"""


def run(**told: str) -> tuple[str, list[int]]:
    """Whether memory is kept, and page faults of a second and a third array of 64 MB."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(TOLD)}
    environment = others | {"NUMPY_MADVISE_HUGEPAGE": "0"} | told
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    kept, *faults = process.stdout.split()
    return kept, [int(n) for n in faults]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's allocator")
def test_freed_memory_serves_the_next_array() -> None:
    kept, faults = run()
    assert kept == "True"
    assert max(faults) < 64
    kept, faults = run(MALLOC_KEEP="no")  # somebody has said how
    assert kept == "False"
    assert min(faults) > 16_000
