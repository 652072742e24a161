"""Exit codes tell launchers whether to start again: 2 is for what was given, whatever a library raised."""

import errno
import io
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import jax
import numpy as np
import pytest
from absl.testing import flagsaver
from conftest import run_here
from ml_collections import ConfigDict

from fourier_attn import causes, command, train
from fourier_attn.train import loop
from fourier_attn.train.distributed import processes, signals
from fourier_attn.train.rundir import checkpoint
from fourier_attn.train.rundir.checkpoint import CheckpointId, Checkpoints, checkpoint_ids


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as found:
        return found


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("heads=3 must divide d=4"), 2),
        (ValueError("Error writing \"a/b\": [OS error 5: EIO Input/output error]"), 1),
        (raised(ValueError("t.csv cannot be read"), OSError(errno.EIO, "failed")), 1),
        (raised(ValueError("workdir=a cannot be made"), OSError(errno.EACCES, "denied")), 2),
        (raised(ValueError("too long"), MemoryError()), 1),
        (OSError(errno.EIO, "failed"), 1),
        (OSError(errno.ENAMETOOLONG, "File name too long"), 2),
        (ValueError("No space left on device"), 1),
        (raised(ValueError("workdir=a cannot be made"), OSError(errno.EROFS, "Read-only file system")), 2),
        *((ValueError(f"reading: {os.strerror(code)}"), 1) for code in (*causes.BUSY, *causes.PLACE)),
        (raised(ValueError("this one"), None), 2),
    ],
)  # fmt: skip
def test_a_failing_system_is_no_bad_argument(error: BaseException, code: int) -> None:
    assert command.exit_code(error) == code


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("UNKNOWN: Gloo all-reduce failed: Connection closed by peer [127.0.0.1]:10984", RuntimeError),
        ("INVALID_ARGUMENT: heads=3", ValueError),
        ("heads=UNKNOWN: is no number", ValueError),
    ],
)
def test_a_failed_computation_is_no_bad_argument(text: str, kind: type[Exception]) -> None:
    with pytest.raises((RuntimeError, ValueError), match=re.escape(text)) as found, causes.computing():
        raise ValueError(text)
    assert found.type is kind


def lose_a_process(*_: object) -> None:
    raise ValueError("UNKNOWN: Gloo all-reduce failed: Connection closed by peer [127.0.0.1]:10984")


