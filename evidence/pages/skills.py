"""Tabulates the accuracies on the skills, a row for each task."""

from evidence.pages.markdown import NOT_RUN, Results, mean_cell, table
from evidence.suite import cells
from evidence.suite.ledger import published, score
from fourier_attn.data.skills import SKILLS, knobs_of


def skills_table(results: Results) -> str:
    """Tabulates the test accuracy of each mixer on each task, next to that of chance."""
    groups = published(results.root, "skills")
    models = {model.name: model for model in cells.MODELS["skills"]}
    mixers = dict.fromkeys(name.partition("-")[2] for name in models)
    lines = []
    for task, skill in SKILLS.items():
        names = [f"{task}-{mixer}" for mixer in mixers]
        chance = skill.chance(knobs_of(cells.cells("skills", only=names[:1])[0].read().data))
        found = [groups.get(name, []) for name in names]
        scores = [mean_cell([100 * score(each) for each in group]) if group else NOT_RUN for group in found]
        lines.append([f"`{task}`", f"{100 * chance:.2f}", *scores])
    return table(["task", "chance, %", *(f"`{mixer}`, %" for mixer in mixers)], lines)
