"""Implements synthetic data sets of texts: random examples without duplicates, equal on every machine."""

import random
from collections.abc import Iterator, Mapping
from typing import ClassVar

import tensorflow_datasets as tfds


class Drawn:
    """Implements a TFDS builder; put it before `tfds.core.GeneratorBasedBuilder` in the list of bases.

    Args:
      labels: names of the classes.
      sizes: number of examples of each split.
      about: description of the data set.
    """

    VERSION = tfds.core.Version("1.0.0")
    labels: ClassVar[tuple[str, ...]]
    sizes: ClassVar[Mapping[str, int]]
    about: ClassVar[str]

    @staticmethod
    def example(rng: random.Random) -> tuple[str, int]:
        """Returns a random text and its label, from the generator `rng`."""
        raise NotImplementedError

    def _info(self) -> tfds.core.DatasetInfo:
        features = {"text": tfds.features.Text(), "label": tfds.features.ClassLabel(names=list(self.labels))}
        return tfds.core.DatasetInfo(
            builder=self,
            description=self.about,
            features=tfds.features.FeaturesDict(features),
            supervised_keys=("text", "label"),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        rng, seen = random.Random(0), set()

        def examples(split: str, count: int) -> Iterator[tuple[str, dict]]:
            made = 0
            while made < count:
                text, label = self.example(rng)
                if text not in seen:
                    seen.add(text)
                    yield f"{split}_{made}", {"text": text, "label": label}
                    made += 1

        return {split: examples(split, count) for split, count in self.sizes.items()}

    def _generate_examples(self) -> None:
        """Does nothing; `_split_generators` uses one random source, so that splits do not overlap."""
