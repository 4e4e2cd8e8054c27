"""What is otherwise than it was: the rows that a repair moved, and no others, in its table and in those above."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from fleet.gold import device_daily as daily
from fleet.gold import device_signal_10m as windows
from fleet.silver import device_telemetry as silver
from fleet.silver import devices
from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.ask.diff import Difference, difference, version_of
from strandline.engine.ask.explain_gold import reached
from strandline.engine.ask.lake_views import Source
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.log.vacuum import cut
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.downstream import backfill_above
from tests.cli import inside
from tests.support import lakes
from tests.support.events import commits, readings, received
from tests.support.literal import appended
from tests.support.modes import derive
from tests.support.packs import small_packs, with_checkpoints
from tests.support.rows import at
from tests.support.shapes import INTERVALS

pytestmark = [pytest.mark.core, pytest.mark.slow]

TABLES = (silver.TABLE, windows.TABLE, daily.TABLE)
DEVICES = ("d1", "d2", "d3", "d4", "d5")
WRONG = ("d2", "d3", "d5")
"""The devices whose values are corrected."""
HOUR = Span(since=at("09:00:00"), until=at("10:00:00"))


def mornings() -> str:
    """Return readings of five devices in six windows of an hour, and one in the afternoon, by which they are over."""
    lines = ["batch | id | device | value | event_at | arrived_at"]
    for number, device in enumerate(DEVICES):
        for ten in range(6):
            moment = f"09:{ten}{number}:00"
            lines.append(f"1 | {device}{ten} | {device} | {number + ten} | {moment} | {moment}")
    lines += ["2 | z1 | d1 | 1 | 13:00:00 | 13:00:01", "3 | z2 | d1 | 1 | 13:10:00 | 13:10:01"]
    return "\n".join(lines)


def corrected(events: DataFrame) -> DataFrame:
    """Read three devices' values of the first half hour as twice what they sent."""
    found = silver.device_telemetry(events)
    wrong = F.col("device_id").isin(*WRONG) & (F.minute("event_at") < 30)
    return found.withColumn(
        "value", F.when(wrong, F.col("value") * 2).otherwise(F.col("value")).cast("decimal(14,4)")
    )


@dataclass(frozen=True)
class Repaired:
    """A lake in which a backfill has corrected three devices, and the versions of its tables before."""

    lake: Lake
    before: dict[str, int]

    def compared(self, table: Table, by: Sequence[str] = ()) -> Difference:
        """Compare a table before the repair with its latest version."""
        until = latest_version(self.lake.table(table))
        before = self.before[table.id]
        return difference(table, self.lake, before, until, tables=TABLES, by=by, most=1_000)


@pytest.fixture(scope="module")
def seed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Repaired:
    """Make the lake; the tables above have followed."""
    lake = Lake(tmp_path_factory.mktemp("diff")).open_for_writing()
    owned = StructType(
        [*INTERVALS, StructField("model", StringType()), StructField("owner", StringType())]
    )
    appended(lake, devices.TABLE, owned, [])
    for batch in commits(readings(mornings())):
        received(lake, batch)
        derive(spark, lake, silver.TABLE, windows.TABLE)
    derive(spark, lake, daily.TABLE)
    before = {each.id: latest_version(lake.table(each)) for each in TABLES}
    fixed = replace(silver.TABLE, transform=corrected)
    backfill(spark, fixed, lake, HOUR)
    for _ in backfill_above(spark, silver.TABLE, lake, HOUR):
        pass
    derive(spark, lake, daily.TABLE)
    return Repaired(lake, before)


@pytest.fixture
def repaired(seed: Repaired, lake: Lake) -> Repaired:
    """Return a copy of it."""
    lakes.copy(seed.lake.root, lake.root)
    return Repaired(lake, seed.before)


SENT = {
    (device, ten): number + ten
    for number, device in enumerate(DEVICES)
    for ten in range(3)
    if device in WRONG
}
"""What the devices sent whose values are corrected, by device and window."""


def test_a_backfill_that_corrects_three_devices_names_them_and_no_others(seed: Repaired) -> None:
    """With the values before and after, the commit and its range, and the sums of each device."""
    found = seed.compared(silver.TABLE, by=["device_id"])

    moved = {(each.key["event_id"], each.was["value"], each.now["value"]) for each in found.rows}
    assert moved == {
        (f"{device}{ten}", Decimal(value), Decimal(2 * value))
        for (device, ten), value in SENT.items()
    }
    assert (found.came, found.went, found.changed) == (0, 0, len(SENT))
    assert found.columns == {"value": len(SENT)}
    (cause,) = found.causes
    assert (cause.version, cause.rows) == (found.until, len(SENT))
    assert cause.what.startswith("a backfill of 2026-11-20T09:00:00")
    assert {each.of["device_id"]: each.sums["value"] for each in found.groups} == {
        device: (sum(own), 2 * sum(own))
        for device in WRONG
        for own in [[value for (of, _), value in SENT.items() if of == device]]
    }


