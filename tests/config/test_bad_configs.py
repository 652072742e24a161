"""Configurations and flags that cannot be: one line, exit code 2, and nothing is written."""

import itertools
import json
import math
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from waiting import HANG_S

from fourier_attn import config, model
from fourier_attn.data.knobs import OWN_KNOBS
from fourier_attn.layers.fields import options
from fourier_attn.optics import Engine
from fourier_attn.optics.engine_spec import every_parameter

HUGE = ("1000000000", "100000000000", "100000000000000000000")
# A value that no knob of that type takes.
WRONG: dict[type, tuple[str, ...]] = {
    int: ("nan", "1.5", "many", "''", "-1", "-7", "18446744073709551616", "1e300", "None", "(1,)"),
    float: ("nan", "inf", "-inf", "much", "-1.0", "", "(0.1,)", "1e999"),
    str: ("bogus", "", "../bogus", "None"),
    tuple: ("('a',)", "(1.5,)", "(-1,)", "(0,)", "[", "(nan,)", "((1,),)", "(10000000000000000000000,)"),
    bool: ("maybe", "2", ""),
}
# They take these all the same.
RIGHT = {
    "init_from": ("",),
    "init_padding": ("",),
    "train.mesh": ("",),
    **dict.fromkeys(("train.monitor", "train.class_weights"), ("",)),
    "data.dir": WRONG[str],
    **{f"data.{name}": ("",) for name in OWN_KNOBS if name != "labels"},
    **dict.fromkeys(("data.corpora", "data.exclude"), ("('a',)", "[", "(nan,)")),  # names, of some task
}
BOMBS = (
    *(
        (f"model.{name}", size)
        for name in ("d", "mlp", "emb", "types", "positions", "depth")
        for size in HUGE
    ),
    *((f"data.{name}", size) for name in ("batch", "length") for size in HUGE),
    ("data.vocab", HUGE[2]),
    ("model.depth", "100000"),
    ("train.seeds", "100000000"),
    ("train.epochs", "1000000000"),
    ("model.d", "100000000"),
)
DETERMINED = ("model.head=bogus", "model.head=score", "model.classes=7", "optim.steps=-1", "model.vocab=5")
ATTENTION = ("--config=configs/attention.py",)
SINGLE = (
    [],
    ["--config="],
    ["--config=."],
    ["--config=nowhere.py"],
    ["--config=configs"],
    ["--config=configs/fnet.py:"],
    ["--config=configs/fnet.py:imbd"],
    ["--config=configs/pretrain.py:fnet-huge"],
    ["--config=configs/pretrain.py:gnet-mini"],
    ["--config=configs/pretrain.py:fnet-"],
    ["--config=configs/circular.py:imdb-"],
    ["--config=configs/fnet_vit.py:cifar10-"],
    ["--config=configs/lambda_vit.py:cifar10-"],
    ["--config=configs/fnet.py", "train"],
    ["--config=configs/fnet.py", "--mode=test"],
    ["--config=configs/fnet.py", "--mode="],
    ["--config=configs/fnet.py", "--allow_drift=weather"],
    ["--config=configs/fnet.py", "--tracker=bogus"],
    ["--config=configs/fnet.py", "--confg.seed=3"],
    ["--config=configs/fnet.py", "--config.seed"],
    ["--config=configs/fnet.py", "--workdir="],
    ["--config=configs/fnet.py", "--workdir=configs"],
    ["--config=configs/fnet.py", "--workdir=configs/fnet.py"],
    ["--config=configs/fnet.py", "--workdir=configs/fnet.py/run"],
    ["--config=configs/fnet.py", "--workdir=a\0b"],
    ["--config=configs/fnet.py", f"--workdir={'x' * 5000}"],
    ["--config=configs/fnet.py", "--workdir=/proc/1/run"],
    ["--config=configs/fnet.py", "--config.init_from=nowhere"],
    ["--config=configs/fnet.py", "--config.init_from=configs/fnet.py"],
    ["--config=configs/fnet.py", "--config.model={}"],
    ["--config=configs/fnet.py", "--config.model.mixer=fourier"],
    ["--config=configs/fnet.py", "--config.model.layout=('fourier','fourier')"],
    ["--config=configs/fnet.py", "--config.model.layout=('fourier','attention','fourier')"],
    ["--config=configs/fnet.py", "--config.model.mixer.name=bogus"],
    ["--config=configs/fnet.py", "--config.model.mixer.engine=bogus"],
    ["--config=configs/fnet.py", "--config.train.accumulate=7"],
    ["--config=configs/fnet.py", "--config.train.monitor=rmse"],
    ["--config=configs/fnet.py", "--config.train.class_weights=neutral=2"],
    ["--config=configs/fnet.py", "--config.train.class_weights=1,2,3"],
    ["--config=configs/pretrain.py", "--config.train.label_smoothing=0.1"],
    ["--config=configs/fnet.py:files", "--config.data.train=a.csv", "--config.train.monitor=bogus"],
    ["--config=configs/fnet.py", "--config.data.length=64"],
    ["--config=configs/fnet.py", "--config.data.tokenizer=nowhere.json"],
    ["--config=configs/fnet.py", "--config.data.tokenizer=configs/fnet.model"],
    ["--config=configs/fnet.py", "--config.data.vocab=2"],
    [
        "--config=configs/attention.py",
        "--config.model.mixer.heads=3",
        "--config.model.mixer.head_width=split",
    ],
    [*ATTENTION, "--config.model.mixer.implementation=cudnn"],
    [*ATTENTION, "--config.model.mixer.dropout=1.0"],
    ["--config=configs/mixer.py:afno", "--config.model.mixer.blocks=7"],
    ["--config=configs/lambda.py", "--config.model.mixer.context=4"],
    ["--config=configs/lambda.py", "--config.model.mixer.heads=5"],
    ["--config=configs/circular.py:reviews-2d", "--config.model.mixer.shape=(7,9)"],
    ["--config=configs/circular.py:reviews-2d", "--config.model.mixer.kernel=(9,9)"],
    ["--config=configs/mixer.py:linear", "--config.model.mixer.length=8"],
    ["--config=configs/optical_fnet.py", "--config.model.mixer.engine.shape=(100000,100000)"],
    ["--config=configs/finetune.py:mrpc", "--config.data.tokenizer=words"],
    ["--config=configs/pretrain.py", "--config.data.length=7"],
    ["--config=configs/pretrain.py", "--config.data.corpora=()"],
    ["--config=configs/pretrain.py", "--config.data.corpora=(1,)"],
    ["--config=configs/fnet.py:files"],
    ["--config=configs/fnet.py:files", "--config.data.train=nowhere.csv"],
    ["--config=configs/fnet.py:files", "--config.data.train=configs"],
    ["--config=configs/fnet.py:files", "--config.data.train=configs/fnet.py"],
    ["--config=configs/fnet.py:files", "--config.data.train=/dev/zero"],
    ["--config=configs/fnet.py:files", "--config.data.train=a.csv", "--config.data.labels=('a','a')"],
    ["--config=configs/fnet.py:files", "--config.data.train=a.csv", "--config.data.dataset=imdb"],
    ["--config=configs/fnet.py:tags"],
    ["--config=configs/fnet.py:tags", "--config.data.train=nowhere.conll"],
    ["--config=configs/fnet.py:tags", "--config.data.train=configs"],
    ["--config=configs/fnet.py:tags", "--config.data.train=a.conll", "--config.data.text_pair=b"],
    ["--config=configs/fnet.py:squad"],
    ["--config=configs/fnet.py:squad", "--config.data.train=nowhere.json"],
    ["--config=configs/fnet.py:squad", "--config.data.train=configs/fnet.py"],
    ["--config=configs/fnet.py:squad", "--config.data.train=a.json", "--config.data.tokenizer=words"],
    ["--config=configs/fnet.py:squad", "--config.data.train=a.json", "--config.data.label=b"],
    ["--config=configs/fnet.py", "--config.data.stride=64"],
    ["--config=configs/fnet.py:tfds"],
    ["--config=configs/fnet.py:tfds", "--config.data.dataset=of_no_such_name"],
    ["--config=configs/vit.py:image_files", "--config.data.train=configs"],
    ["--config=configs/vit.py:image_files", "--config.data.train=nowhere"],
    ["--mode=predict", "--input=nowhere.jsonl", "--workdir=nowhere"],
    ["--mode=predict", "--text=fine"],
    ["--mode=predict", "--text=fine", "--workdir=nowhere"],
    ["--mode=predict", "--text=fine", "--workdir=configs"],
    ["--mode=eval", "--workdir=configs/fnet.py"],
    ["--mode=eval"],
)
FILES = {
    "syntax": "def get_config(:\n",
    "zero": "\0",
    "empty": "",
    "without": "x = 1\n",
    "exits": "import sys\nsys.exit(0)\n",
    "exits_later": "import sys\ndef get_config():\n    sys.exit(0)\n",
    "raises": "def get_config():\n    raise RuntimeError('no')\n",
    "divides": "1 / 0\n",
    "imports": "import nothing_of_that_name\n",
    "none": "def get_config():\n    return None\n",
    "a_dict": "def get_config():\n    return {'data': 1}\n",
    "number": "get_config = 3\n",
    "recursion": "def get_config():\n    return get_config()\n",
    "argument": "def get_config(a, b):\n    return a\n",
    "foreign": "from ml_collections import ConfigDict\ndef get_config():\n"
    "    return ConfigDict({'data': 1})\n",
    "nothing_in_it": "from ml_collections import ConfigDict\ndef get_config():\n    return ConfigDict()\n",
    "part_missing": "from fourier_attn.config import default\ndef get_config():\n    c = default()\n"
    "    c.unlock()\n    del c['optim']\n    return c\n",
    "wrong_type": "from fourier_attn.config import default\ndef get_config():\n    c = default()\n"
    "    c.unlock()\n    c.optim = 3\n    return c\n",
    "knob_missing": "from fourier_attn.config import default\ndef get_config():\n    c = default()\n"
    "    c.unlock()\n    del c.train['epochs']\n    return c\n",
    "unknown": "from fourier_attn.config import default\ndef get_config():\n    c = default()\n"
    "    c.train.epoch = 3\n    return c\n",
    "unhashable": "from fourier_attn.config import default\ndef get_config():\n    c = default()\n"
    "    c.unlock()\n    c.data = {'task': []}\n    return c\n",
    "not_utf8": b"\xff\xfe\x00x",
}


