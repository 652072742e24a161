"""Shows how fast networks learn to predict masked tokens: their loss over training steps."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from evidence.pages.markdown import NOT_RUN, Results, table
from evidence.suite.ledger import Finding, published
from evidence.suite.pretraining import on_wikitext, rate
from fourier_attn import style

LOSSES = (6.0, 5.0, 4.5)  # in nats per masked token
# An architecture has the same colour in all figures.
COLOURS: dict[str, str] = dict(
    zip(("fnet", "bert", "linear", "random", "hybrid", "ff"), style.COLOURS, strict=True)
)
STYLES = {"mini": "dashed", "half": "dotted"}  # of lines, by words in the name of a network
Groups = Mapping[str, Sequence[Finding]]  # findings of each pre-trained network, of which one seed is shown


def steps_to(curve: Sequence[tuple[int, float]], loss: float) -> int | None:
    """Returns the first step at which a curve is at or below a loss; None if it never is."""
    return next((step for step, reached in curve if reached <= loss), None)


def steps_table(groups: Groups) -> str:
    """Tabulates the learning rate, the steps until each of `LOSSES` is reached, and losses, the lowest first.

    Lists the networks whose cells have a curve.
    """
    curves = with_curves(groups)
    if not curves:
        return table(["network"], [[NOT_RUN]])
    lines = []
    for name, curve in sorted(curves.items(), key=lambda item: item[1][-1][1]):
        steps = [steps_to(curve, loss) for loss in LOSSES]
        reached = ["not reached" if step is None else f"{step:,}" for step in steps]
        losses = (curve[-1][1], groups[name][0]["test"]["mlm_loss"])
        lines.append([f"`{name}`", f"{float(rate(name)):g}", *reached, *(f"{loss:.2f}" for loss in losses)])
    heads = ["network", "learning rate", *(f"steps to loss {loss:g}" for loss in LOSSES)]
    return table([*heads, "last training loss", "test loss"], lines)


def published_steps(results: Results, wiki: bool) -> str:
    """Tabulates the training steps to a loss of the published networks.

    Args:
      results: the files of results.
      wiki: True: networks that read WikiText-2 alone; False: those that also read IMDb.
    """
    groups = published(results.root, "pretrain")
    return steps_table({name: found for name, found in groups.items() if on_wikitext(name) == wiki})


@style.styled()
def loss_curves(groups: Groups) -> Figure:
    """Plots the loss on masked tokens over training steps, with a line for each network."""
    figure = style.figure(height=2.4)
    axes = figure.subplots()
    for name, curve in with_curves(groups).items():
        line = next((STYLES[word] for word in name.split("-") if word in STYLES), "solid")
        steps, losses = zip(*curve, strict=True)
        axes.plot(steps, losses, linestyle=line, color=COLOURS[name.split("-")[0]], label=name, linewidth=1)
    axes.set_xlabel("step")
    axes.set_ylabel("training loss, nats")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


def with_curves(groups: Groups) -> dict[str, list[tuple[int, float]]]:
    """Returns the curve of the first seed of each network that has one."""
    curves = {name: findings[0].get("curve") for name, findings in groups.items() if findings}
    return {name: curve for name, curve in curves.items() if curve}
