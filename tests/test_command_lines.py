"""Every command of this repository parses its flags in the same way, with the same errors and exit codes."""

import importlib
import re

import pytest
from conftest import ROOT, run_here

PROGRAM = 'if __name__ == "__main__":\n'
ENDING = re.compile(
    rf"{PROGRAM}(    define_flags\(\)\n)?    sys\.exit\(command\.run\(main(, arguments=True)?\)\)\n$"
)
FOLDERS = ("benchmarks", "evidence", "fourier_attn/data", "fourier_attn/studies", "launch")
COMMANDS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text()
    for folder in (*FOLDERS, "fourier_attn/inference", "fourier_attn/pretrained")
    for path in (*sorted((ROOT / folder).rglob("*.py")), ROOT / "fourier_attn" / "export.py")
    if PROGRAM in path.read_text() and path.name != "classify.py"
}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_flag_is_one_line_and_exit_code_2(name: str) -> None:
    assert ENDING.search(COMMANDS[name]), f"{name} must end with command.run"
    module = importlib.import_module(name)
    code, out, error = run_here(module, "--nosuch=1")
    assert (code, out) == (2, "")
    assert error == "error: Unknown command line flag 'nosuch'; --help lists all flags\n"
    code, out, error = run_here(module, "--help")
    assert (code, error) == (0, "")
    assert "flags" in out


def test_every_command_that_is_named_anywhere_runs() -> None:
    """In pages, notebooks and programs, written as one types them or quoted as a subprocess takes them."""
    written = [
        path
        for ending in ("*.md", "*.py", "*.ipynb")
        for path in ROOT.rglob(ending)
        if not any(part.startswith(".") or part == "build" for part in path.relative_to(ROOT).parts)
    ]
    for path in written:
        text = path.read_text()
        named = re.findall(r"python -m ((?:fourier_attn|benchmarks|evidence|launch)[a-z_.]*[a-z_])\b", text)
        named += re.findall(r"""\bcall\(\s*(?:"\\n",\s*")?\\?"(fourier_attn\.[a-z_.]+)""", text)
        for name in named:
            place = ROOT.joinpath(*name.split("."))
            file = place / "__main__.py" if place.is_dir() else place.with_suffix(".py")
            assert file.exists(), f"{path}: {name}"
            assert PROGRAM in file.read_text(), f"{path}: {name} is no command"
