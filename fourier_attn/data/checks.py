"""Checks of the `data` part of a configuration, before any data are read."""

from typing import Any

from fourier_attn.data.corpus import check_corpora
from fourier_attn.data.tasks import TASKS, check_task
from fourier_attn.data.text import WORDS, check_kind


def check(config: Any) -> None:
    """Checks the `data` part of a configuration without reading any data.

    Raises: ValueError for a knob out of its range, and for knobs that do not fit each other.
    """
    check_task(config)
    check_kind(config["tokenizer"], config["vocab"])
    pretraining = config["task"] == "pretraining"
    separated = pretraining or len(TASKS[config["task"]].texts) > 1
    if separated and config["tokenizer"] in (*WORDS, "bytes"):
        raise ValueError(
            f"data.tokenizer={config['tokenizer']!r} has no [SEP], which task {config['task']!r} needs; "
            "use 'bpe'"
        )
    if pretraining:
        check_corpora(config)
    if pretraining and config["length"] < 8:
        raise ValueError(
            f"data.length={config['length']} must be at least 8 for two segments and their special tokens"
        )
