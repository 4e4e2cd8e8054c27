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
from strandline import catalog

from fleet.gold import device_daily as daily
from fleet.gold import device_signal_10m as windows
from fleet.silver import device_telemetry as silver
from fleet.silver import devices
from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.ask.diff import Compared, Difference, difference, differences
from strandline.engine.ask.explain_gold import reached
from strandline.engine.ask.find_moment import FOLLOWED, Moment
from strandline.engine.ask.lake_views import Source
from strandline.engine.ask.moments import end_of, find_named, named_by, note
from strandline.engine.ask.named_moments import forget_in, keep_named
from strandline.engine.lake.duckdb_table import changed_files, columns_of, rows_of_files
from strandline.engine.lake.duckdb_table import session as duck_session
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.log.vacuum import cut
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import hold
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.downstream import backfill_above
from tests.cli import inside
from tests.support import lakes
from tests.support.events import commits, readings, received
from tests.support.literal import appended
from tests.support.modes import derive
from tests.support.packs import small_packs, with_checkpoints
from tests.support.rows import NOON, at
from tests.support.shapes import INTERVALS

pytestmark = [pytest.mark.core, pytest.mark.slow]

TABLES = (silver.TABLE, windows.TABLE, daily.TABLE)
DEVICES = ("d1", "d2", "d3", "d4", "d5")
WRONG = ("d2", "d3", "d5")
"""The devices whose values are corrected."""
BEFORE = "before-the-repair"
"""The name of the moment before the backfill; that after it has a number alone."""
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
    keep_named(lake, catalog.tables(), BEFORE, moment(lake), "")
    fixed = replace(silver.TABLE, transform=corrected)
    backfill(spark, fixed, lake, HOUR)
    for _ in backfill_above(spark, silver.TABLE, lake, HOUR):
        pass
    derive(spark, lake, daily.TABLE)
    moment(lake)
    return Repaired(lake, before)


def moment(lake: Lake) -> Moment:
    """Note the latest."""
    found = note(lake, catalog.tables(), "a test")
    assert found is not None
    return found


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


def compared(lake: Lake, since: str, until: str | None, table: Table = silver.TABLE) -> Difference:
    """Compare a table as it is typed."""
    (found,) = differences(table, lake, Compared(since=since, until=until), downstream=False)
    return found


def test_an_end_is_a_version_a_time_a_name_or_the_latest(seed: Repaired) -> None:
    """A moment is the one that AT MOMENT finds; what an end became is in the answer."""
    first, path = seed.before[silver.TABLE.id], seed.lake.table(silver.TABLE)
    last, after = latest_version(path), moment(seed.lake)
    kept = find_named(seed.lake, BEFORE)
    assert kept is not None
    expected = seed.compared(silver.TABLE).changed

    for since, until in (
        (str(first), str(last)),
        (BEFORE, "LATEST"),
        (BEFORE, None),
        (kept.at.isoformat(), "latest"),
        ("moment 1", f"moment {after.number}"),
        (kept.at.replace(tzinfo=None).isoformat(), after.at.isoformat()),
    ):
        found = compared(seed.lake, since, until)
        assert (found.since, found.until, found.changed) == (first, last, expected)
        by = found.since_moment
        assert by is None if since.isdecimal() else by is not None and by.number == 1
    by = compared(seed.lake, BEFORE, "LATEST").until_moment
    assert by is not None
    assert (by.number, by.name, by.at) == (after.number, None, after.at.isoformat())
    assert compared(seed.lake, BEFORE, BEFORE).moved == 0


def test_a_time_without_a_moment_means_the_version_of_then(seed: Repaired) -> None:
    """Before the first that was noted; and where a repair has moved rows since the last, its version is named beside it."""
    path = seed.lake.table(silver.TABLE)
    first, repair = seed.before[silver.TABLE.id], latest_version(path)
    repaired_at = committed_at(path, repair).isoformat()

    found = compared(seed.lake, "2020-01-01", committed_at(path, first - 1).isoformat())
    assert (found.since, found.since_moment, found.until_moment) == (-1, None, None)
    assert found.until == first - 1

    by = compared(seed.lake, BEFORE, repaired_at).until_moment
    assert by is not None
    assert (by.number, by.then) == (1, repair)


def test_each_table_above_is_compared_at_its_own_version_of_the_same_moments(
    seed: Repaired,
) -> None:
    """Against what the devices sent; a table above that has not followed is refused."""
    asked = Compared(since=BEFORE, until="LATEST", most=1_000)
    after = moment(seed.lake)

    found = [*differences(silver.TABLE, seed.lake, asked, downstream=True)]

    assert [(each.table, each.since, each.until) for each in found] == [
        (each.id, seed.before[each.id], after.versions[each.id]) for each in TABLES
    ]
    assert [each.changed for each in found] == [len(SENT), len(SENT), len(WRONG)]
    assert {each.key["device_id"] for one in found[1:] for each in one.rows} == {*WRONG}


def test_a_table_that_is_no_part_of_a_moment_is_refused_with_the_reason(repaired: Repaired) -> None:
    """While a repair of it goes on, say; one that came later had no row then."""
    lake, tables = repaired.lake, catalog.tables()
    with hold(lake.lease(windows.TABLE, FOLLOWED)):
        apart = moment(lake)
    asked = Compared(since=BEFORE, until=f"moment {apart.number}")
    with pytest.raises(DefinitionError, match="is no part of it, because the tables above it"):
        [*differences(silver.TABLE, lake, asked, downstream=True)]

    never = replace(daily.TABLE, name="never")
    early = named_by(BEFORE, [silver.TABLE.id], tables, lake)
    assert end_of(lake, never, early, is_first=True).version == -1


