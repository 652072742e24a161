"""Predicts the answers to one text or image, in the form that the command line prints."""

import sys
from pathlib import Path

from fourier_attn.inference import tagging
from fourier_attn.inference.predictor import WINDOWED, Answer, Predictor


def note_unknown(answer: Answer) -> None:
    """Prints a note if the text of an answer has unknown tokens."""
    if answer["unknown"]:
        note = f"note: the tokenizer knows {1 - answer['unknown']:.0%} of the text's tokens"
        print(f"{note}; all others are read as the unknown token", file=sys.stderr)


def predict(run: str | Path | Predictor, text: str, text_pair: str | None = None) -> list[tuple[str, float]]:
    """Returns the answers to one text or pair of texts, with their probabilities.

        >>> [(label, probability)] = predict("runs/fnet-imdb", "a fine film")  # doctest: +SKIP

    A task with classes has one answer, its likeliest class. With several labels all are returned, the
    likeliest first. A task on numbers returns ("score", number), a masked language model the five likeliest
    tokens for each [MASK], and a tagging task each word with its tag, then each entity.

    Args:
      run: the run's directory, or its `Predictor`.
      text: the text.
      text_pair: the second text of a pair; default None.
    Raises: ValueError as `Predictor`.
    """
    predictor = run if isinstance(run, Predictor) else Predictor.load(run, batch=1)
    if predictor.task.images:
        how = "as well" if predictor.task.question else "instead of a text"
        task = predictor.config.data.task
        raise ValueError(f"the task {task!r} takes images; give --image=FILE {how}")
    [answer] = predictor([text], None if text_pair is None else [text_pair])
    note_unknown(answer)
    if answer["cut"]:
        note = f"note: {answer['cut']:.0%} of the text was not read because it is longer than data.length"
        cure = "; --long=windows reads all of it" if predictor.task.head in WINDOWED else ""
        print(f"{note}={predictor.config.data.length} tokens{cure}", file=sys.stderr)
    if "words" in answer:
        return tagging.lines(answer)
    if "start" in answer:
        return [(answer["text"] or "(no answer)", answer["probability"])]
    if "labels" in answer:
        return sorted(answer["probabilities"].items(), key=lambda item: -item[1])
    if "masks" in answer:
        return [(best["token"], best["probability"]) for mask in answer["masks"] for best in mask]
    return [("score", answer["score"])] if "score" in answer else [(answer["label"], answer["probability"])]


def predict_image(
    run: str | Path | Predictor, image: str | Path, question: str | None = None
) -> list[tuple[str, float]]:
    """Returns the classes of an image with their probabilities, the likeliest first.

    For a task on patches, the likeliest class of each patch is returned, row by row. The image is scaled to
    the network's size.

    Args:
      run: the run's directory, or its `Predictor`.
      image: the image file.
      question: the question about the image, for tasks with questions; default None.
    Raises: ValueError as `Predictor`, and for a question with unknown words.
    """
    predictor = run if isinstance(run, Predictor) else Predictor.load(run, batch=1)
    if not predictor.task.images:
        task = predictor.config.data.task
        raise ValueError(f"the task {task!r} takes texts; give --text instead of --image")
    questions = None if question is None else [question]
    [answer] = predictor([image], questions)
    if "patches" in answer:
        return [
            (f"{row} {col} {place['label']}", place["probability"])
            for row, places in enumerate(answer["patches"])
            for col, place in enumerate(places)
        ]
    return sorted(answer["probabilities"].items(), key=lambda item: -item[1])
