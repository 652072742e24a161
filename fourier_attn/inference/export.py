"""Exports a trained run: python -m fourier_attn.export --workdir=DIR --to=DIR [--format=...].

The formats are:

    stablehlo     a program with the weights for each padded length, and classify.py, which runs the programs
                  without this package
    safetensors   the weights and the tokenizer
    huggingface   the same, with config.json and a model card
    keras_hub     a preset, with the weights in model.weights.h5 and task.weights.h5

Each folder also has SHA256SUMS. Loading the folder compares all files but the model card with it.
"""

import contextlib
import importlib.util
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from absl import flags

from fourier_attn import atomic, extras, paths, pretrained
from fourier_attn.choices import check_choices
from fourier_attn.data import padded_lengths
from fourier_attn.data.knobs import SPAN_KNOBS
from fourier_attn.data.text import special, tokenizer_file
from fourier_attn.inference import classify
from fourier_attn.inference.predictor import Predictor
from fourier_attn.ops.platforms import PLATFORMS
from fourier_attn.pretrained import folder
from fourier_attn.train.init_from import is_run
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.rundir import config_file, metrics_log

FORMATS = ("stablehlo", "safetensors", "huggingface", "keras_hub")


def answers(predictor: Predictor) -> Callable[..., jax.Array]:
    """Returns the network and its weights as one function of tokens, mask and types, or of images.

    The function returns probabilities of classes or labels (b, c), for tagging and questions those of each
    token (b, t, c), or scores (b,). They are means over seeds.

    Raises: ValueError for a language model or a pretraining run.
    """
    task, seeds = predictor.task, predictor.config.train.seeds
    if not OBJECTIVES[task.head].written:
        raise ValueError(
            f"data.task={predictor.config.data.task!r} has no answers that a program could return; export "
            "the weights alone with --format=safetensors, or fine-tune the run first (init_from)"
        )
    params = jax.tree.map(jnp.asarray, predictor.params)

    def one(params: Any, *inputs: jax.Array) -> jax.Array:
        named = dict(zip(("mask", "types"), inputs[1:], strict=False))
        draws = {"noise": jax.random.key(0)}
        outputs = predictor.network.apply({"params": params}, inputs[0], **named, rngs=draws)
        if task.head == "spans":
            return _span_probabilities(outputs, inputs[0], inputs[2], special(predictor.tokenizer).sep)
        return OBJECTIVES[task.head].answers(outputs)

    def all_seeds(*inputs: jax.Array) -> jax.Array:
        if seeds == 1:
            return one(params, *inputs)
        return jnp.mean(jax.vmap(lambda p: one(p, *inputs))(params), axis=0)

    return all_seeds


def _span_probabilities(logits: Any, tokens: jax.Array, types: jax.Array, sep: int | None) -> jax.Array:
    """Returns the probabilities that each token begins and ends the answer (b, t, 2).

    They are 0 for all tokens but the first one and those of the context.

    Args:
      logits: (b, t, 2), for the begin and the end.
      tokens: token ids (b, t).
      types: 1 for tokens of the context (b, t).
      sep: id of the separator.
    """
    first = (jnp.arange(tokens.shape[1]) == 0)[None]
    real = first | ((types == 1) & (tokens != sep))
    return jax.nn.softmax(jnp.where(real[..., None], logits, -jnp.inf), axis=1)


def programs(predictor: Predictor, platforms: Sequence[str]) -> tuple[dict[int, bytes], int | None]:
    """Returns the program for each padded length (0 for images), and their number of rows (None: any)."""
    try:
        return _programs(predictor, platforms, jax.export.symbolic_shape("b")[0]), None
    except jax.errors.InconclusiveDimensionOperation:  # raised if a mixer branches on the number of rows
        return _programs(predictor, platforms, predictor.batch), predictor.batch


def _programs(predictor: Predictor, platforms: Sequence[str], b: Any) -> dict[int, bytes]:
    """Returns the serialised program for each padded length.

    Args:
      predictor: the run.
      platforms: keys of `PLATFORMS`.
      b: number of rows, an integer or a symbolic dimension.
    """
    config, function, exported = predictor.config, jax.jit(answers(predictor)), {}
    if predictor.task.images:
        shapes = {0: [((b, *config.model.image), np.uint8)]}
    else:
        kinds = (np.int32, np.bool_, np.int32)
        shapes = {t: [((b, t), kind) for kind in kinds] for t in padded_lengths(config.data)}
    for length, inputs in shapes.items():
        arguments = [jax.ShapeDtypeStruct(shape, kind) for shape, kind in inputs]
        exported[length] = bytes(jax.export.export(function, platforms=platforms)(*arguments).serialize())
    return exported


def check_programs(predictor: Predictor) -> None:
    """Checks that programs can take the inputs of the run's task. Raises: ValueError."""
    task, inputs = predictor.config.data.task, predictor.config.model.inputs
    cure = "export the weights alone with --format=safetensors"
    if predictor.task.question:
        raise ValueError(f"the task {task!r} has questions about images, which programs cannot read; {cure}")
    if predictor.task.images and inputs != "patches":
        raise ValueError(f"the task {task!r} reads images as {inputs}, which programs cannot read; {cure}")


