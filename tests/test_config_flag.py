"""The flag --config: one message for each cause in every command, and a module for each file."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from absl import flags
from conftest import run_here

from fourier_attn import command, config, config_flag, main
from fourier_attn.inference import export
from fourier_attn.studies.engine import pareto, speedup
from launch import grid, local, sweep

FILES = {
    "good": "from fourier_attn.config import default\ndef get_config(task='reviews'):\n"
    "    return default('fourier', task)\n",
    "without": "x = 1\n",
    "number": "get_config = 3\n",
    "returns": "def get_config():\n    return {'data': 1}\n",
    "divides": "def get_config():\n\n    return 1 / 0\n",
    "refuses": "def get_config():\n    raise ValueError('of mine')\n",
    "opens": "def get_config():\n    return open('nowhere')\n",
    "exits": "import sys\nsys.exit(0)\n",
    "parts": "from fourier_attn.config import default\ndef get_config():\n    c = default()\n    c.unlock()\n"
    "    del c['data'], c['optim'], c.model['mixer']\n    return c\n",
    "nothing": "from ml_collections import ConfigDict\ndef get_config():\n    return ConfigDict()\n",
    "typo": "from fourier_attn.config import default\ndef get_config():\n    c = default()\n"
    "    c.train.epoch = 3\n    return c\n",
    "names": "from fourier_attn.config import default\ndef helper():\n    return default()\n"
    "get_config = helper\n",
    "calls": "def get_config():\n    return helper()\n",
}
CAUSES = {  # words after --config=: the message
    "wrong.py": "--config=wrong.py cannot be read; choose one of attention, circular, ",
    "wrong.py --config.x=1": "--config=wrong.py cannot be read; choose one of attention, circular, ",
    "fnte:imdb --config.seed=1": "--config=fnte:imdb cannot be read; did you mean fnet? Choose one of ",
    " --config.seed=1": "--config= cannot be read (Is a directory); choose one of ",
    ". --config.seed=1": "--config=. cannot be read (Is a directory); choose one of ",
    "linear:imdb": "--config=linear:imdb was renamed; give --config=mixer:linear-imdb",
    "fnet:imbd --config.seed=1": "data.task='imbd' is unknown; did you mean imdb? Choose one of ",
    "good.py:imbd": "--config=good.py:imbd: data.task='imbd' is unknown; did you mean imdb? Choose one of ",
    "without.py": "--config=without.py: the file has no function get_config; define one that ",
    "number.py": "--config=number.py: the file has no function get_config; define one that ",
    "returns.py": "--config=returns.py: get_config returns dict instead of a ConfigDict; return config.d",
    "divides.py --config.seed=1": "--config=divides.py cannot be read (ZeroDivisionError in line 3: division "
    "by zero); fix that file",
    "refuses.py": "--config=refuses.py: of mine",
    "opens.py": "--config=opens.py cannot be read (FileNotFoundError in line 2: ",
    "exits.py": "--config=exits.py exits the program; remove that call, and define a function get_config",
    "returns.py:a": "--config=returns.py:a cannot be read (TypeError: get_config() takes 0 positional ",
    "parts.py --config.seed=1": "--config=parts.py: the configuration lacks data, optim, model.mixer; start ",
    "parts.py --mixer=lambda": "--config=parts.py: the configuration lacks data, optim, model.mixer; start ",
    "nothing.py": "--config=nothing.py: the configuration lacks data, model, optim, train; start ",
    "typo.py": "--config=typo.py cannot be read (AttributeError in line 4: ",
    "calls.py": "--config=calls.py cannot be read (NameError in line 2: name 'helper' is not defined)",
    "fnet --config=attention": "--config is given twice (fnet, attention); give it once",
    "fnet --config=fnet --config.seed=1": "--config is given twice (fnet, fnet); give it once",
    "fnet --config.x=1": "x is not an option. `python -m fourier_attn.config` prints all options",
    "fnet --config.seed.x=1": "seed.x is not an option. ",
    "fnet --config.train.epoch=1": 'train.epoch is not an option. Did you mean "epochs"? `python',
    "fnet --config.model.mixer.causal=True": "causal is not an option. This mixer has no option causal; ",
    "fnet --config.modl.mixer.causal=True": 'modl.mixer.causal is not an option. Did you mean "model"? `py',
    "fnet --config.model.mixer.engine.averages=2": "engine.averages cannot be set, because the option that "
    "contains it is None; start from a configuration in which it has a value",
    "fnet --config.model.engine=chip_8x8 --config.model.engine.averages=2": "--config.model.engine=chip_8x8 "
    "conflicts with --config.model.engine.averages; remove one",
    "optical_fnet --config.model.mixer.engine.adc_bits=3": "engine.adc_bits is not an option. The engine's "
    "adc_bits belongs to the group receiver; set receiver.adc_bits",
    "fnet --config.model.mixer.engine=none_such": "preset='none_such' is unknown; ",
    "fnet --config.train.epochs=many": "--config.train.epochs=many: invalid literal",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the configuration files of a user."""
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Runs a command in that folder."""
    monkeypatch.setattr("conftest.ROOT", folder)
    return run_here


def words_of(cause: str) -> list[str]:
    return f"--config={cause}".split(" ")


def test_every_command_gives_the_same_message(
    folder: Path, call: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one process, so that no file can use what an earlier one has defined."""
    monkeypatch.chdir(folder)
    grid.read(["--config=names.py"])
    for cause, message in CAUSES.items():
        words = words_of(cause)
        with pytest.raises((ValueError, flags.Error)) as found:
            grid.read(words)
        told = " ".join(line.strip() for line in str(found.value).splitlines())
        assert message in told, told
        commands = [main] if "--mixer" in cause else [main, speedup, pareto]
        for program in commands:
            measured = ["--measured=x"] if program is pareto else []
            code, out, error = call(program, *words, *measured)
            assert (code, out, error) == (2, "", f"error: {told}\n"), program.__name__
        code, _, error = call(sweep, "--grid=train.epochs=3", "--dry_run", "--", *words, arguments=True)
        if not cause.startswith((" ", "fnet --config.train.epochs")):  # a sweep refuses these by itself
            assert (code, error) == (2, f"error: train.epochs=3: {told}\n")


