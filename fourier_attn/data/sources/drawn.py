"""What synthetic data sets of texts share: examples that are drawn, the same on every machine, none twice."""

import random
from collections.abc import Iterator, Mapping
from typing import ClassVar

import tensorflow_datasets as tfds


class Drawn:
    """The part of a TFDS builder that all have; to be named before `tfds.core.GeneratorBasedBuilder`."""

    VERSION = tfds.core.Version("1.0.0")
    labels: ClassVar[tuple[str, ...]]
    sizes: ClassVar[Mapping[str, int]]
    about: ClassVar[str]

    @staticmethod
    def example(draw: random.Random) -> tuple[str, int]:
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
        draw, seen = random.Random(0), set()

        def examples(split: str, count: int) -> Iterator[tuple[str, dict]]:
            made = 0
            while made < count:
                text, label = self.example(draw)
                if text not in seen:
                    seen.add(text)
                    yield f"{split}_{made}", {"text": text, "label": label}
                    made += 1

        return {split: examples(split, count) for split, count in self.sizes.items()}

    def _generate_examples(self) -> None:
        """Unused: the generators of `_split_generators` share one source, so that splits do not overlap."""
