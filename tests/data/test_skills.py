"""The synthetic skills: a plain reader solves each, and what must not tell the answer does not."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT, normal

from fourier_attn import config
from fourier_attn.data import load, skills
from fourier_attn.data.loaders.skills import TRAIN, QuestionBatches
from fourier_attn.data.skills import BLANK, IGNORED, MARK, Knobs, Questions
from fourier_attn.inference.evaluation import evaluate
from fourier_attn.inference.predictor import Predictor
from fourier_attn.layers.heads import Autoencoder, Head
from fourier_attn.train import metrics, run
from fourier_attn.train.losses import OBJECTIVES

Answers = dict[int, int]  # place -> token
KNOBS = {
    "recall": Knobs(32, 41, pairs=6),
    "fuzzy_recall": Knobs(12, 48, pairs=4, longest=3),
    "noisy_recall": Knobs(64, 51, pairs=5, noise=0.2),
    "selective_copy": Knobs(9, 21, copied=6),
    "compress": Knobs(7, 9),
    "memorise": Knobs(10, 13),
    "induction": Knobs(8, 12),
    "sort": Knobs(8, 13),
}
ROWS = 300


def drawn(name: str, seed: int = 0, rows: int = ROWS, **changes: Any) -> Questions:
    return skills.sample(name, np.random.default_rng(seed), rows, KNOBS[name]._replace(**changes))


def groups(tokens: list[int], half: int) -> list[tuple[int, list[int]]]:
    """Stretches of keys (0), values (1) and blanks (2), each with its first place."""
    kinds = [2 if token == BLANK else int(token >= half) for token in tokens]
    starts = [i for i in range(len(tokens)) if i == 0 or kinds[i] != kinds[i - 1]]
    return [(i, tokens[i:j]) for i, j in zip(starts, [*starts[1:], len(tokens)], strict=True)]


def solve_recall(tokens: list[int], knobs: Knobs) -> Answers:
    answers, known, half = {}, {}, knobs.vocab // 2
    for place in range(len(tokens)):
        if 0 < tokens[place] < half:
            if tokens[place] in known:
                answers[place] = known[tokens[place]]
            else:
                known[tokens[place]] = tokens[place + 1]
    return answers


def solve_noisy(tokens: list[int], knobs: Knobs) -> Answers:
    """What is left without the noise is recall."""
    half = knobs.vocab // 2
    places = [place for place, token in enumerate(tokens) if token < half]
    clean = solve_recall([tokens[place] for place in places], knobs._replace(vocab=half))
    return {places[place]: answer for place, answer in clean.items()}


def solve_fuzzy(tokens: list[int], knobs: Knobs) -> Answers:
    """A stretch of keys is followed by its value, or by blanks: then it is asked."""
    answers, known, found = {}, {}, groups(tokens, knobs.vocab // 2)
    while len(known) < knobs.pairs:
        (_, key), (_, value), *found = found
        known[tuple(key)] = value
    for place, key in found:
        if key[0] != BLANK:
            answers |= {place + len(key) - 1 + i: token for i, token in enumerate(known[tuple(key)])}
    return answers


def solve_copy(tokens: list[int], knobs: Knobs) -> Answers:
    content, first = [token for token in tokens if token > MARK], len(tokens) - tokens.count(MARK)
    return {first + i: token for i, token in enumerate(content)}


def solve_memorise(tokens: list[int], knobs: Knobs) -> Answers:
    """With the map as another draw shows it."""
    other = drawn("memorise", seed=7)
    known = dict(zip(other.inputs[:, ::2].ravel(), other.labels[:, ::2].ravel(), strict=True))
    return {place: int(known[token]) for place, token in enumerate(tokens[:-1]) if token != BLANK}


def solve_induction(tokens: list[int], knobs: Knobs) -> Answers:
    return {len(tokens) - 1: tokens[tokens.index(MARK) + 1]}


def solve_sort(tokens: list[int], knobs: Knobs) -> Answers:
    first = tokens.index(MARK)
    return {first + i: token for i, token in enumerate(sorted(tokens[:first]))}


SOLVERS: dict[str, Callable[[list[int], Knobs], Answers]] = {
    "recall": solve_recall,
    "fuzzy_recall": solve_fuzzy,
    "noisy_recall": solve_noisy,
    "selective_copy": solve_copy,
    "compress": lambda tokens, knobs: dict(enumerate(tokens)),
    "memorise": solve_memorise,
    "induction": solve_induction,
    "sort": solve_sort,
}


@pytest.mark.parametrize("name", skills.SKILLS)
def test_a_plain_reader_finds_every_answer_and_where_it_is_asked(name: str) -> None:
    inputs, labels = drawn(name)
    assert inputs.shape == labels.shape == (ROWS, KNOBS[name].length)
    assert inputs.dtype == labels.dtype == np.int32
    assert inputs.min() >= 0
    assert inputs.max() < KNOBS[name].vocab
    most = 0
    for tokens, label in zip(inputs.tolist(), labels.tolist(), strict=True):
        expected = {place: answer for place, answer in enumerate(label) if answer != IGNORED}
        assert SOLVERS[name](tokens, KNOBS[name]) == expected
        most = max(most, len(expected))
    assert most <= skills.SKILLS[name].asked(KNOBS[name])


@pytest.mark.parametrize("name", [name for name in skills.SKILLS if "causal" in skills.SKILLS[name].uses])
def test_causal_answers_are_next_tokens_and_the_rest_is_the_same(name: str) -> None:
    (inputs, labels), (told, same) = drawn(name), drawn(name, causal=True)
    np.testing.assert_array_equal(labels, same)
    asked = labels[:, :-1] != IGNORED
    np.testing.assert_array_equal(told[:, 1:][asked], labels[:, :-1][asked])
    np.testing.assert_array_equal(told[:, 1:][~asked], inputs[:, 1:][~asked])
    assert (inputs[:, 1:][asked] < 2).all()  # nothing but a blank or a mark was there


def share_known(clues: list[Any], answers: list[int]) -> float:
    """How often a clue's likeliest answer in the first half is right in the second."""
    half, table = len(clues) // 2, {}
    for clue, answer in zip(clues[:half], answers[:half], strict=True):
        counts = table.setdefault(clue, {})
        counts[answer] = counts.get(answer, 0) + 1
    right = [
        max(table[clue], key=table[clue].get) == answer if clue in table else False
        for clue, answer in zip(clues[half:], answers[half:], strict=True)
    ]
    return float(np.mean(right))


