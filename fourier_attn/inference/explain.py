"""A look inside a trained run: python -m fourier_attn.main --mode=explain --workdir=runs/NAME --text="..."

Writes explain.json and explain.png into the run's directory, or where --output says: the answer; over an
image (--image=FILE) where attention, circular attention or lambda layers looked for it; the weights that
each block gives to tokens (these, and the fixed mixers); and what was learned once for all inputs: merged
filters of circular attention, position tables of lambda layers, global filters.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from fourier_attn import atomic, paths, provenance, style
from fourier_attn.config import Config
from fourier_attn.data import Task
from fourier_attn.data.batches import Split
from fourier_attn.layers.introspection import Inside, attention_maps, inspect
from fourier_attn.model import Fields, grid
from fourier_attn.ops.patches import fold
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.step import model_inputs

MOST = 8  # heads, or filters, of a block in the figure
NAMED = 26  # at most this many tokens are named at the axes
ACROSS, ACROSS_NAMED = 4, 2  # maps in a line, without and with names of tokens


@runtime_checkable
class Network(Protocol):
    """Describes the part of `fourier_attn.inference.predictor.Predictor` that is used here."""

    config: Config
    network: Any
    params: Any
    tokenizer: Any
    task: Task

    def __call__(self, inputs: Any, text_pairs: Any = None) -> list[dict[str, Any]]: ...

    def text_batches(self, texts: Sequence[Any], text_pairs: Sequence[Any] | None = None) -> Split: ...

    def image_batches(self, images: Sequence[Any], questions: Sequence[str] | None = None) -> Split: ...


class Explanation(NamedTuple):
    """Shows what a network did with one input.

    Args:
      answer: the answer of `Predictor`; None for pre-training, which only fills masks.
      tokens: names of the tokens of a text; [] for an image.
      question: the question about an image; None without one.
      pictures: an image in colour, and the same with brightness by its weights; [] for a text.
      map: where each head looks for the answer in an image (h, rows, cols); empty for a text.
      blocks: of each block the name of its mixer, the weights (h, t, t) that each token i gives to tokens j,
        and the filters that it has learned, see `fourier_attn.layers.introspection.Inside`.
    """

    answer: dict[str, Any] | None
    tokens: list[str]
    question: str | None
    pictures: list[np.ndarray]
    map: np.ndarray
    blocks: list[Inside]

    def document(self) -> dict[str, Any]:
        """Returns the same as JSON has it, with arrays rounded to six digits."""
        values = self._asdict() | {"pictures": [each.tolist() for each in self.pictures]}
        return values | {"map": _digits(self.map), "blocks": [_plain(block) for block in self.blocks]}

    def plot(self) -> Figure:
        """Plots a row of maps for each block and kind."""
        return plot(self.document())


def explain(
    predictor: Network, text: str | None = None, text_pair: str | None = None, image: str | None = None
) -> Explanation:
    """Returns what a network did with a text, a pair of texts, or an image with or without a question.

    Of several networks the first one is shown; the answer is that of all.

        seen = explain(predictor, "not a dull moment")
        seen.tokens, seen.blocks[0].weights
        seen.plot()

    Raises: ValueError for input that does not fit the task, and for mixers with nothing to look at.
    """
    batch, tokens = _batch(predictor, text, text_pair, image)
    params = predictor.params
    if predictor.config.train.seeds > 1:
        params = jax.tree.map(lambda p: p[0], params)
    blocks = inspect(predictor.network, params, batch["inputs"], **model_inputs(batch))
    pictures, maps = _over_image(predictor, params, batch)
    if not len(maps) and not any(block.weights is not None or block.filters for block in blocks):
        mixers = " and ".join(sorted({block.mixer for block in blocks}))
        raise ValueError(f"the network has {mixers}, with nothing to look at; name another run")
    return Explanation(
        answer=_answer(predictor, text, text_pair, image),
        tokens=tokens,
        question=None if image is None else text,
        pictures=pictures,
        map=maps,
        blocks=blocks,
    )


def write(
    predictor: Network,
    directory: Path,
    text: str | None,
    text_pair: str | None,
    image: str | None,
    output: Path | None,
) -> list[Path]:
    """Explains an input of the run in `directory`, and writes it as JSON and as a picture.

    Args:
      output: path of the files without their endings; None: `explain` in the directory.
    Returns: the files.
    Raises: ValueError for a run, a text or an image that cannot be used.
    """
    directory = directory.resolve()
    stem = output or directory / "explain"
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in ("json", "png")]
    if image is not None and paths.given(image).resolve() in [file.resolve() for file in files]:
        raise ValueError(f"output={stem}: it would be written over the image; choose another name")
    found = explain(predictor, text, text_pair, image)
    atomic.make_folder(stem.parent)
    document = {"run": directory.name} | found.document()
    contents = json.dumps(provenance.record() | document) + "\n", style.png(plot(document))
    for path, content in zip(files, contents, strict=True):
        atomic.write(path, content)
    return files


def _batch(
    predictor: Network, text: str | None, text_pair: str | None, image: str | None
) -> tuple[dict[str, Any], list[str]]:
    """Returns the input as a batch without padding, and the names of its tokens ([] for an image)."""
    task = predictor.config.data.task
    if not predictor.task.images:
        if image is not None or text is None:
            raise ValueError(f"the task {task!r} is about texts; give one, --text='...'")
        batches = predictor.text_batches([text], None if text_pair is None else [text_pair])
        return batches[0], [predictor.tokenizer.id_to_token(int(i)) for i in batches.rows[0]]
    if image is None or text_pair is not None:
        raise ValueError(f"the task {task!r} is about images; give one, --image=FILE")
    return predictor.image_batches([image], None if text is None else [text])[0], []


def _over_image(
    predictor: Network, params: Any, batch: dict[str, Any]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns an image with and without its weights, and each head's map for the answer (h, rows, cols).

    A text has neither: both are empty.
    """
    if not predictor.task.images:
        return [], np.zeros((0, 0, 0), np.float32)
    settings = predictor.config.model
    rows, columns = grid(settings)
    maps = attention_maps(predictor.network, params, batch["inputs"], **model_inputs(batch))[0]
    maps = maps[:, -rows * columns :]
    pictures = lit(batch["inputs"][0], maps.mean(axis=0), settings) if len(maps) else []
    return pictures, maps.reshape(-1, rows, columns)