# mixer -> what --config has
MIXER_FILES = {
    name: f"{name}.py" if (ROOT / "configs" / f"{name}.py").exists() else f"mixer.py:{name}"
    for name in model.MIXERS
} | {"fourier": "fnet.py"}


def wrong_knobs() -> Iterator[list[str]]:
    """Each knob with each wrong value."""
    for part, knobs in {"": config.RUN, **config.PARTS}.items():
        for name, knob in knobs.items():
            path = f"{part}.{name}".removeprefix(".")
            for value in WRONG[type(knob.default)]:
                if value not in RIGHT.get(path, ()):
                    yield ["--config=configs/fnet.py", f"--config.{path}={value}"]
    for task, name in itertools.product(("imdb", "reviews"), DETERMINED):
        yield [f"--config=configs/fnet.py:{task}", f"--config.{name}"]


def wrong_mixers() -> Iterator[list[str]]:
    """Each field of each mixer with each wrong value; and each mixer with what no memory holds."""
    for mixer, file in MIXER_FILES.items():
        yield [f"--config=configs/{file}", "--config.model.mixer.bogus=1"]
        for knob, value in BOMBS:
            yield [f"--config=configs/{file}", f"--config.{knob}={value}"]
        for field in options(model.find_mixer(mixer)):
            kind = tuple if field.default is None else type(field.default)
            for value in () if field.name in model.engine_fields(mixer) else WRONG[kind]:
                yield [f"--config=configs/{file}", f"--config.model.mixer.{field.name}={value}"]


