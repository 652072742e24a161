"""Reads WikiText-2, texts of good Wikipedia articles, as a TFDS data set with one article per example."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from fourier_attn.data.tables import files

FILES = {"train": "wiki.train.tokens", "validation": "wiki.valid.tokens", "test": "wiki.test.tokens"}
TITLE = re.compile(r" = [^=].* = ")


class Wikitext2(tfds.core.GeneratorBasedBuilder):
    """Builds the TFDS data set `wikitext2`, with the articles in the order of the files."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="WikiText-2 by article (Merity et al., Pointer Sentinel Mixture Models, ICLR 2017).",
            features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        raise ValueError(
            f"the data set wikitext2 is not in {self.data_path}. Build it from a local copy: "
            "python -m fourier_attn.data.prepare --dataset=wikitext2 --source=DIR"
        )

    def _generate_examples(self) -> None:
        """Does nothing, because `splits` returns the examples."""


def builder(data_dir: str | None) -> tfds.core.DatasetBuilder:
    """Returns the TFDS builder of WikiText-2 for a data directory."""
    return Wikitext2(data_dir=data_dir, file_format="array_record")


def splits(builder: Any, source: Path) -> dict[str, Iterator]:
    """Reads the splits of wikitext2 from a folder with wiki.{train,valid,test}.tokens[.xz]."""
    paths = {split: files.find(source, name) for split, name in FILES.items()}
    missing = [FILES[split] for split, path in paths.items() if path is None]
    if missing:
        raise ValueError(
            f"source={source} is not a copy of wikitext2; expected a folder with {', '.join(FILES.values())} "
            f"(or .tokens.xz), but {', '.join(missing)} is missing"
        )
    return {split: _examples(path, source) for split, path in paths.items() if path}


def _examples(path: Path, source: Path) -> Iterator[tuple[int, dict]]:
    for number, article in enumerate(articles(path, source)):
        yield number, {"text": article}


def articles(path: Path, source: Path) -> Iterator[str]:
    """Yields the articles of a file in the folder `source`; joined with newlines they are the file.

    A title is a line ` = Title = ` between two empty lines. Lines ` = = Section = = ` are headings in an
    article. A line ` = x = ` that is not between empty lines is ordinary text.

    Raises: ValueError for a file that cannot be read or lacks a title, and for too long an article.
    """
    lines = [line for _, line in files.lines(path, source)]
    empty = [True, *(not line.strip() for line in lines), True]
    starts = [i for i, line in enumerate(lines) if TITLE.fullmatch(line) and empty[i] and empty[i + 2]]
    if not starts or not all(empty[: starts[0] + 1]):
        raise ValueError(f"{path} does not begin with a title, a line ' = Title = '; check the copy")
    starts[0] = 0  # the empty line before the first title
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        article = "\n".join(lines[start:end])
        if len(article) > files.TEXT:
            raise ValueError(f"{path} has an article of more than {files.TEXT:,} characters; check the copy")
        yield article
