"""The rows of `--mode=compile` for shipped configurations."""

import shutil
import sys

import pytest

from benchmarks import targets


@pytest.mark.slow
def test_a_row_has_the_verdict_and_what_is_needed() -> None:
    [row] = targets.row("imdb_small:fnet", "cpu:2", alone=False)
    assert row["verdict"] == "fits"
    assert (row["mesh"], row["blocks"]) == ("data 2", 2)
    assert 0 < row["needed"] < row["memory"]
    # Each device has all parameters, and their gradients are summed.
    assert row["collectives"].keys() == {"all-reduce"}
    assert row["cpu_s"] > 1
    assert "seconds" not in row


@pytest.mark.slow
def test_a_configuration_that_is_refused_has_the_reason() -> None:
    [row] = targets.row("imdb_small:fnet", "cpu:0", alone=True)
    assert row["verdict"] == "refused"
    assert "--target=cpu:0 is invalid" in row["why"]
    assert row["seconds"] > 0


def test_a_crash_is_not_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(RuntimeError, match="--target=cpu:2 ended with exit code 1:"):
        targets.row("imdb_small:fnet", "cpu:2", alone=False)
