"""The notebooks run from top to bottom, and are kept without outputs."""

import ast
import json
import os
import re
from pathlib import Path

import nbformat
import pytest
from conftest import ROOT
from nbclient import NotebookClient
from waiting import HANG_S

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
REDUCED_SIZES = {  # of training data, because the test does not check accuracies
    "images": {"_examples = 6000": "_examples = 320", "_examples = 10_000": "_examples = 320"},
    "family": {"range(6000)": "range(900)", "range(0, 6000, 6)": "range(0, 900, 6)"},
}
notebooks = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def programs(path: Path) -> list[str]:
    """The cells of code."""
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@notebooks
def test_notebooks_are_kept_without_outputs(path: Path) -> None:
    for cell in json.loads(path.read_text())["cells"]:
        assert not cell.get("outputs"), cell["source"]
        assert cell.get("execution_count") is None


@notebooks
def test_notebooks_begin_with_what_installs(path: Path) -> None:
    assert "%pip install" in programs(path)[0]


@notebooks
def test_notebooks_say_what_they_need(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package is not installed and SOURCE does not say where it is."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    first = programs(path)[0].replace("%pip", "pass  #")
    with pytest.raises(SystemExit, match="set SOURCE"):
        exec(first, {})


@notebooks
def test_notebooks_draw_in_the_style(path: Path) -> None:
    text = "\n".join(programs(path))
    assert ("plt." in text) == ("plt.rcParams.update(style.SETTINGS)" in text)
    assert not re.search(r"#[0-9A-Fa-f]{6}|viridis|RdBu|fontsize", text)


@notebooks
def test_names_that_notebooks_import_exist(path: Path) -> None:
    """Seen before the notebooks are run, which takes minutes."""
    for program in programs(path)[1:]:
        python = re.sub(r"^%.*$", "", program, flags=re.MULTILINE)
        for node in ast.walk(ast.parse(python)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("fourier_attn"):
                exec(ast.unparse(node), {})


@pytest.mark.slow
@notebooks
def test_notebooks_run(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # As in conftest: compiling takes most of the time.
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    text = path.read_text()
    for size, smaller in REDUCED_SIZES.get(path.stem, {}).items():
        assert text.count(size) == 1, size
        text = text.replace(size, smaller)
    notebook = nbformat.reads(text, as_version=4)
    NotebookClient(notebook, timeout=HANG_S, resources={"metadata": {"path": str(tmp_path)}}).execute()
