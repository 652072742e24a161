"""What a run shows of itself while it goes on: bars, and the picture of its curves."""

import io

import pytest
from tqdm import tqdm

from fourier_attn import config, train
from fourier_attn.train import curves, evaluate, loop


@pytest.mark.usefixtures("standard_promotion")
def test_bars_move_and_end_at_their_ends(
    toy: config.Config, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an epoch ends on a log step, too."""
    seen: list[tuple[object, int, int]] = []

    class Bar(tqdm):
        def __init__(self, *words: object, **options: object):
            super().__init__(*words, **options | {"disable": False, "file": io.StringIO(), "mininterval": 0})

        def display(self, *words: object, **options: object) -> None:
            seen.append((self.desc or "train", self.n, self.total))

    for module in (loop, evaluate):
        monkeypatch.setattr(module, "tqdm", Bar)
    monkeypatch.setattr(loop, "plot_curves", curves.plot_curves)
    toy.train.epochs, toy.train.log_every = 2, 3  # epochs of six steps
    where = tmp_path_factory.mktemp("run")
    train.run(toy, where)
    assert (where / "curves.png").read_bytes().startswith(b"\x89PNG")
    places = {title: [(n, total) for name, n, total in seen if name.strip(": ") == title] for title in NAMES}
    assert {0, 3, 6, 9, 12} <= {n for n, _ in places["train"]}
    assert places["train"][-1] == (12, 12)
    assert {n for n, _ in places["validation"]} == set(range(5))
    assert {total for _, total in places["validation"]} == {4}
    assert {n for n, _ in places["test"]} == set(range(14))


NAMES = ("train", "validation", "test")


def line(split: str, epoch: float, accuracy: float, loss: float = 0.5) -> dict:
    return {"split": split, "epoch": epoch, "accuracy": accuracy, "loss": loss}


def test_noise_is_not_drawn_as_a_large_change() -> None:
    lines = [line(split, i, 0.9 + 0.001 * i) for i in (1, 2, 3) for split in ("train", "validation")]
    first, second = curves.draw(lines, chance=0.88).axes
    for axes in (first, second):
        low, high = axes.get_ylim()
        assert high - low >= 0.099
        assert all(tick == int(tick) for tick in axes.get_xticks())


def test_what_the_curves_say() -> None:
    lines = [line("validation", 1, 0.7), line("validation", 2, 0.8), line("validation", 3, 0.75)]
    lines += [line("train", 2.5, 0.99), line("test", 3, 0.7912)]
    first, second = curves.draw(lines, chance=0.5).axes
    said = {text.get_text() for text in first.texts}
    assert said == {"validation", "test, 79.12 %", "best epoch, 2", "chance"}
    assert second.get_ylabel() == "loss"
    low, high = first.get_ylim()
    assert 0 <= low < 0.5
    assert 0.8 < high <= 1.02
