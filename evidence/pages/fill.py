"""Fills the tables of README.md, docs and results/evidence/*/findings.md from the files in results.

    python -m evidence.pages.fill [--check]

It fills the blocks

    <!-- table: NAME -->
    <!-- /table -->

where NAME is a key of `TABLES` or `LISTS`, and numbers inside sentences,

    <!-- value: NAME --><!-- /value -->

where NAME is a key of `values.VALUES`. With --check nothing is written, and a block or number that differs
from the results is an error.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from absl import flags

from evidence.pages import layout, pretraining_predictions, self_pretraining
from evidence.pages.claim_list import claim_table
from evidence.pages.compiled import (
    compiled_lengths,
    compiled_methods,
    compiled_mixers,
    compiled_shared,
    compiled_training,
    targets,
)
from evidence.pages.engine_accuracy import over_ages, over_joules, over_photons
from evidence.pages.engine_errors import calibration_table, laboratory_table, plan_table, tuning_table
from evidence.pages.engines import kinds, parameters, presets
from evidence.pages.field_units import link, published, stages, units
from evidence.pages.findings import claims, noise, query_keys, validation_curves
from evidence.pages.inside import attention_table, matrix_table, property_table
from evidence.pages.language import equal_sizes, equal_verdicts
from evidence.pages.markdown import Results
from evidence.pages.measured import GPU_TABLES
from evidence.pages.open_questions import open_configurations, open_questions
from evidence.pages.operator_guess import guess_by_operator, networks_against_guess
from evidence.pages.programs import bounds_table, predictions_table, programs_table
from evidence.pages.projected import frames, parts, speedup
from evidence.pages.readme_table import readme_table
from evidence.pages.repeats import repeats_table
from evidence.pages.run_tables import evidence, once, padding, recall_on_engines, robustness, runs
from evidence.pages.skill_predictions import verdicts_table
from evidence.pages.skills import (
    equal_table,
    higher_seeds_table,
    higher_table,
    hybrids_table,
    pairs_table,
    recall_table,
    skills_table,
)
from evidence.pages.timings import SPEED, fixed_parts, generation, growth, kept, speed, values
from evidence.pages.values import VALUES
from evidence.report.glue import pretrained_table
from evidence.report.loss_curves import published_steps
from evidence.report.stability import stability
from fourier_attn import atomic, command, paths
from fourier_attn.choices import check_choice
from fourier_attn.optics.parts import GROUPS

BLOCK = re.compile(r"(?ms)^<!-- table: (?P<name>\S+) -->\n(?P<body>.*?)^<!-- /table -->$")
OPENING = re.compile(r"^<!-- table:", re.MULTILINE)
VALUE = re.compile(r"<!-- value: (?P<name>\S+) -->(?P<body>[^<\n]*)<!-- /value -->")

PAGES = ("README.md", "docs/*.md", "docs/optics/*.md", "results/evidence/*/findings.md")


def speed_table(results: Results, files: Sequence[str]) -> str:
    """Tabulates the comparisons in several files of results."""
    return speed(results, *files)


TABLES: dict[str, Callable[[Results], str]] = {
    "reviews": partial(runs, name="benchmarks/reviews-cpu", task="reviews"),
    "imdb": partial(runs, name="studies/imdb", task="imdb"),
    "readme": readme_table,
    "evidence": partial(evidence, tier="1", twins=False),
    "self-pretraining": partial(self_pretraining.gains_table, tier="self_pretrained"),
    "self-pretraining-predictions": partial(self_pretraining.verdicts_table, tier="self_pretrained"),
    "self-pretraining-listops": partial(self_pretraining.gains_table, tier="self_pretrained_listops"),
    "self-pretraining-listops-predictions": partial(
        self_pretraining.verdicts_table, tier="self_pretrained_listops"
    ),
    "twins": partial(evidence, tier="1", twins=True),
    "articles": partial(evidence, tier="2", whole=True),
    "sst2": partial(evidence, tier="sst2", whole=True),
    "listops": partial(evidence, tier="listops", whole=True),
    "listops-guess": guess_by_operator,
    "listops-against-guess": networks_against_guess,
    "bytes": partial(evidence, tier="bytes", whole=True),
    "pretraining-predictions": pretraining_predictions.verdicts_table,
    "pretrained": partial(pretrained_table, wiki=False),
    "pretrained-wiki": partial(pretrained_table, wiki=True),
    "pretraining-steps": partial(published_steps, wiki=False),
    "pretraining-steps-wiki": partial(published_steps, wiki=True),
    "repeats": repeats_table,
    "claims": partial(claims, tier="1"),
    "all-claims": claim_table,
    "starts": partial(validation_curves, tier="1"),
    "query-keys": partial(query_keys, name="evidence/imdb"),
    "noise": partial(noise, name="evidence/imdb"),
    "images-fashion_mnist": partial(evidence, tier="fashion_mnist", whole=True),
    "images-cifar10": partial(evidence, tier="cifar10", whole=True),
    "images-shapes": partial(evidence, tier="shapes", whole=True),
    "recall": partial(evidence, tier="recall", whole=True),
    "stability": stability,
    "skills": skills_table,
    "skills-recall": recall_table,
    "skills-recall-equal": equal_table,
    "skills-hybrids": hybrids_table,
    "skills-higher": higher_table,
    "skills-higher-seeds": higher_seeds_table,
    "skills-recall-pairs": pairs_table,
    "skill-predictions": verdicts_table,
    "lm-predictions": equal_verdicts,
    "lm-causal": partial(equal_sizes, kind="causal"),
    "lm-masked": partial(equal_sizes, kind="masked"),
    "images-pixels": partial(evidence, tier="pixels", whole=True),
    "configurations": once,
    "padding": partial(padding, name="studies/padding-imdb"),
    **{name: partial(speed_table, files=files) for name, files in SPEED.items()},
    "speed-loop": lambda r: values(r, "benchmarks/loop-cpu", "benchmarks/startup-cpu"),
    "speed-allocator": partial(kept, name="benchmarks/allocator-cpu"),
    "speed-fixed-parts": fixed_parts,
    "speed-generate": generation,
    "growth": partial(growth, name="benchmarks/growth-cpu"),
    "targets": targets,
    "targets-long": partial(targets, name="benchmarks/targets-long"),
    "aot-mixers": compiled_mixers,
    "aot-lengths": compiled_lengths,
    "aot-shared": compiled_shared,
    "aot-training": compiled_training,
    "aot-methods": compiled_methods,
    **GPU_TABLES,
    "parameters-engine": partial(parameters, group=""),
    **{f"parameters-{group}": partial(parameters, group=group) for group in GROUPS},
    "engine-kinds": kinds,
    "engine-presets": presets,
    "plans": partial(plan_table, name="studies/plans-chip"),
    "programs": partial(programs_table, name="studies/programs"),
    "bounds": partial(bounds_table, name="studies/bounds"),
    "predictions": partial(predictions_table, name="studies/predictions"),
    "recall-engines": recall_on_engines,
    "robustness": partial(robustness, name="studies/robustness-imdb"),
    "speedup": partial(speedup, name="studies/speedup-fnet"),
    "frames": partial(frames, name="studies/speedup-fnet"),
    "components": parts,
    "field-units": partial(units, name="studies/budget"),
    "field-published": partial(published, name="studies/budget"),
    "field-link": partial(link, name="studies/budget", engine="chip_11x11"),
    "field-stages": partial(stages, name="studies/budget", engine="chip_11x11"),
    "pareto-fnet": partial(over_joules, name="studies/pareto-fnet"),
    "pareto-circular": partial(over_joules, name="studies/pareto-circular"),
    "calibration": partial(calibration_table, name="studies/calibrate"),
    "calibration-reviews": partial(tuning_table, name="studies/calibrate-reviews"),
    "laboratory": partial(laboratory_table, name="studies/laboratory"),
    "drift": partial(over_ages, name="studies/drift-reviews"),
    "photons": partial(over_photons, name="studies/photons-reviews"),
    "attended": partial(attention_table, name="studies/attended"),
    "matrices": partial(matrix_table, name="studies/matrices"),
    "properties": partial(property_table, name="studies/matrices"),
}

REPORTS = {  # reports with all seeds, by table
    **dict.fromkeys(("evidence", "twins", "starts", "claims"), "results/evidence/imdb/report.md"),
    **dict.fromkeys(("articles", "bytes", "self-pretraining"), "results/evidence/imdb/report.md"),
    **dict.fromkeys(("lm-causal", "lm-masked"), "results/evidence/lm_equal/report.md"),
    **{name: f"results/evidence/{name}/report.md" for name in ("sst2", "listops", "recall", "skills")},
    **{
        f"images-{name}": f"results/evidence/{name}/report.md"
        for name in ("fashion_mnist", "cifar10", "shapes", "pixels")
    },
}
LISTS: dict[str, Callable[[Mapping[str, Callable[[Results], str]], Results], str]] = {
    "provenance": layout.provenance,
    "open-questions": lambda _, results: open_questions(results),
    "open-configurations": lambda _, results: open_configurations(results),
}


def fill(text: str, results: Results, where: str) -> tuple[str, list[str]]:
    """Fills the blocks of a page.

    Args:
      text: the page.
      results: the files of results.
      where: path of the page from the root, for links and error messages.
    Returns: the filled page, and the names of the blocks that changed.
    Raises: ValueError for a block that is not closed, an unknown name, or a missing file of results.
    """
    if len(OPENING.findall(text)) != len(BLOCK.findall(text)):
        raise ValueError(
            f"{where} has a table that is not closed; write <!-- table: NAME --> and <!-- /table --> "
            "on separate lines"
        )
    changed = []

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        check_choice(f"{where}: table", name, (*TABLES, *LISTS))
        body = make(name, results, where)
        if body != match["body"]:
            changed.append(name)
        return f"<!-- table: {name} -->\n{body}<!-- /table -->"

    def number(match: re.Match[str]) -> str:
        name = match["name"]
        check_choice(f"{where}: value", name, VALUES)
        body = VALUES[name](results)
        if body != match["body"]:
            changed.append(name)
        return f"<!-- value: {name} -->{body}<!-- /value -->"

    if re.search("^<!-- value: ", text, re.MULTILINE):
        raise ValueError(f"{where} has a value that begins a line; put a word before it")
    if text.count("<!-- value: ") != len(VALUE.findall(text)):
        raise ValueError(f"{where} has a value that is not closed; write <!-- value: NAME --><!-- /value -->")
    return VALUE.sub(number, BLOCK.sub(replace, text)), changed


def make(name: str, results: Results, where: str) -> str:
    """Returns the body of a block.

    Args:
      name: key of `TABLES` or `LISTS`.
      results: the files of results.
      where: path of the page from the root.
    """
    if name in LISTS:
        return LISTS[name](TABLES, results)
    return layout.arrange(name, TABLES[name](results), where, REPORTS.get(name))


def define_flags() -> None:
    flags.DEFINE_bool("check", False, "write nothing, and fail if a block differs from the results")
    flags.DEFINE_string("root", ".", "directory with README.md, docs, configs and results")


def main() -> None:
    root = paths.given(flags.FLAGS.root)
    pages = [path for glob in PAGES for path in sorted(root.glob(glob))]
    if not pages:
        raise ValueError(f"--root={root} has neither README.md nor docs/*.md; name the root of the sources")
    results, filled = Results(root), []
    for path in pages:
        where = str(path.relative_to(root))
        text, changed = fill(path.read_text(), results, where)
        filled += [(path, where, text, changed)] if changed else []
    if flags.FLAGS.check:
        if filled:
            named = "; ".join(f"{where}: {', '.join(changed)}" for _, where, _, changed in filled)
            raise RuntimeError(f"these tables are not what results say: {named}; run without --check")
        return
    for path, where, text, changed in filled:
        atomic.write(path, text)
        print(f"{where}: {', '.join(changed)}")


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
