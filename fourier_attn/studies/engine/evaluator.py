"""Evaluates a trained network through engines that it was not necessarily trained on."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fourier_attn import data, model
from fourier_attn.config import Config, with_values
from fourier_attn.data.batches import Batch, Split
from fourier_attn.inference.evaluation import load_splits
from fourier_attn.layers.fields import on_engines
from fourier_attn.optics import Engine
from fourier_attn.optics.drift import timed
from fourier_attn.studies.collect import plain
from fourier_attn.studies.runs import weights_digest
from fourier_attn.train import metrics
from fourier_attn.train.evaluate import evaluate_split
from fourier_attn.train.init_from import restore
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.step import make_eval_step


def optical_mixers(directory: Path, config: Config) -> list[str]:
    """Returns the mixers of a run's blocks that have an optical form, in the order of the blocks.

    Raises: ValueError if there is none.
    """
    names = list(dict.fromkeys(model.layout(config.model)))
    if found := [name for name in names if model.engine_fields(name)]:
        return found
    listed = ", ".join(map(repr, names))
    raise ValueError(
        f"workdir={directory} has the mixer {listed}, without optical form; name a run with another mixer"
    )


def run_engine(directory: Path, config: Config) -> Engine | None:
    """Returns the engine that a run was trained on, None for the exact transform.

    In a hybrid, it is that of the first block with an optical form.

    Raises: ValueError for a run without such a block.
    """
    name = optical_mixers(directory, config)[0]
    return model.engine_of({**model.mixers(config.model)[name], "name": name})


class EngineEvaluator:
    """Evaluates the best weights of a run on its splits.

    In a hybrid, all blocks with an optical form are evaluated through the engine.

    Args:
      directory: of the run.
      name: the run's in rows and figures; "": that of its directory.
      data_dir: where TFDS keeps its data sets now; None: where it did when the run was made.
      examples: number of examples of each split; 0: all.
    Raises: ValueError for a task without classes, or a mixer without optical form.
    """

    def __init__(self, directory: Path, data_dir: str | None = None, examples: int = 0, name: str = ""):
        config, _, self.params = restore(directory)
        moved = {} if data_dir is None else {"data.dir": data_dir}
        sizes = {"data.eval_examples": examples, "data.test_examples": examples}
        self.config = with_values(config, moved | sizes)
        self.name, self.engine = name or directory.name, run_engine(directory, self.config)
        self.objective = OBJECTIVES[self.config.model.head]
        if "accuracy" not in self.objective.names:
            raise ValueError(
                f"workdir={directory} has the task {self.config.data.task!r}, which has no accuracy; "
                "name a run on a task with classes"
            )
        self.fields = self.config.model.to_dict()
        self.optical = optical_mixers(directory, self.config)
        for name in self.optical:
            mixer = self._mixers()[name]
            if name == "fourier" and mixer["padding"] == "own":
                raise ValueError(
                    f"workdir={directory} transforms each example at its own length (padding='own'), which "
                    "has no optical form; name a run with padding='invariant', 'zero' or 'tokens'"
                )
            for field, instead in on_engines(model.find_mixer(name)).items():
                mixer[field] = instead.get(mixer[field], mixer[field])  # each example is padded to its length
        self.splits = _splits(self.config, directory, data_dir)
        self._exact = jax.jit(self._step)
        self._engines = jax.jit(self._through, static_argnums=4)

    def facts(self) -> dict[str, str]:
        """Returns which network it is: its name, a digest of its weights, and one of its configuration."""
        knobs = json.dumps(plain(self.config), sort_keys=True)
        return {
            "run": self.name,
            "weights": weights_digest(self.params),
            "config": hashlib.sha256(knobs.encode()).hexdigest()[:16],
        }

    @property
    def public(self) -> str:
        """Returns "test", or "validation" if the labels of the test split are not public."""
        return "test" if not data.hidden(self.splits["test"].labels) else "validation"

    def exact(self, split: str) -> float:
        """Returns the accuracy with the exact transform."""
        total, _ = evaluate_split(
            lambda *inputs: self._exact(*inputs, None, 0), self.params, self.splits[split]
        )
        return metrics.mean(total)["accuracy"]

    def through(
        self, engines: Sequence[Engine], split: str, noise: int = 0, prefer: str | None = None
    ) -> np.ndarray:
        """Returns accuracies through engines that differ in strengths alone, all in one program.

        Args:
          engines: the engines.
          split: "validation" or "test".
          noise: seed of what changes from pass to pass.
          prefer: the plan; None: the one that the run has.
        """
        engines = [engine.replace(device=timed(engine.device)) for engine in engines]
        stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *engines)
        total, _ = evaluate_split(
            lambda params, batch: self._engines(params, batch, stacked, noise, prefer),
            self.params,
            self.splits[split],
            title=split,
        )
        return metrics.each(total)["accuracy"].reshape(len(engines), -1).mean(axis=1)

    def _mixers(self) -> dict[str, Any]:
        return model.mixers(self.fields)

    def _through(self, params: Any, batch: Batch, engines: Engine, noise: Any, prefer: str | None) -> Any:
        changes = {} if prefer is None else {"prefer": prefer}
        return jax.vmap(lambda engine: self._step(params, batch, engine, noise, **changes))(engines)

    def _step(self, params: Any, batch: Batch, engine: Engine | None, noise: Any, **changes: Any) -> Any:
        mixers = self._mixers()
        for name in self.optical:
            used, *others = model.engine_fields(name)
            mixers[name] = mixers[name] | dict.fromkeys(others) | {used: engine} | changes
        own = mixers.pop(self.fields["mixer"]["name"])
        network = model.build(self.fields | {"mixer": own, "others": mixers})
        return make_eval_step(network, self.objective, self.config.train.seeds, noise)(params, batch)


def _splits(config: Config, directory: Path, data_dir: str | None) -> dict[str, Split]:
    splits = load_splits(config, directory, data_dir)
    return {"validation": splits.validation, "test": splits.test}
