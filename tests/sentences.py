"""Tagged sentences, written by rule: a name is a person after "Mr.", and nobody after "the"."""

import random
from pathlib import Path

NAMES = ["smith", "jones", "meier", "lang", "brun", "roy", "king", "ito", "sato", "kim"]
FIRST = ["ann", "bob", "eve", "tom", "kay", "max"]
CITIES = ["berlin", "paris", "rome", "tokyo", "oslo"]
VERBS = ["met", "saw", "called", "asked", "thanked"]


def sentence(draw: random.Random) -> list[tuple[str, str]]:
    """Draws words with their tags."""
    words: list[tuple[str, str]] = []
    for _ in range(draw.randint(1, 3)):
        kind = draw.randrange(4)
        if kind == 0:
            words += [("Mr.", "O"), (draw.choice(NAMES), "B-PER")]
        elif kind == 1:
            words += [("Mr.", "O"), (draw.choice(FIRST), "B-PER"), (draw.choice(NAMES), "I-PER")]
        elif kind == 2:
            words += [("the", "O"), (draw.choice(NAMES), "O")]
        else:
            words += [("in", "O"), (draw.choice(CITIES), "B-LOC")]
        words.append((draw.choice(VERBS), "O"))
    return words


def write_conll(path: Path, count: int, seed: int = 0) -> Path:
    """Writes a file of sentences in two columns."""
    draw = random.Random(seed)
    sentences = ["".join(f"{word} {tag}\n" for word, tag in sentence(draw)) for _ in range(count)]
    path.write_text("\n".join(["-DOCSTART- O\n", *sentences]))
    return path