def test_a_configuration_that_is_missing_is_asked_for(call: Callable) -> None:
    for program, words, message in (
        (main, [], "--mode=train needs --config=NAME:TASK"),
        (speedup, [], "--config is missing; name one like --config=fnet:imdb"),
        (pareto, ["--measured=x"], "--measured=x needs the network, --config=FILE[:task]"),
        (main, ["--config.seed=1"], "--config.seed needs --config=NAME, or --workdir=DIR of an existing run"),
        (main, ["--config.model.engine=None"], "--config.model.engine needs --config=NAME, or --workdir="),
        (speedup, ["--noconfig.data.masked"], "--config.data.masked needs --config=NAME\n"),
        (main, ["--mixer=lambda"], "--mixer=lambda needs --config=FILE, which it changes"),
        (main, ["--config"], "Missing value for flag --config"),
        (export, ["--config.seed=1"], "Unknown command line flag 'config.seed'; --help lists all flags"),
    ):
        code, _, error = call(program, *words)
        assert (code, message in error) == (2, True), error


def test_each_file_has_a_module_of_its_own(folder: Path) -> None:
    """Also files of the same name, and one that has changed; its classes find their module."""
    text = (
        "import dataclasses\nfrom fourier_attn.config import default\n"
        "assert 'seen' not in globals()\nseen = __name__\n"
        "@dataclasses.dataclass\nclass Sizes:\n    d: 'int' = {d}\n"
        "def get_config():\n    c = default()\n    c.model.d = Sizes().d\n"
        "    c.data.dir = seen\n    return c\n"
    )
    read = []
    for name, d in (("a", 16), ("b", 32), ("a", 64)):
        (folder / name).mkdir(exist_ok=True)
        file = folder / name / "same.py"
        file.write_text(text.format(d=d))
        read.append(grid.read([f"--config={file}"]))
        assert Path(sys.modules[read[-1].data.dir].__file__) == file
    assert [c.model.d for c in read] == [16, 32, 64]
    assert read[0].data.dir == read[2].data.dir != read[1].data.dir
    assert read[0].is_locked


