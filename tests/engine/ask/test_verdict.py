"""The evidence for an event is readable by programs and shows no sensitive value."""

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal

from strandline.core.table import Appended, Ingested, Judged
from strandline.core.topic import Topic
from strandline.engine.ask.locate import Verdict, make_finding, shown_payload, shown_row
from strandline.engine.lake.lake import Lake
from strandline_quality.mask import SHOWN
from tests.support.rows import NOON

RECEIVED = Ingested(name="received", reads=(Topic(name="received"),))
OPEN = Judged(name="open", reads=(RECEIVED,), transform=print, key=("id",), event_at="at")
GUARDED = replace(OPEN, name="guarded", sensitive=("owner",))
ABOVE = Appended(name="above", reads=(GUARDED,), transform=print, key=("id",), event_at="at")
ROW = {"id": 7, "owner": "Ann", "_offset": 3}


def test_sensitive_columns_are_masked_and_ours_are_left_out(lake: Lake) -> None:
    """The reader sees that there is a value, and not which."""
    assert shown_row(OPEN, ROW, lake) == {"id": 7, "owner": "Ann"}
    assert (
        shown_row(GUARDED, ROW, lake)
        == shown_row(ABOVE, ROW, lake)
        == {"id": 7, "owner": "[text, 3 to 4 long]"}
    )
    assert shown_row(GUARDED, {"owner": None}, lake) == {"owner": None}


def test_a_sensitive_value_under_another_name_is_masked_as_in_a_query(lake: Lake) -> None:
    """`why` knew the declared names alone, and a table above had renamed one."""
    made_of = {"id": [("silver.guarded", "id")], "person": [("silver.guarded", "owner")]}
    lake.lineage(ABOVE).put(json.dumps({"code": "", "columns": made_of, "visible": made_of}))

    shown = shown_row(ABOVE, {"id": 7, "person": "Ann"}, lake)

    assert shown == {"id": 7, "person": "[text, 3 to 4 long]"}


def test_a_payload_is_shown_only_where_nothing_in_it_is_sensitive() -> None:
    """Its size is always shown; bytes that are no text are escaped, and long text is cut."""
    assert shown_payload(OPEN, b'{"id": 7}\xff') == {"bytes": 10, "text": '{"id": 7}\\xff'}
    masked = {"bytes": 9, "text": '{"[a name, 1]": "[number, 1 long]"}'}
    assert shown_payload(GUARDED, b'{"id": 7}', ["id", "owner"]) == {
        "bytes": 9,
        "text": '{"id": 7}',
    }
    assert shown_payload(GUARDED, b'{"id": 7}') == masked
    assert shown_payload(OPEN, None) is None
    assert shown_payload(OPEN, b"x" * 9_000) == {
        "bytes": 9_000,
        "text": "x" * SHOWN + "… (9,000 characters)",
    }


def test_evidence_consists_of_json_values() -> None:
    """Times, decimals and bytes are texts; more evidence is added without changing the finding."""
    finding = make_finding(
        OPEN, Verdict.LATE, "it is late", at=NOON, day=date(2026, 11, 20), raw=b"\xff"
    )

    more = finding.also(nested={"values": (Decimal("1.50"), None, True)})

    assert finding.evidence == {
        "at": "2026-11-20T12:00:00+00:00",
        "day": "2026-11-20",
        "raw": "\\xff",
    }
    assert more.evidence == {**finding.evidence, "nested": {"values": ["1.50", None, True]}}
    assert (more.table, more.verdict) == ("silver.open", "late")
