"""README and docs: what they show runs, what they name exists, what they count is so."""

import ast
import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from conftest import ROOT
from markdown_it import MarkdownIt
from published import PARAMETERS

from evidence.pages.equations import lines_of
from evidence.pages.fill import TABLES
from evidence.pages.markdown import Results
from fourier_attn import config
from fourier_attn.data import Task
from fourier_attn.data.tables import files
from fourier_attn.data.tfds import tfds_builder
from fourier_attn.layers.fourier import OPTIONS
from fourier_attn.model import MIXERS, engine_fields
from fourier_attn.optics.presets import PRESETS
from fourier_attn.train.rundir import config_file

README = ROOT / "README.md"
COLUMNS = 88
PAGES = [README, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "optics").glob("*.md"))]
PACKAGE = ROOT / "fourier_attn"
EXTENDING = (ROOT / "docs" / "extending.md").read_text()
SHOWN = [  # pages with programs; those of docs/extending.md are files, of which tests are below
    page.relative_to(ROOT).as_posix()
    for page in PAGES[1:]
    if "\n```python\n" in page.read_text() and page.name != "extending.md"
]
NEW = {"configs/decay.py", "model.mixer.rate", "model.mixer.factor"}  # made by what docs/extending.md says

pages = pytest.mark.parametrize("page", PAGES, ids=lambda p: f"{p.parent.name}-{p.name}")
ALL = [*PAGES, *sorted(ROOT.glob("C*.md")), *sorted((ROOT / "results").rglob("*.md"))]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def rows(text: str, head: str) -> list[list[str]]:
    """The cells of the table that begins with a line."""
    lines = text.split(head, 1)[1].splitlines()[2:]
    end = next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[:end]]


def test_readme_is_short() -> None:
    assert len(README.read_bytes()) <= 6_000


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize(
    "name",
    ["README.md", *(pytest.param(page, marks=pytest.mark.slow) for page in SHOWN)],
)
def test_python_that_is_shown_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    programs = blocks((ROOT / name).read_text(), "python")
    assert programs
    for program in programs:
        exec(compile(program, name, "exec"), {})


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda p: f"{p.parent.name}-{p.name}")
def test_code_fits_the_column(page: Path) -> None:
    """The site would break longer lines, for example between the hyphens of an option."""
    tokens = MarkdownIt().parse(page.read_text())
    code = [token for token in tokens if token.type in ("fence", "code_block") and token.info[:1] != "{"]
    texts = [token.content for token in code if not lines_of(token.content)]  # the site shows no equation so
    long = [line for text in texts for line in text.splitlines() if len(line) > COLUMNS]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("page", ALL, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if "://" in link:
            assert page.name == "faq.md", f"{page.name}: {link} is not in this repository"
            continue
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name}: {link}"
        if anchor:
            heads = re.findall(r"^#+ (.*)$", there.read_text(), flags=re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads], link


def test_the_changes_link_to_pages() -> None:
    """docs/changes.md includes the list, and finds only links into docs/ from there."""
    assert ":relative-docs: docs/\n" in (ROOT / "docs" / "changes.md").read_text()
    links = re.findall(r"\]\(([^)]*)\)", (ROOT / "CHANGELOG.md").read_text())
    assert links
    assert [link for link in links if not link.startswith(("docs/", "https://"))] == []


@pages
def test_commands_name_what_exists(page: Path) -> None:
    text = page.read_text()
    installed = re.findall(r"^pip install (\w+)$", text, flags=re.MULTILINE)
    for module in set(re.findall(r"python -m ([a-z_.]+[a-z_])", text)) - {*installed}:
        assert importlib.util.find_spec(module), f"{page.name}: {module}"
    for file in set(re.findall(r"\bconfigs/\w+\.py", text)) - NEW - {"configs/NAME.py"}:
        assert (ROOT / file).exists(), f"{page.name}: {file}"
    for knob in set(re.findall(r"--config\.([a-z_.]+[a-z])=", text)) - NEW:
        assert known(knob), f"{page.name}: --config.{knob}"


