"""Text in columns."""

from fourier_attn.columns import aligned


def test_cells_are_aligned() -> None:
    rows = [["name", "n", "m"], ["a", "10", ""], ["long name", "no numbers at all"]]
    assert aligned(rows) == ["name  n   m", "a     10", "long name  no numbers at all"]
    rows[2] = ["b", "1", "200"]
    assert aligned(rows, right=True) == ["name   n    m", "a     10", "b      1  200"]
    assert aligned([]) == []
