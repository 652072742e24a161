"""Trains networks that differ only in their mixer, with several seeds, each once.

    python -m evidence.suite.train --tier=1 --list
    python -m evidence.suite.train --tier=1 --budget_hours=2
    python -m evidence.suite.train --tier=shapes,fashion_mnist,cifar10,pixels --data_dir=DIR
    python -m evidence.report.write --results=results/evidence/imdb

A cell is a model of a tier with a seed. Its run has its own directory in --runs, in which it is resumed after
an interruption. When it is finished, a file is written to RESULTS/TASK/cells. Cells that have their file are
not trained again, on whatever machine it was written.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from absl import flags

from evidence.suite import cells as suite
from evidence.suite import start_weights
from evidence.suite.cells import Cell
from evidence.suite.ledger import Finding, Ledger, core_hours, finished_cell, score, scored
from fourier_attn import command, data, paths
from fourier_attn.data.corpus import check_corpora, dataset_of
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.tfds import prepared
from fourier_attn.data.tfds_splits import check_split
from fourier_attn.train.rundir import config_file
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.summary import finished
from launch import cluster, sweep
from launch.devices import shares
from launch.program import TRAINING, Program


def define_flags() -> None:
    cluster.define_flags()
    flags.adopt_module_key_flags(cluster)
    flags.DEFINE_list("tier", ["1"], f"tiers to train, in this order: {', '.join(suite.MODELS)}")
    flags.DEFINE_list("only", [], "names of the models to train; default: all models of the tier")
    flags.DEFINE_float(
        "budget_hours", None, "limit in core-hours; cells that are expected to exceed it are not started"
    )
    flags.DEFINE_string(
        "results", "results/evidence", "directory of the results, with a folder for each task"
    )
    flags.DEFINE_string("runs", "runs/evidence", "directory of the runs")
    flags.DEFINE_string("data_dir", None, "directory of the TFDS data sets")
    flags.DEFINE_bool(
        "list", False, "list finished and unfinished cells with their expected cost, without training"
    )
    flags.DEFINE_enum(
        "executor", "local", ["local", "slurm"], "run on this machine, or submit one SLURM job per cell"
    )
    flags.DEFINE_integer(
        "jobs",
        None,
        "number of cells at the same time; default: 1 on this machine, all on SLURM",
        lower_bound=1,
    )


class CellRun(sweep.Run):
    """Runs a cell and saves its results when it is finished.

    Args:
      cell: the cell.
      runs: directory of the runs.
      ledger: the finished cells, to which the results are added.
      words: additional options of the training command.
      start: digest of its initial weights; "" for none.
    """

    def __init__(self, cell: Cell, runs: Path, ledger: Ledger, words: Sequence[str], start: str = ""):
        directory = runs / cell.name
        source = (f"--config.init_from={runs / cell.start}",) if cell.start else ()
        line = (sys.executable, "-m", TRAINING, *cell.words, *source, *words, f"--workdir={directory}")
        super().__init__(Program(line, directory))
        self.cell, self.ledger, self.start = cell, ledger, start

    def announce(self) -> None:
        if not self.code:
            try:
                self.collect()
            except ValueError as error:
                self.code, self.error = 2, str(error)
        if self.code:
            print(f"{self.cell.name}: exit code {self.code}: {self.error}", flush=True)

    def collect(self) -> None:
        """Writes the results of the finished run to its cell's file."""
        finding = finished_cell(self.cell, self.program.workdir)
        path = self.ledger.write(finding)
        print(f"{self.cell.name}: {in_words(finding)}, {path}", flush=True)


