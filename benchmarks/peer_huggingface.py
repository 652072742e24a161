"""Times FNet-base and ViT-base against Hugging Face's in PyTorch: `python -m benchmarks.peer_huggingface`.

Both have the same weights and batch, each in its own process. Install torch and transformers for it, which
are not dependencies; `--quick` makes fewer rounds. Before the forward passes are timed, both sides are
checked to be equal; `difference` is the largest one of any number that they return, whose deviation is
`deviation`. Training is a step of AdamW with dropout 0.1; ours computes the language model at the masked
positions only.
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from benchmarks.race import SETTING, Step, race, started
from benchmarks.timing import compare, report
from fourier_attn import command, model, pretrained, provenance
from fourier_attn.family import family
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.optimizer import build_optimizer
from fourier_attn.train.step import make_init, make_keys, make_train_step

Maker = Callable[[str], Step]
B, T, P = 4, 512, 77
IMAGES = (8, 224, 224, 3)


def batch() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "inputs": rng.integers(7, 32_000, (B, T)),
        "types": rng.integers(0, 2, (B, T)),
        "answer_positions": np.sort(rng.permuted(np.tile(np.arange(T), (B, 1)), axis=1)[:, :P], 1),
        "mlm_labels": rng.integers(7, 32_000, (B, P)),
        "label": rng.integers(0, 2, B),
    }


def torch_network(folder: str) -> Any:
    """Builds their model, and saves its random weights in the folder."""
    import torch
    import transformers

    torch.set_num_threads(provenance.cores())
    torch.manual_seed(0)
    network = transformers.FNetForPreTraining(transformers.FNetConfig())
    network.save_pretrained(folder)
    return network


def torch_forward(folder: str) -> Step:
    """Builds their forward pass of both heads; returns the language model's logits at all positions."""
    import torch

    network, data = torch_network(folder).eval(), batch()
    tokens, types = torch.as_tensor(data["inputs"]), torch.as_tensor(data["types"])

    def run() -> list[Any]:
        with torch.inference_mode():
            return [network(input_ids=tokens, token_type_ids=types).prediction_logits]

    return run


def our_forward(folder: str) -> Step:
    """Builds our forward pass of the same, with the folder's weights."""
    config, params = pretrained.load(Path(folder) / "model.safetensors")
    network, data = model.build(config), batch()
    params = jax.tree.map(jnp.asarray, params)
    tokens, types = (jnp.asarray(data[name], jnp.int32) for name in ("inputs", "types"))
    apply = jax.jit(lambda p, x, s: network.apply({"params": p}, x, types=s))
    return lambda: [jax.block_until_ready(apply(params, tokens, types))["mlm"]]


def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, IMAGES, np.uint8)


def torch_vit(folder: str) -> Step:
    """Builds their vision transformer: the last block's normalised vectors, from pixels from -1 to 1."""
    import torch
    import transformers

    torch.set_num_threads(provenance.cores())
    torch.manual_seed(0)
    network = transformers.ViTModel(transformers.ViTConfig(), add_pooling_layer=False).eval()
    with torch.no_grad():
        for weights in network.parameters():  # random initial biases and scales would hide much
            weights += 0.02 * torch.randn_like(weights)
    network.save_pretrained(folder)
    given = torch.tensor(images() / 127.5 - 1, dtype=torch.float32).permute(0, 3, 1, 2).contiguous()

    def run() -> list[Any]:
        with torch.inference_mode():
            return [network(pixel_values=given).last_hidden_state]

    return run


def our_vit(folder: str) -> Step:
    """Builds our vision transformer: the same from bytes, with the folder's weights."""
    config, params = pretrained.load(Path(folder))
    network = model.build(config)
    params, given = jax.tree.map(jnp.asarray, params), jnp.asarray(images())
    apply = jax.jit(lambda p, x: network.apply({"params": p}, x))
    return lambda: [jax.block_until_ready(apply(params, given))["hidden"]]


