"""What any reader of a table still needs of its log is known, also of one that was paused for months."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from fleet.gold import device_daily
from fleet.silver import devices
from strandline.core.errors import DataError
from strandline.core.table import Table
from strandline.engine.flow import shadow_lake
from strandline.engine.flow.readers import How, readers
from strandline.engine.flow.shadow_lake import Promotion, Shadow
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import logged_versions
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.open_table import lowest
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import begin_whole
from tests.engine.written import BRONZE, GOLD, SILVER, entry
from tests.support.ledgers import write_log

QUARANTINE = "quarantine.device_telemetry"


def needed_versions(lake: Lake) -> dict[str, int]:
    return lowest(reader.needs for reader in readers(lake))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake with some hundred commits of bronze and silver."""
    lake = Lake(tmp_path)
    for table in (BRONZE, SILVER):
        write_log(lake.table(table), [entry(table, batch=n, read=1, good=1) for n in range(300)])
    return lake


@pytest.mark.whole
def test_a_stream_needs_its_source_from_where_its_last_committed_batch_ended(lake: Lake) -> None:
    checkpoint(lake, lake.checkpoint(SILVER), ended={6: {BRONZE: 40}, 7: {BRONZE: 41}}, planned=50)

    assert needed_versions(lake) == {BRONZE.id: 41}, "the planned batch is read again"


@pytest.mark.whole
def test_the_slowest_reader_decides_however_long_it_was_paused(lake: Lake) -> None:
    checkpoint(lake, lake.checkpoint(SILVER), ended={9: {BRONZE: 300}})
    checkpoint(lake, lake.checkpoint(GOLD), ended={2: {SILVER: 3}})
    gone = lake.root / "_checkpoints" / "gold.its_module_is_gone"
    checkpoint(lake, gone, ended={1: {SILVER: 1, BRONZE: 5}})

    assert needed_versions(lake) == {BRONZE.id: 5, SILVER.id: 1}


@pytest.mark.whole
def test_only_the_newest_batch_of_a_checkpoint_is_read(lake: Lake) -> None:
    checkpoint(lake, lake.checkpoint(SILVER), ended={98: {BRONZE: 98}, 99: {BRONZE: 99}})
    for log in ("offsets", "commits"):
        (lake.checkpoint(SILVER) / log / "98").put("no batch at all")

    assert needed_versions(lake) == {BRONZE.id: 99}


@pytest.mark.whole
def test_a_table_whose_stream_never_began_is_no_reader(lake: Lake) -> None:
    (lake.checkpoint(GOLD) / "offsets").make()

    assert needed_versions(lake) == {}


def test_a_stream_without_a_committed_batch_needs_everything(lake: Lake) -> None:
    checkpoint(lake, lake.checkpoint(SILVER), ended={}, planned=50)
    checkpoint(lake, lake.checkpoint(GOLD), ended={})

    assert needed_versions(lake) == {BRONZE.id: 0, SILVER.id: 0}


def test_a_stream_that_begins_with_a_snapshot_needs_no_commit_before_it(lake: Lake) -> None:
    checkpoint(lake, lake.checkpoint(SILVER), ended={}, planned=50)
    begin_whole(lake.checkpoint(SILVER))

    assert needed_versions(lake) == {BRONZE.id: 49}


@pytest.mark.whole
def test_a_source_from_which_nothing_was_read_is_needed_from_its_first_version(lake: Lake) -> None:
    checkpoint(lake, lake.checkpoint(SILVER), ended={3: {}})

    assert needed_versions(lake) == {BRONZE.id: 0}


@pytest.mark.whole
def test_a_source_that_was_created_again_is_needed_as_if_it_was_never_read(lake: Lake) -> None:
    checkpoint(lake, lake.checkpoint(SILVER), ended={3: {BRONZE: 200}})
    lake.table(BRONZE).remove()
    write_log(lake.table(BRONZE), [entry(BRONZE)])

    assert needed_versions(lake) == {BRONZE.id: 0}


def test_a_feed_reads_topics_and_no_table(lake: Lake) -> None:
    place = lake.root / "_checkpoints" / "live.device_telemetry"
    _put(place, "offsets", 4, ['{"telemetry":{"0":17}}'])
    _put(place, "commits", 4, [])
    (place / "metadata").put('{"id":"s"}')

    assert needed_versions(lake) == {}