def write_programs(predictor: Predictor, source: Path, to: Path, platforms: Sequence[str]) -> None:
    """Writes programs, tokenizer, manifest.json and classify.py.

    Args:
      predictor: the run.
      source: directory of the run, which has its tokenizer.
      to: an empty folder.
      platforms: keys of `PLATFORMS`, for example ("cpu", "cuda").
    Raises: ValueError for a run that programs cannot represent.
    """
    texts = not predictor.task.images
    check_programs(predictor)
    if texts and tokenizer_file(source).suffix == ".model":
        raise ValueError(
            "the tokenizer is a SentencePiece model, which classify.py cannot read; use --format=huggingface"
        )
    made, batch = programs(predictor, platforms)
    for length, program in made.items():
        (to / f"{length}.stablehlo").write_bytes(program)
    facts: dict[str, Any] = {
        "inputs": predictor.config.model.inputs,
        "labels": list(predictor.task.labels),
        "programs": {str(length): f"{length}.stablehlo" for length in made},
        "batch": batch,
        "platforms": list(platforms),
    }
    if texts:
        facts |= special(predictor.tokenizer)._asdict() | {"length": predictor.config.data.length}
        facts["pairs"] = len(predictor.task.texts) == 2
        facts["words"] = predictor.task.tagged
        if predictor.task.head == "spans":
            facts["spans"] = {name: predictor.config.data[name] for name in SPAN_KNOBS}
        facts["multi_label"] = predictor.task.multi_label
        shutil.copy(tokenizer_file(source), to / "tokenizer.json")
    (to / "manifest.json").write_text(json.dumps(facts, indent=2) + "\n")
    shutil.copy(classify.__file__, to / "classify.py")


def write_weights(predictor: Predictor, to: Path, format: str) -> str:
    """Writes the weights (with several seeds, those of the first network); returns the style of their names.

    Args:
      predictor: the run.
      to: folder that gets the file.
      format: one of `FORMATS` that has weights.
    Raises: ValueError for format "keras_hub" and a network that Keras Hub lacks.
    """
    params = predictor.params
    if predictor.config.train.seeds > 1:
        params = jax.tree.map(lambda p: p[0], params)
    name, kind = ("model.weights.h5", "h5") if format == "keras_hub" else ("model.safetensors", "safetensors")
    return pretrained.save(to / name, predictor.config.model, jax.device_get(params), kind)


def export(directory: Path, to: Path, format: str = "stablehlo", platforms: Sequence[str] = ("cpu",)) -> str:
    """Exports a run into a new folder. After an error the folder does not exist.

    Args:
      directory: directory of the run, or an exported folder with weights.
      to: the new folder.
      format: one of `FORMATS`, default "stablehlo".
      platforms: platforms of the programs, keys of `PLATFORMS`; default CPU only.
    Returns: a note for the user; "" if there is none.
    Raises: ValueError for a run that cannot be exported, an existing folder, and an unknown platform.
    """
    check_choices("platforms", platforms, PLATFORMS)
    with _new(to) as part:
        predictor = Predictor.load(directory)
        if format == "stablehlo":
            write_programs(predictor, directory, part, platforms)
            return ""
        style, tokenizer = write_weights(predictor, part, format), tokenizer_file(directory)
        if format == "safetensors":
            if predictor.tokenizer is not None:
                shutil.copy(tokenizer, part / tokenizer.name)
            return ""
        folder.describe(part, predictor.config, style, tokenizer, metrics_log.read_lines(directory))
        if not is_run(directory) and (directory / folder.CARD).is_file():
            shutil.copy(directory / folder.CARD, part / folder.CARD)  # it contains the measured metrics
        return folder.unlike_theirs(predictor.config.model) if style == "fourier_attn" else ""


@contextlib.contextmanager
def _new(to: Path) -> Iterator[Path]:
    """Yields a temporary folder that gets SHA256SUMS and the name `to` unless an error occurs."""
    to = to.absolute()
    paths.check_new(to, "give a new folder, --to=DIR")
    try:
        atomic.make_folder(to.parent)
        temporary = tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{to.name}")
    except OSError as error:
        raise ValueError(f"to={to} cannot be written ({error.strerror}); give another folder") from error
    with temporary as part:
        made = Path(part) / "made"
        made.mkdir()
        yield made
        files = [path for path in _files(made) if path != made / folder.CARD]
        lines = [f"{classify.checksum(path)}  {path.relative_to(made).as_posix()}\n" for path in files]
        (made / classify.SUMS).write_text("".join(lines))
        atomic.sync_tree(made)
        made.rename(to)
        atomic.sync(to.parent)


def _files(to: Path) -> list[Path]:
    return sorted(path for path in to.rglob("*") if path.is_file())


def define_flags() -> None:
    """Defines the flags of the export command."""
    flags.DEFINE_string("workdir", None, "directory of the run")
    flags.DEFINE_string("to", None, "folder to write, which must not exist")
    flags.DEFINE_enum(
        "format",
        "stablehlo",
        FORMATS,
        "format of the export: programs that run without this package, or the weights for this package, "
        "Hugging Face or Keras Hub",
    )
    flags.DEFINE_boolean(
        "allow_code",
        False,
        "allow importing the Python file that registered a run's custom mixer, task or optimizer",
    )
    flags.DEFINE_list(
        "platforms", ["cpu"], f"platforms to compile for, separated by commas: {', '.join(PLATFORMS)}"
    )


def main() -> None:
    """Exports the run that the flags name, and prints the files. Raises: ValueError."""
    options = flags.FLAGS
    if not options.workdir or not options.to:
        raise ValueError("--workdir and --to are required, for example --workdir=runs/NAME --to=exported")
    if options.format == "stablehlo":
        needs_flatbuffers()
    if options.allow_code:
        config_file.allow_code(paths.given(options.workdir))
    note = export(paths.given(options.workdir), paths.given(options.to), options.format, options.platforms)
    for path in _files(paths.given(options.to)):
        print(f"written: {path} ({path.stat().st_size:,} bytes)")
    if note:
        print(f"note: {note}")


def needs_flatbuffers() -> None:
    """Checks that jax.export can write files. Raises: ValueError."""
    if not importlib.util.find_spec("flatbuffers"):
        raise ValueError(f"--format=stablehlo needs the package flatbuffers; {extras.install('export')}")
