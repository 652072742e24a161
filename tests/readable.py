"""What a reader of a figure would miss."""

import itertools

import numpy as np
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox


def faults(drawn: Figure) -> list[str]:
    """Says what a reader of a figure would miss.

    Text outside of the canvas, text on other text, and ends of error bars outside of their axes that no
    marker at the edge (see `style.interval`) tells of.
    """
    drawn.draw_without_rendering()
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in _texts(drawn)]
    canvas = drawn.bbox.padded(1)
    found = [f"outside the canvas: {words!r}" for words, box in boxes if not _inside(box, canvas)]
    for i, (words, box) in enumerate(boxes):
        small = box.padded(-min(1.0, box.height / 4))
        found += [
            f"on each other: {words!r} and {more!r}" for more, other in boxes[:i] if small.overlaps(other)
        ]
    for axes in drawn.axes:
        for bars in (made for made in axes.containers if isinstance(made, ErrorbarContainer)):
            lines = itertools.chain(*(made.get_segments() for made in bars.lines[2]))
            places = [axes.transData.transform(line) for line in lines if np.size(line)]
            ends = [(x, y) for x, y in itertools.chain(*places) if np.isfinite([x, y]).all()]
            if not all(axes.bbox.padded(1).contains(x, y) for x, y in ends):
                found.append(f"beyond the axes: ends of {bars.get_label()!r} in {axes.get_xlabel()!r}")
    return found


def _texts(drawn: Figure) -> list[Text]:
    """All text that is shown: not that of axes that are switched off, nor of ticks beyond their axis."""
    hidden = set()
    for axes in drawn.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            room = 1e-9 * (high - low)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not axes.axison or not low - room <= tick.get_loc() <= high + room:
                    hidden |= {id(tick.label1), id(tick.label2)}
            hidden |= set() if axes.axison else {id(axis.label)}
    texts = (text for text in drawn.findobj(Text) if id(text) not in hidden and text.get_visible())
    return [text for text in texts if text.get_text().strip()]


def _inside(box: Bbox, canvas: Bbox) -> bool:
    return canvas.contains(box.x0, box.y0) and canvas.contains(box.x1, box.y1)