def known(knob: str) -> bool:
    """Whether some mixer's configuration, with an engine where it can have one, has a knob of that name."""
    knob = re.sub(r"^model\.others\.\w+\.", "model.mixer.", knob)  # of a layout's other mixers
    for mixer in MIXERS:
        engine = "chip_11x11" if engine_fields(mixer) else None
        names = config.default(mixer, engine=engine).to_dict()
        if knob in config_file.flat(names) or knob in ("model.mixer.engine", "model.engine"):
            return True
    return False


def test_every_page_is_in_the_contents() -> None:
    """Finds before the site is built what Sphinx would warn of; generated pages list themselves."""
    listed: set[Path] = set()
    new = {(ROOT / "docs" / "index").resolve()}
    while new:
        listed |= new
        pages = [page for page in (place.with_suffix(".md") for place in new) if page.exists()]
        new = {place for page in pages for place in contents(page)} - listed
    written = [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("results/**/*.md")]
    written += [page for page in ROOT.glob("docs/**/*.md") if page.parent != ROOT / "docs" / "api"]
    assert {page.with_suffix("") for page in written} <= listed


def test_the_side_bar_is_short() -> None:
    """The site shows each entry of the first page's tables of contents on every page."""
    assert len(contents(ROOT / "docs" / "index.md")) <= 16


def contents(page: Path) -> set[Path]:
    """Returns the pages, without suffix, that the tables of contents of a page list."""
    blocks = re.findall(r"^```\{toctree\}\n([^`]*)```$", page.read_text(), flags=re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines() if line and not line.startswith(":")]
    return {(page.parent / re.sub(r"^.* <(.*)>$", r"\1", line)).resolve() for line in lines}


def test_the_table_of_extras_is_complete() -> None:
    listed = rows((ROOT / "docs" / "installation.md").read_text(), "| Extra |")
    named = {name for row in listed for name in re.findall(r"[\w-]+", row[0])}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert named == project["optional-dependencies"].keys()


def test_the_map_and_the_tree_agree() -> None:
    listed = README.read_text().split("## Repository layout", 1)[1].split("\n## ", 1)[0]
    listed = "\n".join(line for line in listed.splitlines() if line.startswith("    "))
    named = set(re.findall(r"[\w/]+\.py\b|\w+/", listed))
    for name in named - {"requirements/"}:
        assert any((place / name).exists() for place in (ROOT, PACKAGE, *PACKAGE.iterdir())), name
    for path in PACKAGE.rglob("*.py"):
        first, *rest = path.relative_to(PACKAGE).parts
        assert first == "__init__.py" or (f"{first}/" if rest else first) in named, path
    rooms = {path.parent.relative_to(ROOT).parts[0] for path in ROOT.glob("*/*.py")}
    assert {f"{room}/" for room in rooms if not room.startswith(".")} <= named


def test_parameters_of_the_mixers() -> None:
    counted = rows((ROOT / "docs" / "mixers.md").read_text(), "| Mixer | Parameters, d = 128 |")
    assert len(counted) >= 11
    for link, count, *_ in counted:
        name = re.findall(r"(\w+)`\]\(mixers/\1\.md\)", link)[0]
        layer = MIXERS[name]()
        params = jax.eval_shape(layer.init, jax.random.key(0), jnp.zeros((1, 8, 128)))
        assert f"{sum(p.size for p in jax.tree.leaves(params)):,}" == count, name


def test_choices_of_padding() -> None:
    listed = rows((ROOT / "docs" / "mixers" / "fourier.md").read_text(), "| `padding` |")
    assert [row[0].removesuffix("` (default)") for row in listed] == list(OPTIONS["padding"])


def test_knobs_have_their_defaults() -> None:
    for name, default, _ in rows((ROOT / "docs" / "training.md").read_text(), "| option | default |"):
        part, _, knob = name.partition(".")
        assert repr(config.PARTS[part][knob].default) == default, name


