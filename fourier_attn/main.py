"""Trains, evaluates and uses networks: fourier-attn --config=NAME[:TASK] [--workdir=DIR] [--mode=MODE].

--mode=train trains a new run, or resumes the run in --workdir. --mode=eval prints the metrics of a trained
run. --mode=predict predicts the answer to a text (--text=...), an image (--image=FILE), a question about an
image (both), or every line of a file (--input=FILE). --mode=explain shows attention maps and filters for one
input. --mode=compile compiles the training step for --target=DEVICES and says whether it fits.
"""

import os
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from absl import flags

from fourier_attn import __version__, command, config_flag, paths
from fourier_attn.choices import check_choices

SAMPLING = ("tokens", "temperature", "top_k", "seed")  # flags of text generation
MODES = {  # the modes that use a flag; flags that are not listed apply to all
    **dict.fromkeys(("text", "text_pair", "image"), ("predict", "explain")),
    "output": ("predict", "explain", "eval", "compile"),
    **dict.fromkeys(("target", "all_blocks"), ("compile",)),
    **dict.fromkeys(("input", "skip_bad", "long"), ("predict", "eval")),
    **dict.fromkeys(SAMPLING, ("predict",)),
    **dict.fromkeys(("extend", "tracker"), ("train",)),
    "allow_drift": ("train", "eval"),
}


def define_flags() -> None:
    """Defines the flags of this command."""
    config_flag.define_flag(
        "configuration: NAME:TASK, for example fnet:imdb, or a file, for example "
        "configs/fnet.py:imdb; `python -m fourier_attn.config` prints every option"
    )
    config_flag.define_choices()
    flags.DEFINE_string(
        "workdir",
        None,
        "directory of the run; a directory with a run resumes it; default runs/<config>-<task>-<time>",
    )
    flags.DEFINE_integer("extend", None, "train the finished run in --workdir for more epochs", lower_bound=1)
    flags.DEFINE_enum(
        "mode",
        "train",
        ["train", "eval", "predict", "explain", "compile"],
        "train a run, evaluate it, predict with it, show its attention maps and filters for one input, or "
        "compile its training step for --target without training",
    )
    flags.DEFINE_string(
        "target",
        None,
        "devices to compile for, which need not exist: h100:4, v5e:2x2, v6e:2x2 or cpu:8",
    )
    flags.DEFINE_bool(
        "all_blocks", False, "with --mode=compile: compile all blocks, instead of a few and scaling the rest"
    )
    flags.DEFINE_string(
        "tracker", "tensorboard", "where to log metrics during training: tensorboard, wandb or none"
    )
    flags.DEFINE_string("text", None, "text to predict or explain, or the question about --image")
    flags.DEFINE_string("text_pair", None, "second text, for tasks on pairs of texts")
    flags.DEFINE_string(
        "input",
        None,
        "file of texts or images to predict or, with --mode=eval, to evaluate the run on: CSV, TSV, JSON "
        "lines, Parquet, or one text per line, optionally .gz; - is stdin. If it has a column of labels, "
        "predictions are also scored",
    )
    flags.DEFINE_string(
        "output",
        None,
        "where to write the answers to --input, as JSON lines; default - is stdout. Scores go to stderr "
        "and, with --output=NAME.jsonl or NAME, also to NAME.metrics.json. With --image: NAME writes the "
        "attention map to NAME.png and NAME.json; by default none is written. With --mode=explain: the "
        "same; default WORKDIR/explain. With --mode=eval: a folder for the report on the classes of each "
        "split, with its confusion matrix; by default none is written. With --mode=compile: a JSON file of "
        "the report; by default none is written",
    )
    flags.DEFINE_enum(
        "long",
        "cut",
        ["cut", "windows"],
        "how to read texts longer than data.length: cut reads the beginning, windows reads the whole text in "
        "overlapping windows and averages their answers",
    )
    flags.DEFINE_integer("tokens", None, "number of tokens to generate with a next-token model; default 50")
    flags.DEFINE_float(
        "temperature",
        None,
        "sampling temperature of generated text; 0: always the likeliest token; default 1",
    )
    flags.DEFINE_integer("top_k", None, "sample only among the k likeliest tokens; default 0: among all")
    flags.DEFINE_integer(
        "seed", None, "random seed of generated text; default 0 (the seed of training is --config.seed)"
    )
    flags.DEFINE_bool("skip_bad", False, "skip invalid lines of --input instead of stopping at the first")
    flags.DEFINE_string("image", None, "image file to predict or explain, for tasks on images")
    flags.DEFINE_boolean(
        "allow_code",
        False,
        "allow importing the Python file that registered a run's custom mixer, task or optimizer",
    )
    flags.DEFINE_string("coordinator", None, "host:port of process 0, if several processes train one network")
    flags.DEFINE_integer("num_processes", None, "number of processes; detected on SLURM and TPU slices")
    flags.DEFINE_integer(
        "process_id", None, "index of this process, from 0; detected on SLURM and TPU slices"
    )
    flags.DEFINE_list(
        "allow_drift",
        [],
        "which fingerprints may have changed when a run is resumed: data, tokenizer, device, code, settings; "
        "with --mode=eval: data",
    )


