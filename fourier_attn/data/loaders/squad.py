"""Loads questions whose answers are spans of their contexts."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from fourier_attn.data.batches import padded_lengths
from fourier_attn.data.knobs import DataConfig
from fourier_attn.data.loaders.encoding import model_knobs, run_tokenizer
from fourier_attn.data.spans import SpanBatches, span_batches
from fourier_attn.data.splits import Splits
from fourier_attn.data.tables import squad, user_tables
from fourier_attn.data.tasks import task_of
from fourier_attn.data.text import tokenizer_file


def load(config: DataConfig, directory: Path, say: Callable[[str], None], **order: int) -> Splits:
    """Loads the files of questions `train`, `validation` and `test`.

    Args:
      config, directory, say: see `fourier_attn.data.load`.
      order: seed and epochs of the training set, see `fourier_attn.data.load`.
    """
    read = squad.read(config)
    texts = (text for each in read.parts["train"] for text in (each.question, each.context))
    tokenizer = run_tokenizer(config, directory, dict.fromkeys(texts), say)
    say(f"encoding {sum(map(len, read.parts.values())):,} questions ...")
    lengths = padded_lengths(config)

    def batches(name: str, **order: int) -> SpanBatches:
        return span_batches(config, tokenizer, read.parts[name], lengths, batch=config.batch, **order)

    splits = {name: batches(name, **(order if name == "train" else {})) for name in read.parts}
    unanswerable = any(not question.answers for question in read.parts["train"])
    return Splits(
        train=splits["train"],
        validation=splits["validation"],
        test=splits["test"],
        extra_evals={},
        model=model_knobs(task_of(config), tokenizer.get_vocab_size()),
        lengths=lengths,
        in_train=np.zeros(len(splits["test"].rows), bool),
        tokenizer=tokenizer_file(directory),
        knobs={"unanswerable": unanswerable},
        notes=(*read.notes, *_notes(splits["train"], unanswerable)),
        files=user_tables.fingerprints(config),
    )


def _notes(train: SpanBatches, unanswerable: bool) -> list[str]:
    """Returns notes on the training set: windows, answers that fit into no window, unanswerable questions."""
    held = np.split(train.labels.any(axis=1), np.cumsum([len(each.begins) for each in train.asked])[:-1])
    lost = sum(
        bool(each.question.answers) and not inside.any()
        for each, inside in zip(train.asked, held, strict=True)
    )
    notes = [f"train: {len(train.asked):,} questions in {len(train.rows):,} windows"]
    if lost:
        notes.append(f"train: the answers to {lost:,} questions fit into no window; increase data.length")
    if unanswerable:
        none = sum(not each.question.answers for each in train.asked)
        notes.append(f"train: {none:,} questions have no answer, so the run may predict that")
    return notes