def test_provenance_of_the_presets() -> None:
    listed = rows((ROOT / "docs" / "optics" / "parameters.md").read_text(), "| preset | published |")
    found = {name: (published, derived) for name, published, derived, *_ in listed}
    assert found == {name: (", ".join(p.published), ", ".join(p.derived)) for name, p in PRESETS.items()}


def test_parameters_of_the_family() -> None:
    for size, *counts in rows((ROOT / "docs" / "fnet.md").read_text(), "| | fnet, random, ff |"):
        for name, count in zip(("fnet", "hybrid", "linear", "bert"), counts, strict=True):
            assert f"{PARAMETERS[name, size][1]:,}" == count, (name, size)


def test_limits_of_reading() -> None:
    limits = [
        row[1].removesuffix(" bytes") for row in rows((ROOT / "docs" / "data.md").read_text(), "| limit |")
    ]
    assert limits == [f"{n:,}" for n in (files.TEXT, files.ROWS, files.UNPACKED, files.RATIO)]


# docs/extending.md


def test_the_row_fits_what_tfds_has(tmp_path: Path) -> None:
    row = re.search(r"^ {4}\"news\": (Task\(.*?\n {4}\)),$", EXTENDING, flags=re.MULTILINE | re.DOTALL)[1]
    task = eval(row, {"Task": Task})
    info = tfds_builder(task.dataset, str(tmp_path)).info
    assert tuple(info.features["label"].names) == task.labels
    assert set(task.texts) <= set(info.features)


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project after everything that docs/extending.md says."""
    root = tmp_path_factory.mktemp("extended")
    for room in ("fourier_attn", "configs", "launch", "tests"):
        shutil.copytree(ROOT / room, root / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    for file in blocks(EXTENDING, "python"):
        place = re.match(r"# (\S+)\n", file)[1]
        assert not (root / place).exists(), place
        (root / place).write_text(file.split("\n", 1)[1])
    for change in blocks(EXTENDING, "diff"):
        place, text = changed(change)
        (root / place).write_text(text)
    return root


def changed(change: str) -> tuple[str, str]:
    """A file of the project, and its text after a change that docs/extending.md shows."""
    place, hunks = re.match(r"--- (\S+)\n(.*)", change, flags=re.DOTALL).groups()
    text = (ROOT / place).read_text()
    for hunk in hunks.split("@@\n"):
        lines = hunk.splitlines()
        before = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        after = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        assert text.count(before) == 1, hunk
        text = text.replace(before, after)
    return place, text


@pytest.mark.parametrize("change", blocks(EXTENDING, "diff"), ids=lambda change: change.split()[1])
def test_the_examples_changes_fit(change: str) -> None:
    place, text = changed(change)
    assert text != (ROOT / place).read_text()


def call(root: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, *words], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_example_passes_its_tests_and_those_of_all_mixers(extended: Path) -> None:
    found = call(
        extended,
        "-m",
        "pytest",
        "-n0",
        "-k",
        "decay or bench_9x9 or powers",
        *(
            "tests/test_decay.py",
            "tests/layers/test_model.py",
            "tests/ops/test_arguments.py",
            "tests/optics/test_optics_presets.py",
        ),
    )
    assert "............" in found  # its own, the contract, low precision, padding, the preset
    for check in (("check",), ("format", "--check")):
        call(extended, "-m", "ruff", *check, "fourier_attn", "configs", "tests/test_decay.py")


@pytest.mark.slow
def test_the_example_trains_on_the_examples_task(extended: Path) -> None:
    folder = extended / "texts" / "tickets"
    folder.mkdir(parents=True)
    for split, count in (("train", 20), ("test", 8)):
        lines = ["question\thow do i do this ?\n", "complaint\tthis is broken .\n"] * (count // 2)
        (folder / f"{split}.tsv").write_text("".join(lines))
    small = {"data.dir": folder.parent, "data.batch": 4, "data.buckets": "()", "data.length": 8}
    small |= {"model.depth": 1, "model.d": 8, "model.mlp": 8, "model.positions": 8, "train.epochs": 1}
    knobs = [f"--config.{name}={value}" for name, value in small.items()]
    run = f"--workdir={extended / 'run'}"
    said = call(extended, "-m", "fourier_attn.main", "--config=configs/decay.py:tickets", run, *knobs)
    assert "16 train, 4 validation, 8 test" in said
    assert "test accuracy" in said
    said = call(extended, "-m", "fourier_attn.main", "--mode=predict", run, "--text=this is broken .")
    assert said.split()[-2] in ("question", "complaint")


ANSWERS = {  # a question of the FAQ: a page that its answer links to, and a text on that page
    "Where is the mathematics?": ("mixers/fourier.md", "<!-- mixer: equation -->"),
    "Where are the weights?": ("../fourier_attn/layers/lambdas.py", "class LambdaLayer"),
    "Where is the training loop?": ("../fourier_attn/train/loop.py", "def train_epochs"),
    "How do I add a mixer?": ("extending.md", "MIXERS"),
    "Which accuracy should I expect?": ("texts.md", "<!-- table: evidence -->"),
    "How do I train on my own CSV file?": ("tutorial.md", "--config.data.train="),
    "How do I use a layer in my own model?": ("start.md", "layer.apply(params, x)"),
    "How do I train one network on several devices?": ("../notebooks/devices.ipynb", "sharding"),
    "How does optical noise change a network?": ("optics/findings.md", "<!-- table: photons -->"),
    "How do I cite this project?": ("faq.md", "CITATION.cff"),
}


def source(page: str) -> str:
    """What a page of the site is made from: its file or, for the reference, modules."""
    if not page.startswith("api/"):
        return (ROOT / "docs" / page).read_text()
    name = page.removeprefix("api/").removesuffix(".md").replace(".", "/")
    files = [ROOT / f"{name}.py"] if "/" in name else (PACKAGE / name).glob("*.py")
    return "\n".join(file.read_text() for file in files)


def test_each_question_is_answered_within_two_clicks() -> None:
    """The first click leads from the landing page to the FAQ, the second to the answer."""
    docs = ROOT / "docs"
    assert "(faq.md)" in (docs / "index.md").read_text()
    asked = dict(rows((docs / "faq.md").read_text(), "| Question | Answer |"))
    assert asked.keys() == ANSWERS.keys()
    for question, (page, said) in ANSWERS.items():
        links = re.findall(r"\]\(([^)#]+)", asked[question])
        assert page in links, question
        assert said in source(page), question


def test_configurations_state_their_results() -> None:
    """Checks that the docstrings have the mean accuracies of the tables of trained runs."""
    page = TABLES["reviews"](Results(ROOT)) + TABLES["imdb"](Results(ROOT))
    found: dict[str, list[str]] = {}
    row = r"^\| `(configs/\w+\.py)(?::[\w-]+)?` \| [^|]* \| ([\d.]*)"
    for file, mean in re.findall(row, page, flags=re.M):
        found.setdefault(file, []).extend([mean] if mean else [])
    assert len(found) > 8
    for file, means in found.items():
        said = " ".join((ast.get_docstring(ast.parse((ROOT / file).read_text())) or "").split())
        assert [mean for mean in means if not re.search(rf"\b{mean} (± [\d.]+ )?%", said)] == [], file


def test_results_are_written_into_their_rooms() -> None:
    """No command or default that is written anywhere puts a file beside the folders of results/."""
    rooms = {path.name for path in (ROOT / "results").iterdir() if path.is_dir()}
    pages = [page for page in PAGES if page.name != "provenance.md"]  # commands as they were given then
    written = [*pages, *sorted(ROOT.glob("notebooks/*.ipynb")), *sorted(ROOT.glob("configs/*.py"))]
    for room in ("fourier_attn", "evidence", "benchmarks", "launch"):
        written += sorted((ROOT / room).rglob("*.py"))
    for path in written:
        for folder in re.findall(r"\bresults/(\w[\w-]*)", path.read_text()):
            assert folder in rooms | {"NAME"}, f"{path}: results/{folder}"
