"""One recipe for several mixers."""

from pathlib import Path

import pytest
from conftest import configuration, run_here

from fourier_attn import config, main
from fourier_attn.data.tasks import TASKS
from fourier_attn.train.optimizer import build_schedule
from fourier_attn.train.rundir import config_file

FILES = dict.fromkeys(("fnet", "attention", "circular", "lambda"), "{task}")
FILES["mixer"] = "global_filter-{task}"


@pytest.mark.parametrize("recipe", config.RECIPES)
@pytest.mark.parametrize("task", ["imdb", "reviews"])
def test_mixers_differ_in_nothing_else(recipe: str, task: str) -> None:
    given = [configuration(name, argument.format(task=task)) for name, argument in FILES.items()]
    found = [config.with_recipe(c, recipe) for c in given]
    for c in found:
        config.check(c)
    rest = [
        {name: value for name, value in config_file.flat(c.to_dict()).items() if ".mixer." not in name}
        for c in found
    ]
    assert all(values == rest[0] for values in rest)
    own = configuration("attention", task).model.mixer.to_dict()
    assert found[1].model.mixer.to_dict() == own


def test_a_knob_that_is_given_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []
    monkeypatch.setattr("fourier_attn.train.run", lambda c, *_: seen.append(c))
    words = ("--config=fnet:imdb", "--recipe=small", "--config.optim.learning_rate=0.25")
    code, _, error = run_here(main, *words, "--config.model.mixer.norm=none", f"--workdir={tmp_path / 'run'}")
    assert code == 0, error
    assert (seen[0].optim.learning_rate, seen[0].model.mixer.norm) == (0.25, "none")
    assert (seen[0].model.d, seen[0].data.length) == (64, 192)


def test_another_mixer_keeps_the_fields_that_both_have() -> None:
    """The rest of the configuration is the same; a layout has the new name where it had the old one."""
    c = config.default("attention", "reviews", others=("token_conv",))
    c.model.layout, c.model.depth, c.model.mixer.heads, c.model.mixer.causal = (
        ("token_conv", "attention"),
        2,
        8,
        True,
    )
    found = config.with_mixer(c, "circular")
    assert (found.model.mixer.name, found.model.mixer.heads, found.model.mixer.causal) == (
        "circular",
        8,
        True,
    )
    assert tuple(found.model.layout) == ("token_conv", "circular")
    assert c.model.mixer.name == "attention"
    config.check(found)
    rest = [
        {k: v for k, v in config_file.flat(each.to_dict()).items() if "mixer." not in k}
        for each in (c, found)
    ]
    assert rest[0] | {"model.layout": ("token_conv", "circular")} == rest[1]
    for old, new in (("fnet", "lambda"), ("attention", "lambda"), ("fnet", "linear"), ("lambda", "fourier")):
        changed = config.with_mixer(configuration(old, "imdb"), new)
        config.check(changed)  # norm, padding and method mean other things in other mixers
        assert changed.model.mixer.get("padding", "") != "tokens"
    assert config.with_mixer(configuration("attention", "imdb"), "lambda").model.mixer.heads == 8
    both = config.with_mixer(c, "token_conv")
    assert (both.model.mixer.name, dict(both.model.others)) == ("token_conv", {})
    optical = configuration("optical_fnet", "reviews")
    assert config.with_mixer(optical, "circular").model.mixer.engine == optical.model.mixer.engine
    with pytest.raises(ValueError, match=r"mixer='identity' has no transform that model.mixer.engine of"):
        config.with_mixer(optical, "identity")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config=fnet", "--mixer=huge"], "model.mixer.name='huge' is unknown"),
        (["--mixer=lambda"], "--mixer=lambda needs --config=FILE"),
        (["--config=fnet", "--recipe=huge"], "recipe='huge' is unknown"),
        (["--recipe=small"], "needs --config=FILE"),
    ],
)
def test_other_recipes_are_refused(words: list[str], message: str) -> None:
    code, _, error = run_here(main, *words)
    assert (code, message in error) == (2, True), error


@pytest.mark.parametrize(("share", "steps", "expected"), [(0.1, 50, 5), (0.0, 50, 7), (0.5, 3, 2)])
def test_a_warm_up_may_be_a_share(share: float, steps: int, expected: int) -> None:
    c = config.default().optim
    c.update({"warmup_share": share, "warmup_steps": 7, "steps": steps, "schedule": "constant"})
    rates = [float(build_schedule(c)(i)) / c.learning_rate for i in range(steps)]
    assert rates == pytest.approx([min((i + 1) / expected, 1) for i in range(steps)], rel=1e-6)


def test_names_of_tasks_are_separated_from_their_defaults() -> None:
    printed = [line.split() for line in config.describe()]
    assert {line[0] for line in printed if line} >= {*TASKS, *config.RECIPES}
