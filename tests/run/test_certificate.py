"""What a table's certificates are worth, in a few words."""

from dataclasses import replace

import pytest

from jobs.gold.device_signal_10m import TABLE
from jobs.run.certificate import Certificate, keep, standing
from jobs.run.lake import Lake
from jobs.run.meter import code_version

WHOLE = Certificate(
    table=TABLE.id,
    equal=True,
    rows=1,
    splits=1,
    kills=0,
    seed=1,
    offsets={},
    versions={TABLE.id: 1},
    code=code_version(TABLE),
    at="2026-11-20T12:00:00+00:00",
    seconds=1.0,
)
PART = replace(WHOLE, since="2026-11-01", until="2026-11-02", at="2026-11-20T13:00:00+00:00")
EARLIER = "2026-11-20T11:00:00+00:00"


@pytest.mark.parametrize(
    ("found", "worth"),
    [
        ((), "none"),
        ((WHOLE,), "equal"),
        ((PART,), "equal in a range"),
        ((WHOLE, PART), "equal"),
        ((replace(WHOLE, code="x"), PART), "equal, by other code"),
        ((replace(WHOLE, equal=False), PART), "NOT EQUAL"),
        ((WHOLE, replace(PART, equal=False)), "NOT EQUAL"),
        ((replace(WHOLE, equal=False, code="x"),), "NOT EQUAL, by other code"),
        ((WHOLE, replace(PART, equal=False, at=EARLIER)), "equal"),
    ],
)
def test_a_difference_counts_until_all_rows_were_looked_at_again(
    found: tuple[Certificate, ...], worth: str, lake: Lake
) -> None:
    """A range that is equal says nothing of the rows beside it."""
    for each in found:
        keep(each, TABLE, lake)

    assert standing(TABLE, lake) == worth
