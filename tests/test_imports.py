"""Every module of the package in one process, as a program that uses several of them would have it."""

import subprocess
import sys

from conftest import ROOT


def test_all_modules_can_be_imported_in_one_process() -> None:
    paths = sorted((ROOT / "fourier_attn").rglob("*.py"))
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    program = (
        f"import importlib\nfor name in {modules}: importlib.import_module(name.removesuffix('.__init__'))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
