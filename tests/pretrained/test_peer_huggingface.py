"""The same weights in Hugging Face's PyTorch FNet, on random weights; skipped where that is not installed."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import published
import pytest

from fourier_attn import model, pretrained

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.slow

TINY = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "intermediate_size": 24,
    "max_position_embeddings": 12,
    "type_vocab_size": 3,
}
HEADS = {  # what our model answers, and what theirs calls it
    "FNetModel": {"hidden": "last_hidden_state", "pooled": "pooler_output"},
    "FNetForPreTraining": {"mlm": "prediction_logits", "nsp": "seq_relationship_logits"},
    "FNetForMaskedLM": {"mlm": "logits"},
    "FNetForNextSentencePrediction": {"nsp": "logits"},
    "FNetForSequenceClassification": "logits",
    "FNetForMultipleChoice": "logits",
    "FNetForTokenClassification": "logits",
    "FNetForQuestionAnswering": ("start_logits", "end_logits"),
}


def peer(name: str, std: float = 0.5, **sizes: Any) -> Any:
    """Their model with random weights; biases and scales too, which it initialises to 0 and 1."""
    torch.manual_seed(0)
    network = getattr(transformers, name)(transformers.FNetConfig(**sizes)).eval()
    with torch.no_grad():
        for weights in network.parameters():
            weights += std * torch.randn_like(weights)
    return network


def draw(vocab: int, types: int, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    return random.integers(0, vocab, shape), random.integers(0, types, shape)


def theirs(network: Any, tokens: np.ndarray, types: np.ndarray) -> Any:
    with torch.no_grad():
        return network(torch.tensor(tokens), token_type_ids=torch.tensor(types), output_hidden_states=True)


def ours(settings: Any, params: Any, tokens: np.ndarray, types: np.ndarray) -> Any:
    given = jnp.asarray(tokens, jnp.int32), jnp.asarray(types, jnp.int32)
    return model.build(settings).apply({"params": params}, given[0], types=given[1])


def same(name: str, mine: Any, other: Any) -> None:
    pairs = HEADS[name]
    if isinstance(pairs, dict):
        assert mine.keys() == pairs.keys()
        pairs = [(mine[key], other[value]) for key, value in pairs.items()]
    elif isinstance(pairs, tuple):
        pairs = [(mine[..., n], other[value]) for n, value in enumerate(pairs)]
    else:
        pairs = [(mine, other[pairs].squeeze(-1) if mine.ndim < other[pairs].ndim else other[pairs])]
    for one, another in pairs:
        difference = np.abs(np.asarray(one) - another.numpy()).max()
        print(f"{name} {one.shape}: {difference:.1e}, of rms {another.std():.2f}")
        np.testing.assert_allclose(one, another.numpy(), atol=1e-4, rtol=0)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Any]:
    """Their base model, and ours with its weights."""
    network, folder = peer("FNetForPreTraining", 0.05), tmp_path_factory.mktemp("base")
    network.save_pretrained(folder)
    return (network, *pretrained.load(folder))


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("t", [8, 128, 512])
def test_base_size(base: tuple[Any, Any, Any], t: int) -> None:
    network, settings, params = base
    tokens, types = draw(32_000, 4, 2, t)
    other = theirs(network, tokens, types)
    same("FNetForPreTraining", ours(settings, params, tokens, types), other)
    features = settings.copy_and_resolve_references()
    with features.unlocked():
        features.head = "features"
    body = {key: value for key, value in params.items() if key != "head"}
    hidden = ours(features, body, tokens, types)["hidden"]
    difference = np.abs(hidden - other.hidden_states[-1].numpy()).max()
    print(f"hidden states of {t}: {difference:.1e}")
    assert difference < 1e-4


@pytest.mark.parametrize(
    ("name", "labels"),
    [*((name, 2) for name in HEADS), ("FNetForSequenceClassification", 1), ("FNetForTokenClassification", 3)],
)
def test_heads_there_and_back(name: str, labels: int, tmp_path: Path) -> None:
    network = peer(name, **TINY, num_labels=labels)
    tokens, types = draw(40, 3, 2, *((5,) if name == "FNetForMultipleChoice" else ()), 9)
    network.save_pretrained(tmp_path / "theirs")
    settings, params = pretrained.load(tmp_path / "theirs")
    other = theirs(network, tokens, types)
    same(name, ours(settings, params, tokens, types), other)

    (tmp_path / "ours").mkdir()
    style = pretrained.save(tmp_path / "ours" / "model.safetensors", settings, params)
    assert style == "huggingface"
    network.config.save_pretrained(tmp_path / "ours")
    back, info = type(network).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values()), info
    before, after = network.state_dict(), back.state_dict()
    assert before.keys() == after.keys()
    for key, value in before.items():
        np.testing.assert_array_equal(after[key].numpy(), value.numpy(), err_msg=key)
    same(name, ours(settings, params, tokens, types), theirs(back.eval(), tokens, types))


@pytest.mark.parametrize("name", ["FNetModel", "FNetForPreTraining", "FNetForSequenceClassification"])
def test_a_converted_folder_is_theirs(name: str, tmp_path: Path) -> None:
    from fourier_attn.pretrained.rewrite import rewrite

    network = peer(name, **TINY, num_labels=3, layer_norm_eps=1e-5)
    network.save_pretrained(tmp_path / "theirs")
    (tmp_path / "ours").mkdir()
    rewrite(tmp_path / "theirs", tmp_path / "middle.msgpack")
    rewrite(tmp_path / "middle.msgpack", tmp_path / "ours" / "model.safetensors")
    back, info = type(network).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values()), info
    given = draw(40, 3, 2, 9)
    settings, params = pretrained.load(tmp_path / "ours")
    same(name, ours(settings, params, *given), theirs(back.eval(), *given))
    same(name, ours(settings, params, *given), theirs(network, *given))


@pytest.mark.parametrize(("activation", "eps"), [("relu", 1e-3), ("gelu_new", 1e-5)])
def test_what_their_configuration_says(activation: str, eps: float, tmp_path: Path) -> None:
    network = peer("FNetModel", **TINY, hidden_act=activation, layer_norm_eps=eps)
    network.save_pretrained(tmp_path)
    settings, params = pretrained.load(tmp_path)
    assert (settings.norm_eps, settings.head) == (eps, "features")
    given = draw(40, 3, 2, 12)
    same("FNetModel", ours(settings, params, *given), theirs(network, *given))


def test_dft_matrices_of_theirs_are_no_weights(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    network = peer("FNetModel", **TINY, use_tpu_fourier_optimizations=True, tpu_short_seq_length=12)
    network.save_pretrained(tmp_path)
    given = draw(40, 3, 2, 12)
    same("FNetModel", ours(*pretrained.load(tmp_path), *given), theirs(network, *given))


@pytest.mark.parametrize("row", [*published.LOADS, "bert", "hybrid", "linear", "random", "ff"])
def test_which_exported_folders_load(row: str, tmp_path: Path, sentencepiece_file: Path) -> None:
    """Those of docs/export.md; others say that they are not theirs, and are refused there."""
    changes, loads, _ = published.LOADS.get(row, ({"mixer": {}}, False, False))
    architecture = row if row not in published.LOADS else "fnet"
    folder = published.exported(tmp_path / "out", sentencepiece_file, name=architecture, **changes)
    if not loads:
        with pytest.raises(ValueError, match="model type `fourier_attn`"):
            transformers.AutoModelForSequenceClassification.from_pretrained(folder)
        return
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    settings, params = pretrained.load(folder)
    given = draw(settings.vocab, 4, 2, 32)
    same("FNetForSequenceClassification", ours(settings, params, *given), theirs(network, *given))
