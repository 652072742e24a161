"""The common part of synthetic data sets of texts: random examples, none twice, equal on every machine."""

import random
from collections.abc import Iterator, Mapping
from typing import ClassVar

import tensorflow_datasets as tfds


class Drawn:
    """Implements a TFDS builder; to be named before `tfds.core.GeneratorBasedBuilder` among the bases."""

    VERSION = tfds.core.Version("1.0.0")
    labels: ClassVar[tuple[str, ...]]
    sizes: ClassVar[Mapping[str, int]]
    about: ClassVar[str]

    @staticmethod
    def example(rng: random.Random) -> tuple[str, int]:
        """Draws a text and its label."""
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
        """Does nothing: generators of `_split_generators` share one source, so that splits do not overlap."""
