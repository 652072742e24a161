"""Checks the descriptions of prepared data sets, because TFDS imports any class that they name.

A data directory may come from somebody else. TFDS builds the features of a data set from names of Python
classes in `features.json` and `dataset_info.json`, and imports the modules of unknown ones. These files are
in NAME/VERSION or NAME/CONFIG/VERSION, where NAME/.config/metadata.json may name the default CONFIG.
"""

import contextlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds
from tensorflow_datasets.core import constants, naming
from tensorflow_datasets.core.utils import file_utils

from fourier_attn import paths
from fourier_attn.data.tables import files

DESCRIPTIONS = ("features.json", "dataset_info.json")
CLASS_KEYS = ("pythonClassName", "python_class_name", "type")  # "type" in files of TFDS before 4.4
CONFIG = r"(?!\.\.?(?:$|:))[\w.+-]+"  # one folder, and neither . nor ..
NAME = re.compile(rf"\w+(/{CONFIG})?(:[\d*]+(\.[\d*]+)*)?")
MOST = 100  # times that a folder may be renamed by other processes while it is listed


def check_descriptions(dataset: str, data_dir: str | None) -> None:
    """Checks that the description of a prepared data set does not make TFDS import code or wait.

    Raises: ValueError for a name that is not that of a folder (`huggingface:` names would need the network),
      a description that is not a regular JSON file, a class that is not a feature of TFDS, and a default
      configuration that is not the name of a folder.
    """
    if not NAME.fullmatch(dataset):
        raise ValueError(
            f"the data set {dataset!r} is not a TFDS name (NAME, NAME/CONFIG or NAME:VERSION); "
            "prepare it with TFDS and give the name of its folder"
        )
    folder = naming.camelcase_to_snakecase(re.split("[/:]", dataset)[0])
    for root in file_utils.list_data_dirs(given_data_dir=data_dir):
        place = paths.given(str(root)) / folder
        _check_default(place / ".config" / constants.METADATA_FILENAME)
        for path in _descriptions(place):
            # TFDS writes into folders with this prefix, and never reads them.
            if not path.parent.name.startswith(constants.INCOMPLETE_PREFIX):
                _check_description(path)


def _descriptions(place: Path) -> list[Path]:
    """Returns the descriptions of all versions and configurations of a data set."""
    patterns = [f"{depth}/{name}" for depth in ("*", "*/*") for name in DESCRIPTIONS]
    for _ in range(MOST):
        # Another process renames the folder in which TFDS has written a data set.
        with contextlib.suppress(FileNotFoundError):
            return [path for pattern in patterns for path in place.glob(pattern)]
    raise ValueError(f"the files in {place} keep changing; wait for the processes that write them")


def _check_default(path: Path) -> None:
    """Checks that the default configuration is a folder whose description is checked as well."""
    if path.is_symlink() or path.exists():
        value = _json(path)
        name = value.get("default_config_name") if isinstance(value, dict) else value
        if name is not None and not (isinstance(name, str) and re.fullmatch(CONFIG, name)):
            raise ValueError(
                f"{path} has the default configuration {name!r:.100}, which is not the name of a folder; "
                "remove this file, and give the configuration as NAME/CONFIG"
            )


def _json(path: Path) -> Any:
    contents = files.read_text(path, path.parent)
    try:
        return json.loads(contents)
    except (ValueError, RecursionError) as error:
        raise _not_a_description(path, error) from error


def _not_a_description(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"{path} is not the description of a data set ({error}); move its folder and prepare the data set "
        "again"
    )


def _check_description(path: Path) -> None:
    value = _json(path)
    try:
        if path.name == "dataset_info.json":  # other parts of this file have a key "type" as well
            value = value.get("features", {})
        unknown = next((name for name in _classes(value) if name not in FEATURES), None)
    except (ValueError, AttributeError, RecursionError) as error:
        raise _not_a_description(path, error) from error
    if unknown is not None:
        raise ValueError(
            f"{path} names the class {unknown!r:.100}, which is not a TFDS feature; prepare the data set "
            "again with features of TFDS (loading data never executes code)"
        )


def _classes(value: Any) -> Iterator[str]:
    """Yields the names of classes in a description, also in texts that contain JSON."""
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
    """Returns the names under which TFDS knows its own features."""
    names = set()
    for feature in vars(tfds.features).values():
        if inspect.isclass(feature) and issubclass(feature, tfds.features.FeatureConnector):
            names |= {f"{feature.__module__}.{feature.__name__}", *vars(feature).get("ALIASES", ())}
    return frozenset(name for name in names if name.startswith("tensorflow_datasets.core.features."))


FEATURES = _features()