def wrong_engines() -> Iterator[list[str]]:
    """Each parameter of an engine with each wrong value."""
    whole, number = ("nan", "-1", "1.5", "18446744073709551616"), ("nan", "much", "1e300", "inf")
    wrong = {"number": number, "full_scale": number, "count": whole, "bits": whole, "choice": ("bogus", "")}
    for group, name, parameter, _ in every_parameter(Engine()):
        place = f"model.mixer.engine.{group}.{name}" if group else f"model.mixer.engine.{name}"
        for value in wrong.get(parameter.kind, ()):
            if value != "inf" or parameter.most != math.inf:
                yield ["--config=configs/optical_fnet.py", f"--config.{place}={value}"]


def every_case() -> list[list[str]]:
    """All that the generator knows."""
    files = [[f"--config={name}.py"] for name in FILES]
    return [*wrong_knobs(), *wrong_mixers(), *wrong_engines(), *SINGLE, *files, ["--config=/dev/null"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configs, and the files that are none."""
    where = tmp_path_factory.mktemp("configs")
    shutil.copytree(ROOT / "configs", where / "configs", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES.items():
        (where / f"{name}.py").write_bytes(text if isinstance(text, bytes) else text.encode())
    return where


@pytest.fixture(scope="module")
def call(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., dict[str, Any]]]:
    """Calls the command in that folder, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "TQDM_DISABLE": "1"}
    program = [sys.executable, str(ROOT / "tests" / "command_server.py"), str(tmp_path_factory.mktemp("out"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(program, env=environment, **pipes) as server:

        def ask(*arguments: str) -> dict[str, Any]:
            order = {"arguments": arguments, "folder": str(folder)}
            print(json.dumps(order), file=server.stdin, flush=True)
            return json.loads(server.stdout.readline())

        yield ask
        server.stdin.close()


def there(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*"))


def refused(call: Callable[..., dict[str, Any]], folder: Path, cases: list[list[str]]) -> None:
    """Checks that each gets one line and leaves nothing: no run, no data."""
    before, wrong = there(folder), []
    for case in cases:
        with_config = any(word.startswith("--config=") for word in case)
        data = [f"--config.data.dir={folder / 'data'}"] if with_config else []
        answer = call(*data, *case) if "data.dir" in str(case) else call(*case, *data)
        one_line = answer["err"].startswith("error: ") and answer["err"].count("\n") == 1
        if (answer["code"], answer["out"], one_line) != (2, "", True) or there(folder) != before:
            wrong.append(f"{case}: {answer}")
            before = there(folder)
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("number", [120, pytest.param(300, marks=pytest.mark.slow)])
def test_bad_configurations_are_refused(
    number: int, call: Callable[..., dict[str, Any]], folder: Path
) -> None:
    known = [*SINGLE, *([f"--config={name}.py"] for name in FILES), ["--config=/dev/null"]]
    drawn = [case for case in every_case() if case not in known]
    cases = [*known, *random.Random(1).sample(drawn, number - len(known))]
    assert len(cases) == number
    refused(call, folder, cases)


@pytest.mark.slow
def test_a_process_of_its_own_answers_the_same(call: Callable[..., dict[str, Any]], folder: Path) -> None:
    """As people start them; what that takes, `benchmarks.startup` measures."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    before = there(folder)
    for case in random.Random(2).sample([*wrong_knobs(), *wrong_mixers(), *wrong_engines()], 8):
        program = [sys.executable, "-m", "fourier_attn.main", *case]
        done = subprocess.run(
            program, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False
        )
        found, told = (done.returncode, done.stdout, done.stderr), call(*case)
        assert found == (2, "", told["err"]) == (told["code"], told["out"], told["err"]), case
    assert there(folder) == before