def main() -> int | None:
    """Runs the command that the flags describe, and returns its exit code; None: 0. Raises: ValueError."""
    if flags.FLAGS.workdir == "":
        raise ValueError("--workdir= is empty; name a directory, or leave it out")
    check_modes()
    config = given_config()
    if flags.FLAGS.allow_code:
        run_code(config)
    if flags.FLAGS.mode == "train":
        train(config)
        return None
    if flags.FLAGS.mode == "compile":
        return compile_for(config)

    directory = paths.given(flags.FLAGS.workdir or missing("--workdir=DIR, the directory of a trained run"))
    if config:
        check_overrides(directory, config)
    devices = moved_devices(config) if config else {}
    if flags.FLAGS.mode == "eval":
        if flags.FLAGS.input is None:
            evaluate(directory, config, devices)
        else:
            evaluate_file(directory, devices)
    elif flags.FLAGS.mode == "explain":
        look_inside(directory, devices)
    elif flags.FLAGS.input is not None:
        predict_file(directory, devices)
    else:
        answer_one(directory, devices)
    return None


def check_modes() -> None:
    """Checks that each given flag applies to the mode and to the other flags. Raises: ValueError."""
    for name, modes in MODES.items():
        if flags.FLAGS[name].present and flags.FLAGS.mode not in modes:
            raise ValueError(f"--{name} needs --mode={' or '.join(modes)}; it is {flags.FLAGS.mode}")
    pictured = {} if flags.FLAGS.mode == "eval" else {"output": ("input", "image")}
    of = pictured | {"skip_bad": ("input",), **dict.fromkeys(("long", *SAMPLING), ("input", "text"))}
    for name, needed in of.items():
        alone = all(flags.FLAGS[other].value is None for other in needed)
        if flags.FLAGS[name].present and flags.FLAGS.mode in MODES["input"] and alone:
            raise ValueError(f"--{name} needs {' or '.join(f'--{other}=FILE' for other in needed)}")
    if flags.FLAGS.output in ("", "-") and flags.FLAGS.input is None:
        raise ValueError(f"--output={flags.FLAGS.output} cannot name the files of a picture; give a name")


def predict_file(directory: Path, devices: Mapping[str, str]) -> None:
    """Writes the answer to every line of --input, and prints the number of lines and their scores."""
    from fourier_attn.inference import stream

    given = flags.FLAGS
    if (given.text, given.text_pair, given.image) != (None, None, None):
        raise ValueError("--input and --text or --image exclude each other; give one of them")
    target, long = given.output or "-", given.long
    said = stream.predict_file(directory, given.input, target, given.skip_bad, devices, long, sampling())
    print(said, file=sys.stderr)


def evaluate_file(directory: Path, devices: Mapping[str, str]) -> None:
    """Prints the scores of a trained run on the labelled rows of --input."""
    from fourier_attn.inference import stream

    given = flags.FLAGS
    if given.allow_drift:
        raise ValueError("--allow_drift is about the run's own data; leave it out with --input")
    print(stream.evaluate_file(directory, given.input, given.skip_bad, devices, given.long, given.output))


def train(config: Any) -> None:
    """Trains a new run, resumes an interrupted one, or extends a finished one."""
    import jax

    from fourier_attn import config as configuration
    from fourier_attn.train import extend, run
    from fourier_attn.train.distributed import processes
    from fourier_attn.train.rundir import config_file, fingerprints, workdir

    check_choices("--allow_drift", flags.FLAGS.allow_drift, fingerprints.DRIFT)
    more, moved = flags.FLAGS.extend, {}
    if more and not flags.FLAGS.workdir:
        raise ValueError(f"--extend={more} needs --workdir=DIR of a finished run")
    if more and config is not None:  # the options may differ that may differ when a run is resumed
        workdir.check(paths.given(flags.FLAGS.workdir), config)
        values = config_file.flat(config.to_dict())
        moved = {name: values[name] for name in config_file.RESUMABLE if name in values}
    if config is None and flags.FLAGS.workdir:  # resume with the configuration in the directory
        workdir.check_begun(paths.given(flags.FLAGS.workdir))
        config = config_file.load(paths.given(flags.FLAGS.workdir))
    config = config or missing("--config=NAME:TASK, for example --config=fnet:imdb")
    # JAX's service would handle SIGTERM from when the processes connect until the loop starts, and ignore it.
    jax.config.update("jax_enable_preemption_service", False)
    given = (flags.FLAGS.coordinator, flags.FLAGS.num_processes, flags.FLAGS.process_id)
    with processes.joined(*given):
        directory = paths.given(flags.FLAGS.workdir or processes.broadcast(new_workdir))
        with extend.taken_back(directory) if more and processes.is_primary() else nullcontext():
            if more:
                config = configuration.with_values(extended(directory, more), moved)
            keep_programs(config)
            run(config, directory, flags.FLAGS.allow_drift, flags.FLAGS.tracker)