def test_the_windows_and_the_days_above_are_named_likewise(seed: Repaired) -> None:
    """Two levels above: each corrected device has another least or greatest value of its day."""
    above_it = [each.id for each in reached(silver.TABLE, seed.lake)]
    in_windows, in_days = seed.compared(windows.TABLE), seed.compared(daily.TABLE)

    assert above_it == [windows.TABLE.id, daily.TABLE.id]
    assert {
        (each.key["device_id"], each.key["window_from"].minute // 10) for each in in_windows.rows
    } == {*SENT}
    assert (in_windows.changed, in_windows.moved) == (len(SENT), len(SENT))
    assert {each.key["device_id"] for each in in_days.rows} == {*WRONG}
    assert (in_days.changed, in_days.moved) == (len(WRONG), len(WRONG))


@pytest.mark.whole
def test_files_that_are_put_together_are_no_change_and_hide_none(
    spark: SparkSession, repaired: Repaired
) -> None:
    """The backfill is still the reason, and from its version on no row is otherwise."""
    expected = repaired.compared(silver.TABLE)

    path = repaired.lake.table(silver.TABLE)
    spark.sql(f"OPTIMIZE delta.`{path}`")
    found = repaired.compared(silver.TABLE)

    assert found.until > expected.until
    assert replace(found, until=expected.until, until_at=expected.until_at) == expected
    since = difference(
        silver.TABLE, repaired.lake, expected.until, latest_version(path), tables=TABLES
    )
    assert since.moved == 0


def test_the_whole_of_a_table_came_with_its_stream(seed: Repaired) -> None:
    """From before its first commit on; what the backfill moved is its own."""
    path = seed.lake.table(silver.TABLE)

    found = difference(silver.TABLE, seed.lake, -1, latest_version(path), tables=TABLES)

    assert (found.came, found.went, found.changed) == (32, 0, 0)
    assert {each.what.partition(" of ")[0]: each.rows for each in found.causes} == {
        "a backfill": len(SENT),
        "its own runs": 32 - len(SENT),
    }


def test_a_version_is_named_by_its_number_or_by_a_moment(seed: Repaired) -> None:
    """What is neither is refused with what can be written."""
    table, lake = silver.TABLE, seed.lake
    latest = latest_version(lake.table(table))
    moment = committed_at(lake.table(table), latest).isoformat()

    assert version_of(lake, table, str(latest), is_first=False) == latest
    assert version_of(lake, table, moment, is_first=False) == latest
    assert version_of(lake, table, "2020-01-01", is_first=True) == -1
    for wrong in (str(latest + 1), "yesterday", "-3"):
        with pytest.raises(DefinitionError, match="version"):
            version_of(lake, table, wrong, is_first=False)


def test_groups_beyond_the_limit_are_counted(seed: Repaired) -> None:
    table, before = silver.TABLE, seed.before[silver.TABLE.id]
    until = latest_version(seed.lake.table(table))

    found = difference(table, seed.lake, before, until, tables=TABLES, by=["event_id"], most=2)
    none = difference(table, seed.lake, before, until, tables=TABLES, by=["event_id"], most=0)

    assert (len(found.groups), found.more_groups) == (2, len(SENT) - 2)
    assert (none.groups, none.more_groups) == ((), len(SENT))


def test_a_version_whose_log_was_cut_is_refused_with_the_oldest_that_can_be_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_packs(monkeypatch)
    path = lake.table(silver.TABLE)
    with_checkpoints(path, 36)
    cut(path, needed=36)

    with pytest.raises(DefinitionError, match="its log was cut") as refused:
        difference(silver.TABLE, lake, 3, 35, tables=TABLES)

    assert "the oldest version that can be read is 20" in str(refused.value)


def test_a_column_with_lists_of_numbers_has_no_sum(lake: Lake) -> None:
    """It is compared as any other."""
    path = lake.table(windows.TABLE)
    key = {name: pa.array(["a"]) for name in windows.TABLE.key}
    for numbers in ([1, 2], [1, 3]):
        rows = pa.table({**key, "numbers": pa.array([numbers]), "many": pa.array([len(numbers)])})
        write_deltalake(str(path), rows, mode="overwrite")

    found = difference(windows.TABLE, lake, 0, 1, tables=TABLES)

    assert (found.changed, found.columns, found.sums) == (1, {"numbers": 1}, {})


def test_values_that_are_masked_are_neither_shown_nor_grouped_by(
    seed: Repaired, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is still known from another, and the sums of what is masked are left out."""
    masked = frozenset({"device_id", "value"})
    monkeypatch.setattr(Source, "secret", lambda *_: masked)

    found = seed.compared(silver.TABLE)

    assert found.columns == {"value": len(SENT)}
    assert found.sums == {}
    assert {str(each.now["value"])[0] for each in found.rows} == {"["}
    with pytest.raises(DefinitionError, match="masked"):
        seed.compared(silver.TABLE, by=["device_id"])


def test_the_verb_prints_it_for_people_and_for_programs(seed: Repaired) -> None:
    """With the tables above, from the moments of the same versions."""
    before = str(seed.before[silver.TABLE.id])
    words = ("diff", silver.TABLE.id, "--from", before, "--by", "device_id", "--downstream")

    printed = inside.succeeded(*words, "--lake", seed.lake.root).out
    found = json.loads(inside.succeeded(*words, "--json", "--lake", seed.lake.root).out)

    assert "a backfill of 2026-11-20T09:00:00" in printed
    assert "value: 30 → 60 (+100.0%)" in printed
    assert [(each["table"], each["changed"]) for each in found] == [
        (silver.TABLE.id, len(SENT)),
        (windows.TABLE.id, len(SENT)),
        (daily.TABLE.id, len(WRONG)),
    ]
