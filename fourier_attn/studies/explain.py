"""A look inside a trained run: python -m fourier_attn.main --mode=explain --workdir=runs/NAME --text="..."

Writes explain.json and explain.png into the run's directory, or where --output says: the weights that each
block gives to tokens (attention, circular attention, lambda layers and the fixed mixers), and what was
learned once for all inputs: merged filters of circular attention, position tables of lambda layers, global
filters.
"""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fourier_attn import atomic
from fourier_attn.layers.inside import Inside, look
from fourier_attn.predict import Predictor
from fourier_attn.train.step import model_inputs

MOST = 8  # heads, or filters, in a row of the picture
NAMED = 40  # tokens, up to which their names stand at the axes


def explain(
    directory: Path, text: str | None, text_pair: str | None, image: str | None, output: Path | None
) -> list[Path]:
    """Looks into the run in `directory`, at a text or an image, and writes what it sees; returns the files.

    Of several networks the first one.

    Raises: ValueError for a run, a text or an image that cannot be used.
    """
    directory = directory.resolve()
    predictor = Predictor.load(directory, batch=1)
    batch, tokens = _batch(predictor, text, text_pair, image)
    params = predictor.params
    if predictor.config.train.seeds > 1:
        params = jax.tree.map(lambda p: p[0], params)
    blocks = look(predictor.network, params, batch["inputs"], **model_inputs(batch))
    if not any(block.weights is not None or block.filters for block in blocks):
        mixers = " and ".join(sorted({block.mixer for block in blocks}))
        raise ValueError(f"workdir={directory} has {mixers}, with nothing to look at; name another run")
    stem = output or directory / "explain"
    stem.parent.mkdir(parents=True, exist_ok=True)
    document = {"run": directory.name, "tokens": tokens, "blocks": [_plain(block) for block in blocks]}
    picture = io.BytesIO()
    draw(blocks, tokens).savefig(picture, dpi=100, format="png")
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in ("json", "png")]
    for path, contents in zip(files, (json.dumps(document) + "\n", picture.getvalue()), strict=True):
        atomic.write(path, contents)
    return files


def _batch(
    predictor: Predictor, text: str | None, text_pair: str | None, image: str | None
) -> tuple[dict[str, Any], list[str]]:
    """What is looked at, without padding, and its tokens; of an image, whose patches have no names, none."""
    task = predictor.config.data.task
    if not predictor.task.images:
        if image is not None or text is None:
            raise ValueError(f"the task {task!r} is about texts; give one, --text='...'")
        batches = predictor.text_batches([text], None if text_pair is None else [text_pair])
        return batches[0], [predictor.tokenizer.id_to_token(int(i)) for i in batches.rows[0]]
    if image is None or text_pair is not None:
        raise ValueError(f"the task {task!r} is about images; give one, --image=FILE")
    return predictor.image_batches([image], None if text is None else [text])[0], []


def _plain(block: Inside) -> dict[str, Any]:
    """As JSON has it, with six digits."""
    arrays = {"weights": block.weights, **block.filters}
    return {"mixer": block.mixer} | {
        name: [] if array is None else np.round(array.astype(np.float64), 6).tolist()
        for name, array in arrays.items()
    }


def draw(blocks: Sequence[Inside], tokens: Sequence[str]) -> Figure:
    """A row of maps for each block and kind: a map for each head, or filter, the first ones."""
    rows = [
        (f"block {i}: {block.mixer}, {kind}", kind, array[:MOST])
        for i, block in enumerate(blocks, 1)
        for kind, array in {"weights": block.weights, **block.filters}.items()
        if array is not None
    ]
    wide = max(len(array) for _, _, array in rows)
    side = 2.4 if len(tokens) <= NAMED and tokens else 1.8
    figure = Figure((max(side * wide, 5) + 1, (side + 0.6) * len(rows)), layout="constrained")
    most = {kind: max(float(np.abs(array).max()) for _, k, array in rows if k == kind) for _, kind, _ in rows}
    parts = figure.subfigures(len(rows), squeeze=False)[:, 0]
    for part, (title, kind, array) in zip(parts, rows, strict=True):
        least = -most[kind] if array.min() < 0 else 0.0
        part.suptitle(f"{title}, {least:.2g} to {most[kind]:.2g}", fontsize=9)
        for n, axes in enumerate(part.subplots(1, wide, squeeze=False)[0]):
            axes.set_axis_off()
            if n < len(array):
                _map(axes, array[n], least, most[kind])
            if n == 0 and kind == "weights" and 0 < len(tokens) <= NAMED:
                axes.set_xticks(range(len(tokens)), tokens, rotation=90)
                axes.set_yticks(range(len(tokens)), tokens)
    return figure


def _map(axes: Axes, values: np.ndarray, least: float, most: float) -> None:
    """One map, or a curve where there is one axis; columns are the tokens that are looked at."""
    axes.set_axis_on()
    axes.tick_params(labelsize=6)
    if values.ndim == 1:
        axes.plot(values, lw=1)
        axes.set_ylim(least, most)
        return
    axes.imshow(values, cmap="RdBu_r" if least < 0 else "viridis", vmin=least, vmax=most)
    axes.set(xticks=[], yticks=[])
