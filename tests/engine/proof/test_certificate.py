"""The status of a table from its certificates, in a few words."""

from dataclasses import replace

import pytest

from fleet.gold.device_signal_10m import TABLE
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.certificate import Certificate, keep, status
from strandline.engine.runtime.code_files import code_version

pytestmark = pytest.mark.whole

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
    ("certificates", "expected"),
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
def test_a_difference_counts_until_all_rows_are_verified_again(
    certificates: tuple[Certificate, ...], expected: str, lake: Lake
) -> None:
    """An equal range proves nothing about the rows outside of it."""
    for each in certificates:
        keep(each, TABLE, lake)

    assert status(TABLE, lake) == expected