def compile_for(config: Any) -> int:
    """Compiles the training step for --target, prints whether it fits, and returns 0, or 2 if it does not.

    The compilers read environment variables when JAX starts, so this process starts itself again with them.
    """
    from fourier_attn.train import init_from
    from fourier_attn.train.rundir import config_file
    from fourier_attn.train.target import devices, report

    target = devices.parse(flags.FLAGS.target or missing("--target=DEVICES, for example --target=h100:4"))
    directory = paths.given(flags.FLAGS.workdir or ".")
    if config is None and flags.FLAGS.workdir:
        config = config_file.load(directory)
    config = config or missing("--config=NAME:TASK, for example --config=fnet:imdb")
    output = flags.FLAGS.output and paths.given(flags.FLAGS.output)
    if output:
        paths.check_output(output, "--output")
    devices.check_compiler(target)
    environment = devices.environment(target)
    if not environment.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | environment)
    if config.init_from:
        config = init_from.load(config, directory).config
    found = report.compile_for(config, target, flags.FLAGS.all_blocks)
    print("\n".join(report.lines(found, target)))
    if output:
        report.save(found, target, output)
    return 0 if found["fits"] else 2


def run_code(config: Any) -> None:
    """Executes the files that registered the custom parts of --workdir and of the run in `init_from`."""
    from fourier_attn.train.rundir import config_file

    for place in (flags.FLAGS.workdir, config and config.init_from):
        if place and (paths.given(place) / "config.json").is_file():
            for file in config_file.allow_code(paths.given(place)):
                print(f"code        {file}", file=sys.stderr)


def keep_programs(config: Any) -> None:
    """Makes JAX cache compiled programs on the disk, unless a cache directory is set already."""
    import jax

    from fourier_attn.train.distributed import processes
    from fourier_attn.train.rundir import program_cache

    if jax.config.values["jax_compilation_cache_dir"] is None:
        say = (lambda line: print(f"note        {line}")) if processes.is_primary() else (lambda line: None)
        place = program_cache.folder(config.data, say)
        jax.config.update("jax_compilation_cache_dir", place and str(place))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def extended(directory: Path, epochs: int) -> Any:
    """Extends a finished run by some epochs, and returns its new configuration."""
    from fourier_attn.train import extend
    from fourier_attn.train.distributed import processes
    from fourier_attn.train.rundir import config_file

    said = processes.broadcast(lambda: extend.extend(directory, epochs))
    if processes.is_primary():
        print(f"extend      {said}")
    return config_file.load(directory)


def evaluate(directory: Path, config: Any, devices: Mapping[str, str]) -> None:
    """Prints the metrics of a trained run.

    Args:
      directory: the run's directory.
      config: the command line's configuration, which may give new paths of the data; None: unchanged.
      devices: files of measured devices that replace those of the training, by option.
    """
    from fourier_attn import config as configuration
    from fourier_attn.inference import evaluation
    from fourier_attn.train.evaluate import show

    check_choices("--allow_drift", flags.FLAGS.allow_drift, ("data",))
    data = configuration.with_absolute_paths(config).data if config else {}
    overridden = config_flag.overridden() if config else ()
    corpora = [name for name in ("corpora", "exclude") if f"data.{name}" in overridden]
    places = {name: data[name] for name in (*evaluation.PLACES, *corpora)} if config else {}
    allowed = bool(flags.FLAGS.allow_drift)
    output = flags.FLAGS.output
    found = evaluation.evaluate(directory, None, places, allowed, devices, output)
    for split, values in found.items():
        names = sorted(values, key=lambda name: ("loss" not in name, name))
        means = [name for name in names if not name.endswith(("_seeds", "_std", "undefined"))]
        print(split, *(f"{name} {show(values, name)}" for name in means))