def lit(pixels: np.ndarray, weights: np.ndarray, config: Fields) -> list[np.ndarray]:
    """Returns the image in colour, and the same with brightness by the weights of its patches.

    Black is 0, or the least weight if some are negative.

    Args:
      pixels: (rows, cols, channels), bytes.
      weights: weight of each patch, row by row.
      config: the shape of patches, see `fourier_attn.ops.patches.fold`.
    """
    k = config["patch"]
    patches = jnp.broadcast_to(jnp.asarray(weights)[:, None, None, None], (len(weights), k, k, 1))
    light = np.asarray(fold(patches, pixels.shape, k, config["stride"], config["pad_image"]))
    coloured = pixels if pixels.shape[2] == 3 else pixels.repeat(3, axis=2)
    least = min(float(light.min()), 0.0)
    span = float(light.max()) - least or 1.0
    return [coloured, (coloured * ((light - least) / span)).astype(np.uint8)]


def _answer(
    predictor: Network, text: str | None, text_pair: str | None, image: str | None
) -> dict[str, Any] | None:
    """Returns the answer to the input; None for language models and pre-training."""
    if image is not None:
        return predictor([image], None if text is None else [text])[0]
    if text is None or not OBJECTIVES[predictor.task.head].written:
        return None
    return predictor([text], None if text_pair is None else [text_pair])[0]


def _plain(block: Inside) -> dict[str, Any]:
    """Returns the maps of a block as JSON has them."""
    arrays = {"weights": block.weights, **block.filters}
    return {"mixer": block.mixer} | {name: _digits(array) for name, array in arrays.items()}


def _digits(array: np.ndarray | None) -> list[Any]:
    """Returns an array as lists, rounded to six digits; [] for None."""
    return [] if array is None else np.round(array.astype(np.float64), 6).tolist()


