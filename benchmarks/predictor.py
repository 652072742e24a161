"""Predictor, from texts to answers, against the evaluation loop, on rows that are ready:
`python -m benchmarks.predictor [--data_dir=DIR]`.

Reviews of IMDb's test split (10,000, or --count), the sizes of configs/fnet.py:imdb, weights as drawn.
"""

import sys
import tempfile
from pathlib import Path

import jax
from absl import flags

from benchmarks import timing
from configs import fnet
from fourier_attn import command, config, data, model
from fourier_attn.data import reading
from fourier_attn.data.text import load_tokenizer, tokenizer_file
from fourier_attn.inference.predictor import Predictor
from fourier_attn.studies.side_by_side import interleave
from fourier_attn.train.evaluate import evaluate_split


def define_flags() -> None:
    flags.DEFINE_string("data_dir", "", "directory of TFDS data sets; default: that of TFDS")
    flags.DEFINE_integer("count", 10_000, "number of reviews")
    flags.DEFINE_integer("rounds", 5, "number of rounds; each runs both sides")


def main() -> None:
    c = fnet.get_config("imdb")
    c.data.dir, c.data.test_examples = flags.FLAGS.data_dir, flags.FLAGS.count
    c.data.train_examples, c.data.eval_examples = 5_000, 1
    with tempfile.TemporaryDirectory() as directory:
        splits = data.load(c.data, directory=Path(directory))
        tokenizer = load_tokenizer(tokenizer_file(Path(directory)))
    texts = reading.read(c.data)["test"].texts
    c = config.fitted(c, splits)
    network, example = model.build(c.model), model.example(c.model)
    params = network.init(jax.random.key(0), jax.numpy.zeros(example.shape, example.dtype))["params"]
    predictor = Predictor(c, network, params, tokenizer)
    sides = {
        "Predictor": lambda: predictor(texts) and None,
        "evaluation": lambda: evaluate_split(predictor.eval_step, params, splits.test)[1].sum(),
    }
    seconds = interleave(sides, rounds=flags.FLAGS.rounds)
    row = {"what": f"{len(texts):,} reviews", **timing.compare(seconds, "Predictor", "evaluation")}
    row["reviews_per_s"] = round(1e3 * len(texts) / row["ours_ms"])
    timing.report("predictor", [row])


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