def main() -> int:
    """Trains the cells of tiers that are not done; returns the exit code."""
    options = flags.FLAGS
    chosen = suite.cells(*options.tier, only=options.only)
    ledger, runs = Ledger(paths.given(options.results), by_task=True), paths.given(options.runs)
    scale = pace(chosen, ledger)
    if options.list:
        print("\n".join(listed(chosen, ledger, runs, scale)))
        return 0
    check_knobs(chosen, ledger)
    left = [cell for cell in chosen if cell.name not in ledger.findings]
    check_budget(left, scale, options.budget_hours)
    check_data(left, options.data_dir)
    digests = check_starts(left, runs, ledger)
    for line in ledger.put_aside():
        print(f"aside       {line}", flush=True)
    words = [f"--config.data.dir={options.data_dir}"] if options.data_dir else []
    cell_runs = [CellRun(cell, runs, ledger, words, digests.get(cell.start, "")) for cell in left]
    waiting = affordable([run for run in cell_runs if not collected(run)], scale, options.budget_hours)
    if options.executor == "slurm":
        cluster.check()
        received = sweep.run_on_slurm(list(waiting), cluster.parameters(), options.jobs)
    else:
        received = sweep.run_here(waiting, shares(options.jobs or 1))
    print("\n".join(listed(chosen, ledger, runs, pace(chosen, ledger))))
    if received:
        return 128 + received
    return int(any(run.code for run in cell_runs))


def check_knobs(cells: Sequence[Cell], ledger: Ledger) -> None:
    """Checks that finished cells have the current configuration. Raises: ValueError."""
    unlike = ledger.unlike()
    for cell in cells:
        if cell.name in unlike:
            raise ValueError(
                f"{ledger.path(cell.name)} was trained with other options ({unlike[cell.name]}); restore the "
                "configuration, or move the file and its run away"
            )


def check_data(cells: Sequence[Cell], data_dir: str | None) -> None:
    """Checks that the data of cells exist, or downloads them. Raises: ValueError."""
    for row in {cell.task: data.TASKS[cell.task] for cell in cells}.values():
        if row.dataset:
            prepared(row.dataset, data_dir, row.builder)
    for cell in cells:
        if not data.TASKS[cell.task].dataset and not data.TASKS[cell.task].skill:  # several corpora
            check_texts(cell.read().data, data_dir)


def check_texts(part: DataConfig, data_dir: str | None) -> None:
    """Checks that the data sets of pre-training, and those excluded from it, exist.

    Args:
      part: the `data` part of a configuration, which names TFDS data sets alone.
    Raises: ValueError.
    """
    check_corpora(part)
    for entry in (*part.corpora, *part.exclude):
        builder, split = dataset_of(entry, data_dir)
        check_split(builder, split or "train", ("text",), "texts")


def check_starts(cells: Sequence[Cell], runs: Path, ledger: Ledger) -> dict[str, str]:
    """Returns digests of the initial weights of cells, by the names of the cells that train them.

    Args:
      cells: the cells to train.
      runs: directory of the runs.
      ledger: the finished cells.
    Raises: ValueError if weights are missing, or the run of a cell started from other weights.
    """
    needed = sorted({cell.start for cell in cells if cell.start})
    for start in needed:
        check_start(runs / start, ledger)
    digests = {start: start_weights.digest(runs / start) for start in needed}
    for cell in cells:
        if cell.start:
            start_weights.check(runs / cell.name, digests[cell.start])
    return digests


def check_start(directory: Path, ledger: Ledger) -> None:
    """Checks that a run is finished that provides initial weights. Raises: ValueError."""
    if (directory / "config.json").exists() and finished(directory) is not None:
        return
    tier = directory.name.partition("-")[0]
    if directory.name in ledger.findings:  # so that its tier would not train it
        raise ValueError(
            f"{ledger.path(directory.name)} says that these weights are trained, but they are not in "
            f"{directory}; copy the directory of that run there, or move the file away so that "
            f"--tier={tier} trains it again"
        )
    raise ValueError(
        f"{directory} is not finished, and these cells start from its weights; run --tier={tier} first, "
        "with the same --runs"
    )


def collected(run: CellRun) -> bool:
    """Collects the results of a cell's run if it is finished; returns whether it is."""
    if not (run.program.workdir / "config.json").exists() or finished(run.program.workdir) is None:
        return False
    run.collect()
    return True


