"""Runs whose table has moved, is missing, or is another one."""

import contextlib
import csv
from pathlib import Path

from conftest import OWN_TABLE, run_here

from fourier_attn import config, main
from fourier_attn.train.rundir import config_file, program_cache
from fourier_attn.train.rundir.metrics_log import read_lines


def table(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [("text", "label"), *((f"a text {i % 7}", "xy"[i % 2]) for i in range(60))]
        )
    return path


def test_a_finished_run_reads_no_other_table_and_is_extended_with_a_moved_one(
    tmp_path: Path,
) -> None:
    file, run = table(tmp_path / "a.csv"), tmp_path / "run"

    def said(*words: str) -> tuple[int, str, str]:
        return run_here(main, f"--workdir={run}", *words)

    assert said(*OWN_TABLE, f"--config.data.train={file}")[0] == 0
    moved = file.rename(table(tmp_path / "b" / "a.csv"))
    for words in ((*OWN_TABLE, f"--config.data.train={moved}"), (f"--config.data.train={moved}",)):
        code, out, _ = said(*words)
        assert (code, "is finished" in out) == (0, True)
        assert f"note        data.train={moved} was not read, because the run is finished" in out
    assert "was not read" not in said()[1]
    with contextlib.chdir(tmp_path):  # earlier versions wrote relative paths
        written = (run / "config.json").read_text()
        (run / "config.json").write_text(written.replace(str(file), file.name))
        assert config_file.moved_tables(run, config.with_absolute_paths(config_file.load(run))) == ""
        (run / "config.json").write_text(written)
    code, _, err = said("--extend=1")
    assert (code, f"{file} does not exist" in err) == (2, True)
    code, _, err = said("--extend=1", f"--config.data.train={moved}", "--config.data.batch=7")
    assert (code, "data.batch is" in err) == (2, True)
    assert config_file.load(run).train.epochs == 1
    code, _, err = said("--extend=1", f"--config.data.train={moved}", "--config.train.remat=block")
    assert (code, err) == (0, "")
    assert round(read_lines(run)[-1]["epoch"]) == 2


def test_a_wrong_path_of_a_table_leaves_nothing_behind(tmp_path: Path) -> None:
    wrong, run = tmp_path / "empty", tmp_path / "run"
    wrong.mkdir()
    nope = str(wrong / "nope.csv")
    for words, message in (
        ((f"--config.data.train={nope}",), f"{nope} does not exist"),
        ((), "data.task='files' needs --config.data.train=FILE.csv"),
    ):
        code, _, err = run_here(main, *OWN_TABLE, f"--workdir={run}", *words)
        assert (code, message in err) == (2, True), err
    settings = config.default("fourier", "files").data
    for name in ("", nope):
        settings.train = name
        assert program_cache.folder(settings) is None
    assert [*tmp_path.iterdir()] == [wrong]
    assert not [*wrong.iterdir()]
    settings.train = str(wrong)  # a table may be a folder of several files
    assert program_cache.folder(settings) is not None