def test_a_run_whose_computation_fails_was_given_nothing_bad(
    toy: ConfigDict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ValueError would take an extension back."""
    monkeypatch.setattr(loop, "train_epochs", lose_a_process)
    with pytest.raises(RuntimeError, match="Gloo all-reduce failed"):
        train.run(toy, tmp_path / "run")


def test_a_checkpoint_whose_check_fails_with_another_process_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(CheckpointId(1), {"a": np.ones(2)})
    checkpoints.wait()
    monkeypatch.setattr(checkpoint, "_sums", lose_a_process)
    with pytest.raises(RuntimeError, match="Gloo all-reduce failed"):
        checkpoints.restore({"a": np.ones(2)})
    assert checkpoint_ids(tmp_path) == [CheckpointId(1)]
    checkpoints.close()


def test_what_was_seen_to_before_does_not_count() -> None:
    error = ValueError("heads=3")
    error.__context__ = OSError(errno.EIO, "failed")
    assert causes.of_the_system(error)
    error.__suppress_context__ = True  # raise .. from None
    assert not causes.of_the_system(error)


def test_a_checkpoint_that_orbax_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer in C++ reports the disk by ValueError: at once, or when it is waited for."""

    def fail(*_: object, **__: object) -> None:
        raise ValueError("Permission denied")

    def save(checkpoints: Checkpoints) -> None:
        checkpoints.save(CheckpointId(1), {"a": np.ones(2)})
        checkpoints.wait()

    for method in ("save", "wait_until_finished"):
        checkpoints = Checkpoints(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(checkpoints.checkpointer, method, fail)
            with pytest.raises(OSError, match=r"cannot be written \(Permission denied\)") as found:
                save(checkpoints)
        assert command.exit_code(found.value) == 1
        checkpoints.close()


def test_a_checkpoint_that_cannot_be_read_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set aside for a moment's fault of a file system, it would be lost for the run."""
    state = {"a": np.ones(2)}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(CheckpointId(1), state)
    checkpoints.save(CheckpointId(2), state)
    checkpoints.wait()
    words = [*map(os.strerror, (errno.EIO, errno.ETIMEDOUT, errno.ENXIO, errno.EROFS, *causes.RIGHTS))]
    errors = [
        raised(ValueError("Error opening zarr driver"), ValueError(f"reading: {each}")) for each in words
    ]
    for error in (*errors, OSError(errno.EPERM, "no")):

        def fail(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(checkpoints.reader, "restore", fail)
            with pytest.raises(OSError, match="cannot be read|no") as found:
                checkpoints.restore(state)
        assert command.exit_code(found.value) == 1
    found = checkpoints.restore(state)
    assert found is not None
    assert found[0] == CheckpointId(2)
    checkpoints.close()


@pytest.mark.parametrize(("cause", "code"), [(OSError(errno.EIO, "failed"), 1), (None, 2)])
def test_all_processes_end_by_the_cause_that_one_of_them_had(
    cause: OSError | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {}

    class Table:
        def key_value_set(self, key: str, value: str) -> None:
            said[key.rpartition("/")[0]] = value

        def blocking_key_value_get(self, key: str, milliseconds: int) -> str:
            return said[key.rpartition("/")[0]]

    def fail() -> None:
        raise ValueError("t.csv cannot be read") from cause

    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(processes, "table", Table)
    with pytest.raises((ValueError, OSError), match=r"t\.csv cannot be read") as found:
        processes.barrier(fail)
    assert command.exit_code(found.value) == code


class PanicException(BaseException):
    """As pyo3 has it: not an Exception."""


class Program:
    @staticmethod
    def main() -> None:
        Program.act()

    @staticmethod
    def define_flags() -> None: ...


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PanicException("called `Result::unwrap()` on an `Err` value"), "error: called `Result::unwrap()`"),
        (AssertionError(), "error: AssertionError in test_causes.py, line "),
        (GeneratorExit(), "error: GeneratorExit in test_causes.py, line "),
    ],
)
def test_every_error_is_one_line(error: BaseException, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(Program, "act", fail, raising=False)
    code, out, err = run_here(Program)
    assert (code, out) == (1, "")
    assert err.startswith(said)
    assert err.count("\n") == 1


@pytest.fixture
def printed_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs a command that prints a text to a stream; returns its exit code."""

    def run(stream: TextIO, text: str) -> int:
        monkeypatch.setattr(sys, "argv", ["program"])
        monkeypatch.setattr(sys, "stdout", stream)
        with flagsaver.flagsaver():
            return command.run(lambda: print(text))

    return run


def test_letters_that_a_terminal_lacks_are_escaped(printed_to: Callable[..., int]) -> None:
    written = io.BytesIO()
    assert printed_to(io.TextIOWrapper(written, encoding="ascii"), "négatif よい") == 0
    assert written.getvalue() == rb"n\xe9gatif \u3088\u3044" + b"\n"


def test_a_reader_that_left_is_no_error(
    printed_to: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as written:
        assert printed_to(written, "a") == 128 + signal.SIGPIPE
    assert capsys.readouterr().err == ""


def test_a_reader_that_left_is_noticed_with_an_empty_buffer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A large text that cannot be written is sometimes dropped, so that nothing is left to flush."""

    def stop() -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(sys, "argv", ["program"])
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stdout, flagsaver.flagsaver():
        monkeypatch.setattr(sys, "stdout", stdout)
        assert command.run(stop) == 1  # another pipe is broken
        os.close(reading)
        assert "Broken pipe" in capsys.readouterr().err
        assert command.run(stop) == 128 + signal.SIGPIPE
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("signum", signals.NOTICES)
def test_a_notice_of_the_end_stops_a_run(signum: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Batch systems send one, and SIGTERM when the time is over: the run is still saving then."""
    with signals.StopSignals() as stop:
        for sent in (signum, signum, signal.SIGTERM):
            signal.raise_signal(sent)
            with pytest.raises(signals.Interrupted) as found:
                stop.poll()
            assert found.value.signum == sent
    assert capfd.readouterr().err.count("saving after this step") == 2


@pytest.mark.parametrize("signum", [signal.SIGHUP, *signals.NOTICES])
def test_what_is_ignored_stays_so(signum: int) -> None:
    previous = signal.signal(signum, signal.SIG_IGN)
    try:
        with signals.StopSignals():
            assert signal.getsignal(signum) is signal.SIG_IGN
    finally:
        signal.signal(signum, previous)