@style.styled()
def plot(document: dict[str, Any]) -> Figure:
    """Plots the maps of each block and kind: one for each of the first heads, or filters.

    All blocks share one scale of colours for each kind of map, so that uniform attention is uniformly dark.
    The image and the maps of the answer's heads are above them, if there are any. For an image, the title has
    the question and the answer.

    Args:
      document: what `Explanation.document` returns.
    """
    tokens, maps = document["tokens"], np.array(document.get("map", []))
    pictures = [np.array(each, np.uint8) for each in document.get("pictures", [])]
    rows = [
        Row(f"block {i}: {block['mixer']}, {kind}", kind, np.array(array))
        for i, block in enumerate(document["blocks"], 1)
        for kind, array in block.items()
        if kind != "mixer" and len(array)
    ]
    named = 0 < len(tokens) <= NAMED
    above = len(pictures) + len(maps[:MOST])
    across = ACROSS_NAMED if named else ACROSS
    across = max(1, min(across, max([above, *(len(row.array[:MOST]) for row in rows)])))
    side = (style.PAGE - 0.6) / across if across > 1 else style.COLUMN
    heights = [side * -(-above // across) + 0.5] if above else []
    heights += [side * -(-len(row.array[:MOST]) // across) + (0.9 if named else 0.5) for row in rows]
    figure = style.figure(style.PAGE, sum(heights) + 0.3)
    parts = figure.subfigures(len(heights), squeeze=False, height_ratios=heights)[:, 0]
    if not tokens and (title := _title(document)):
        figure.suptitle(title)
    if above:
        least, most = _range(maps)
        black = "; black is the least of the mean" if maps.mean(axis=0).min() < 0 else ""
        parts[0].suptitle(
            f"where each head looks for the answer, colours from {least:.2g} to {most:.2g}{black}"
        )
        _over(list(parts[0].subplots(-(-above // across), across, squeeze=False).ravel()), pictures, maps)
    for part, row in zip(parts[len(parts) - len(rows) :], rows, strict=True):
        ends = _range(np.concatenate([each.array.ravel() for each in rows if each.kind == row.kind]))
        cut = f", the first {MOST} of {len(row.array)}" if len(row.array) > MOST else ""
        part.suptitle(f"{row.title}{cut}, colours from {ends[0]:.2g} to {ends[1]:.2g}")
        _heads(part, row, across, ends, tokens if named and row.kind == "weights" else [])
    return figure


class Row(NamedTuple):
    """Holds the maps of one block and kind.

    Args:
      title: the block and the kind, in words.
      kind: "weights", or the name of a filter.
      array: one map for each head, or one filter for each number.
    """

    title: str
    kind: str
    array: np.ndarray


def _heads(part: SubFigure, row: Row, across: int, ends: tuple[float, float], tokens: Sequence[str]) -> None:
    """Plots the first maps of one block.

    Args:
      part: the part of the figure for this block.
      row: the maps.
      across: maps in a line.
      ends: range of the colours.
      tokens: names at the axes, [] for none.
    """
    count = len(row.array[:MOST])
    panels = part.subplots(-(-count // across), across, squeeze=False)
    for n, axes in enumerate(panels.ravel()):
        axes.set_axis_off()
        if n >= count:
            continue
        _map(axes, row.array[n], *ends)
        axes.set_title(f"{'head' if row.kind == 'weights' else 'number'} {n + 1}")
        if tokens and n % across == 0:
            axes.set_yticks(range(len(tokens)), tokens)
        if tokens and n + across >= count:
            axes.set_xticks(range(len(tokens)), tokens, rotation=90)
    if row.array[0].ndim > 1:
        image = next(axes.images[0] for axes in panels.ravel() if axes.images)
        part.colorbar(image, ax=panels, shrink=0.6, aspect=30, pad=0.02)


def _title(document: dict[str, Any]) -> str:
    """Returns the question about an image, and the answer if it is one class."""
    answer = document.get("answer") or {}
    said = f"{answer['label']} ({100 * answer['probability']:.1f} %)" if "label" in answer else ""
    return " ".join(filter(None, (document.get("question"), said)))


def _range(array: np.ndarray) -> tuple[float, float]:
    """Returns the range of the colours: from 0, or around it if there are negative numbers."""
    most = float(np.abs(array).max())
    return -most if array.min() < 0 else 0.0, most


def _over(row: Sequence[Axes], pictures: Sequence[np.ndarray], maps: np.ndarray) -> None:
    """Plots the pictures, and maps of the first heads."""
    least, most = _range(maps)
    colours = style.DIVERGING if least < 0 else style.SEQUENTIAL
    names = (*("image", "mean of heads")[: len(pictures)], *(f"head {n}" for n in range(1, MOST + 1)))
    for axes in row:
        axes.set_axis_off()
    for axes, image, name in zip(row, (*pictures, *maps[:MOST]), names, strict=False):
        axes.imshow(image, cmap=colours, vmin=least, vmax=most)  # the pictures' own colours have no range
        axes.set_title(name)


def _map(axes: Axes, values: np.ndarray, least: float, most: float) -> None:
    """Plots one map, or a curve for an array with one axis; columns are the attended tokens."""
    axes.set_axis_on()
    if values.ndim == 1:
        axes.plot(values)
        axes.set_ylim(least, most)
        return
    axes.imshow(values, cmap=style.DIVERGING if least < 0 else style.SEQUENTIAL, vmin=least, vmax=most)
    axes.grid(False)
    axes.set(xticks=[], yticks=[])
