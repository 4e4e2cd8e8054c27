"""A key is recognised in the bytes of a payload, whatever their format."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from strandline.engine.ask.locate import (
    contains_key,
    has_another,
    has_fields,
    records_with_key,
    rows_per_second,
)
from strandline.engine.lake.place import Place
from tests.engine.written import SILVER, entry, numbers, written

AVRO = b"\x0aabc-1\x0cserver\x02"


@pytest.mark.parametrize(
    ("payload", "key"),
    [
        (b'{"event_id": "e1", "value": 2}', "e1"),
        (b'{"id":17}', "17"),
        (b"e1,d1,temperature,2.5", "e1"),
        (b"d1,e1", "e1"),
        (AVRO, "abc-1"),
        (
            AVRO.replace(b"\x0aabc-1", b"Habcdefgh-0123-4567-89ab-0123456789ab"),
            "abcdefgh-0123-4567-89ab-0123456789ab",
        ),
        ('{"id": "gerät-7"}'.encode(), "gerät-7"),
        (b"e1", "e1"),
    ],
)
def test_a_payload_contains_its_key(payload: bytes, key: str) -> None:
    """As a word, or after its length as Avro writes it."""
    assert contains_key(payload, key)


@pytest.mark.parametrize(
    ("payload", "key"),
    [
        (b'{"event_id": "e12"}', "e1"),
        (b'{"event_id": "e-1"}', "1"),
        (b'{"id": 117}', "17"),
        (b"", "e1"),
    ],
)
def test_a_part_of_another_word_is_no_key(payload: bytes, key: str) -> None:
    """Otherwise e1 would be a copy of e12."""
    assert not contains_key(payload, key)


@pytest.mark.parametrize(
    ("payload", "readable"),
    [
        (b'{"id": 1}', True),
        (b'{"it": 1}', False),
        (b"[1]", False),
        (b"\xff", False),
        (b"id,1", False),
    ],
)
def test_a_json_payload_has_its_key_as_fields(payload: bytes, readable: bool) -> None:  # noqa: FBT001  # a parameter of the test
    """A record whose key can be read, and is nowhere, is no copy of anything."""
    assert has_fields(payload, ("id",)) is readable


@pytest.mark.parametrize(
    ("payload", "is_another"),
    [
        (b'{"id": "e2", "after": "e1"}', True),
        (b'{"id": " E1 "}', False),
        (b'{"id": 1, "after": "e1"}', False),
        (b'{"key": "e2", "after": "e1"}', False),
        (b"e2,e1", False),
    ],
)
def test_a_payload_with_another_key_only_mentions_this_one(
    payload: bytes,
    is_another: bool,  # noqa: FBT001  # a row of a table
) -> None:
    """A record is skipped only if its own key can be read for certain."""
    assert has_another(payload, {"id": "e1"}) is is_another


def test_a_key_is_recognised_however_its_writer_escaped_it(tmp_path: Path) -> None:
    """Half of all JSON writers keep an umlaut, the other half write its number."""
    payloads = ['{"id": "gerät-7"}'.encode(), rb'{"id": "ger\u00e4t-7"}', b'{"id": "gert-7"}']
    rows = pa.table({"_payload": pa.array(payloads, pa.binary())})
    write_deltalake(tmp_path / "t", rows)

    records = records_with_key(Place.of(tmp_path / "t"), ["gerät-7"])

    assert [each.row["_payload"] for each in records] == payloads[:2]


def test_what_a_table_leaves_to_others_counts_for_its_rate(anywhere: Place) -> None:
    """What waits for it are records of all kinds; by its own alone they would seem to take longer."""
    made = [
        entry(SILVER, batch=0, read=10, others=90, duration_ms=1_000),
        entry(SILVER, batch=1, read=0, others=100, duration_ms=1_000),
    ]
    for each in made:
        written(anywhere, numbers(1), each.encoded())

    assert rows_per_second(anywhere) == 100.0