def torch_training(folder: str) -> Step:
    import torch

    network, data = torch_network(folder).train(), batch()
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-4, weight_decay=0.01)
    labels = np.full((B, T), -100)
    np.put_along_axis(labels, data["answer_positions"], data["mlm_labels"], 1)
    given = {
        "input_ids": torch.as_tensor(data["inputs"]),
        "token_type_ids": torch.as_tensor(data["types"]),
        "labels": torch.as_tensor(labels),
        "next_sentence_label": torch.as_tensor(data["label"]),
    }

    def run() -> list[Any]:
        optimiser.zero_grad(set_to_none=True)
        loss = network(**given).loss
        loss.backward()
        optimiser.step()
        return [loss.detach()]

    return run


def our_training(folder: str) -> Step:
    _, params = pretrained.load(Path(folder) / "model.safetensors")
    c = family("fnet", "base")
    c.model.mixer.padding, c.optim.clip_norm = "tokens", 0.0
    transformation, objective = build_optimizer(c.optim), OBJECTIVES["pretraining"]
    init_key, key = make_keys(0, 1)
    network = model.build(c.model)
    state = make_init(network, transformation, objective, model.example(c.model))(init_key, params)
    step = make_train_step(network, transformation, objective)
    given = {name: jnp.asarray(values, jnp.int32) for name, values in batch().items()}
    given |= {"mlm_weights": jnp.ones((B, P)), "weight": jnp.ones(B)}

    def run() -> list[Any]:
        nonlocal state
        state = step(state, given, key)
        return [jax.block_until_ready(state).step]

    return run


def forward(what: str, size: str, theirs: Maker, ours: Maker, rounds: int) -> dict[str, Any]:
    """Times the forward pass of a model here and in PyTorch, after a check that the results agree.

    Args:
      what, size: names of the model and the size, for the row.
      theirs, ours: functions that build the two sides in a folder; ours reads the weights that theirs writes.
      rounds: number of rounds.
    """
    with tempfile.TemporaryDirectory() as folder:
        makers = {"torch": partial(theirs, folder), "ours": partial(ours, folder)}
        with started(makers) as sides:  # theirs first, since ours reads its weights
            (mine,), (other,) = sides["ours"].result, sides["torch"].result
            np.testing.assert_allclose(mine, other, atol=1e-3, rtol=0)
            seconds = race(sides, rounds)
    row = {"what": f"{what} / Hugging Face", "size": size, "pass": "forward", "rounds": rounds}
    equal = {
        "difference": float(f"{np.abs(mine - other).max():.1e}"),
        "deviation": round(float(other.std()), 2),
    }
    return row | compare(seconds, "ours", "torch") | equal


def training(rounds: int) -> dict[str, Any]:
    """Times a training step of FNet-base here and in PyTorch, over `rounds` rounds."""
    with tempfile.TemporaryDirectory() as folder:
        makers = {"torch": partial(torch_training, folder), "ours": partial(our_training, folder)}
        with started(makers) as sides:
            seconds = race(sides, rounds)
    what = f"FNet-base, {P} masked positions / Hugging Face"
    row = {"what": what, "size": f"b{B} t{T}", "pass": "training step", "rounds": rounds}
    return row | compare(seconds, "ours", "torch")


def define_flags() -> None:
    flags.DEFINE_bool("quick", False, "few rounds, as a quick test")


def main() -> None:
    quick = flags.FLAGS.quick
    few, rounds = (2, 2) if quick else (5, 7)
    rows = [
        forward("FNet-base, all logits", f"b{B} t{T}", torch_forward, our_forward, rounds),
        training(few),
        forward("ViT-base, all vectors", "b{} {}x{}x{}".format(*IMAGES), torch_vit, our_vit, rounds),
    ]
    name = f"peer-huggingface{'-quick' if quick else ''}"
    report(name, rows, peers=("torch", "transformers"), setting=SETTING)


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
