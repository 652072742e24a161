"""Lists the runs that are missing: those of open questions, and configurations that were not run.

Runs of open questions are unfinished cells of the suite, and options of networks that were not tried.

A configuration was run to its end if a run of its file, without other options, is in results/. A cell of the
suite counts if it has as many epochs as the file says.
The expected core-hours are estimates. They start from the core-hours of a comparable model of the suite, and
grow in proportion to the work, the product of examples, epochs, tokens, blocks and features.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from evidence.pages.markdown import Results, table
from evidence.pages.run_tables import options_of, rows_of
from evidence.report.write import STARTED
from evidence.suite import cells, train
from evidence.suite.ledger import Ledger, least_core_hours
from fourier_attn.config import Config
from fourier_attn.data.sources import pathfinder, reviews

# Models of the suite that configurations without a cell are comparable with, by file or by file and task.
COMPARABLE = {
    "attention": ("2", "attention"),
    "circular": ("2", "circular-1d"),
    "lambda": ("2", "lambda"),
    "mixer": ("2", "fnet"),
    "mixer-mnist": ("fashion_mnist", "global_filter"),
    "mixer-pathfinder_patches": ("cifar10", "global_filter"),
    "attention-pathfinder": ("pixels", "attention"),
    "fnet_vit": ("fashion_mnist", "fourier"),
    "fnet_vit-cifar10": ("cifar10", "fourier"),
    "lambda_vit": ("fashion_mnist", "lambda-3"),
    "vit": ("fashion_mnist", "attention"),
    "optical_circular": ("1", "circular-3x3-engine"),
    "optical_circular11": ("1", "lambda-engine"),
    "optical_fnet": ("1", "fnet-engine"),
    "optical_lambda": ("1", "lambda-engine"),
}
# Training examples of tasks, without those that are held out for validation.
EXAMPLES = {
    "reviews": reviews.SPLITS["train"],
    "imdb": 20_000,
    "fashion_mnist": 54_000,
    "mnist": 54_000,
    "cifar10": 36_000,
    "pathfinder": pathfinder.SPLITS["train"],
    "pathfinder_patches": pathfinder.SPLITS["train"],
}
IMDB_TOKENS = 260  # mean length of a batch in buckets, with texts cut after 512 tokens
IMAGES = ("fashion_mnist", "cifar10", "mnist")
PATHFINDER = ("configs/attention.py:pathfinder", "configs/mixer.py:global_filter-pathfinder_patches")
# Arguments of files that neither train on the synthetic reviews by default nor list their MODELS.
ARGUMENTS = {
    "fnet_vit": [f"{task}-{variant}" for task in IMAGES for variant in ("all", "space", "hybrid")],
    "lambda_vit": [f"{task}-{context}" for task in IMAGES for context in (3, 7)],
    "vit": [*IMAGES],
    "finetune": ["rte", "mrpc", "stsb", "cola", "sst2"],
    "pretrain": ["fnet-mini"],
    "lm": ["attention-wikitext2"],
    "mlm": ["fourier-wikitext2"],
    "optical_insitu": ["reviews", "imdb"],
    "skills": ["conv_attention-recall"],
}
FILES = ("studies/imdb", "benchmarks/reviews-cpu", "studies/configurations")
# Runs of this file are the fine-tuned networks of three studies in results/studies.
IN_STUDIES = {"configs/optical_insitu.py:reviews", "configs/optical_insitu.py:imdb"}
REHEARSAL = "toy"
SEVERAL = 8  # models of a tier that are still named one by one
TITLES = {
    "1": "Small networks on IMDb",
    "2": "The articles' own network on IMDb",
    "settings": "Trials on IMDb",
    "listing": "The articles' own recipe",
    "self_pretrained": "Self-pretraining on IMDb",
    "sst2": "SST-2",
    "stability": "Learning rates of pre-training",
    "pretrain": "Pre-training",
    "glue": "Fine-tuning on GLUE",
    "bytes": "Long texts as bytes",
    "listops": "ListOps, further seeds",
    "self_pretrained_listops": "Self-pretraining on ListOps",
    "shapes": "Synthetic shapes",
    "pixels": "CIFAR-10 as pixels",
    "lm_rates": "Language models of equal size: learning rates",
    "lm_equal": "Language models of equal size",
    "recall": "Recall at Zoology's smallest size",
    "skill_rates": "Skills: learning rates",
    "hybrid_rates": "Hybrids on skills: learning rates",
    "skills": "Skills: seeds at the best rates",
    "hybrids": "Hybrids on skills: seeds at the best rates",
    "higher_rates": "Skills: a higher learning rate",
    "higher": "Skills: seeds at a higher learning rate",
    "recall_equal": "Recall at equal FLOPs and equal parameters",
    "recall_pairs": "Recall of fewer and more pairs",
}


class Question(NamedTuple):
    """Holds a row of the list: what is open, the missing runs, and their expected core-hours together."""

    title: str
    runs: list[str]
    core_hours: float


def open_questions(results: Results) -> str:
    """Tabulates the missing runs of all open questions with their expected core-hours."""
    return questions_table("Question", of_suite(results))


def open_configurations(results: Results) -> str:
    """Tabulates the configurations that were not run to their end with their expected core-hours."""
    return questions_table("Configurations", of_configurations(results))


def questions_table(head: str, questions: list[Question]) -> str:
    """Tabulates questions.

    Args:
      head: heading of the first column.
      questions: the questions, one for each row.
    """
    lines = [[q.title, "; ".join(q.runs), cost_cell(q.core_hours)] for q in questions]
    return table([head, "Missing runs", "Core-hours, estimated"], lines)


def open_hours(questions: Callable[[Results], list[Question]], results: Results) -> str:
    """Returns the expected core-hours of the missing runs of all questions together.

    Args:
      questions: `of_suite` or `of_configurations`.
      results: the files of results and the configurations.
    """
    return cost_cell(sum(question.core_hours for question in questions(results)))


@lru_cache(maxsize=1)
def of_suite(results: Results) -> list[Question]:
    """Returns all questions that missing runs of the suite leave open; the last list is kept."""
    ledger = finished_cells(results)
    return [*of_tiers(ledger), *of_pathfinder(results, ledger), *of_treatments(ledger)]


def of_tiers(ledger: Ledger) -> Iterator[Question]:
    """Yields a question for each tier with unfinished cells, or with cells of an earlier initial value."""
    for tier in cells.MODELS:
        every = cells.cells(tier)
        left = [cell for cell in every if cell.name not in ledger.findings]
        if tier == REHEARSAL or not left:
            continue
        hours = train.pace(every, ledger) * sum(cell.core_hours for cell in left)
        counts = Counter(cell.model for cell in left)
        named = [f"`{model}` ({count})" for model, count in counts.items()]
        runs = named if len(named) <= SEVERAL else [f"{len(left)} of {len(every)} cells of tier `{tier}`"]
        yield Question(TITLES.get(tier, tier), runs, hours)


@lru_cache(maxsize=1)
def of_configurations(results: Results) -> list[Question]:
    """Returns a row for each kind of configurations that were not run; the last list is kept."""
    ledger = finished_cells(results)
    suite = {cell.config for cell in cells.EVERY.values() if at_its_end(cell)}
    groups: dict[str, list[str]] = {}
    for config in not_run(results, ledger):
        if config not in suite and config not in PATHFINDER:
            groups.setdefault(kind(config), []).append(config)
    return [of_configs(title, configs, ledger) for title, configs in groups.items()]


def of_pathfinder(results: Results, ledger: Ledger) -> Iterator[Question]:
    """Yields the question on configurations of Pathfinder that were not run, if there are any."""
    left = [config for config in PATHFINDER if config in not_run(results, ledger)]
    if left:
        yield of_configs("Pathfinder", left, ledger)


def of_configs(title: str, configs: Sequence[str], ledger: Ledger) -> Question:
    """Returns the question that missing runs of configurations leave open.

    Args:
      title: its title.
      configs: the configurations.
      ledger: the finished cells.
    """
    costs = {config: core_hours(config, ledger) for config in configs}
    return Question(title, grouped(costs), sum(costs.values()))


def grouped(costs: Mapping[str, float]) -> list[str]:
    """Returns the arguments of configurations, together where file and cost are equal.

    Args:
      costs: core-hours of each configuration.
    """
    together: dict[tuple[str, str], list[str]] = {}
    for config, hours in costs.items():
        file, _, argument = config.removeprefix("configs/").partition(":")
        together.setdefault((file, cost_cell(hours)), []).append(argument or "reviews")
    return [
        f"`{file}`: {', '.join(arguments)} ({cost}{' each' if len(arguments) > 1 else ''})"
        for (file, cost), arguments in together.items()
    ]


def of_treatments(ledger: Ledger) -> Iterator[Question]:
    """Yields questions on options of networks that were run otherwise."""
    for mixer, (since, _) in STARTED.items():
        old = [f for f in ledger.findings.values() if f["mixer"] == mixer and f["date"] < since]
        spent = sum(finding["cpu_seconds"] for finding in old) / 3600
        counts = Counter(finding["tier"] for finding in old)
        runs = [f"`{tier}` ({count})" for tier, count in counts.items()]
        if runs:
            yield Question(f"`{mixer}` with its present initial value", runs, spent)


def kind(config: str) -> str:
    """Returns the title of the row that a configuration belongs to."""
    task, epochs = read(config).data.task, read(config).train.epochs
    if task == "reviews":
        return "Synthetic reviews"
    if task == "imdb":
        return f"IMDb, {'recipe of the articles' if epochs == 20 else 'own recipe'}"
    return {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}.get(task, "Language")


def core_hours(config: str, ledger: Ledger) -> float:
    """Returns the expected core-hours of one run of a configuration.

    Args:
      config: the file and its argument, such as "configs/attention.py:imdb".
      ledger: the finished cells.
    """
    tier, model = comparable(config)
    every = cells.cells(tier)
    known = least_core_hours(ledger.grouped(tier).get(model, []))
    cell = next(cell for cell in every if cell.model == model)
    hours = train.pace(every, ledger) * cell.core_hours if known is None else known
    ours, theirs = read(config), cell.read()
    return hours * work(ours, theirs) / work(theirs, ours)


def comparable(config: str) -> tuple[str, str]:
    """Returns tier and model that a configuration is comparable with, its own if it has cells."""
    for cell in cells.EVERY.values():
        if cell.config == config and cell.tier != REHEARSAL:
            return cell.tier, cell.model
    file = Path(config.partition(":")[0]).stem
    return COMPARABLE.get(f"{file}-{read(config).data.task}") or COMPARABLE[file]


def work(config: Config, other: Config) -> float:
    """Returns the work of a training run, in proportion to which core-hours grow.

    Args:
      config: the configuration.
      other: the one that it is compared with. The work grows with the heads of circular attention if both
        have it.
    """
    data, network = config.data, config.model
    examples = data.train_examples or EXAMPLES.get(data.task, 1)
    tokens = min(data.length, IMDB_TOKENS) if data.task == "imdb" else data.length
    circular = config.model.mixer.name == other.model.mixer.name == "circular"
    heads = network.mixer.heads if circular else 1
    return examples * config.train.epochs * tokens * network.depth * network.d * heads


def read(config: str) -> Config:
    """Reads a configuration as the file has it today."""
    return cells.Cell("", "", config, 0, 0, 0.0).read()


@cache
def epochs_of(config: str) -> int:
    """Returns for how many epochs a configuration trains."""
    return read(config).train.epochs


@lru_cache(maxsize=1)
def finished_cells(results: Results) -> Ledger:
    """Reads the files of all finished cells; the last result is kept, and the caller must not change it."""
    return Ledger(results.root / "results" / "evidence", by_task=True)


def not_run(results: Results, ledger: Ledger) -> list[str]:
    """Returns the shipped configurations of which no run to the end is in results."""
    ran = finished(results, ledger)
    return [config for config in shipped(results) if config not in ran]


def shipped(results: Results) -> list[str]:
    """Returns all configurations, with every argument that selects another network or task."""
    names = [
        *results.configs("reviews"),
        *results.configs("imdb"),
        *map("configs/mixer.py:{}-mnist".format, results.mixers()),
        *PATHFINDER,
    ]
    for stem, arguments in ARGUMENTS.items():
        names += [f"configs/{stem}.py:{argument}" for argument in arguments]
    for stem, models in results.models().items():
        names += [f"configs/{stem}.py:{model}" for model in models]
    return list(dict.fromkeys([*names, *(cell.config for cell in cells.cells("listing"))]))


def finished(results: Results, ledger: Ledger) -> set[str]:
    """Returns the configurations of which a run to the end is in results."""
    rows = [row for name in FILES for row in rows_of(results.runs(name)) if not options_of(row)]
    ran = {name for row in rows if (name := results.complete(row["config"]))}
    ended = (cells.EVERY[name] for name in ledger.findings)
    return ran | IN_STUDIES | {cell.config for cell in ended if at_its_end(cell)}


def at_its_end(cell: cells.Cell) -> bool:
    """Returns whether a cell trains for as many epochs as its file says."""
    epochs = dict(cell.knobs).get("train.epochs")
    return cell.tier != REHEARSAL and epochs in (None, str(epochs_of(cell.config)))


def cost_cell(hours: float) -> str:
    """Formats core-hours with two significant digits.

    >>> cost_cell(0.0004), cost_cell(0.123), cost_cell(617.3)
    ('0.01', '0.12', '620')
    """
    return f"{float(f'{max(hours, 0.01):.2g}'):,g}"
