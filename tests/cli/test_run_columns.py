"""The table that `run` prints: what was passed over has a column where anything was, so that the figures of a row add up."""

from collections import Counter

from strandline.cli.verbs.stream import COLUMNS, columns_and_rows
from strandline.engine.flow.running import Report


def test_what_was_passed_over_has_a_column_where_anything_was() -> None:
    plain = Report(table="silver.a", mode="available-now", batches=1, read=5, good=5)
    skips = Report(
        table="silver.b",
        mode="available-now",
        batches=1,
        read=9,
        good=4,
        quarantined=Counter({"malformed": 2, "late": 1}),
        held_items=1,
        skipped=Counter({"no_items": 2, "tests": 1}),
    )

    columns, rows = columns_and_rows([plain, skips])
    assert columns == COLUMNS
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    parts = ("good", "duplicates", "quarantined", "skipped", "dropped", "lost")
    assert [sum(each[name] for name in parts) for each in found] == [5, 9]  # type: ignore[misc]
    assert found[1]["skipped"] == 3

    columns, rows = columns_and_rows([plain])
    assert "skipped" not in columns
    assert [len(row) for row in rows] == [len(columns)]
