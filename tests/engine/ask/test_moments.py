"""A moment has of each table the version that has read exactly what those below it have, found from the ends of the ledgers."""

import json
import time
import tracemalloc
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from strandline.core.errors import DefinitionError
from strandline.core.routes import field
from strandline.core.table import Dimension, Table
from strandline.core.topic import Topic
from strandline.engine.accounting.browse_held import withheld
from strandline.engine.accounting.held_records import shared
from strandline.engine.ask import moments
from strandline.engine.ask.find_moment import FOLLOWED, Finder, Moment
from strandline.engine.ask.lake_views import sources
from strandline.engine.ask.moments import Asked, chosen, note, noted, split
from strandline.engine.ask.named_moments import drop, drop_due, forget_in, keep_named
from strandline.engine.ask.sql_query import ask
from strandline.engine.lake.forgotten import Forgotten, keep
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import LOOKED_AGAIN, latest_version
from strandline.engine.lake.log.vacuum import sweep
from strandline.engine.lake.store_lease import hold
from tests.engine.written import entry, numbers, written
from tests.support.rows import NOON
from tests.support.shop import (
    DAILY,
    NAMES,
    ORDERS,
    PAID,
    SENT,
    SILVER,
    TABLES,
    Written,
    counts,
)


def test_tables_that_are_level_are_read_as_they_are(shop: Written) -> None:
    """Nothing goes back that need not."""
    found = Finder(shop.lake).find(TABLES)

    assert found is not None
    assert found.versions == {each.id: latest_version(shop.lake.table(each)) for each in TABLES}
    assert found.offsets == {"orders/0": 4}
    assert found.behind == {}


def test_where_plain_counts_differ_those_at_a_moment_agree(shop: Written) -> None:
    """Bronze is ahead of silver, silver of one gold table, and the other is between."""
    shop.bronze()
    shop.silver()
    shop.bronze()
    shop.silver()
    shop.bronze()
    shop.above(PAID)
    shop.above(SENT, until=2)

    assert counts(shop, NAMES) == [10, 8, 8, 6]
    assert counts(shop, NAMES, "AT MOMENT LATEST") == [4, 4, 4, 4]

    shop.above(SENT)
    shop.above(DAILY)
    assert counts(shop, NAMES, "AT MOMENT LATEST;") == [8, 8, 8, 8]


def test_a_chain_needs_no_waiting(shop: Written) -> None:
    """Each commit of gold says what it has read, and that what that one has."""
    shop.bronze()
    shop.silver()
    shop.above(PAID)
    shop.above(SENT)
    shop.above(DAILY)
    shop.bronze()

    assert shop.versions(ORDERS, SILVER, PAID) == {ORDERS.id: 2, SILVER.id: 2, PAID.id: 2}


def test_a_table_that_is_computed_afresh_takes_its_source_back(shop: Written) -> None:
    """It has read the source up to a version, whichever commits those were."""
    shop.bronze()
    shop.silver()
    shop.above(PAID)
    shop.above(SENT)

    assert shop.versions() == {ORDERS.id: 1, SILVER.id: 1, PAID.id: 1, SENT.id: 1, DAILY.id: 0}

    shop.above(DAILY)
    assert shop.versions(PAID, DAILY) == {PAID.id: 2, DAILY.id: 1}


def test_what_changes_no_row_is_read_as_the_version_before(shop: Written) -> None:
    """Files that maintenance has put together, in any table."""
    for table in TABLES:
        shop.put_together(table)

    assert shop.versions() == {each.id: latest_version(shop.lake.table(each)) for each in TABLES}


def test_none_goes_back_behind_a_repair(shop: Written) -> None:
    """The tables above follow one by commits of their own, so a version of before beside one of after is none."""
    shop.bronze()
    shop.silver()
    for table in (SILVER, PAID, SENT):
        shop.repaired(table)
    found = Finder(shop.lake).find(TABLES)

    assert found is not None
    assert {*found.behind} == {PAID.id, SENT.id, DAILY.id}
    assert shop.versions(ORDERS, SILVER) == {ORDERS.id: 2, SILVER.id: 3}

    for table in (PAID, SENT, DAILY):
        shop.above(table)
    assert shop.versions(SILVER, PAID, SENT) == {SILVER.id: 3, PAID.id: 3, SENT.id: 3}