@pytest.mark.parametrize("name", ["recall", "noisy_recall", "selective_copy", "induction"])
def test_an_asked_places_own_token_tells_no_more_than_chance(name: str) -> None:
    inputs, labels = drawn(name, rows=2_000)
    asked = labels != IGNORED
    chance = skills.SKILLS[name].chance(KNOBS[name])
    rows = np.broadcast_to(np.arange(labels.shape[1]), labels.shape)[asked]
    clues = list(zip(inputs[asked].tolist(), rows.tolist(), strict=True))
    # six deviations of a share among the second half, a little more for the choice of the likeliest
    bound = chance + 6 * np.sqrt(chance * (1 - chance) / (len(clues) / 2)) + 0.02
    assert share_known(clues, labels[asked].tolist()) < bound


def test_memorise_is_known_from_ones_own_token() -> None:
    inputs, labels = drawn("memorise")
    asked = labels != IGNORED
    assert share_known(inputs[asked].tolist(), labels[asked].tolist()) == 1


def test_other_values_of_the_same_pairs_are_other_answers() -> None:
    """The same tokens, as often and asked at the same places; the answers differ: counts do not tell them."""
    inputs, _ = drawn("recall")
    knobs, changed = KNOBS["recall"], inputs.copy()
    changed[:, 1 : 2 * knobs.pairs : 2] = np.roll(inputs[:, 1 : 2 * knobs.pairs : 2], 1, axis=1)
    for before, after in zip(inputs.tolist(), changed.tolist(), strict=True):
        assert sorted(before) == sorted(after)
        one, other = solve_recall(before, knobs), solve_recall(after, knobs)
        assert one.keys() == other.keys()
        assert all(one[place] != other[place] for place in one)


@pytest.mark.parametrize("power", [0.01, 1.0, 3.0])
def test_gaps_follow_the_power_law(power: float) -> None:
    """Of one pair, whose gap is one draw: each share within five deviations."""
    knobs = Knobs(8, 14, pairs=1, power=power)
    labels = skills.sample("recall", np.random.default_rng(0), 20_000, knobs).labels
    shares = (labels != IGNORED).mean(0)
    weights = np.arange(1, 7) ** (power - 1.0)
    expected = weights / weights.sum()
    np.testing.assert_array_equal(shares[[0, 1, *range(3, 14, 2)]], 0)
    assert (np.abs(shares[2::2] - expected) < 5 * np.sqrt(expected * (1 - expected) / 20_000)).all()


