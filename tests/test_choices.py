"""Messages about values that are not one of their choices."""

import re

import pytest

from fourier_attn.choices import check_choice, check_choices


def test_an_unknown_value_is_named_with_its_choices() -> None:
    check_choice("method", "fft", {"auto": 1, "fft": 2})
    check_choice("width", 2, (1, 2))
    for value, choices, otherwise, message in (
        ("dct", {"auto": 1, "fft": 2}, "", "method='dct' is unknown; choose one of auto, fft"),
        (["fft"], {"auto": 1, "fft": 2}, "", "method=['fft'] is unknown; choose one of auto, fft"),
        (None, iter(("a", "b")), ", or a file", "method=None is unknown; choose one of a, b, or a file"),
        (3, (1, 2), "", "method=3 is unknown; choose one of 1, 2"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            check_choice("method", value, choices, otherwise)


def test_of_several_names_the_unknown_ones_are_named() -> None:
    check_choices("--only", ["a", "b"], ["a", "b", "c"])
    check_choices("--only", [], ["a"])
    with pytest.raises(ValueError, match=r"^--only=y,x is unknown; choose from a, b$"):
        check_choices("--only", ["y", "a", "x", "y"], iter(["a", "b"]))
