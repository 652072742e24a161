"""Tables of perplexities."""

from evidence.pages.language import of, perplexity_table


def finding(test: float, validations: list[float]) -> dict:
    """What a cell's file says that the table needs."""
    epochs = [{"validation": {"perplexity": v, "word_perplexity": 2 * v}} for v in validations]
    costs = {"parameters": 5, "cpu_seconds": 360.0, "processes": 1, "counted": 1, "peak_memory_mib": 7}
    costs["hardware"] = None
    return {"test": {"perplexity": test, "word_perplexity": 3 * test}, "epochs": epochs, **costs}


def test_the_lowest_perplexity_is_first_and_validation_is_that_of_the_best_epoch() -> None:
    for epoch in (one := finding(40.0, [60.0, 50.0, 55.0]))["epochs"]:
        epoch["train"] = {"examples_per_s": 8.0}
    two = finding(30.0, [45.0]) | {"epochs": [one["epochs"][1] | {"validation": {"perplexity": 45.0}}]}
    assert of(one, "validation", "word_perplexity") == 100.0
    rows = perplexity_table({"a": [one], "b": [two], "c": []}).splitlines()
    assert rows[0].startswith(
        "| model | validation: perplexity of a token | validation: perplexity of a word |"
    )
    assert [row.split("`")[1] for row in rows[2:]] == ["b", "a", "c"]
    assert "| `a` | 50.0 (1) | 100.0 (1) | 40.0 (1) | 120.0 (1) | 0.10 | 8 | 5 | 7 |" in rows
    assert rows[-1].startswith("| `c` | not yet run |")