def test_noise_has_its_share() -> None:
    inputs, _ = drawn("noisy_recall")
    steps = KNOBS["noisy_recall"].length // 2
    assert set((inputs >= 32).sum(1).tolist()) == {2 * round(0.2 * steps)}


@pytest.mark.parametrize("name", skills.SKILLS)
def test_the_smallest_sizes_are_drawn_and_smaller_ones_refused(name: str) -> None:
    skill, knobs = skills.SKILLS[name], KNOBS[name]
    least = knobs._replace(vocab=skill.vocab(knobs))
    least = least._replace(length=skill.length(least))
    skills.check(name, least)
    skills.sample(name, np.random.default_rng(0), 3, least)
    for knob in ("vocab", "length"):
        value = getattr(least, knob)
        with pytest.raises(ValueError, match=rf"data.{knob}={value - 1} must be at least {value} for task"):
            skills.check(name, least._replace(**{knob: value - 1}))


def test_batches_are_functions_of_seed_and_step_and_splits_are_disjoint() -> None:
    def batches(split: str, seed: int = 3, epochs: int = 2) -> QuestionBatches:
        return QuestionBatches("recall", KNOBS["recall"], split, size=10, batch=4, seed=seed, epochs=epochs)

    train, again, test = batches("train"), batches("train"), batches("test")
    assert (len(train), train.steps_per_epoch, len(train.rows), len(test.rows)) == (6, 3, 12, 10)
    for step in (5, 0, 3):
        np.testing.assert_array_equal(train[step]["inputs"], again[step]["inputs"])
    np.testing.assert_array_equal(test[0]["inputs"], batches("test")[3]["inputs"])
    splits = [train, test, batches("validation"), batches("train", seed=4)]
    drawn = np.concatenate([each[step]["inputs"] for each in splits for step in range(2)])
    assert len(np.unique(np.concatenate([drawn, train[3]["inputs"]]), axis=0)) == 4 * 8 + 4
    last = test[2]
    assert last["weight"].tolist() == [1, 1, 0, 0]
    np.testing.assert_array_equal(last["inputs"][2], last["inputs"][0])
    assert train[2]["weight"].tolist() == [1, 1, 1, 1]  # whole, since it is drawn


def test_positions_lead_to_the_questions(tmp_path: Path) -> None:
    c = config.default("identity", "fuzzy_recall")
    splits = load(c.data, directory=tmp_path)
    batch, places = splits.validation[0], c.data.pairs * c.data.longest
    assert batch["label"].shape == batch["answer_positions"].shape == (64, places)
    labels = np.full(batch["inputs"].shape, IGNORED)
    np.put_along_axis(labels, batch["answer_positions"], batch["label"], axis=1)
    for tokens, label in zip(batch["inputs"].tolist(), labels.tolist(), strict=True):
        answers = solve_fuzzy(tokens, skills.knobs_of(c.data))
        assert answers == {place: answer for place, answer in enumerate(label) if answer != IGNORED}


def test_loss_and_accuracy_are_means_over_the_asked_places() -> None:
    logits = normal(3, 4, 5)
    label = np.array([[1, 2, IGNORED, IGNORED], [0, IGNORED, 3, 4], [1, 1, 1, 1]], np.int32)
    batch = {"label": jnp.asarray(label), "weight": jnp.array([1.0, 1.0, 0.0])}
    objective = OBJECTIVES["tokens"]
    sums = objective.sums(logits, batch)
    x, asked = np.asarray(logits, np.float64), [(0, 0), (0, 1), (1, 0), (1, 2), (1, 3)]
    losses = [np.log(np.exp(x[i]).sum()) - x[i][label[i]] for i in asked]
    right = [x[i].argmax() == label[i] for i in asked]
    found = metrics.mean(sums)
    assert found == {
        "loss": pytest.approx(np.mean(losses), rel=1e-6),
        "accuracy": pytest.approx(np.mean(right), rel=1e-6),
    }
    assert float(objective.loss(sums, objective.counts(batch))) == pytest.approx(np.mean(losses), rel=1e-6)


