"""No run is lost: killed anywhere, it goes on and ends as the unbroken one, bit for bit."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, assert_same_run, shrink

from fourier_attn import config
from fourier_attn.inference import printed_answers
from fourier_attn.train.rundir.checkpoint import CheckpointId, checkpoint_ids
from fourier_attn.train.rundir.metrics_log import read_lines
from fourier_attn.train.summary import finished

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("standard_promotion")]

EARLIER = 8
SAVE_EVERY, EPOCH, STEPS = 4, 6, 12
# A part of the run, and the step from which on it is reached.
PLACES = [("train", 3), ("train", 4), ("validation", 6), ("train", 7), ("validation", 12), ("test", 12)]

Start = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def start(few_reviews: str) -> Iterator[Start]:
    """Starts a toy run, in a process of its own that may be told to kill itself, and waits for its end."""
    c = shrink(config.default(), few_reviews)
    c.model.dropout, c.train.epochs = 0.3, 2
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, str(ROOT / "tests" / "kill_server.py"), json.dumps(c.to_dict())]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as server:

        def ask(directory: Path, **order: Any) -> dict[str, Any]:
            print(json.dumps({"workdir": str(directory), **order}), file=server.stdin, flush=True)
            return json.loads(server.stdout.readline())

        yield ask
        server.stdin.close()


def said(directory: Path) -> str:
    """What the runs in a directory printed, one after another."""
    return Path(f"{directory}.out").read_text()


@pytest.fixture(scope="module")
def whole(start: Start, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """An unbroken run, and all that it did to files."""
    where = tmp_path_factory.mktemp("whole") / "run"
    found = start(where)
    assert found["code"] == 0, said(where)
    assert found["events"]
    return where, found["events"]


def places(events: list[str]) -> list[int]:
    """Each event from the last checkpoint on, and `EARLIER` of those before, evenly chosen."""
    last = events.index(f"os.mkdir /checkpoints/{STEPS}.orbax-checkpoint-tmp")
    assert len(events) - last > 15
    return [round(i * (last - 1) / (EARLIER - 1)) for i in range(EARLIER)] + [*range(last, len(events))]


def test_killed_at_any_file_event_a_run_ends_the_same(
    start: Start, whole: tuple[Path, list[str]], tmp_path: Path
) -> None:
    unbroken, events = whole
    lost = []
    for event in places(events):
        where = tmp_path / str(event)
        killed, again = start(where, event=event), start(where)
        try:
            assert (killed["code"], again["code"]) == (-signal.SIGKILL, 0), said(where)
            assert_same_run(unbroken, where)
            assert finished(where)
        except Exception as error:
            lost.append(f"{event}, {events[event]}: {error}")
    assert not lost, "\n".join(lost)


def test_killed_when_its_test_line_appears_a_run_is_finished(
    start: Start, whole: tuple[Path, list[str]], tmp_path: Path
) -> None:
    where = tmp_path / "run"
    assert start(where, line="test")["code"] == -signal.SIGKILL
    assert finished(where)
    assert start(where)["code"] == 0
    assert "is finished. test accuracy" in said(where)
    assert_same_run(whole[0], where)
    [(label, _)] = printed_answers.predict(where, "The film was not dull.")
    assert label in ("negative", "positive")


# Each place with itself and with the next two.
PAIRS = [(a, b) for i, a in enumerate(PLACES) for b in PLACES[i : i + 3]]


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=[f"{a}{i}-{b}{j}" for (a, i), (b, j) in PAIRS])
def test_two_preemptions_lose_little(
    first: tuple[str, int],
    second: tuple[str, int],
    start: Start,
    whole: tuple[Path, list[str]],
    tmp_path: Path,
) -> None:
    """A signal at the first place, which saves; resumed, and killed at the second; resumed again.

    Steps of a toy run are faster than a save: the one begun last may not be whole yet.
    """
    where = tmp_path / "run"
    assert start(where, place=first, signum=signal.SIGTERM)["code"] == 128 + signal.SIGTERM, said(where)
    validated = first[0] != "validation"
    regular = not validated or first[1] % SAVE_EVERY == 0 or first[1] % EPOCH == 0
    assert checkpoint_ids(where)[0] == CheckpointId(first[1], validated, regular)
    assert start(where, place=second, signum=signal.SIGKILL)["code"] == -signal.SIGKILL, said(where)
    assert checkpoint_ids(where)[0].step >= max(first[1], second[1] - 2 * SAVE_EVERY)
    assert start(where)["code"] == 0, said(where)
    assert_same_run(whole[0], where)


def test_the_lines_of_an_unbroken_run(whole: tuple[Path, list[str]]) -> None:
    """What all others are compared with is a whole run."""
    steps = [(line["split"], line["step"]) for line in read_lines(whole[0])]
    closes = [("train", EPOCH), ("validation", EPOCH), ("train", STEPS), ("validation", STEPS)]
    assert [entry for entry in steps if entry in closes] == closes
    assert steps[-1] == ("test", STEPS)