@pytest.mark.parametrize("program", [main, grid])
def test_a_file_imports_its_neighbours_from_any_directory(
    program: Any, tmp_path: Path, call: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is read; no neighbour can replace a library."""
    place = tmp_path / "elsewhere" / program.__name__
    place.mkdir(parents=True)
    name = f"neighbour_of_{program.__name__.replace('.', '_')}"
    (place / f"{name}.py").write_text("WIDTH = 24\n")
    (place / "model.py").write_text("raise SystemExit\n")
    (place / "optax.py").write_text("raise SystemExit\n")
    (place / "mine.py").write_text(
        f"from {name} import WIDTH\nfrom fourier_attn.config import default\ndef get_config():\n"
        "    c = default()\n    c.model.d = WIDTH\n    return c\n"
    )
    before = list(sys.path)
    if program is grid:
        read = grid.read([f"--config={place / 'mine.py'}"])
    else:
        seen: list[config.Config] = []
        monkeypatch.setattr("fourier_attn.train.run", lambda c, *_: seen.append(c))
        relative = place.relative_to(tmp_path) / "mine.py"
        code, _, error = call(main, f"--config={relative}", "--workdir=/nowhere")
        assert code == 0, error
        [read] = seen
    assert read.model.d == 24
    assert sys.path == before
    assert sys.modules[name].WIDTH == 24  # its classes find their module


def test_files_of_two_folders_import_each_its_own_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for folder, width in (("a", 24), ("b", 40), ("b", 40)):
        place = tmp_path / folder
        for package in (place / "package_of_two", place / "libraries" / "library_of_two"):
            package.mkdir(parents=True, exist_ok=True)
            (package / "__init__.py").write_text("")
        (place / "package_of_two" / "sizes.py").write_text(f"BLOCKS = {width // 8}\n")
        (place / "neighbour_of_two.py").write_text(f"WIDTH = {width}\n")
        (place / "mine.py").write_text(
            "import neighbour_of_two\nfrom package_of_two import sizes\nimport library_of_two\n"
            "from fourier_attn.config import default\ndef get_config():\n"
            "    c = default()\n    c.model.d, c.model.depth = neighbour_of_two.WIDTH, sizes.BLOCKS\n"
            "    c.data.dir = f'{id(neighbour_of_two)} {id(library_of_two)}'\n    return c\n"
        )
        monkeypatch.syspath_prepend(tmp_path / "a" / "libraries")
        found.append(grid.read([f"--config={place / 'mine.py'}"]))
    assert [(c.model.d, c.model.depth) for c in found] == [(24, 3), (40, 5), (40, 5)]
    assert found[1].data.dir == found[2].data.dir  # within a folder, a module is imported once
    assert len({c.data.dir.split()[1] for c in found}) == 1  # a library below the folder is no neighbour


def test_words_after_dashes_reach_the_training_unchanged(call: Callable) -> None:
    words = ["--config=fnet:imdb", "--config.model.engine=chip_11x11", "--config.model.mixer.engine=None"]
    words += ["--config.data.dir", "None", "--help", "--flagfile=f", "--workdir=a"]
    code, out, error = call(local, "--dry_run", "--", *words, arguments=True)
    assert code == 0, error
    assert f"-m fourier_attn.main {' '.join(words)}\n" in out
    words = words[:3]
    code, out, error = call(sweep, "--grid=seed=0", "--dry_run", "--", *words[:2], arguments=True)
    assert code == 0, error
    assert f"-m fourier_attn.main {' '.join(words[:2])} --config.seed=0 --workdir=" in out
    code, _, error = call(main, "--config=fnet", "--mode=eval", "--", words[1])
    assert (code, f"unknown argument '{words[1]}'" in error) == (2, True), error


def test_a_flagfile_holds_any_part_of_a_command_line(folder: Path, call: Callable, monkeypatch) -> None:
    seen: list[config.Config] = []
    monkeypatch.setattr("fourier_attn.train.run", lambda c, *_: seen.append(c))
    (folder / "flags").write_text("--config=fnet:imdb\n# a comment\n--config.model.engine=chip_11x11\n")
    code, _, error = call(main, "--workdir=/nowhere", "--flagfile=flags", "--config.seed=5")
    assert code == 0, error
    assert (seen[0].seed, seen[0].data.task, seen[0].model.mixer.engine.shape) == (5, "imdb", (11, 11))
    words = ["--grid=seed=0", "--dry_run", "--", "--flagfile=flags"]
    code, out, error = call(sweep, *words, arguments=True)
    assert code == 0, error
    assert "-m fourier_attn.main --flagfile=flags --config.seed=0 --workdir=" in out
    (folder / "flags").write_text("--config=fnet:imdb\n--config.train.epoch=1\n")
    code, _, error = call(sweep, *words, arguments=True)
    assert (code, "train.epoch is not an option" in error) == (2, True), error
    for program, words in ((main, ["--config=fnet"]), (speedup, []), (export, []), (local, [])):
        code, out, error = call(program, *words, "--flagfile=none_such", arguments=program is local)
        assert (code, out) == (2, "")
        assert error.startswith("error: Unable to open flagfile: [Errno 2]"), error
        assert error.endswith("'none_such'; name a file with one flag in each line\n")


@pytest.mark.parametrize("words", [["--help"], ["--helpfull"], ["--config=none_such", "--help"]])
def test_help_lists_the_flag_with_the_command(words: list[str], call: Callable) -> None:
    for program in (main, speedup, pareto):
        code, out, error = call(program, *words)
        assert (code, error) == (0, "")
        assert "--config: " in out


def test_a_value_can_be_the_name_of_the_help(call: Callable) -> None:
    code, out, error = call(main, "--mode=predict", "--text", "--help")
    assert (code, out, "--mode=predict needs --workdir=DIR" in error) == (2, "", True), error


def test_names_that_a_command_line_gives() -> None:
    values = flags.FlagValues()
    config_flag.define_flag("a configuration", values)
    line = ["main", "--config", "fnet:imdb", "--config.seed=3", "--config.model.engine=None", "--", "rest"]
    assert command.parse(line, values) == ["main", "rest"]
    found = config_flag.given(values)
    assert (found.seed, found.data.task, found.model.mixer.engine) == (3, "imdb", None)
    assert config_flag.overridden(values) == ["seed", "model.mixer.engine"]
    assert config_flag.stem(values) == "fnet"