def test_a_table_under_repair_and_those_above_are_in_no_moment(shop: Written) -> None:
    """A lock says so, and the record of a request to forget that is not done."""
    with hold(shop.lake.lease(PAID, FOLLOWED)):
        found = Finder(shop.lake).find(TABLES)

    assert found is not None
    assert found.behind == {
        PAID.id: "the tables above it follow a repair",
        DAILY.id: "it reads gold.paid, which is no part of it",
    }
    assert {*found.ids} == {ORDERS.id, SILVER.id, SENT.id}

    keep(shop.lake, Forgotten(mark="a", begun_at="2026-11-20", versions={"quarantine.orders": -1}))
    assert Finder(shop.lake).find(TABLES) is None


def test_the_quarantine_has_what_the_last_batch_of_its_table_held(shop: Written) -> None:
    """It is committed first, so the newest may be of a batch that the table has not."""
    shop.bronze()
    shop.silver(held=1)
    shop.above(PAID)
    shop.above(SENT)
    shop.above(DAILY)
    shop.bronze()
    shop.silver(held=1)
    names = (*NAMES[:2], "quarantine.orders")

    assert counts(shop, names) == [8, 6, 2]
    assert counts(shop, names, "AT MOMENT LATEST") == [6, 5, 1]


def test_a_table_that_is_far_behind_takes_no_other_back(
    shop: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is left out, and named with what it has read."""
    monkeypatch.setattr("strandline.engine.ask.find_moment.LATE", timedelta(0))
    for _ in range(2):
        shop.bronze()
        shop.silver()
        shop.above(PAID)
        time.sleep(0.002)  # commits have their times to the millisecond
    found = Finder(shop.lake).find(TABLES)

    assert found is not None
    assert found.behind[SENT.id] == "it has read silver.orders up to version 1 of 3"
    assert counts(shop, NAMES[:2], "AT MOMENT LATEST") == [8, 8]
    with pytest.raises(DefinitionError, match=r"gold\.sent is no part of it, because it has read"):
        counts(shop, NAMES, "AT MOMENT LATEST")


def test_a_moment_that_is_noted_is_found_by_its_number_and_its_time(shop: Written) -> None:
    """After tables have gone on; the same one is noted once."""
    first = note(shop.lake, TABLES, "a run")
    assert first is not None
    assert note(shop.lake, TABLES, "a run") == first
    time.sleep(0.002)
    shop.bronze()
    shop.silver()
    shop.above(PAID)
    shop.above(SENT)
    shop.above(DAILY)
    second = note(shop.lake, TABLES, "a stream")
    assert second is not None
    assert (first.number, second.number) == (1, 2)
    assert [each.number for each in noted(shop.lake)] == [1, 2]

    at = second.at - timedelta(milliseconds=1)
    assert counts(shop, NAMES, "AT MOMENT 1") == [4, 4, 4, 4]
    assert counts(shop, NAMES, f"AT MOMENT '{at.isoformat()}'") == [4, 4, 4, 4]
    assert counts(shop, NAMES, f"at moment '{second.at:%Y-%m-%d %H:%M:%S.%f}'") == [6, 6, 6, 6]
    found = ask("SELECT count(*) FROM gold.daily AT MOMENT LATEST", TABLES, shop.lake).moment
    assert found == second


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("AT MOMENT 7", "there is no moment 7"),
        ("AT MOMENT '2020-01-01'", "there is no moment of 2020-01-01"),
        ("AT MOMENT 'noon'", "'noon' is no time"),
        ("AT MOMENT yesterday", "yesterday is no moment"),
        ("AT MOMENT", "AT MOMENT needs a moment"),
        ("AT MOMENT LATEST WHERE true", "syntax error"),
    ],
)
def test_what_is_no_moment_is_refused(shop: Written, end: str, says: str) -> None:
    """With what to write instead."""
    note(shop.lake, TABLES, "a run")

    with pytest.raises(DefinitionError, match=says) as refused:
        ask(f"SELECT count(*) FROM silver.orders {end}", TABLES, shop.lake)  # noqa: S608  # as above

    assert "moment" in refused.value.hint.lower()


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        ("SELECT 1 AT MOMENT 3", Asked("SELECT 1", 3)),
        ("SELECT 'ä'\n at  moment latest ; -- now", Asked("SELECT 'ä'", "LATEST")),
        (
            "SELECT 1 /* it's */ AT MOMENT '2026-11-26' -- it's",
            Asked("SELECT 1 /* it's */", "2026-11-26"),
        ),
        ("SELECT 1 -- AT MOMENT LATEST", Asked("SELECT 1 -- AT MOMENT LATEST")),
        ("SELECT ' AT MOMENT LATEST'", Asked("SELECT ' AT MOMENT LATEST'")),
        ('SELECT 1 AS "AT MOMENT 3"', Asked('SELECT 1 AS "AT MOMENT 3"')),
        ("", Asked("")),
    ],
)
def test_the_end_of_a_question_is_taken_off_by_its_words(sql: str, asked: Asked) -> None:
    """Not out of a text, a name or a comment."""
    assert split(sql) == asked


def test_a_version_that_is_named_stays_as_it_is(shop: Written) -> None:
    """A moment is compared with what was."""
    both = "SELECT (SELECT count(*) FROM gold.paid), (SELECT count(*) FROM gold.paid AS p AT (VERSION => 0))"

    assert ask(f"{both} AT MOMENT LATEST", TABLES, shop.lake).rows == ((4, 2),)


def test_a_lake_without_any_says_how_one_comes(tmp_path: Path) -> None:
    """Bronze alone is none."""
    shop = Written(tmp_path / "lake")
    shop.bronze()

    with pytest.raises(DefinitionError, match="there is no moment in") as refused:
        chosen("LATEST", (), TABLES, shop.lake)

    assert "strandline run" in refused.value.hint


def test_a_moment_that_can_be_read_no_more_is_refused_and_goes(shop: Written) -> None:
    """Its files were deleted; the note goes with the next maintenance, but never the newest."""
    path, later = shop.lake.table(DAILY), NOON + timedelta(days=400)
    note(shop.lake, TABLES, "a run")
    made = entry(DAILY, batch=1, replaced=True, written=1, versions={PAID.id: (0, 1)})
    written(path, numbers(1), made.encoded(), mode="overwrite")
    second = note(shop.lake, TABLES, "a run")
    assert second is not None
    assert len([*sweep(path, latest_version(path) + 1, later, timedelta(0))]) == 1

    gone = r"moment 1 of .* can be read no more: gold\.daily cannot be read at version 0"
    with pytest.raises(DefinitionError, match=gone) as refused:
        ask("SELECT * FROM gold.daily AT MOMENT 1", TABLES, shop.lake)
    assert "strandline moments" in refused.value.hint
    assert counts(shop, NAMES[:2], "AT MOMENT 1") == [4, 4]
    assert moments.remove_unreadable(shop.lake, second.at) == 1
    assert [each.number for each in noted(shop.lake)] == [2]


DEVICES = replace(PAID, name="devices", valid_until="ends")
PLACED = replace(
    PAID,
    name="placed",
    dimension=Dimension(source=DEVICES, columns=("site",), join=lambda rows, *_: rows),
)


def test_a_dimension_is_at_the_version_that_all_rows_were_joined_with(shop: Written) -> None:
    """It goes back to that one, until the rows are looked up again."""
    tables = (*TABLES, DEVICES, PLACED)
    shop.commit(DEVICES, 4, versions={SILVER.id: (0, 1)}, read=4, good=4)
    shop.commit(PLACED, 4, versions={SILVER.id: (0, 1)}, read=4, good=4, looked={DEVICES.id: 0})
    shop.repaired(DEVICES)
    found = Finder(shop.lake).find(tables)
    assert found is not None
    assert "devices up to version 0 of 1" in found.behind[PLACED.id]

    looked = {"mode": LOOKED_AGAIN, "since": "2026-11-20", "until": "2026-11-21"}
    shop.commit(PLACED, 1, **looked, looked={DEVICES.id: 1})
    found = Finder(shop.lake).find(tables)
    assert found is not None
    assert found.behind == {}
    assert (found.versions[DEVICES.id], found.versions[PLACED.id]) == (1, 1)


def test_what_maintenance_leaves_for_moments(shop: Written) -> None:
    """The versions of the oldest that is young enough; notes go once a version can be read no more, but never the newest."""
    first = note(shop.lake, TABLES, "a run")
    assert first is not None
    shop.bronze()
    shop.silver()
    shop.above(PAID)
    shop.above(SENT)
    shop.above(DAILY)
    second = note(shop.lake, TABLES, "a run")
    assert second is not None

    assert moments.kept(shop.lake, first.at, first.at)[PAID.id] == first.versions[PAID.id] + 1
    later = second.at + timedelta(days=1)
    assert moments.kept(shop.lake, later, later) == {}
    assert moments.remove_unreadable(shop.lake, second.at + timedelta(days=1)) == 0
    assert [each.number for each in noted(shop.lake)] == [1, 2]


@pytest.fixture
def named(shop: Written) -> Moment:
    """Return a moment with a name, of a lake whose quarantine holds a row."""
    shop.bronze()
    shop.silver(held=1)
    for table in (PAID, SENT, DAILY):
        shop.above(table)
    latest = chosen("LATEST", (), TABLES, shop.lake)
    return keep_named(shop.lake, TABLES, "month-end", latest, "2026-12-01T00:00:00+00:00")


def test_a_moment_with_a_name_outlives_the_tables_of_its_lake(shop: Written, named: Moment) -> None:
    """Its files have second names; of the quarantine the rows that were open are kept."""
    names = (*NAMES[:2], "quarantine.orders")
    assert str(named).startswith("moment month-end of ")
    shop.bronze()
    shop.silver(held=1)
    for path in (shop.lake.quarantine(SILVER), shop.lake.table(PAID)):
        for file in [*path.files()]:
            if file.name.endswith(".parquet"):
                file.remove_file()
    assert counts(shop, names, "AT MOMENT 'month-end'") == [6, 5, 1]
    assert counts(shop, ["gold.paid"], "AT MOMENT 'month-end'") == [6]

    with pytest.raises(DefinitionError, match=r"quarantine\.none|no table"):
        counts(shop, ["gold.none"], "AT MOMENT 'month-end'")
    with pytest.raises(DefinitionError, match="there is a moment month-end already"):
        keep_named(shop.lake, TABLES, "month-end", named, "")
    with pytest.raises(DefinitionError, match="is no name of a moment"):
        keep_named(shop.lake, TABLES, "../x", named, "")


def test_a_column_that_a_moment_alone_has_is_masked(shop: Written, named: Moment) -> None:
    """What it was computed from is not known any more, and the table has sensitive columns."""
    assert named.kept is not None
    hiding = replace(SILVER, sensitive=("who",))
    tables = tuple(hiding if each is SILVER else each for each in TABLES)
    sql = "SELECT min(CAST(number AS VARCHAR)) FROM silver.orders AT MOMENT 'month-end'"
    assert ask(sql, tables, shop.lake).rows == (("0",),)
    path = shop.lake.table(SILVER)
    path.remove()
    written(path, [{"another": 1}], entry(SILVER, read=1, good=1, written=1).encoded())

    ((shown,),) = ask(sql, tables, shop.lake).rows

    assert str(shown).startswith("[")
    path.remove()
    ((shown,),) = ask(sql, tables, shop.lake).rows
    assert str(shown).startswith("[")


def test_what_a_table_beside_it_hides_is_hidden_in_a_quarantine(shop: Written) -> None:
    """Both have read the same records, so the payloads of both are the same."""
    beside = replace(SILVER, name="people", sensitive=("who",))
    kinds = replace(ORDERS, reads=(Topic(name="orders", kind=field("type")),))

    held = sources((*TABLES, beside), shop.lake)["quarantine.orders"]
    assert {"_payload", "_message_key"} <= held.secret((*TABLES, beside), shop.lake)
    assert held.secret(TABLES, shop.lake) == frozenset()
    assert withheld(SILVER, (*TABLES, beside)) == {"who"}
    assert withheld(SILVER, TABLES) == frozenset()
    assert shared(SILVER) == [ORDERS]
    assert shared(replace(SILVER, reads=(kinds,), takes="order")) == []


def test_one_that_a_kill_left_half_is_none(shop: Written, named: Moment) -> None:
    """The file that says what it is comes last, and goes first."""
    assert named.kept is not None
    (named.kept / "moment.json").remove_file()

    with pytest.raises(
        DefinitionError, match="'month-end' is no time, and no moment has that name"
    ):
        counts(shop, NAMES[:2], "AT MOMENT 'month-end'")
    latest = chosen("LATEST", (), TABLES, shop.lake)
    again = keep_named(shop.lake, TABLES, "month-end", latest, "")
    assert counts(shop, NAMES[:2], "AT MOMENT 'month-end'") == [6, 5]
    assert again.until == ""


def test_its_time_is_over_and_it_goes(shop: Written, named: Moment) -> None:
    """Not before; and by hand at any time."""
    assert drop_due(shop.lake, NOON) == []
    assert drop_due(shop.lake, NOON + timedelta(days=30)) == [named.name]
    assert named.kept is not None
    assert not named.kept.exists()
    with pytest.raises(DefinitionError, match="there is no moment month-end"):
        drop(shop.lake, "month-end")


def test_a_request_to_forget_goes_through_it(shop: Written, named: Moment) -> None:
    """What it has touched is kept no more, and the moment says why."""
    gone = forget_in(shop.lake, [SILVER.id, "quarantine.orders", "silver.none"], NOON)

    assert gone == {"month-end": [SILVER.id, "quarantine.orders"]}
    assert forget_in(shop.lake, [SILVER.id], NOON) == {}
    assert counts(shop, NAMES[:1], "AT MOMENT 'month-end'") == [6]
    with pytest.raises(
        DefinitionError, match="cannot be read there any more: a request to forget has gone"
    ):
        counts(shop, NAMES[:2], "AT MOMENT 'month-end'")
    assert named.kept is not None
    assert [each.name for each in named.kept.files() if "silver" in str(each)] == []


@pytest.mark.whole
def test_one_is_found_in_a_lake_of_many_commits_as_in_a_small_one(shop: Written) -> None:
    """50,000 commits of each of three tables, of which the newest are read: within a second, and some megabytes."""
    for table, source in ((ORDERS, None), (SILVER, ORDERS), (PAID, SILVER)):
        _age(shop.lake, table, source, 50_000)

    tracemalloc.start()
    began = time.monotonic()
    found = Finder(shop.lake).find(TABLES[:3])
    took = time.monotonic() - began
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert isinstance(found, Moment)
    assert found.versions == {ORDERS.id: 50_000, SILVER.id: 50_000, PAID.id: 50_000}
    assert most < 8_000_000, f"{most:,} bytes"
    assert took < 1, f"{took:.2f} s"


def _age(lake: Lake, table: Table, source: Table | None, until: int) -> None:
    """Write commits without files up to a version, as a stream with a row each would have."""
    path = lake.table(table)
    for version in range(latest_version(path) + 1, until + 1):
        fields: dict[str, object] = {"batch": version, "read": 1, "good": 1, "written": 1}
        if source is None:
            fields["offsets"] = {"orders/0": (version, version + 1)}
        else:
            fields["versions"] = {source.id: (version, version)}
        made = entry(table, **fields).encoded()
        info = {"commitInfo": {"timestamp": 1_790_000_000_000 + version, "userMetadata": made}}
        commit_file(path, version).local.write_text(json.dumps(info) + "\n")
    checkpoint = path / "_delta_log" / "_last_checkpoint"
    checkpoint.put(json.dumps({"version": until - 50, "size": 1}))
