"""A trained run for elsewhere: python -m fourier_attn.export --workdir=DIR --to=DIR [--format=...].

stablehlo: programs with the weights inside, for each padded length, and classify.py, which runs them without
this package. safetensors: the weights and the tokenizer. huggingface: these with config.json and model card.
keras_hub: a preset, with the same and the weights in model.weights.h5 and task.weights.h5.
Each folder also gets SHA256SUMS, with which it is compared when it is loaded, all but the model card.
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
    """Returns the network with its weights as a function of tokens, mask and types, or of images.

    It returns probabilities of classes, or of labels, (b, c), those of tokens (b, t, c) as classes or as the
    ends of answers, or scores (b), means over seeds.

    Raises: ValueError for a language model or a run of pre-training.
    """
    task, seeds = predictor.task, predictor.config.train.seeds
    if not OBJECTIVES[task.head].written:
        raise ValueError(
            f"data.task={predictor.config.data.task!r} has no answer to a text that a program could give; "
            "use --format=safetensors, the weights alone, or fine-tune it first (init_from)"
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
    """Returns the probability of each token to be an answer's first and last one (b, t, 2).

    Of all tokens but the first one and those of the context it is 0.
    """
    first = (jnp.arange(tokens.shape[1]) == 0)[None]
    real = first | ((types == 1) & (tokens != sep))
    return jax.nn.softmax(jnp.where(real[..., None], logits, -jnp.inf), axis=1)


def programs(predictor: Predictor, platforms: Sequence[str]) -> tuple[dict[int, bytes], int | None]:
    """Returns the program for each padded length (0: images), and the number of rows they take; None: any."""
    try:
        return _programs(predictor, platforms, jax.export.symbolic_shape("b")[0]), None
    except jax.errors.InconclusiveDimensionOperation:  # which mixers choose by the number of rows, it shows
        return _programs(predictor, platforms, predictor.batch), predictor.batch


def _programs(predictor: Predictor, platforms: Sequence[str], b: Any) -> dict[int, bytes]:
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
    """Raises: ValueError for a task whose inputs programs do not take."""
    task, inputs = predictor.config.data.task, predictor.config.model.inputs
    cure = "use --format=safetensors, the weights alone"
    if predictor.task.question:
        raise ValueError(f"the task {task!r} asks questions about images, which programs do not take; {cure}")
    if predictor.task.images and inputs != "patches":
        raise ValueError(f"the task {task!r} has images as {inputs}, which programs do not take; {cure}")


def write_programs(predictor: Predictor, source: Path, to: Path, platforms: Sequence[str]) -> None:
    """Writes programs, tokenizer, manifest.json and classify.py into the empty folder `to`."""
    texts = not predictor.task.images
    check_programs(predictor)
    if texts and tokenizer_file(source).suffix == ".model":
        raise ValueError(
            "its tokenizer is a SentencePiece model, which classify.py cannot read; use --format=huggingface"
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
    """Writes the weights, of several networks those of the first; returns the style of their names.

    Raises: ValueError for a network that Keras Hub does not have, in its format.
    """
    params = predictor.params
    if predictor.config.train.seeds > 1:
        params = jax.tree.map(lambda p: p[0], params)
    name, kind = ("model.weights.h5", "h5") if format == "keras_hub" else ("model.safetensors", "safetensors")
    return pretrained.save(to / name, predictor.config.model, jax.device_get(params), kind)


def export(directory: Path, to: Path, format: str = "stablehlo", platforms: Sequence[str] = ("cpu",)) -> str:
    """Writes a run, or an exported folder, in one of `FORMATS` into the new folder `to`, whole or not at all.

    Returns: what people should know about the folder; "" if there is nothing.
    Raises: ValueError for a run that cannot be used, a folder that exists, and an unknown platform.
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
            shutil.copy(directory / folder.CARD, part / folder.CARD)  # with what was measured
        return folder.unlike_theirs(predictor.config.model) if style == "fourier_attn" else ""


@contextlib.contextmanager
def _new(to: Path) -> Iterator[Path]:
    """Yields a folder that is renamed to `to`, with the sums of its files, when the context ends well."""
    to = to.absolute()
    paths.check_new(to, "name a new folder, --to=DIR")
    try:
        atomic.make_folder(to.parent)
    except OSError as error:
        raise ValueError(f"to={to} cannot be written ({error.strerror}); name another folder") from error
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{to.name}") as part:
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
    flags.DEFINE_string("workdir", None, "directory of the run")
    flags.DEFINE_string("to", None, "folder to write, which must not exist")
    flags.DEFINE_enum("format", "stablehlo", FORMATS, "format of the export")
    flags.DEFINE_boolean(
        "allow_code",
        False,
        "allow importing the Python file that registered a run's custom mixer, task or optimizer",
    )
    flags.DEFINE_list(
        "platforms", ["cpu"], f"platforms to compile for, separated by commas: {', '.join(PLATFORMS)}"
    )


def main() -> None:
    options = flags.FLAGS
    if not options.workdir or not options.to:
        raise ValueError("--workdir and --to are needed, for example --workdir=runs/NAME --to=exported")
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
    """Raises: ValueError where jax.export's files cannot be written."""
    if not importlib.util.find_spec("flatbuffers"):
        raise ValueError(f"--format=stablehlo needs the package flatbuffers; {extras.install('export')}")
