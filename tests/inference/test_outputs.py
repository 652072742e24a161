"""Outputs of commands: they do not replace the files of a run, nor its tables."""

import errno
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from conftest import OWN_TABLE, run_here

from fourier_attn import main, paths
from fourier_attn.data import own_files
from fourier_attn.data.sources import glue
from fourier_attn.inference import export, stream
from fourier_attn.studies import compare


@pytest.fixture
def run(toy_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(toy_run, tmp_path / "run")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_names_of_a_runs_files_are_known(toy_run: Path) -> None:
    names = {path.name.partition(".")[0] for path in toy_run.iterdir() if path.is_file()}
    assert names - {""} == {*paths.RUN_FILES} - {"wandb"}
    files = [file for task in glue.GLUE.values() for file in task.submissions]
    assert {re.split("[.-]", file)[0] for file in files} == {*paths.SUBMISSIONS}
    paths.check_output(toy_run / "mine.tsv", "--output")


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "metrics.jsonl", "predictions.jsonl", "curves.png", "CoLA.tsv"]
)
def test_an_output_does_not_replace_a_file_of_a_run(run: Path, name: str) -> None:
    source = run.parent / "in.txt"
    source.write_text("a fine film\n")
    before = contents(run)
    options = ("--mode=predict", f"--workdir={run}", f"--input={source}", f"--output={run / name}")
    code, out, err = run_here(main, *options)
    assert (code, out, err) == (
        2,
        "",
        f"error: --output={run / name} would overwrite a file of the run in {run}; choose another name\n",
    )
    (run.parent / "link.jsonl").symlink_to(run / name)
    code, _, err = run_here(main, *options[:3], f"--output={run.parent / 'link.jsonl'}")
    assert (code, "would overwrite a file of the run" in err) == (2, True)
    (run.parent / "link.jsonl").unlink()
    assert contents(run) == before


def test_a_report_or_a_picture_does_not_replace_those_of_a_run(run: Path) -> None:
    source = run.parent / "in.csv"
    source.write_text("text,label\na fine film,positive\n")
    before = contents(run)
    own, of_a_run = f"--output={run} is the directory of a run", "would overwrite a file of the run"
    for options, said in (
        ((f"--input={source}", "--mode=eval", f"--output={run}"), own),
        (("--mode=eval", f"--output={run}"), own),
        (("--mode=explain", "--text=fine", f"--output={run / 'report'}"), of_a_run),
    ):
        code, _, err = run_here(main, f"--workdir={run}", *options)
        assert (code, said in err) == (2, True), err
    code, _, err = run_here(compare, str(run), f"--out={run / 'metrics'}", arguments=True)
    assert (code, "would overwrite a file of the run" in err) == (2, True)
    assert contents(run) == before


def test_an_output_does_not_change_the_data_of_a_run(tmp_path: Path) -> None:
    run, source = tmp_path / "run", tmp_path / "in.txt"
    rows = "".join(f'{{"text": "{i} is fine", "label": "{"xy"[i % 2]}"}}\n' for i in range(40))
    (tmp_path / "a.jsonl").write_text(rows)
    words = (f"--config.data.train={tmp_path / 'a.jsonl'}", f"--workdir={run}")
    assert run_here(main, *OWN_TABLE, *words)[0] == 0
    source.write_text("a fine film\n")
    before = contents(tmp_path)
    ask = ("--mode=predict", f"--workdir={run}", f"--input={source}", f"--output={tmp_path / 'a.jsonl'}")
    said = (
        f"error: --output={tmp_path / 'a.jsonl'} is data.train of the run, or in its folder; choose another "
    )
    assert run_here(main, *ask) == (2, "", f"{said}place\n")
    assert contents(tmp_path) == before


def test_scores_and_pictures_do_not_change_the_data_of_a_run(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = run.parent / "in.txt", run.parent / "b.jsonl"
    source.write_text("a fine film\n")
    kinds = (".json", ".png")
    monkeypatch.setattr(own_files, "knob_of", lambda path, _: "test" if path.suffix in kinds else "")
    with pytest.raises(ValueError, match=r"b.jsonl \(its scores, b.metrics.json\) is data.test of the run"):
        stream.predict_file(run, str(source), str(target))
    words = ("--mode=explain", f"--workdir={run}", "--text=fine")
    code, _, err = run_here(main, *words, f"--output={run.parent / 'b'}")
    assert (code, f"output={run.parent / 'b.json'} is data.test of the run" in err) == (2, True)
    assert {path.name for path in run.parent.iterdir()} == {"in.txt", "run"}


def test_a_missing_directory_is_not_left_out_of_a_comparison(toy_run: Path, tmp_path: Path) -> None:
    code, out, err = run_here(compare, str(tmp_path / "nope"), str(toy_run), arguments=True)
    assert (code, out, err) == (
        2,
        "",
        f"error: {tmp_path / 'nope'} does not exist; name directories of runs\n",
    )


def test_a_folder_that_cannot_be_written_to_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> str:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "mkdtemp", refused)
    said = f"to={run.parent / 'new'} cannot be written (Read-only file system); give another folder"
    with pytest.raises(ValueError, match=re.escape(said)):
        export.export(run, run.parent / "new", "stablehlo")
