"""The ledger is read from a table's log, and metadata of other tools is ignored."""

import json

import pytest

from strandline.core.errors import DataError
from strandline.engine.lake.log.ledger import Entry, entries, last_entry, latest_version
from strandline.engine.lake.log.log_actions import added
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from tests.engine.written import BRONZE, SILVER, entry, numbers, written

pytestmark = pytest.mark.core

FULL = Entry(
    table="silver.device_telemetry",
    mode="micro-batch",
    stream="7c2a",
    batch=17,
    source="bronze.device_telemetry",
    offsets={"t/0": (5, 9), "t/1": (0, 0)},
    versions={"bronze.device_telemetry": (3, 5)},
    read=100,
    good=80,
    duplicates=7,
    quarantined={"late": 5, "malformed": 6},
    dropped_by_watermark=2,
    without_record=1,
    written=80,
    replaced=True,
    watermark="2026-11-20T10:45:00+00:00",
    duration_ms=182,
    cpu_ms=201,
    own_ms=120,
    uneven_ms=(90, 12),
    gate_ms=3,
    ledger_ms=5,
    code="0123456789ab",
)


def test_an_entry_comes_back_from_a_commit_as_it_went_in(anywhere: Place) -> None:
    """After a crash a stream decides by the fields of its last entry."""
    written(anywhere, numbers(1), FULL.encoded())

    assert list(entries(anywhere)) == [(0, FULL)]
    assert last_entry(anywhere) == (0, FULL)


def test_what_was_read_and_is_in_no_other_place_was_a_copy() -> None:
    """Duplicates are computed as the rest, so the sum always balances and only the number itself can be wrong."""
    settled = entry(SILVER, read=10).settled(good=6, held={"late": 1}, dropped=1)

    assert (settled.duplicates, settled.accounted) == (2, settled.read)


def test_the_newest_entry_is_found_behind_commits_of_maintenance(anywhere: Place) -> None:
    """OPTIMIZE and VACUUM commit as well; if theirs counted as the last, a batch would be read twice."""
    written(anywhere, numbers(2), entry(BRONZE, batch=4).encoded())
    written(anywhere, numbers(2), entry(BRONZE, batch=5).encoded())
    opened(anywhere).optimize.compact()

    found = last_entry(anywhere)

    assert latest_version(anywhere) == 2
    assert found is not None
    assert (found[0], found[1].batch) == (1, 5)


@pytest.mark.parametrize(
    "foreign",
    [None, "a deployment", "17", "null", '["strandline"]', '{"job": 1}', '{"strandline": null}'],
)
def test_user_metadata_of_another_tool_is_ignored(foreign: str | None, anywhere: Place) -> None:
    """Other tools write into the same field."""
    written(anywhere, numbers(1), entry(BRONZE, batch=1).encoded())
    written(anywhere, numbers(1), foreign)

    assert [one.batch for _, one in entries(anywhere)] == [1]
    found = last_entry(anywhere)
    assert found is not None
    assert found[0] == 0


def test_a_field_of_a_later_version_is_ignored(anywhere: Place) -> None:
    """After a rollback the older code must still read what the newer one wrote."""
    newer = json.loads(FULL.encoded()) | {"mood": "good"}
    written(anywhere, numbers(1), json.dumps(newer))

    assert last_entry(anywhere) == (0, FULL)


def test_an_entry_that_lacks_what_it_must_have_is_an_error_with_a_hint(anywhere: Place) -> None:
    """Ignoring it as foreign would lose a batch."""
    torn = {name: value for name, value in json.loads(FULL.encoded()).items() if name != "batch"}
    written(anywhere, numbers(1), json.dumps(torn))

    with pytest.raises(DataError) as caught:
        last_entry(anywhere)

    assert "batch" in caught.value.message
    assert caught.value.fields["file"]


def test_a_table_that_does_not_exist_has_no_version_and_no_entry(anywhere: Place) -> None:
    """This is the first start of a lake."""
    assert latest_version(anywhere) == -1
    assert last_entry(anywhere) is None
    assert list(entries(anywhere)) == []


def test_the_latest_version_is_found_from_a_checkpoint_on(anywhere: Place) -> None:
    """The log before a checkpoint may be gone; counting up from 0 would then stop at once."""
    for batch in range(4):
        written(anywhere, numbers(1), entry(BRONZE, batch=batch).encoded())
    opened(anywhere).create_checkpoint()
    written(anywhere, numbers(1), entry(BRONZE, batch=4).encoded())
    for version in range(3):
        (anywhere / "_delta_log" / f"{version:020d}.json").remove()

    found = last_entry(anywhere)

    assert latest_version(anywhere) == 4
    assert found is not None
    assert found[1].batch == 4


def test_what_a_version_added_is_returned_whole_or_file_by_file(anywhere: Place) -> None:
    """A stream may stop in the middle of a version and has then read only some of its files."""
    rows = [{"at": f"2026-11-20T1{number}:00:00Z", "n": number} for number in range(3)]
    written(anywhere, rows)

    whole, none = added(anywhere, 0), added(anywhere, 0, files=(1, None))

    assert (whole.rows, len(whole.files), whole.lowest) == (3, 1, {"at": rows[0]["at"]})
    assert (none.rows, none.files, none.lowest) == (0, (), {})
    assert Place.of(whole.files[0]).is_file()


def test_entries_from_before_tables_had_several_sources_are_still_read(anywhere: Place) -> None:
    """A lake is older than the code that reads it."""
    bronze = json.loads(entry(BRONZE, source="t", offsets={}).encoded())
    silver = json.loads(entry(SILVER, source="bronze.x").encoded())
    written(anywhere, numbers(1), json.dumps(bronze | {"offsets": {"3": [0, 7]}, "versions": None}))
    written(anywhere, numbers(1), json.dumps(silver | {"versions": [2, 4]}))

    found = [one for _, one in entries(anywhere)]

    assert (found[0].offsets, found[0].versions) == ({"t/3": (0, 7)}, {})
    assert found[1].versions == {"bronze.x": (2, 4)}


def test_the_changed_range_is_read_under_its_former_name_too(anywhere: Place) -> None:
    """An old entry without it would be compared file by file at every follow."""
    full = json.loads(entry(SILVER, changed=(3, 9)).encoded())
    former = {name: value for name, value in full.items() if name != "changed"}
    written(anywhere, numbers(1), json.dumps(former | {"speaks_of": [3, 9]}))
    written(anywhere, numbers(1), json.dumps(full))

    assert [one.changed for _, one in entries(anywhere)] == [(3, 9), (3, 9)]
