"""Shows attention maps and filters: fourier-attn --mode=explain --workdir=runs/NAME --text="..."

The command writes explain.json and explain.png into the run's directory, or to --output. They contain the
answer; for an image (--image=FILE) the attention map of attention, circular attention or lambda layers; for
each block the weights between tokens; and learned filters that are the same for all inputs: merged filters of
circular attention, position tables of lambda layers, and global filters.
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
from fourier_attn.data.own_files import check_unchanged
from fourier_attn.layers.introspection import Inside, attention_maps, inspect
from fourier_attn.model import Fields, grid
from fourier_attn.ops.patches import fold
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.step import model_inputs

MOST = 8  # largest number of heads or filters of a block in the figure
NAMED = 26  # largest number of tokens that are named at the axes
ACROSS, ACROSS_NAMED = 4, 2  # maps in a line, without and with names of tokens


@runtime_checkable
class Network(Protocol):
    """Declares the part of `fourier_attn.inference.predictor.Predictor` that this module uses."""

    config: Config
    network: Any
    params: Any
    tokenizer: Any
    task: Task

    def __call__(self, inputs: Any, text_pairs: Any = None) -> list[dict[str, Any]]:
        """Returns the answers to `inputs` and `text_pairs`."""
        ...

    def text_batches(self, texts: Sequence[Any], text_pairs: Sequence[Any] | None = None) -> Split:
        """Returns `texts` and `text_pairs` as batches."""
        ...

    def image_batches(self, images: Sequence[Any], questions: Sequence[str] | None = None) -> Split:
        """Returns `images` and `questions` as batches."""
        ...


class Explanation(NamedTuple):
    """Holds the answer, the attention maps and the filters for one input.

    Args:
      answer: the answer of `Predictor`; None for language models and pretraining.
      tokens: the tokens of a text; [] for an image.
      question: the question about an image; None without one.
      pictures: an image in colour, and the same image with its brightness scaled by the attention map; [] for
        a text.
      map: attention map of each head over an image (h, rows, cols); empty for a text.
      blocks: for each block the name of its mixer, the weights (h, t, t) of token j for token i, and its
        learned filters, see `fourier_attn.layers.introspection.Inside`.
    """

    answer: dict[str, Any] | None
    tokens: list[str]
    question: str | None
    pictures: list[np.ndarray]
    map: np.ndarray
    blocks: list[Inside]

    def document(self) -> dict[str, Any]:
        """Returns a document for JSON, with arrays as lists that are rounded to six digits."""
        values = self._asdict() | {"pictures": [each.tolist() for each in self.pictures]}
        return values | {"map": _digits(self.map), "blocks": [_plain(block) for block in self.blocks]}

    def plot(self) -> Figure:
        """Plots one row of maps for each block and kind of map."""
        return plot(self.document())


def explain(
    predictor: Network, text: str | None = None, text_pair: str | None = None, image: str | None = None
) -> Explanation:
    """Returns attention maps and filters for a text, a pair of texts, or an image.

        seen = explain(predictor, "not a dull moment")
        seen.tokens, seen.blocks[0].weights
        seen.plot()

    For a run with several seeds, the maps are those of the first network, and the answer is that of all.

    Args:
      predictor: the loaded run.
      text: the text, or the question about the image; default None.
      text_pair: the second text of a pair; default None.
      image: path of the image; default None.
    Raises: ValueError for inputs that do not fit the task, and for networks without maps or filters.
    """
    batch, tokens = _batch(predictor, text, text_pair, image)
    params = predictor.params
    if predictor.config.train.seeds > 1:
        params = jax.tree.map(lambda p: p[0], params)
    blocks = inspect(predictor.network, params, batch["inputs"], **model_inputs(batch))
    pictures, maps = _over_image(predictor, params, batch)
    if not len(maps) and not any(block.weights is not None or block.filters for block in blocks):
        mixers = " and ".join(sorted({block.mixer for block in blocks}))
        raise ValueError(f"the network has {mixers}, without attention maps or filters; use another run")
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
    """Writes the explanation of one input as JSON and as a picture.

    Args:
      predictor: the loaded run.
      directory: directory of the run.
      text, text_pair, image: see `explain`.
      output: path of the files without their endings; None: `explain` in the directory.
    Returns: the two files.
    Raises: ValueError for a run, a text or an image that cannot be used.
    """
    directory = directory.resolve()
    stem = output or directory / "explain"
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in ("json", "png")]
    if image is not None and any(paths.is_in(file, paths.given(image)) for file in files):
        raise ValueError(f"output={stem} would be written over the image; choose another name")
    for file in files if output else ():
        check_unchanged(file, predictor.config.data, f"output={file}")
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
    """Returns the input as a batch without padding, and its tokens ([] for an image).

    Args:
      predictor, text, text_pair, image: see `explain`.
    Raises: ValueError for an input that does not fit the task.
    """
    task = predictor.config.data.task
    if not predictor.task.images:
        if image is not None or text is None:
            raise ValueError(f"the task {task!r} takes texts; give --text='...'")
        batches = predictor.text_batches([text], None if text_pair is None else [text_pair])
        return batches[0], [predictor.tokenizer.id_to_token(int(i)) for i in batches.rows[0]]
    if image is None or text_pair is not None:
        raise ValueError(f"the task {task!r} takes images; give --image=FILE")
    return predictor.image_batches([image], None if text is None else [text])[0], []


def _over_image(
    predictor: Network, params: Any, batch: dict[str, Any]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns an image without and with its attention map, and the maps of all heads (h, rows, cols).

    Both are empty for a text.

    Args:
      predictor: the loaded run.
      params: weights of one network.
      batch: the input.
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
    """Returns an image in colour, and the same with its brightness scaled by the weights of its patches.

    Black means 0, or the smallest weight if some are negative.

    Args:
      pixels: uint8 (rows, cols, channels).
      weights: weight of each patch (n,), row by row.
      config: model options with the shape of patches, see `fourier_attn.ops.patches.fold`.
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
    """Returns the answer to the input; None for language models and pretraining.

    Args:
      predictor, text, text_pair, image: see `explain`.
    """
    if image is not None:
        return predictor([image], None if text is None else [text])[0]
    if text is None or not OBJECTIVES[predictor.task.head].written:
        return None
    return predictor([text], None if text_pair is None else [text_pair])[0]