def test_heads_answer_where_they_are_asked() -> None:
    x, pooled = normal(2, 5, 3), normal(2, 3)
    head, positions = Head(4, of="tokens"), jnp.array([[4, 0], [1, 1]])
    params = head.init(jax.random.key(0), x, pooled)
    some = head.apply(params, x, pooled, answer_positions=positions)
    every = head.apply(params, x, pooled)
    np.testing.assert_allclose(
        some, np.take_along_axis(np.asarray(every), positions[..., None], 1), atol=1e-6
    )
    decoder = Autoencoder(4, positions=7)
    params = decoder.init(jax.random.key(0), x, pooled)
    p = jax.device_get(params["params"])
    hidden = np.maximum(
        (np.asarray(x)[:, -1:] + p["place"][:5]) @ p["hidden"]["kernel"] + p["hidden"]["bias"], 0
    )
    expected = hidden @ p["output"]["kernel"] + p["output"]["bias"]
    np.testing.assert_allclose(decoder.apply(params, x, pooled), expected, atol=1e-5)  # float32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pairs": 20}, "data.length=64 must be at least 80 for task 'recall' with data.pairs=20"),
        ({"vocab": 17}, "data.vocab=17 must be at least 18"),
        ({"power": 0.0}, "data.power=0.0 must be positive"),
        ({"noise": 0.3}, "data.noise=0.3 has no effect for task 'recall'"),
        ({"tokenizer": "bpe"}, "data.tokenizer='bpe' has no effect"),
    ],
)
def test_options_that_cannot_be_used(changes: dict[str, Any], message: str) -> None:
    c = config.default("identity", "recall")
    c.data.update(changes)
    with pytest.raises(ValueError, match=message):
        config.check(c)


def small(mixer: str, task: str, **options: int) -> config.Config:
    c = config.default(mixer, task)
    c.data.update({"train_examples": 24, "eval_examples": 10, "test_examples": 10, "batch": 8, **options})
    c.model.update({"d": 8, "mlp": 8})
    c.train.epochs = 2
    return c


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("task", ["fuzzy_recall", "compress"])
def test_a_run_trains_and_is_evaluated_again_but_predicts_nothing(task: str, tmp_path: Path) -> None:
    result = run(small("identity", task), tmp_path)
    assert result["examples"] == 10
    assert evaluate(tmp_path)["test"]["loss"] == pytest.approx(result["loss"], rel=1e-6)
    with pytest.raises(ValueError, match=f"data.task='{task}' generates its own sequences"):
        Predictor.load(tmp_path)


@pytest.mark.usefixtures("standard_promotion")
def test_a_stopped_run_goes_on_bitwise(stopped_at: Callable[[Any, Path, int], None], tmp_path: Path) -> None:
    c = small("identity", "recall")
    stopped_at(c, tmp_path / "parts", 4)
    assert run(c, tmp_path / "parts")["loss"] == run(c, tmp_path / "whole")["loss"]


def test_the_guide_has_the_default_sizes_and_the_training_setup() -> None:
    guide = " ".join((ROOT / "docs" / "skills.md").read_text().split())
    for name in skills.SKILLS:
        options = config.default("attention", name)
        (cell,) = re.findall(rf"\| `{name}` \|[^|]+\| (`length=[^|]+)\|", guide)
        sizes = {key: int(value) for key, value in re.findall(r"`(\w+)=(\d+)`", cell)}
        assert {key: options.data[key] for key in sizes} == sizes
        asked = {"pairs", "copied"} & {*skills.SKILLS[name].uses}
        assert sizes.keys() == {"length", "vocab", *asked}
        model, optim = options.model, options.optim
        said = (
            f"two blocks of width {model.d}, normalisation before each sublayer, MLPs of width {model.mlp}",
            f"Attention has {model.mixer.heads} heads, each as wide as the network.",
            f"2,000 steps of {options.data.batch} sequences with AdamW.",
            f"The weight decay is {optim.weight_decay:g}",
            f"gradients are clipped to norm {optim.clip_norm:g}",
            f"rises for {optim.warmup_steps} steps, to {optim.learning_rate:g} by default",
        )
        assert [words for words in said if words not in guide] == []
        assert (model.depth, model.dropout, model.norm_position) == (2, 0, "pre")
        assert (model.mixer.head_width, optim.name, optim.schedule) == ("full", "adamw", "cosine")
        assert options.train.epochs * TRAIN / options.data.batch == 2000
