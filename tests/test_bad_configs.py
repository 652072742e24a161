"""Configurations and flags that cannot be: one line, exit code 2, soon, and nothing is written."""

import math
from collections.abc import Iterator
from typing import Any

from conftest import ROOT

from fourier_attn import config, model
from fourier_attn.optics.parameters import PARAMETERS

CASES, SECONDS = 300, 5
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
    "data.dir": WRONG[str],
    "data.corpora": ("('a',)",),
    "data.exclude": ("('a',)",),
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
    ["--config=configs/fnet.py", "train"],
    ["--config=configs/fnet.py", "--mode=test"],
    ["--config=configs/fnet.py", "--mode="],
    ["--config=configs/fnet.py", "--allow_drift=weather"],
    ["--config=configs/fnet.py", "--confg.seed=3"],
    ["--config=configs/fnet.py", "--config.seed"],
    ["--config=configs/fnet.py", "--workdir="],
    ["--config=configs/fnet.py", "--workdir=configs"],
    ["--config=configs/fnet.py", "--workdir=configs/fnet.py"],
    ["--config=configs/fnet.py", "--workdir=configs/fnet.py/run"],
    ["--config=configs/fnet.py", "--workdir=a\0b"],
    ["--config=configs/fnet.py", f"--workdir={'x' * 5000}"],
    ["--config=configs/fnet.py", "--config.init_from=nowhere"],
    ["--config=configs/fnet.py", "--config.init_from=configs/fnet.py"],
    ["--config=configs/fnet.py", "--config.model={}"],
    ["--config=configs/fnet.py", "--config.model.mixer=fourier"],
    ["--config=configs/fnet.py", "--config.model.layout=('fourier','fourier')"],
    ["--config=configs/fnet.py", "--config.model.layout=('fourier','attention','fourier')"],
    ["--config=configs/fnet.py", "--config.model.mixer.name=bogus"],
    ["--config=configs/fnet.py", "--config.model.mixer.engine=bogus"],
    ["--config=configs/fnet.py", "--config.train.accumulate=7"],
    ["--config=configs/fnet.py", "--config.data.length=64"],
    ["--config=configs/fnet.py", "--config.data.tokenizer=nowhere.json"],
    ["--config=configs/fnet.py", "--config.data.tokenizer=configs/fnet.model"],
    ["--config=configs/fnet.py", "--config.data.vocab=2"],
    [
        "--config=configs/attention.py",
        "--config.model.mixer.heads=3",
        "--config.model.mixer.head_width=split",
    ],
    ["--config=configs/attention.py", "--config.model.mixer.implementation=cudnn"],
    ["--config=configs/attention.py", "--config.model.mixer.dropout=1.0"],
    ["--config=configs/afno.py", "--config.model.mixer.blocks=7"],
    ["--config=configs/lambda.py", "--config.model.mixer.context=4"],
    ["--config=configs/lambda.py", "--config.model.mixer.heads=5"],
    ["--config=configs/circular2d.py", "--config.model.mixer.shape=(7,9)"],
    ["--config=configs/circular2d.py", "--config.model.mixer.kernel=(9,9)"],
    ["--config=configs/linear.py", "--config.model.mixer.length=8"],
    ["--config=configs/optical_fnet.py", "--config.model.mixer.engine.shape=(100000,100000)"],
    ["--config=configs/finetune.py:mrpc", "--config.data.tokenizer=words"],
    ["--config=configs/pretrain.py", "--config.data.length=7"],
    ["--config=configs/pretrain.py", "--config.data.corpora=()"],
    ["--config=configs/pretrain.py", "--config.data.corpora=(1,)"],
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
    "foreign": "from ml_collections import ConfigDict\ndef get_config():\n    return ConfigDict({'data': 1})\n",
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


def every_case() -> Iterator[list[str]]:
    """All that the generator knows: each knob of each part, mixer and engine with each wrong value."""
    parts = {"": config.RUN, **{f"{part}.": knobs for part, knobs in config.PARTS.items()}}
    for prefix, knobs in parts.items():
        for name, knob in knobs.items():
            for value in WRONG[type(knob.default)]:
                if value not in RIGHT.get(prefix + name, ()):
                    yield ["--config=configs/fnet.py", f"--config.{prefix}{name}={value}"]
    for mixer, file in MIXER_FILES.items():
        for field in model.fields(mixer):
            if field.name not in ("engine", "eval_engine"):
                kind = type(field.default) if field.default is not None else tuple
                for value in WRONG[kind]:
                    yield [f"--config=configs/{file}.py", f"--config.model.mixer.{field.name}={value}"]
        yield [f"--config=configs/{file}.py", "--config.model.mixer.bogus=1"]
        for knob, value in BOMBS:
            yield [f"--config=configs/{file}.py", f"--config.{knob}={value}"]
    for task in ("imdb", "reviews"):
        for name in DETERMINED:
            yield [f"--config=configs/fnet.py:{task}", f"--config.{name}"]
    for name, parameter in PARAMETERS.items():
        for value in wrong_of_engine(parameter):
            yield ["--config=configs/optical_fnet.py", f"--config.model.mixer.engine.{name}={value}"]
    yield from SINGLE
    for name in FILES:
        yield [f"--config={name}.py"]
    yield ["--config=/dev/null"]


MIXER_FILES = {"fourier": "fnet", "circular": "circular1d", "token_conv": "token_conv"} | {
    name: name for name in model.MIXERS if (ROOT / "configs" / f"{name}.py").exists()
}
MIXER_FILES = {name: file for name, file in MIXER_FILES.items() if (ROOT / "configs" / f"{file}.py").exists()}


def wrong_of_engine(parameter: Any) -> tuple[str, ...]:
    if parameter.kind in ("number", "full_scale"):
        return ("nan", "much", "1e300", *(() if parameter.most == math.inf else ("inf",)))
    if parameter.kind in ("count", "bits"):
        return ("nan", "-1", "1.5", "18446744073709551616")
    if parameter.kind == "choice":
        return ("bogus", "")
    return ()
