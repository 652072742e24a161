"""Questions about contexts in SQuAD's form, written by rule: "who" asks for a name, "where" for a city."""

import json
import random
from pathlib import Path
from typing import Any

NAMES = ["smith", "jones", "meier", "lang", "brun", "roy", "king", "ito", "sato", "kim"]
CITIES = ("berlin", "paris", "New York", "oslo", "The Hague")
WORDS = ["the", "weather", "was", "fine", "and", "the", "road", "was", "long"]


def paragraph(draw: random.Random, number: int, most: int) -> dict[str, Any]:
    """Draws a context with a name and a city, and two questions about it."""
    name, city = draw.choice(NAMES), draw.choice(CITIES)
    before, after = (" ".join(draw.choices(WORDS, k=draw.randint(1, most))) for _ in range(2))
    context = f"{before}. Mr. {name} lives in {city}; {after}."
    questions = [("who lives there?", name), ("where does he live?", city)]
    return {
        "context": context,
        "qas": [
            {
                "id": f"{number}-{i}",
                "question": question,
                "answers": [{"text": text, "answer_start": context.index(text, len(before))}],
            }
            for i, (question, text) in enumerate(questions)
        ],
    }


def write_squad(path: Path, count: int, seed: int = 0, most: int = 6) -> Path:
    """Writes a file with so many contexts of about 2 `most` + 6 words."""
    draw = random.Random(seed)
    paragraphs = [paragraph(draw, number, most) for number in range(count)]
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "by rule", "paragraphs": paragraphs}]}))
    return path
