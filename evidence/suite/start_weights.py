"""Notes of the weights that a cell's run began with, so that it is not resumed with others."""

from pathlib import Path

from fourier_attn import atomic
from fourier_attn.studies.runs import weights_digest
from fourier_attn.train import init_from

FILE = "weights"  # in the folder with the run's output


def digest(directory: Path) -> str:
    """Returns a digest of a run's best weights, which does not depend on its directory."""
    _, _, _, state = init_from.restore_state(directory, on_device=False)
    return weights_digest(init_from.best_or_latest(state))


def noted(directory: Path) -> str | None:
    """Returns the digest of the weights that the run in `directory` began with; None if it was not noted."""
    file = _file(directory)
    return file.read_text().strip() if file.exists() else None


def note(directory: Path, now: str) -> None:
    """Notes with which weights a run begins; of one that has begun the note stays as it is."""
    if not _begun(directory):
        atomic.make_folder(_file(directory).parent)
        atomic.write(_file(directory), f"{now}\n")


def check(directory: Path, now: str) -> None:
    """Checks that a run that has begun did so with the weights that are there now. Raises: ValueError."""
    before = noted(directory)
    if _begun(directory) and before not in (None, now):
        raise ValueError(
            f"{directory} began with the weights {before}, and those there now are {now}; bring the former "
            "back, or move that directory away so that it begins anew"
        )


def _begun(directory: Path) -> bool:
    return (directory / "config.json").exists()


def _file(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.launch") / FILE
