"""The command: python -m fourier_attn.main --config=FILE[:task] [--workdir=DIR] [--mode=...] [--text=...].

With --mode=predict a text (--text=...) or an image (--image=FILE) is judged by a trained run.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import ConfigDict, config_flags

from fourier_attn import command


def define_flags() -> None:
    config_flags.DEFINE_config_file(
        "config",
        help_string="configuration, for example configs/fnet.py:imdb; `python -m fourier_attn.config` "
        "prints every knob",
    )
    flags.DEFINE_string("workdir", None, "directory of the run; default runs/<config>-<task>-<time>")
    flags.DEFINE_enum("mode", "train", ["train", "eval", "predict"], "what to do")
    flags.DEFINE_string("text", None, "the text to judge with --mode=predict")
    flags.DEFINE_string("text_pair", None, "the second text, of a task about two")
    flags.DEFINE_string("input", None, "a file of JSON lines with text (and text_pair), or image; - is stdin")
    flags.DEFINE_string("output", "-", "where the answers to --input go, as JSON lines; - is stdout")
    flags.DEFINE_bool("skip_bad", False, "leave out lines of --input that cannot be judged")
    flags.DEFINE_string("image", None, "the image file to judge with --mode=predict, of a task about images")
    flags.DEFINE_string("coordinator", None, "host:port of process 0, where several train one network")
    flags.DEFINE_integer("num_processes", None, "how many they are; SLURM and TPU slices say it themselves")
    flags.DEFINE_integer("process_id", None, "which of them this is")
    flags.DEFINE_list(
        "allow_drift",
        [],
        "what may differ from the beginning of a run that goes on: data, tokenizer, device, code",
    )


def main() -> None:
    if flags.FLAGS.workdir == "":
        raise ValueError("--workdir= is empty; name a directory, or leave it out")
    import jax

    from fourier_attn import predict, train
    from fourier_attn.train import init_from, processes, workdir
    from fourier_attn.train.evaluate import show

    config = given_config()
    if flags.FLAGS.mode == "train":
        if unknown := set(flags.FLAGS.allow_drift) - set(workdir.DRIFT):
            raise ValueError(
                f"--allow_drift={','.join(sorted(unknown))} is unknown; choose of {', '.join(workdir.DRIFT)}"
            )
        if config is None and flags.FLAGS.workdir:  # go on with what the directory says
            config = workdir.load(Path(flags.FLAGS.workdir))
        config = config or missing("--config=configs/fnet.py")
        # It would take SIGTERM from the moment the processes meet until the loop begins, and do nothing.
        jax.config.update("jax_enable_preemption_service", False)
        given = (flags.FLAGS.coordinator, flags.FLAGS.num_processes, flags.FLAGS.process_id)
        with processes.joined(*given):
            directory = flags.FLAGS.workdir or processes.told(new_workdir)
            train.run(config, directory, flags.FLAGS.allow_drift)
        return
    directory = Path(flags.FLAGS.workdir or missing("--workdir=DIR, the directory of a trained run"))
    if config:
        workdir.check(directory, init_from.load(config, directory).config)
    if flags.FLAGS.mode == "eval":
        for split, values in predict.evaluate(directory, config and config.data.dir).items():
            names = sorted(values, key=lambda name: ("loss" not in name, name))
            means = [name for name in names if not name.endswith(("_seeds", "_std"))]
            print(split, *(f"{name} {show(values, name)}" for name in means))
    elif flags.FLAGS.input is not None:
        judge_file(directory)
    else:
        for answer, value in judged(directory):
            print(f"{answer} {value:.4f}")


def judge_file(directory: Path) -> None:
    """Answers every line of --input."""
    from fourier_attn import stream

    given = flags.FLAGS
    if (given.text, given.text_pair, given.image) != (None, None, None):
        raise ValueError("--input and --text or --image exclude each other; give one of them")
    print(stream.judge(directory, given.input, given.output, given.skip_bad), file=sys.stderr)


def judged(directory: Path) -> list[tuple[str, float]]:
    """The answers to what is to be judged: an image, or a text."""
    from fourier_attn import predict

    text, text_pair, image = flags.FLAGS.text, flags.FLAGS.text_pair, flags.FLAGS.image
    if image is None:
        return predict.predict(directory, text or "", text_pair)
    if text is not None or text_pair is not None:
        raise ValueError("--image and --text exclude each other; give one of them")
    return predict.predict_image(directory, image)


def given_config() -> Any:
    """The configuration of the command line, or None if there is none."""
    from fourier_attn.train import init_from

    if flags.FLAGS.config is not None and not isinstance(flags.FLAGS.config, ConfigDict):
        name = config_flags.get_config_filename(flags.FLAGS["config"])
        raise ValueError(f"--config={name} cannot be read; name a file like configs/fnet.py")
    if flags.FLAGS.config is not None:
        init_from.check_overrides(flags.FLAGS.config, config_flags.get_override_values(flags.FLAGS["config"]))
    return flags.FLAGS.config


def missing(option: str):
    raise ValueError(f"--mode={flags.FLAGS.mode} needs {option}")


def new_workdir() -> str:
    name = Path(config_flags.get_config_filename(flags.FLAGS["config"]).partition(":")[0]).stem
    unique = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    return f"runs/{name}-{flags.FLAGS.config.data.task}-{unique}"


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
