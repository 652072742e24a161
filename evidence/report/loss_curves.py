"""Shows how fast networks learn to predict masked tokens: their loss over training steps."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from evidence.pages.markdown import NOT_RUN, Results, table
from evidence.suite.ledger import Finding, published
from fourier_attn import style

LOSSES = (6.0, 5.0, 4.5)  # in nats; networks that learn only the frequencies of tokens stay above 6


def steps_to(curve: Sequence[tuple[int, float]], loss: float) -> int | None:
    """Returns the first step at which a curve is at or below a loss; None if it never is."""
    return next((step for step, reached in curve if reached <= loss), None)


def steps_table(groups: Mapping[str, Sequence[Finding]]) -> str:
    """Tabulates the training steps until each of `LOSSES` is reached, and the last loss.

    Lists the networks whose cells have a curve, the lowest last loss first.

    Args:
      groups: the findings of each pre-trained network, one for each seed; only the first is shown.
    """
    curves = with_curves(groups)
    if not curves:
        return table(["network"], [[NOT_RUN]])
    lines = []
    for name, curve in sorted(curves.items(), key=lambda item: item[1][-1][1]):
        steps = [steps_to(curve, loss) for loss in LOSSES]
        reached = ["not reached" if step is None else f"{step:,}" for step in steps]
        lines.append([f"`{name}`", *reached, f"{curve[-1][1]:.2f}"])
    return table(["network", *(f"steps to loss {loss:g}" for loss in LOSSES), "last loss"], lines)


def published_steps(results: Results) -> str:
    """Tabulates the training steps to a loss of the published networks."""
    return steps_table(published(results.root, "pretrain"))


@style.styled()
def loss_curves(groups: Mapping[str, Sequence[Finding]]) -> Figure:
    """Plots the loss on masked tokens over training steps, with a line for each network.

    Args:
      groups: the findings of each pre-trained network, one for each seed; only the first is shown.
    """
    figure = style.figure(height=2.6)
    axes = figure.subplots()
    # A line is dashed if there are more networks than colours.
    for i, (name, curve) in enumerate(with_curves(groups).items()):
        line = "dashed" if i >= len(style.COLOURS) else "solid"
        steps, losses = zip(*curve, strict=True)
        colour = style.COLOURS[i % len(style.COLOURS)]
        axes.plot(steps, losses, linestyle=line, color=colour, label=name, linewidth=1)
    axes.set_xlabel("step")
    axes.set_ylabel("training loss, nats per masked token")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


def with_curves(groups: Mapping[str, Sequence[Finding]]) -> dict[str, list[tuple[int, float]]]:
    """Returns the curve of the first seed of each network that has one."""
    curves = {name: findings[0].get("curve") for name, findings in groups.items() if findings}
    return {name: curve for name, curve in curves.items() if curve}
