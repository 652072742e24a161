"""Measures everything that needs a GPU: `python -m benchmarks.gpu --part=1 --out=DIR`.

    --part=1   errors of every mixer against float64, then times and energy of Fourier mixing and attention
    --part=2   a run that is killed and resumed, then training steps of encoders of size base
    --part=3   recall, and the articles' networks with their own recipe

The command ends before --minutes. It writes DIR/gpu-KIND.json after each measurement, for example
gpu-time.json. It repeats none that the file has, so you can run it again to continue. --tiny measures small
sizes on the CPU, as a test. --pack=FOLDER collects what a machine without network needs.
docs/accelerators.md shows the steps.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from absl import flags

from fourier_attn import atomic, command, paths

# The process that watches the time must start at once, so only functions import JAX and TFDS.
Row = dict[str, Any]
ROOT = Path(__file__).parent.parent
WORKER = "FOURIER_ATTN_GPU_WORKER"  # set in the process that measures
KINDS = {"1": ("error", "time"), "2": ("resume", "step"), "3": ("run",)}  # kinds of rows of each part
GRACE = 15.0  # seconds in which training runs save a checkpoint
# Dependencies that a machine with JAX, Flax, Optax, Orbax and PyTorch usually lacks.
LACKING = (
    *("array-record", "dm-tree", "docstring-parser", "googleapis-common-protos", "grain", "immutabledict"),
    *("importlib-resources", "ml-collections", "portpicker", "promise", "simple-parsing", "tensorboardx"),
    *("tensorflow-datasets", "tensorflow-metadata", "termcolor", "toml"),
)
MANYLINUX = ("_2_28", "_2_27", "_2_24", "_2_17", "2014")


def define_flags() -> None:
    flags.DEFINE_enum("part", None, ["1", "2", "3"], "what to measure")
    flags.DEFINE_multi_enum(
        "only",
        [],
        [kind for kinds in KINDS.values() for kind in kinds],
        "kinds of rows of the part; default: all. Measure times and steps while nothing else runs",
    )
    flags.DEFINE_float("minutes", 8.0, "time after which the command has ended")
    flags.DEFINE_string("out", None, "folder of the results, and of the runs of part 3")
    flags.DEFINE_bool("tiny", False, "small sizes on the CPU, as a test")
    flags.DEFINE_string("pack", None, "only write wheels, IMDb and the commit to this folder, and end")
    flags.DEFINE_string("packed", None, "folder that --pack has written")
    flags.DEFINE_string("data_dir", "", "directory of TFDS data sets for --pack; default: that of TFDS")


def main() -> int | None:
    options, begin = flags.FLAGS, time.monotonic()
    if options.pack:
        from tensorflow_datasets.core import constants

        data = paths.given(options.data_dir or constants.DATA_DIR).expanduser()
        return pack(paths.given(options.pack), data)
    if options.part is None or not options.out:
        raise ValueError("--part and --out are required, for example --part=1 --out=gpu")
    if not 0 < options.minutes < 1e6:
        raise ValueError(f"--minutes={options.minutes:g} must be positive; give the minutes that you have")
    kinds = options.only or KINDS[options.part]
    if other := [kind for kind in kinds if kind not in KINDS[options.part]]:
        raise ValueError(
            f"--part={options.part} has no {other[0]}; choose among {', '.join(KINDS[options.part])}"
        )
    files = {kind: paths.given(options.out) / f"gpu-{kind}.json" for kind in kinds}
    before = {kind: read(file) for kind, file in files.items()}
    packed = paths.given(options.packed) if options.packed else None
    if packed and not (packed / "commit").is_file():
        raise ValueError(f"--packed={packed} has no file commit; write the folder with --pack={packed}")
    if WORKER in os.environ:
        for kind, file in files.items():
            measure(kind, file, before[kind], packed)
        return 0
    return supervise(begin + 60 * options.minutes)


def read(file: Path) -> Row:
    """Returns the results of an earlier call; {} if there are none. Raises: ValueError for another file."""
    if file.parent.exists() and not file.parent.is_dir():
        raise ValueError(f"--out={file.parent} is not a folder; give the folder of the results")
    if not file.exists():
        return {}
    with contextlib.suppress(ValueError, OSError, AttributeError):
        document = json.loads(file.read_text())
        if {"rows", "hardware", "commit", "setting", "versions"} <= document.keys():
            return document
    raise ValueError(f"{file} has other contents than results of benchmarks.gpu; give another --out")


def supervise(end: float) -> int:
    """Runs this command line again in a process that measures, and ends it in time.

    Args:
      end: time of the end, by `time.monotonic`.
    """
    words = [sys.executable, "-m", "benchmarks.gpu", *sys.argv[1:]]
    platforms = os.environ.get("JAX_PLATFORMS", "")
    # Runs in processes of their own need memory of the GPU, and the references need the CPU.
    environment = {WORKER: "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    environment |= {"JAX_PLATFORMS": f"{platforms},cpu"} if platforms and "cpu" not in platforms else {}
    total = end - time.monotonic()
    grace = min(GRACE, total / 10)
    worker = subprocess.Popen(words, env=os.environ | environment, start_new_session=True)
    code = 0
    # Without this handler, SIGTERM would end this process and leave the worker running.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        code = worker.wait(total - 2 * grace)
    except subprocess.TimeoutExpired:
        print("the time is up; run the command again to continue", flush=True)
    finally:
        stop(worker, grace)
        signal.signal(signal.SIGTERM, before)
    return code


def stop(worker: subprocess.Popen[bytes], grace: float) -> None:
    """Ends a process and those that it has started, after time for training runs to save a checkpoint.

    Args:
      worker: the process, which leads a group.
      grace: seconds after which the rest is killed.
    """
    end = time.monotonic() + grace
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGTERM)
        while time.monotonic() < end:
            worker.poll()
            os.killpg(worker.pid, 0)
            time.sleep(0.1)
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def measure(kind: str, file: Path, before: Row, packed: Path | None) -> None:
    """Measures what a file lacks.

    Args:
      kind: kind of its rows, which is their `part`.
      file: the file of results.
      before: its contents.
      packed: folder that `pack` has written.
    Raises: ValueError without a GPU, and for a file from another commit or machine.
    """
    import jax

    from benchmarks import gpu_ops, gpu_training
    from benchmarks.timing import COMMIT, complete
    from fourier_attn import provenance

    options = flags.FLAGS
    if not options.tiny and jax.default_backend() != "gpu":
        raise ValueError("JAX finds no GPU; run the command on a machine with one, or add --tiny")
    facts: Row = provenance.record()
    facts["commit"] = COMMIT or (packed and (packed / "commit").read_text().strip()) or None
    facts["setting"] = "tiny sizes, a test" if options.tiny else f"part {options.part}"
    if before and (other := [name for name, value in origin(facts).items() if origin(before)[name] != value]):
        raise ValueError(f"{file} has rows of another {other[0]}; give another --out")
    if options.part == "1":
        cases = gpu_ops.cases(options.tiny)
    elif options.part == "2":
        cases = gpu_training.step_cases(options.tiny)
    else:
        data = packed and packed.resolve() / "data"
        cases = gpu_training.run_cases(options.tiny, file.parent / "runs", data)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # an exit removes temporary folders
    guarded = ((case, partial(attempt, measure_it)) for case, measure_it in cases if case["part"] == kind)
    complete(file, facts, before.get("rows", []), guarded)


def origin(facts: Row) -> Row:
    """Returns the facts that must be the same for all rows of a file."""
    same = {name: facts[name] for name in ("commit", "setting", "versions")}
    return same | {"accelerator": facts["hardware"]["accelerator"]}


def attempt(measure_it: Callable[[], Iterable[Row]]) -> Iterator[Row]:
    """Yields the rows of a case. If a compiler or a device refuses it, the last row says why."""
    try:
        yield from measure_it()
    except Exception as refused:  # such as a lack of memory
        yield {"why": " ".join(str(refused).split())[:200]}


# Packing


def pack(folder: Path, data: Path) -> None:
    """Writes wheels for Python 3.12, IMDb and the commit to a folder, and prints how to use it.

    Args:
      folder: the folder.
      data: data directory with IMDb.
    """
    from benchmarks.timing import COMMIT

    atomic.make_folder(folder)
    lacking = wheels(folder)
    atomic.write(folder / "commit", f"{COMMIT}\n")
    imdb = data / "imdb_reviews"
    if imdb.is_dir():  # part 3 needs the reviews with labels
        ignored = shutil.ignore_patterns("*unsupervised*")
        shutil.copytree(imdb, folder / "data" / imdb.name, ignore=ignored, dirs_exist_ok=True)
    else:
        lacking.append(f"{imdb}, which does not exist")
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True
    ).stdout
    files = [ROOT / os.fsdecode(name) for name in listed.split(b"\0") if name]
    files += [path for path in folder.rglob("*") if path.is_file()]
    total = sum(path.stat().st_size for path in files)
    print(f"{folder} and the sources have {total / 2**20:.0f} MiB. Copy both to the machine, and run there:")
    print(f"  python3 -m pip install --no-index --no-deps --target=/tmp/site {folder}/*.whl")
    print(f"  PYTHONPATH=/tmp/site python3 -m benchmarks.gpu --part=1 --out=/tmp/gpu --packed={folder}")
    if lacking:
        print(f"not packed: {'; '.join(lacking)}")


def wheels(folder: Path) -> list[str]:
    """Downloads `LACKING` at their pinned versions into a folder, and builds those that only have sources.

    Returns: the packages for which neither was possible.
    """
    lines = (ROOT / "requirements" / "all.txt").read_text().splitlines()
    pins = {line.partition("==")[0]: line.split()[0] for line in lines if "==" in line.partition(";")[0]}
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    target = ["--only-binary=:all:", "--python-version=3.12", "--implementation=cp"]
    target += [f"--platform=manylinux{version}_x86_64" for version in MANYLINUX]
    lacking = []
    for name in LACKING:
        ways = ["download", f"--dest={folder}", *target], ["wheel", f"--wheel-dir={folder}"]
        words = ([*pip, *way, "--no-deps", pins[name]] for way in ways)
        if not any(subprocess.run(w, capture_output=True, check=False).returncode == 0 for w in words):
            lacking.append(pins[name])
    return lacking


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
