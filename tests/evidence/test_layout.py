"""Tables on pages: rows in view, folded rows, one link to the provenance, one list of what is not yet run."""

from pathlib import Path

import pytest

from evidence.pages import layout
from evidence.pages.fill import LISTS, TABLES
from evidence.pages.markdown import Results

HEAD = "| model | test, % |  |\n| --- | --- | --- |\n"
SOURCE = "\n<sub>`python x` (results/x.json): a machine; jax 0.10.2; commit 012345678; 2026-11-22</sub>\n"


def rows(count: int) -> str:
    return "".join(f"| `m{i}` | {i} |  |\n" for i in range(count))


def test_a_long_table_is_folded_and_its_sources_are_a_link() -> None:
    text = layout.arrange("lm-causal", HEAD + rows(8) + "| `late` | not yet run |  |\n" + SOURCE, "docs/a.md")
    shown, _, folded = text.partition("<details>\n<summary>All 8 rows</summary>\n\n")
    assert shown == HEAD + rows(6) + "\n"
    assert folded.startswith(HEAD + rows(8) + "\n</details>\n")
    assert folded.endswith("\n\n[Provenance](provenance.md#lm-causal)\n")
    assert "late" not in text
    assert "<sub>" not in text


def test_a_short_table_is_not_folded() -> None:
    report = "results/evidence/lm_equal/report.md"
    text = layout.arrange(
        "lm-causal", HEAD + rows(6) + "\nA remark.\n", "results/evidence/lm_equal/findings.md", report
    )
    assert text == HEAD + rows(6) + "\nA remark.\n\n[All seeds and provenance](report.md)\n"
    assert "<details>" not in layout.arrange("claims", HEAD + rows(8), "docs/a.md")


def test_rows_in_view_are_those_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(layout.ROWS, "lm-causal", ("`m7` |", "`m1` |"))
    lines = rows(8).splitlines()
    assert layout.in_view("lm-causal", lines) == [lines[7], lines[1]]
    monkeypatch.setitem(layout.ROWS, "lm-causal", ("`m9` |",))
    with pytest.raises(ValueError, match="table=lm-causal has no row that begins with '`m9`"):
        layout.in_view("lm-causal", lines)


def test_a_row_with_a_result_is_not_missing() -> None:
    assert layout.is_missing("| `a` | not yet run |  |  |")
    assert layout.is_missing("| 1 | claim | hypothesis | not yet run |  |")
    assert not layout.is_missing("| `a` | 3 | not yet run | 4 |")
    assert not layout.is_missing("| `a` | not yet run | not yet run |")
    assert not layout.is_missing("| `a` | 3 |  |")


def test_sources_are_listed_and_a_table_without_results_leads_to_the_open_questions() -> None:
    tables = {
        "one": lambda _: HEAD + rows(2) + "| `late` | not yet run |  |\n" + SOURCE,
        "two": lambda _: HEAD + "| `never` | not yet run |  |\n",
    }
    results = Results(Path())
    assert layout.provenance(tables, results) == (
        "## one\n\n| Result | Command | Machine | Versions | Commit | Date |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| [x.json](../results/x.json) | `python x` | a machine | jax 0.10.2 | 012345678 | 2026-11-22 |\n\n"
    )
    text = layout.arrange("two", tables["two"](results), "results/a/b.md")
    assert text == "Not yet run: see [open questions](../../docs/evidence.md#open-questions).\n"


def test_a_second_table_is_a_remark() -> None:
    second = "Remarks:\n\n| model | remark |\n| --- | --- |\n| `m1` | slow |\n"
    text = layout.arrange("lm-causal", f"{HEAD}{rows(2)}\n{second}", "docs/a.md")
    assert text == f"{HEAD}{rows(2)}\n{second}"


def test_cells_of_a_source() -> None:
    origin = "2 x GPU, 1 core; versions unknown; commit unknown; date unknown; load 1 before; d = 64"
    shared = [
        "2 x GPU, 1 core",
        "versions unknown",
        "unknown",
        "date unknown",
        "load 1 before, d = 64",
    ]
    a, b = "[a.json](../results/b/a.json)", "[b.json](../results/b.json)"
    files = "`python x --a=1, 2: 3` (results/b/a.json), command unknown (results/b.json)"
    assert layout.cells(f"{files}: {origin}") == [
        [a, "", "`python x --a=1, 2: 3`", *shared],
        [b, "", "", *shared],
    ]
    assert layout.cells(f"results/b.json, fnet-0, fnet-1: {origin}") == [[b, "fnet-0, fnet-1", "", *shared]]
    with pytest.raises(ValueError, match="source='nothing' must name its files"):
        layout.cells("nothing")


def test_options_belong_to_tables() -> None:
    assert {*layout.ROWS, *layout.WHOLE} <= TABLES.keys()
    assert not LISTS.keys() & TABLES.keys()
    assert all(len(shown) <= layout.IN_VIEW for shown in layout.ROWS.values())