def answer_one(directory: Path, devices: Mapping[str, str]) -> None:
    """Prints the answer to a text or an image. With --output it also writes the attention map."""
    from fourier_attn.inference.predictor import Predictor

    if flags.FLAGS.image is not None and flags.FLAGS.text_pair is not None:
        raise ValueError("--image and --text_pair exclude each other; give one of them")
    options = {"long": flags.FLAGS.long, "sampling": sampling()}
    predictor = Predictor.load(directory, batch=1, devices=devices, **options)
    if predictor.task.head == "lm":
        continue_text(predictor)
        return
    for answer, value in predictions(predictor):
        print(f"{answer} {value:.4f}")
    if flags.FLAGS.output is not None:
        look_inside(directory, devices, predictor)


def sampling() -> dict[str, Any]:
    """Returns the options of text generation that the command line gives."""
    return {name: flags.FLAGS[name].value for name in SAMPLING if flags.FLAGS[name].present}


def continue_text(predictor: Any) -> None:
    """Prints --text and its generated continuation."""
    from fourier_attn.inference import printed_answers

    for name in ("text_pair", "image"):
        if flags.FLAGS[name].present:
            raise ValueError(f"--{name} cannot be continued by a next-token model; give --text alone")
    text = flags.FLAGS.text or ""
    [answer] = predictor([text])
    printed_answers.note_unknown(answer)
    print(text + answer["text"])


def check_overrides(directory: Path, config: Any) -> None:
    """Checks that the command line changes nothing of a trained run but the places of its files.

    With `init_from` the architecture is that of the weights, as in training.

    Raises: ValueError that names the first option that differs.
    """
    from fourier_attn.config import with_architecture
    from fourier_attn.inference.evaluation import PLACES
    from fourier_attn.train.rundir import config_file

    if config.init_from:
        config = with_architecture(config, config_file.load(directory).model.to_dict())
    names = ("data.task", "model.mixer.name", *config_flag.overridden())
    for knob, (there, now) in config_file.differing(directory, config).items():
        if any(knob == name or knob.startswith(f"{name}.") for name in names):
            raise ValueError(
                f"{knob}={now!r} differs from {there!r}, with which workdir={directory} was trained; remove "
                f"it, or --config (a trained run can only change data.{', data.'.join(PLACES)}, and "
                "the names of files with the same contents)"
            )


def moved_devices(config: Any) -> dict[str, str]:
    """Returns the files of measured devices that the command line names, by their options."""
    from fourier_attn.config import device_files, with_absolute_paths

    found, overridden = device_files(with_absolute_paths(config)), tuple(config_flag.overridden())
    return {knob: file for knob, file in found.items() if knob.startswith(overridden)}


def look_inside(directory: Path, devices: Mapping[str, str], predictor: Any = None) -> None:
    """Writes attention maps and filters for one input, and prints the names of the files.

    Args:
      directory: the run's directory.
      devices: files of measured devices that replace those of the training, by option.
      predictor: the loaded run; None: it is loaded here.
    """
    from fourier_attn.inference import explain
    from fourier_attn.inference.predictor import Predictor

    predictor = predictor or Predictor.load(directory, batch=1, devices=devices)
    given, output = flags.FLAGS, flags.FLAGS.output
    where = paths.stem(output, "--output") if output else None
    for file in explain.write(predictor, directory, given.text, given.text_pair, given.image, where):
        print(f"written to {file}")


def predictions(predictor: Any) -> list[tuple[str, float]]:
    """Returns the answers to an image, a question about one, or a text, with their probabilities."""
    from fourier_attn.inference import printed_answers

    text, text_pair, image = flags.FLAGS.text, flags.FLAGS.text_pair, flags.FLAGS.image
    if image is None:
        return printed_answers.predict(predictor, text or "", text_pair)
    return printed_answers.predict_image(predictor, image, text)


def given_config() -> Any:
    """Returns the configuration of the command line, or None without --config."""
    from fourier_attn.train import init_from

    config = config_flag.given()
    if config is not None:
        init_from.check_overrides(config, config_flag.overridden())
    return config


def missing(option: str):
    """Raises: ValueError that asks for an option which the mode needs."""
    raise ValueError(f"--mode={flags.FLAGS.mode} needs {option}")


def new_workdir() -> str:
    """Returns the name of a new run's directory: runs/CONFIG-TASK-TIME-PROCESS."""
    unique = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    return f"runs/{config_flag.stem()}-{flags.FLAGS.config.data.task}-{unique}"


def fourier_attn() -> None:
    """Runs the console script `fourier-attn`."""
    if sys.argv[1:] == ["--version"]:
        print(f"fourier_attn {__version__}")
        sys.exit(0)
    define_flags()
    sys.exit(command.run(main))


if __name__ == "__main__":
    fourier_attn()
