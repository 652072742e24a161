"""FNet-base against Hugging Face's in PyTorch, same weights and batch.

`python -m benchmarks.peer_huggingface` needs torch and transformers, which are no dependencies. First both
sides are held equal.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import transformers

from benchmarks.timing import compare, interleave, report
from fourier_attn import model, pretrained
from fourier_attn.family import family
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.step import make_init, make_keys, make_train_step

B, T, P = 4, 512, 77


def main() -> None:
    torch.set_num_threads(os.cpu_count() or 1)
    draw = np.random.default_rng(0)
    tokens, types = draw.integers(7, 32_000, (B, T)), draw.integers(0, 2, (B, T))
    places = np.sort(draw.permuted(np.tile(np.arange(T), (B, 1)), axis=1)[:, :P], 1)
    label, order = draw.integers(7, 32_000, (B, P)), draw.integers(0, 2, B)
    theirs = transformers.FNetForPreTraining(transformers.FNetConfig()).eval()
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        settings, params = pretrained.load(Path(folder) / "model.safetensors")
    network = model.build(settings)
    rows = [
        forward(theirs, network, params, tokens, types),
        training(theirs, params, tokens, types, places, label, order),
    ]
    for row in rows:
        row |= {"torch": torch.__version__, "transformers": transformers.__version__}
    report("peer-huggingface", rows)


def forward(theirs: Any, network: Any, params: Any, tokens: np.ndarray, types: np.ndarray) -> dict[str, Any]:
    """Both heads, the language model's at all places."""
    ids, segments = torch.as_tensor(tokens), torch.as_tensor(types)
    mine = jnp.asarray(tokens, jnp.int32), jnp.asarray(types, jnp.int32)
    apply = jax.jit(lambda p, x, s: network.apply({"params": p}, x, types=s))
    params = jax.tree.map(jnp.asarray, params)

    def torch_side() -> Any:
        with torch.inference_mode():
            return theirs(input_ids=ids, token_type_ids=segments).prediction_logits

    difference = np.abs(np.asarray(apply(params, *mine)["mlm"]) - torch_side().numpy()).max()
    if difference > 1e-3:
        raise SystemExit(f"both sides differ by {difference}")
    seconds = interleave({"ours": lambda: apply(params, *mine), "torch": torch_side}, rounds=7)
    return {"what": f"forward b{B} t{T}, all logits"} | compare(seconds, "ours", "torch")


def training(
    theirs: Any,
    params: Any,
    tokens: np.ndarray,
    types: np.ndarray,
    places: np.ndarray,
    label: np.ndarray,
    order: np.ndarray,
) -> dict[str, Any]:
    """A step of AdamW with dropout 0.1; ours computes the language model at the masked places only."""
    theirs.train()
    optimiser = torch.optim.AdamW(theirs.parameters(), lr=1e-4, weight_decay=0.01)
    labels = np.full(tokens.shape, -100)
    np.put_along_axis(labels, places, label, 1)
    ids, segments = torch.as_tensor(tokens), torch.as_tensor(types)
    given = {"labels": torch.as_tensor(labels), "next_sentence_label": torch.as_tensor(order)}

    def torch_side() -> float:
        optimiser.zero_grad(set_to_none=True)
        loss = theirs(input_ids=ids, token_type_ids=segments, **given).loss
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    c = family("fnet", "base")
    c.model.mixer.padding, c.optim.clip_norm = "tokens", 0.0
    transformation, objective = build_optimizer(c.optim), OBJECTIVES["pretraining"]
    init_key, key = make_keys(0, 1)
    network = model.build(c.model)
    state = make_init(network, transformation, objective)(init_key, params)
    step = make_train_step(network, transformation, objective)
    batch = {
        "inputs": jnp.asarray(tokens, jnp.int32),
        "types": jnp.asarray(types, jnp.int32),
        "mlm_positions": jnp.asarray(places, jnp.int32),
        "mlm_labels": jnp.asarray(label, jnp.int32),
        "mlm_weights": jnp.ones((B, P)),
        "label": jnp.asarray(order, jnp.int32),
        "weight": jnp.ones(B),
    }

    def our_side() -> Any:
        nonlocal state
        state = step(state, batch, key)
        return state.step

    seconds = interleave({"ours": our_side, "torch": torch_side}, rounds=5)
    return {"what": f"training step b{B} t{T}, {P} masked places"} | compare(seconds, "ours", "torch")


if __name__ == "__main__":
    main()