def gone(lake: Lake, *tables: Table) -> None:
    """Delete the files that only versions of before the repair have, as maintenance does."""
    kept = find_named(lake, BEFORE)
    assert kept is not None
    for table in tables:
        path = lake.table(table)
        for file in changed_files(path, kept.versions[table.id] + 1, latest_version(path))[1]:
            Place.of(file.path).remove_file()


def test_what_the_lake_has_no_more_is_read_as_a_name_keeps_it(repaired: Repaired) -> None:
    """The same moment by its number is refused, with what can be asked."""
    expected = repaired.compared(silver.TABLE)
    gone(repaired.lake, silver.TABLE)

    found = compared(repaired.lake, BEFORE, None)
    assert (found.since, found.changed, found.sums) == (
        expected.since,
        expected.changed,
        expected.sums,
    )
    assert found.causes[0].rows is None  # what it replaced is gone
    assert compared(repaired.lake, "2020-01-01", BEFORE).came == 32
    with pytest.raises(DefinitionError, match=r"moment 1 of .* can be read no more") as refused:
        compared(repaired.lake, "moment 1", "LATEST")
    assert "strandline moments" in refused.value.hint


def test_a_table_that_was_made_anew_is_compared_with_what_a_name_keeps(
    repaired: Repaired,
) -> None:
    """Row by row, as their versions say nothing of each other; by its number the moment is refused."""
    path = repaired.lake.table(daily.TABLE)
    columns = columns_of(path, daily.TABLE.row_key)
    (file,), _ = changed_files(path, latest_version(path), latest_version(path))
    with duck_session() as duck:
        rows = duck.execute(rows_of_files(duck, [file], columns)).to_arrow_table()
    path.remove()
    write_deltalake(str(path), rows)

    found = compared(repaired.lake, BEFORE, None, daily.TABLE)
    assert (found.came, found.went) == (0, 0)
    assert {each.key["device_id"] for each in found.rows} == {*WRONG}
    assert compared(repaired.lake, BEFORE, BEFORE, daily.TABLE).moved == 0
    with pytest.raises(DefinitionError, match="is later than"):
        compared(repaired.lake, "0", BEFORE, daily.TABLE)
    with pytest.raises(DefinitionError, match="made anew"):
        compared(repaired.lake, "moment 1", None, daily.TABLE)


def test_a_request_to_forget_takes_an_end_away(repaired: Repaired) -> None:
    """The moment says why."""
    forget_in(repaired.lake, [silver.TABLE.id], NOON)

    with pytest.raises(DefinitionError, match="a request to forget has gone through it"):
        compared(repaired.lake, BEFORE, None)


@pytest.mark.parametrize("end", ["999", "yesterday", "-3", "moment 99", "../x", "", "9" * 5000])
def test_what_is_no_end_is_refused(seed: Repaired, end: str) -> None:
    """With what can be written; the names that there are among it."""
    with pytest.raises(DefinitionError, match=r"version|there is no moment 99") as refused:
        compared(seed.lake, end, None)

    is_known = end in {"999", "moment 99"}
    assert is_known or BEFORE in refused.value.hint


@pytest.mark.whole
@pytest.mark.usefixtures("spark")
def test_a_promotion_and_a_restore_between_the_ends(repaired: Repaired) -> None:
    """A rebuild by the table's own code brings the values back that were sent; a restored lake has the same versions."""
    lake = repaired.lake
    after = moment(lake)
    for verb in ("rebuild", "promote"):
        inside.succeeded(verb, silver.TABLE.id, "--lake", lake.root)

    found = compared(lake, f"moment {after.number}", "LATEST")
    moved = {(each.key["event_id"], each.was["value"], each.now["value"]) for each in found.rows}
    assert moved == {
        (f"{device}{ten}", Decimal(2 * value), Decimal(value))
        for (device, ten), value in SENT.items()
    }
    assert [each.what for each in found.causes if each.rows] == ["the promotion of a rebuild"]
    assert compared(lake, BEFORE, "LATEST").moved == 0

    store, new = lake.root.parent / "copies", Lake(lake.root.parent / "new")
    inside.succeeded("snapshot", store, "--lake", lake.root)
    inside.succeeded("restore", store, "--into", new.root)
    again = compared(new, str(found.since), str(found.until))
    assert (again.changed, again.sums, again.causes) == (found.changed, found.sums, found.causes)
    with pytest.raises(DefinitionError, match="neither a version nor a moment"):
        compared(new, BEFORE, None)


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


def test_rows_are_not_in_the_order_of_a_masked_key(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would say which value is the smaller, as an ORDER BY does in no query."""
    path, key = lake.table(windows.TABLE), windows.TABLE.key
    names = [f"{number:03}" for number in range(60)]
    for count in (0, 1):
        rows = {name: pa.array(names) for name in key}
        write_deltalake(
            str(path),
            pa.table({**rows, "place": pa.array([*range(count, 60 + count)])}),
            mode="overwrite",
        )
    monkeypatch.setattr(Source, "secret", lambda *_: frozenset(key))

    found = difference(windows.TABLE, lake, 0, 1, tables=TABLES, most=60)

    places = [each.now["place"] for each in found.rows]
    assert sorted(places) == [*range(1, 61)]
    assert places != sorted(places)


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

    words = ("diff", silver.TABLE.id, "--from", BEFORE, "--to", "LATEST")
    printed = inside.succeeded(*words, "--lake", seed.lake.root).out
    (found,) = json.loads(inside.succeeded(*words, "--json", "--lake", seed.lake.root).out)
    assert f"(moment {BEFORE} of " in printed
    assert found["since_moment"] | {"at": ""} == {
        "number": 1,
        "name": BEFORE,
        "at": "",
        "then": None,
    }