def pace(cells: Sequence[Cell], ledger: Ledger) -> float:
    """Returns the ratio of finished cells' core-hours to the expected ones; 1 if none is finished."""
    known = [(core_hours(ledger.findings[c.name]), c) for c in cells if c.name in ledger.findings]
    taken = [(hours, cell.core_hours) for hours, cell in known if hours]
    return sum(hours for hours, _ in taken) / sum(expected for _, expected in taken) if taken else 1.0


def check_budget(left: Sequence[Cell], scale: float, budget: float | None) -> None:
    """Checks that the budget is a number and enough for one cell.

    Args:
      left: the cells to train.
      scale: measured over expected core-hours.
      budget: core-hours; None for no limit.
    Raises: ValueError.
    """
    if budget is None:
        return
    if math.isnan(budget):  # nothing would exceed it
        raise ValueError("budget_hours=nan is not a number of hours; pass a number, or omit it for no limit")
    if not left:
        return
    cheapest = min(left, key=lambda cell: cell.core_hours)
    needed = scale * cheapest.core_hours
    if needed > budget:
        raise ValueError(
            f"budget_hours={budget:g} is less than the cheapest cell left needs: {cheapest.name}, some "
            f"{math.ceil(100 * needed) / 100:.2f} core-hours; pass at least that"
        )


def affordable(runs: Sequence[CellRun], scale: float, budget: float | None) -> Iterator[CellRun]:
    """Yields the runs that are expected to fit into the budget, one after the other.

    Cells that another process has finished in the meantime are skipped.

    Args:
      runs: the runs in order.
      scale: measured over expected core-hours.
      budget: core-hours; None for no limit.
    """
    spent = 0.0
    for run in runs:
        if run.ledger.path(run.cell.name).exists():
            continue
        cost = scale * run.cell.core_hours
        if budget is not None and spent + cost > budget:
            continue
        spent += cost
        print(f"cell        {run.cell}", flush=True)
        if run.start:
            start_weights.note(run.program.workdir, run.start)
        yield run


def listed(cells: Sequence[Cell], ledger: Ledger, runs: Path, scale: float) -> Iterator[str]:
    """Yields a line for each cell with its spent or expected core-hours, and the sums.

    Args:
      cells: the selected cells.
      ledger: the finished cells.
      runs: directory of the runs.
      scale: measured over expected core-hours.
    """
    spent = left = 0.0
    for cell in cells:
        finding = ledger.findings.get(cell.name)
        if finding:
            hours = core_hours(finding)  # None if they are unknown
            spent += hours or 0.0
            taken = "     ?" if hours is None else f"{hours:6.2f}"
            yield f"done     {taken} core-h   {cell.name:<36}{in_words(finding)}"
        else:
            hours = scale * cell.core_hours
            left += hours
            yield f"{state(runs / cell.name):<9}{hours:6.2f} core-h   {cell.name}"
    for path, why in ledger.aside.items():
        yield f"aside    {path} {why}"
    for name, what in ledger.unlike().items():
        yield f"unlike   {ledger.path(name)} was trained with other options: {what}"
    done = sum(cell.name in ledger.findings for cell in cells)
    yield (
        f"{done} of {len(cells)} cells done in {spent:.1f} core-hours; the others take some {left:.1f}, "
        f"at {scale:.2f} times the estimates"
    )


def in_words(finding: Finding) -> str:
    """Returns the score of a cell in words."""
    value = score(finding)
    return f"{scored(finding)} {'failed' if math.isnan(value) else f'{value:.4f}'}"


def state(directory: Path) -> str:
    """Returns the state of a cell without a file: "left", or the share of its steps in percent."""
    if not (directory / "config.json").exists():
        return "left"
    steps = max((line["step"] for line in read_lines(directory)), default=0)
    return f"{100 * steps / config_file.load(directory).optim.steps:.0f} %"


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
