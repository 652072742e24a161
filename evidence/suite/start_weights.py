"""Notes of the weights that a cell's run began with, so that it is not resumed with others."""

from pathlib import Path

from fourier_attn import atomic
from fourier_attn.studies.runs import weights_digest
from fourier_attn.train import init_from

FILE = "weights"  # name of the file in the folder with the run's output


def digest(directory: Path) -> str:
    """Returns a digest of a run's best weights, which does not depend on its directory."""
    _, _, _, state = init_from.restore_state(directory, on_device=False)
    return weights_digest(init_from.best_or_latest(state))


def noted(directory: Path) -> str | None:
    """Returns the digest of the weights that the run in `directory` began with; None if it was not noted."""
    file = _file(directory)
    return file.read_text().strip() if file.exists() else None


def note(directory: Path, now: str) -> None:
    """Records the initial weights of a run; the record of a started run is not changed."""
    if not _begun(directory):
        atomic.make_folder(_file(directory).parent)
        atomic.write(_file(directory), f"{now}\n")


def check(directory: Path, now: str) -> None:
    """Checks that a run that has begun did so with the weights that are there now. Raises: ValueError."""
    before = noted(directory)
    if _begun(directory) and before not in (None, now):
        raise ValueError(
            f"{directory} started from the weights {before}, but the weights are now {now}; restore the "
            "former, or move that directory away to start again"
        )


def _begun(directory: Path) -> bool:
    return (directory / "config.json").exists()


def _file(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.launch") / FILE
