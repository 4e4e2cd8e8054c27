"""An export contains every open row, to the last byte."""

import base64
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.accounting.browse_held import export
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.engine.written import SILVER, entry
from tests.support.held import RECORDS, hold, record, resolution, resolve

ODD = record(
    2, "late", "early", _payload=bytes(range(256)), _headers=[{"key": "h", "value": b"\xfe"}]
)
NONE = record(3, "malformed", _message_key=None, _payload=None, _headers=None)


@pytest.fixture
def sound(tmp_path: Path) -> Lake:
    """Return a quarantine of three rows; one was given up."""
    lake = Lake(tmp_path / "lake")
    hold(lake, SILVER, [record(1, "late"), ODD, NONE], entry(SILVER))
    commit = entry(SILVER, versions={f"quarantine.{SILVER.name}": (0, 0)})
    resolve(lake, SILVER, [resolution(record(1, "late"), "discarded")], commit)
    return lake


def test_lines_of_json_hold_every_byte_of_every_open_row(sound: Lake, tmp_path: Path) -> None:
    """An absent value is not an empty one."""
    count = export(SILVER, sound, Place.of(tmp_path / "held.ndjson"))

    odd, none = [json.loads(line) for line in (tmp_path / "held.ndjson").read_text().splitlines()]
    assert count == 2
    assert odd["reasons"] == ["late", "early"]
    assert base64.b64decode(odd["_payload"]) == bytes(range(256))
    assert base64.b64decode(odd["_headers"][0]["value"]) == b"\xfe"
    assert odd["_arrived_at"] == "2026-11-20T12:02:00+00:00"
    assert (none["_message_key"], none["_payload"], none["_headers"]) == (None, None, None)


def test_parquet_holds_the_same_rows(sound: Lake, tmp_path: Path) -> None:
    """It has the columns of the quarantine, and can be read as one."""
    count = export(SILVER, sound, Place.of(tmp_path / "held.parquet"))

    found = pq.read_table(tmp_path / "held.parquet")
    assert count == 2
    assert found.to_pylist() == [ODD, NONE]
    assert found.column_names == RECORDS.names


@pytest.mark.whole
def test_one_reason_may_be_exported(sound: Lake, tmp_path: Path) -> None:
    """The repair of one kind of fault needs only that kind."""
    assert export(SILVER, sound, Place.of(tmp_path / "held.jsonl"), reason="malformed") == 1


@pytest.mark.parametrize("name", ["held.csv", "held", "there.parquet", "no/such/folder.ndjson"])
def test_a_file_that_cannot_be_written_is_refused_and_nothing_is_left(
    name: str, sound: Lake, tmp_path: Path
) -> None:
    """A wrong ending, a file that exists, a folder that does not."""
    (tmp_path / "there.parquet").touch()

    with pytest.raises(DefinitionError) as refused:
        export(SILVER, sound, Place.of(tmp_path / name))

    assert refused.value.hint
    assert {path.name for path in tmp_path.iterdir()} == {"lake", "there.parquet"}
