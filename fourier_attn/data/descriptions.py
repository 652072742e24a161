"""Reads the descriptions of prepared data sets before TFDS does, which imports whatever class they name.

A data directory comes from strangers. TFDS builds the features of a data set from the names of Python classes
in `features.json` and `dataset_info.json`, and imports the modules of those that it does not know.
"""

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds
from tensorflow_datasets.core import naming
from tensorflow_datasets.core.utils import file_utils

from fourier_attn import paths
from fourier_attn.data.tables import files

DESCRIPTIONS = ("features.json", "dataset_info.json")
CLASS_KEYS = ("pythonClassName", "python_class_name", "type")  # "type" is that of files before TFDS 4.4
NAME = re.compile(r"\w+(/[\w.+-]+)?(:[\d*]+(\.[\d*]+)*)?")


def check_descriptions(dataset: str, data_dir: str | None) -> None:
    """Checks that nothing in the description of a prepared data set makes TFDS import code, or wait.

    Raises: ValueError for a name that is not that of a data set in a directory (`huggingface:` names ask the
      network), and for a description that is not a regular file of JSON, or
      that names a class which is not one of TFDS's features.
    """
    if not NAME.fullmatch(dataset):
        raise ValueError(
            f"the data set {dataset!r} is not a name of TFDS (NAME, NAME/CONFIG or NAME:VERSION); "
            "prepare it with TFDS and give the name of its folder"
        )
    folder = naming.camelcase_to_snakecase(re.split("[/:]", dataset)[0])
    for root in file_utils.list_data_dirs(given_data_dir=data_dir):
        place = paths.given(str(root)) / folder
        for name in DESCRIPTIONS:
            # of NAME/VERSION and of NAME/CONFIG/VERSION
            for path in (*place.glob(f"*/{name}"), *place.glob(f"*/*/{name}")):
                _check_description(path)


def _check_description(path: Path) -> None:
    contents = files.read_text(path, path.parent)
    try:
        value = json.loads(contents)
        if path.name == "dataset_info.json":  # which has other things of a "type" besides
            value = value.get("features", {})
        unknown = next((name for name in _classes(value) if name not in FEATURES), None)
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} is not a description of a data set ({error}); move that folder away and prepare it again"
        ) from error
    if unknown is not None:
        raise ValueError(
            f"{path} names the class {unknown!r:.100}, which is not a TFDS feature; prepare the data set "
            "again with TFDS's own features (loading data never executes code)"
        )


def _classes(value: Any) -> Iterator[str]:
    """Yields the names of classes in a description, also those in JSON that is a text in it."""
    if isinstance(value, list):
        for item in value:
            yield from _classes(item)
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if key in CLASS_KEYS and isinstance(item, str):
            yield item
        elif key in ("json", "content") and isinstance(item, str):
            yield from _classes(json.loads(item))
        else:
            yield from _classes(item)


def _features() -> frozenset[str]:
    """Returns the names of TFDS's own features, under which it finds them without an import."""
    names = set()
    for feature in vars(tfds.features).values():
        if inspect.isclass(feature) and issubclass(feature, tfds.features.FeatureConnector):
            names |= {f"{feature.__module__}.{feature.__name__}", *vars(feature).get("ALIASES", ())}
    return frozenset(name for name in names if name.startswith("tensorflow_datasets.core.features."))


FEATURES = _features()