def _plain(block: Inside) -> dict[str, Any]:
    """Returns the maps of a block as lists for JSON."""
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
    """Returns the title: the question about an image, and the answer if it is one class."""
    answer = document.get("answer") or {}
    said = f"{answer['label']} ({100 * answer['probability']:.1f} %)" if "label" in answer else ""
    return " ".join(filter(None, (document.get("question"), said)))


def _range(array: np.ndarray) -> tuple[float, float]:
    """Returns the range of the colours: from 0, or symmetric around 0 if some numbers are negative."""
    most = float(np.abs(array).max())
    return -most if array.min() < 0 else 0.0, most


def _over(row: Sequence[Axes], pictures: Sequence[np.ndarray], maps: np.ndarray) -> None:
    """Plots pictures and the maps of the first heads.

    Args:
      row: axes of the plots.
      pictures: images in colour.
      maps: attention maps (h, rows, cols).
    """
    least, most = _range(maps)
    colours = style.DIVERGING if least < 0 else style.SEQUENTIAL
    names = (*("image", "mean of heads")[: len(pictures)], *(f"head {n}" for n in range(1, MOST + 1)))
    for axes in row:
        axes.set_axis_off()
    for axes, image, name in zip(row, (*pictures, *maps[:MOST]), names, strict=False):
        axes.imshow(image, cmap=colours, vmin=least, vmax=most)  # the pictures' own colours have no range
        axes.set_title(name)


def _map(axes: Axes, values: np.ndarray, least: float, most: float) -> None:
    """Plots one map, or a curve for an array with one axis. Columns are the attended tokens.

    Args:
      axes: axes of the plot.
      values: the map (t, t), or (n,).
      least, most: range of the colours.
    """
    axes.set_axis_on()
    if values.ndim == 1:
        axes.plot(values)
        axes.set_ylim(least, most)
        return
    axes.imshow(values, cmap=style.DIVERGING if least < 0 else style.SEQUENTIAL, vmin=least, vmax=most)
    axes.grid(False)
    axes.set(xticks=[], yticks=[])
