"""Measures where questions attend: python -m fourier_attn.studies.inside.attended --workdir=runs/A,runs/B

The runs must be on the task `shapes`. For the test images, the study reports how much of the question token's
attention is on the patches with the shape that the question is about: the mean over the heads, and the head
with the largest share on the validation set. It also reports how often the largest weight of that head is on
one of these patches (the pointing game; Zhang et al., arXiv 1608.00507). The baseline is the share of these
patches in the image, which uniform weights would have.
"""

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from absl import flags

from fourier_attn import command, data, model, paths, provenance
from fourier_attn.data.batches import Split
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.reading import read_images
from fourier_attn.data.sources import shapes
from fourier_attn.data.tfds import prepared
from fourier_attn.data.tfds_splits import read_pictures
from fourier_attn.inference.evaluation import load_splits
from fourier_attn.layers.introspection import attention_maps
from fourier_attn.studies import runs
from fourier_attn.train.evaluate import evaluate_split
from fourier_attn.train.init_from import restore
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.rundir import config_file
from fourier_attn.train.step import make_eval_step, model_inputs


def define_flags() -> None:
    runs.define_flags(several=True)
    flags.DEFINE_string(
        "data_dir", None, "directory of the TFDS data sets; default: the directory of the run's configuration"
    )
    flags.DEFINE_string("out", "results/studies/attended.json", "JSON file for the numbers")


def main() -> None:
    directories, rows, commands = runs.directories(), [], []
    for directory, name in zip(directories, runs.labels(directories), strict=True):
        rows += look(directory, name)
        facts = config_file.record(directory)
        commands.append(f"`{facts.get('command')}`, commit {facts.get('commit') or 'unknown'}")
    setting = f"synthetic_shapes; the networks by {'; '.join(commands)}"
    provenance.write(paths.given(flags.FLAGS.out), provenance.record() | {"setting": setting, "rows": rows})
    print(f"written to {flags.FLAGS.out}")


def look(directory: Path, name: str) -> list[dict[str, Any]]:
    """Evaluates one run and returns a row for each kind of question.

    Args:
      directory: the directory of the run.
      name: the name of the run in its rows.
    Raises: ValueError for a run on another task, or with tokens that are not the cells of the images.
    """
    config, network, params = restore(directory)
    task = data.TASKS[config.data.task]
    if config.data.task != "shapes":
        raise ValueError(f"workdir={directory} is a run on {config.data.task!r}; name one on shapes")
    if model.grid(config.model) != (shapes.GRID,) * 2 or config.model.class_token:
        raise ValueError(
            f"workdir={directory} has other tokens than the {shapes.GRID} x {shapes.GRID} cells of shapes; "
            "name a run without a class token, with one patch for each cell"
        )
    splits = load_splits(config, directory, flags.FLAGS.data_dir)
    test, seeds = splits.test, config.train.seeds
    eval_step = make_eval_step(network, OBJECTIVES[task.head], seeds)
    _, answers = evaluate_split(eval_step, params, test)
    right = (answers.argmax(axis=-1) == test.labels).reshape(-1, len(test.labels)).mean(axis=0)
    networks = [params] if seeds == 1 else [jax.tree.map(lambda p, i=i: p[i], params) for i in range(seeds)]

    def seen(split: Split) -> np.ndarray:
        return np.mean([_weights(network, one, split) for one in networks], axis=0)

    asked_before, colour_before = _asked(config.data, "validation")
    asked, colour = _asked(config.data, "test")
    chances, weights = asked.mean(axis=1), seen(test)
    shares_before = np.sum(seen(splits.validation) * asked_before[:, None], axis=-1)  # (n, h)
    shares = np.sum(weights * asked[:, None], axis=-1)
    rows = []
    for kind, chosen, before in (
        ("a colour", colour, colour_before),
        ("a number", ~colour, ~colour_before),
    ):
        share, chance, accuracy = (np.mean(x[chosen]) for x in (shares, chances, right))
        head = shares_before[before].mean(axis=0).argmax()
        best, largest = shares[chosen, head].mean(), weights[chosen, head].argmax(axis=-1)
        pointing = np.take_along_axis(asked[chosen], largest[:, None], axis=1).mean()
        rows.append(
            {
                "network": f"{config.model.depth} blocks of {config.model.mixer.name}",
                "run": name,
                "asked": kind,
                "examples": int(chosen.sum()),
                "share": float(share),
                "best_head": float(best),
                "pointing": float(pointing),
                "chance": float(chance),
                "accuracy": float(accuracy),
            }
        )
        looks = f"{share:.3f} of the weight on the right patches (best head {best:.3f}, chance {chance:.3f})"
        print(f"{name}, {kind}: {looks}, largest on one {pointing:.3f}, {accuracy:.2%} right")
    return rows


def _asked(config: DataConfig, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns a split's patches in question (n, t), and whether a question is about a colour (n,)."""
    task = data.task_of(config)
    questions = read_images(config)[0][split].questions
    builder = prepared(task.dataset, config.dir or None, task.builder)
    labels = read_pictures(builder, split, "patches").labels[: len(questions)]
    colour = np.array([question.startswith("what colour") for question in questions])
    return asked_patches(questions, labels), colour


def _weights(network: Any, params: Any, test: Split) -> np.ndarray:
    """Returns the weights of the question token (n, h, t), for all examples."""
    batches = [test[i] for i in range(len(test))]
    maps = [attention_maps(network, params, batch["inputs"], **model_inputs(batch)) for batch in batches]
    return np.concatenate(maps)[: len(test.labels)]


def asked_patches(questions: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Returns which patches (n, t) show the shape that each question is about, from their labels (n, t)."""
    kinds = np.array([shapes.QUESTIONS.index(question) % len(shapes.KINDS) for question in questions])
    return labels == 1 + kinds[:, None]


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
