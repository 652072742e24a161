"""The package outside its tree: configurations by name, and the wheel in an empty folder."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

import fourier_attn
from fourier_attn import config_flag

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PARTS = ("fourier_attn", "configs", "pyproject.toml", "README.md", "LICENSE")


def test_all_packages_are_in_the_wheel() -> None:
    """What is left out of the list would be left out of the wheel without a word."""
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "fourier_attn").rglob("*.py")}
    there = {".".join(folder.parts) for folder in folders} | {"fourier_attn.configs"}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == there


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert f"## {fourier_attn.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_no_message_or_page_advises_to_install_from_an_index() -> None:
    """The package is not on PyPI: whoever registers its name there could run code on a reader's machine."""
    known = PROJECT["project"]["optional-dependencies"]
    files = [*ROOT.glob("*.md"), *ROOT.glob("notebooks/*.ipynb")]
    for folder in ("fourier_attn", "docs", "evidence", "launch", "benchmarks", "configs"):
        files += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md")]
    for file in files:
        text = file.read_text()
        assert not re.search(r"pip install (?:-\w+ )*['\"]?fourier_attn\b", text), file
        assert not re.search(r"install it[^\n]*pip install(?! -e)", text), file
        extras = re.findall(r"extras\.install\(['\"](\w+)['\"]\)|pip install -e '?\.\[([\w,-]+)\]", text)
        assert {name for found in extras for name in "".join(found).split(",")} <= known.keys(), file


def test_configurations_are_found_by_name() -> None:
    assert config_flag.path_of("fnet:imdb") == f"{ROOT / 'configs' / 'fnet.py'}:imdb"
    assert config_flag.path_of("fnet") == str(ROOT / "configs" / "fnet.py")


def test_a_moved_configuration_is_refused_with_its_new_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, now in {
        "configs/linear.py:imdb": "configs/mixer.py:linear-imdb",
        "configs/gfnet.py": "configs/mixer.py:global_filter-fashion_mnist",
        "identity": "mixer:identity-reviews",
    }.items():
        with pytest.raises(ValueError, match=f"--config={name} was renamed; give --config={now}$"):
            config_flag.path_of(name)
        assert config_flag.path_of(now).partition(":")[2] == now.partition(":")[2]
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "linear.py").touch()  # the user's own
    monkeypatch.chdir(tmp_path)
    assert config_flag.path_of("configs/linear.py") == "configs/linear.py"


@pytest.mark.parametrize("word", ["configs/fnet.py", "nowhere:imdb", "fnet.py", "../configs/fnet", ""])
def test_other_names_are_left_as_they_are(word: str) -> None:
    assert config_flag.path_of(word) == word


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel, built from a copy of the tree."""
    tree, place = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, tree / part)
    program = f"from setuptools import build_meta; build_meta.build_wheel({str(place)!r})"
    call(tree, {}, "-c", program)
    (file,) = place.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(place / "unpacked")
    return place / "unpacked"


def call(where: Path, more: dict[str, str], *words: str) -> str:
    """What a program says that runs in a folder."""
    environment = {**os.environ, **more}
    done = subprocess.run(
        [sys.executable, *words], cwd=where, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_holds_the_package_alone(wheel: Path) -> None:
    (info,) = wheel.glob("*.dist-info")
    assert {path.name for path in wheel.iterdir()} == {"fourier_attn", info.name}
    assert info.name == f"fourier_attn-{fourier_attn.__version__}.dist-info"
    assert "fourier-attn = fourier_attn.main:fourier_attn" in (info / "entry_points.txt").read_text()
    for file in ("py.typed", "optics/components.toml", "configs/fnet.py", "configs/lambda.py"):
        assert (wheel / "fourier_attn" / file).is_file(), file


@pytest.mark.slow
def test_every_module_of_the_wheel_is_imported(wheel: Path, tmp_path: Path) -> None:
    """Without the checkout: no path files, so that an editable installation is not found either."""
    files = [path.relative_to(wheel).with_suffix("") for path in wheel.rglob("*.py")]
    names = sorted(".".join(path.parts).removesuffix(".__init__") for path in files)
    assert {"fourier_attn.configs.fnet", "fourier_attn.studies.engine.pareto"} <= set(names)
    places = [str(wheel), *(place for place in sys.path if Path(place).name == "site-packages")]
    others = ("evidence", "launch", "benchmarks", "configs")
    program = (
        f"import importlib, importlib.util, sys; sys.path += {places}\n"
        f"for name in {names}: importlib.import_module(name)\n"
        f"assert not [name for name in {others} if importlib.util.find_spec(name)]\n"
        "print(sys.modules['fourier_attn'].__file__)"
    )
    said = call(tmp_path, {}, "-I", "-S", "-c", program)
    assert said == f"{wheel / 'fourier_attn' / '__init__.py'}\n"


@pytest.mark.slow
def test_the_wheel_trains_and_predicts_in_an_empty_folder(
    wheel: Path, few_reviews: str, tmp_path: Path
) -> None:
    small = {"data.dir": few_reviews, "model.d": 8, "model.mlp": 8, "model.depth": 1, "train.epochs": 1}
    knobs = [f"--config.{name}={value}" for name, value in small.items()]
    start = (
        "import sys; from fourier_attn.main import fourier_attn; sys.argv[0] = 'fourier-attn'; fourier_attn()"
    )
    path = {"PYTHONPATH": str(wheel)}
    said = call(tmp_path, path, "-c", start, "--config=fnet:reviews", "--workdir=run", *knobs)
    assert "test accuracy" in said
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
    said = call(tmp_path, path, "-c", start, "--mode=predict", "--workdir=run", "--text=a dull film")
    assert said.split()[0] in ("negative", "positive")
    assert "optim.learning_rate" in call(tmp_path, path, "-m", "fourier_attn.config")
