"""Continued texts: the same as from the whole network, a token at a time, without anything kept."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import array, drawn

from fourier_attn import config, model
from fourier_attn.data.text import decode, fit, special
from fourier_attn.inference.generate import Generator, Sampling, choose, make_generate
from fourier_attn.inference.predictor import Predictor

POSITIONS = 48
TEXTS = ["the film was good", "a dull plot", "good"]
TOKENIZER = fit("words", ["the film was a good and dull plot of love , it moved me"] * 2, 30)


def network(name: str = "attention", **options: Any) -> model.Model:
    c = config.default(name)
    sizes = {"depth": 2, "d": 8, "mlp": 8, "vocab": TOKENIZER.get_vocab_size(), "head": "lm"}
    c.model.update(sizes | {"positions": POSITIONS, "norm_position": "pre"} | options)
    fields = {"causal": True, "length": POSITIONS, "heads": 2}
    c.model.mixer.update({key: value for key, value in fields.items() if key in c.model.mixer})
    return model.build(c.model)


def parameters(net: model.Model) -> Any:
    """Weights whose logits differ enough to prefer some tokens."""
    params = drawn(net, jnp.zeros((1, 4), jnp.int32))["params"]
    return jax.tree.map(lambda p: 1.5 * p, params)


def generator(name: str = "attention", batch: int = 4, **options: Any) -> Generator:
    net = network(name, **options)
    return Generator(net, parameters(net), TOKENIZER, positions=POSITIONS, batch=batch)


@pytest.fixture(scope="module")
def one() -> Generator:
    return generator()


def uncached(net: model.Model, params: Any, prompt: list[int], tokens: int, t: float, k: int) -> list[int]:
    """Every token from the whole network on all tokens before it, and a choice in NumPy."""
    row, never = list(prompt), [i for i in special(TOKENIZER) if i is not None]
    forward = jax.jit(net.apply)
    for _ in range(tokens):
        padded = array([row + [0] * (POSITIONS - len(row))], np.int32)
        logits = np.array(forward({"params": params}, padded)[0, len(row) - 1], np.float64)
        logits[never] = -np.inf
        if k:
            logits[logits < np.sort(logits)[-k]] = -np.inf
        if t:
            key = jax.random.fold_in(jax.random.key(7), len(row))
            logits = logits / t + np.asarray(jax.random.gumbel(key, logits.shape), np.float64)
        row.append(int(logits.argmax()))
    return row[len(prompt) :]


@pytest.mark.parametrize(("temperature", "top_k"), [(0.0, 0), (0.9, 5)])
@pytest.mark.parametrize("name", ["attention", "lambda", "token_conv"])
def test_texts_are_those_of_the_whole_network(name: str, temperature: float, top_k: int) -> None:
    made = generator(name)
    answers = made(TEXTS, Sampling(12, temperature, top_k, 7))
    assert len({tuple(answer["tokens"]) for answer in answers}) > 1
    net = network(name)
    for text, answer in zip(TEXTS, answers, strict=True):
        prompt = [made.first, *TOKENIZER.encode(text).ids]
        expected = uncached(net, made.params, prompt, 12, temperature, top_k)
        assert answer["tokens"] == [TOKENIZER.id_to_token(i) for i in expected]


def test_a_longer_text_begins_with_the_shorter_one(one: Generator) -> None:
    """So does the same text alone, in another batch, and padded to another length."""
    long, short = one(TEXTS, Sampling(20, 1.0, 0, 3)), one(TEXTS, Sampling(6, 1.0, 0, 3))
    assert [a["tokens"][:6] for a in long] == [a["tokens"] for a in short]
    assert one(TEXTS[:1], Sampling(6, 1.0, 0, 3))[0]["tokens"] == short[0]["tokens"]
    longer = " ".join(["the film"] * 10)
    assert one([longer, TEXTS[0]], Sampling(6, 1.0, 0, 3))[1]["tokens"] == short[0]["tokens"]
    ids = np.zeros((1, 30), np.int32)
    prompt = [one.first, *TOKENIZER.encode(TEXTS[0]).ids]
    ids[0, : len(prompt)] = prompt
    options = {"tokens": 6, "never": one.never}
    behind = ids + (np.arange(30) >= len(prompt)) * 5
    for padded in (ids, behind.astype(np.int32)):
        counts = np.asarray([len(prompt)], np.int32)
        found, _ = one.program(one.params, padded, counts, np.float32(1), jax.random.key(3), **options)
        assert [TOKENIZER.id_to_token(i) for i in found[0].tolist()] == short[0]["tokens"]


def test_the_seed_decides(one: Generator) -> None:
    first = one(TEXTS, Sampling(12, 1.0, 0, 0))
    assert one(TEXTS, Sampling(12, 1.0, 0, 0)) == first
    assert one(TEXTS, Sampling(12, 1.0, 0, 1)) != first
    greedy = one(TEXTS, Sampling(12, 0.0, 0, 0))
    assert greedy == one(TEXTS, Sampling(12, 0.0, 0, 1))
    for same in (one(TEXTS, Sampling(12, 1.0, 1, 5)), one(TEXTS, Sampling(12, 1e-30, 0, 5))):
        assert [a["tokens"] for a in same] == [a["tokens"] for a in greedy]


def test_log_probabilities_are_those_of_the_network(one: Generator) -> None:
    [answer] = one(TEXTS[:1], Sampling(5, 1.0, 3, 0))
    row = [one.first, *TOKENIZER.encode(TEXTS[0]).ids, *(TOKENIZER.token_to_id(t) for t in answer["tokens"])]
    apply = jax.jit(network().apply)
    logits = np.array(apply({"params": one.params}, array([row], np.int32))[0], np.float64)
    logits[:, list(one.never)] = -np.inf
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = sum(logs[i - 1, row[i]] for i in range(len(row) - 5, len(row)))
    assert answer["log_probability"] == pytest.approx(expected, abs=1e-4)  # five float32 logarithms


def test_special_tokens_are_never_drawn(one: Generator) -> None:
    """Even where the network prefers them to all others."""
    never = array(list(one.never), np.int32)
    bias = one.params["head"]["bias"].at[never].add(50.0)
    params = {**one.params, "head": {**one.params["head"], "bias": bias}}
    made = Generator(network(), params, TOKENIZER, positions=POSITIONS, batch=4)
    tokens = {token for answer in made(TEXTS, Sampling(20, 2.0, 0, 0)) for token in answer["tokens"]}
    assert not tokens & {"[PAD]", "[UNK]"}


def test_draws_have_the_probabilities_that_are_asked_for() -> None:
    n, logs = 20_000, jax.nn.log_softmax(jnp.array([0.0, 1.0, -1.0, 0.5, -jnp.inf]))
    draw = jax.jit(choose, static_argnums=4)
    for temperature, k in ((1.0, 0), (0.5, 0), (2.0, 3)):
        found = draw(
            jnp.broadcast_to(logs, (n, 5)), jnp.arange(n), jax.random.key(0), jnp.float32(temperature), k
        )
        scaled = np.where(np.argsort(np.argsort(-np.asarray(logs))) < (k or 5), logs / temperature, -np.inf)
        expected = np.exp(scaled) / np.exp(scaled).sum()
        share = np.bincount(found, minlength=5) / n
        np.testing.assert_allclose(share, expected, atol=0.012)  # three deviations of 20,000 draws


def test_seeds_are_averaged() -> None:
    """Two equal networks are one; of two others the mean probability is drawn from."""
    net = network()
    params = parameters(net)
    other = jax.tree.map(lambda p: -p, params)
    ids, counts = array([[1, 3, 4, 2]], np.int32), array([4], np.int32)
    program = make_generate(net)
    arguments = (ids, counts, jnp.float32(0), jax.random.key(0))
    single, logs = program(params, *arguments, tokens=3)
    same, log = program(jax.tree.map(lambda p: jnp.stack([p, p]), params), *arguments, tokens=3, seeds=2)
    np.testing.assert_array_equal(same, single)
    np.testing.assert_allclose(log, logs, atol=1e-5)  # float32
    both = jax.tree.map(lambda a, b: jnp.stack([a, b]), params, other)
    found, log = program(both, *arguments, tokens=1, seeds=2)
    apply = jax.jit(net.apply)
    outputs = (apply({"params": p}, ids)[0, -1] for p in (params, other))
    mean = np.mean([np.asarray(jax.nn.softmax(y)) for y in outputs], axis=0)
    assert int(found[0, 0]) == int(mean.argmax())
    assert float(jnp.exp(log[0, 0])) == pytest.approx(mean.max(), rel=1e-5)


def test_one_program_for_each_length_and_number_of_tokens() -> None:
    made = generator("identity")
    for texts, seed, temperature in ((TEXTS[:1], 0, 1.0), (TEXTS[1:2], 1, 0.0), (["good " * 6], 2, 0.5)):
        made(texts, Sampling(5, temperature, 0, seed))
    program: Any = made.program
    assert program._cache_size() == 1
    for words in (9, 12):
        made(["good " * words], Sampling(5, 1.0, 0, 0))
    assert program._cache_size() == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tokens": 0}, "tokens=0 must be at least 1"),
        ({"temperature": 1e38}, r"must lie between 0 \(always the likeliest token\) and 10,000"),
        (
            {"temperature": -0.5},
            r"temperature=-0.5 must lie between 0 \(always the likeliest token\) and 10,000",
        ),
        ({"temperature": float("nan")}, "temperature=nan must lie between 0"),
        ({"top_k": -1}, r"top_k=-1 must be 0 \(all tokens\) or a positive number of tokens"),
        ({"seed": -1}, "seed=-1 must lie between 0 and"),
        (
            {"tokens": 44},
            "tokens=44 and a text of 5 tokens exceed model.positions=48; give at most --tokens=43",
        ),
    ],
)
def test_what_cannot_be_used(one: Generator, options: dict, said: str) -> None:
    given = {"tokens": 5, "temperature": 1.0, "top_k": 0, "seed": 0} | options
    with pytest.raises(ValueError, match=said):
        one(TEXTS[:1], Sampling(**given))
    with pytest.raises(ValueError, match="of 61 tokens exceed model.positions=48; give a shorter text"):
        one(["good " * 60], Sampling(5, 1.0, 0, 0))


@pytest.mark.parametrize("name", ["attention", "linear"])
def test_a_text_may_fill_the_positions(name: str) -> None:
    """`linear` has a matrix of this size and no more."""
    [answer] = generator(name)(["good " * 40], Sampling(POSITIONS - 41, 0.0, 0, 0))
    assert len(answer["tokens"]) == POSITIONS - 41


@pytest.mark.parametrize(
    ("kind", "text"),
    [("words", "the film was good"), ("bpe", "the film was good"), ("bytes", "Ünder film")],
)
def test_ids_become_text_again(kind: str, text: str) -> None:
    tokenizer = fit(kind, ["the film was good and dull"] * 3, 40)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert decode(tokenizer, ids) == text
    assert decode(tokenizer, [*ids, special(tokenizer).pad]) == text
    assert decode(tokenizer, [*ids, *ids]).startswith(text)


def test_a_run_of_another_kind_is_refused(toy_run: Path) -> None:
    with pytest.raises(
        ValueError, match="data.task='reviews' cannot continue texts; use a run of a next-token"
    ):
        Predictor.load(toy_run).generate(["a film"])
