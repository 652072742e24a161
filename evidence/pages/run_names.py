"""Names runs of the engine's studies in words, for tables and figures."""

import re
from typing import Any

NAME = re.compile(r"(?:.*-)?(exact|engine|insitu)(?:-(\d+)-photons)?(?:-\d+)?")
WORDS = {"exact": "trained exactly", "engine": "trained on the engine", "insitu": "fine-tuned on the engine"}


def readable(run: str) -> str:
    """Returns the words for a run's directory, such as "trained exactly" for "1-fnet-exact-2".

    Args:
      run: name of the directory; a name without a known word is returned as it is.
    """
    match = NAME.fullmatch(run)
    if match is None:
        return run
    how, photons = match.groups()
    return f"fine-tuned at {photons} photons" if photons else WORDS[how]


def renamed(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a document with its rows' runs in words.

    Args:
      document: a file of results with rows that have a "run".
    """
    return document | {"rows": [row | {"run": readable(row["run"])} for row in document["rows"]]}
