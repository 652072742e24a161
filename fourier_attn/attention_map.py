"""Where a network looks: the weights of its attention, and a picture of them over the image."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from fourier_attn.train.step import model_inputs


def attention_maps(network: Any, params: Any, batch: Any, seeds: int) -> np.ndarray:
    """The weight that each head gives each token (b, h, t) for the answers to a batch, the mean over seeds.

    Of a question it is that of the question token; otherwise, in the last block with attention, the class
    token's, where it is what is read, or the mean over the tokens.

    Raises: ValueError for a network without attention.
    """
    total = []
    for seed in range(seeds):
        one = jax.tree.map(lambda p, seed=seed: jnp.asarray(p if seeds == 1 else p[seed]), params)
        given = {name: jnp.asarray(value) for name, value in model_inputs(batch).items()}
        inputs, draws = jnp.asarray(batch["inputs"]), {"noise": jax.random.key(0)}
        _, seen = network.apply({"params": one}, inputs, **given, rngs=draws, mutable=["intermediates"])
        total.append(np.asarray(_last_weights(seen.get("intermediates", {}))))
    weights = np.mean(total, axis=0)
    return weights[:, :, 0] if network.pooling == "class" else weights.mean(axis=2)


def _last_weights(seen: Any) -> jax.Array:
    """The weights (b, h, t, s) of the head, or else of the last block that has some."""
    if "head" in seen:
        return seen["head"]["attention"]["weights"][0]
    blocks = seen.get("encoder", {})
    if not blocks:
        raise ValueError("the network has no attention, and so no map; leave --map out")
    last = max(blocks, key=lambda name: int(name.removeprefix("block_")))
    return blocks[last]["mixer"]["weights"][0]


def write_map(path: Path, pixels: np.ndarray, weights: np.ndarray, width: int = 400) -> None:
    """Writes the image beside itself under its map: the brighter a patch, the more weight it has.

    Args:
      pixels: (rows, cols, channels), bytes.
      weights: of the patches, rows and columns.
      width: of each of the two, in pixels.
    Raises: ValueError for a file that cannot be written.
    """
    rows, cols, _ = pixels.shape
    size = (width, max(width * rows // cols, 1))
    plain = Image.fromarray(pixels.squeeze()).convert("RGB").resize(size, Image.Resampling.NEAREST)
    shares = Image.fromarray(np.uint8(255 * weights / weights.max())).resize(size, Image.Resampling.NEAREST)
    both = Image.new("RGB", (2 * width, size[1]))
    both.paste(plain, (0, 0))
    both.paste(plain, (width, 0), shares)
    try:
        both.save(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"map={path} cannot be written ({error}); name a file like map.png") from error