def test_a_rebuild_and_what_its_undo_brings_back_are_readers(lake: Lake) -> None:
    made = Shadow.of(SILVER, lake)
    checkpoint(lake, lake.checkpoint(SILVER), ended={1: {BRONZE: 300}})
    checkpoint(lake, made.checkpoint(SILVER), ended={1: {BRONZE: 150}})
    assert needed_versions(lake) == {BRONZE.id: 150}

    checkpoint(lake, made.put_away("m"), ended={1: {BRONZE: 120}})
    promotion = Promotion(mark="m", before=[77, 33], done=True)
    shadow_lake.write(made, promotion)
    assert needed_versions(lake) == {BRONZE.id: 120, SILVER.id: 77, QUARANTINE: 33}
    assert {each.how for each in readers(lake)} == {How.STREAM, How.REBUILD, How.UNDO}

    promotion.undone = True
    shadow_lake.write(made, promotion)
    assert needed_versions(lake) == {BRONZE.id: 150}, "what was undone cannot be undone again"


def test_windows_that_are_computed_again_need_what_changed_since(lake: Lake) -> None:
    daily = device_daily.TABLE
    source = daily.reads[0]
    one = entry(daily, versions={each.id: (0, 12) for each in daily.reads})
    write_log(lake.table(daily), [one, None])

    assert needed_versions(lake)[source.id] == 13


def test_a_look_up_needs_the_changes_of_its_dimension(lake: Lake) -> None:
    write_log(lake.table(devices.TABLE), [entry(devices.TABLE, batch=n) for n in range(9)])
    write_log(lake.table(GOLD), [entry(GOLD, looked={devices.TABLE.id: 4}), None])

    assert needed_versions(lake) == {devices.TABLE.id: 5}


@pytest.mark.whole
def test_a_torn_checkpoint_needs_all_that_is_there_of_what_its_table_reads(lake: Lake) -> None:
    """What it has read is unknown, and that was a reason to maintain no table at all."""
    checkpoint(lake, lake.checkpoint(SILVER), ended={3: {BRONZE: 200}})
    (lake.checkpoint(SILVER) / "offsets" / "3").put("")

    assert needed_versions(lake)[BRONZE.id] == min(logged_versions(lake.table(BRONZE)))


def test_a_torn_checkpoint_of_no_table_is_refused_because_what_it_needs_is_unknown(
    lake: Lake,
) -> None:
    left_over = lake.root / "_checkpoints" / "silver.of_another_project"
    checkpoint(lake, left_over, ended={3: {BRONZE: 200}})
    (left_over / "offsets" / "3").put("")

    with pytest.raises(DataError, match=r"silver.of_another_project cannot be read"):
        needed_versions(lake)


@pytest.mark.slow
def test_streams_of_spark_that_have_read_everything_need_nothing_that_is_there(
    morning: Lake,
) -> None:
    needed = needed_versions(morning)

    assert {BRONZE.id, SILVER.id} <= needed.keys()
    for name, version in needed.items():
        layer, _, short = name.partition(".")
        assert version == latest_version(morning.root / layer / short) + 1, name


def checkpoint(
    lake: Lake,
    place: Place,
    *,
    ended: Mapping[int, Mapping[Table, int]],
    planned: int | None = None,
) -> None:
    """Write a checkpoint as Spark does: committed batches with their ends, and one that is planned."""
    known = _ids(lake)
    (place / "metadata").put('{"id":"s"}')
    for number, ends in ended.items():
        _put(place, "offsets", number, [_offset(known[each.id], at) for each, at in ends.items()])
        _put(place, "commits", number, [])
    if planned is not None:
        number = max(ended, default=-1) + 1
        _put(place, "offsets", number, [_offset(known[BRONZE.id], planned)])


def _ids(lake: Lake) -> dict[str, str]:
    return {each.id: table_id(lake.table(each)) for each in (BRONZE, SILVER)}


def _offset(table: str, version: int) -> str:
    return json.dumps({"reservoirId": table, "reservoirVersion": version, "index": -100})


def _put(place: Place, log: str, number: int, offsets: list[str]) -> None:
    lines = ["v1", '{"batchWatermarkMs":0,"nextBatchWatermarkMs":0}', *(offsets or ["-"])]
    (place / log / str(number)).put("\n".join(lines))
