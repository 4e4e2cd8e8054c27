"""What a moment keeps, for how long, and what is lost to it: after rest, repairs, a clock that was fast, a table made anew, a kill."""

import json
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from strandline import catalog

from fleet.silver import user_actions
from strandline.core.errors import DefinitionError
from strandline.engine.ask import find_moment, moments
from strandline.engine.ask.find_moment import FOLLOWED, Finder, Moment
from strandline.engine.ask.moments import chosen, fixed, note, noted, split
from strandline.engine.ask.named_moments import (
    drop,
    forget_in,
    keep_named,
    refuse_unreadable,
    remove_half,
)
from strandline.engine.ask.sql_query import ask
from strandline.engine.lake.import_notes import (
    ToFollow,
    backfills_to_follow,
    note_followed,
    note_to_follow,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file, committed_at
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.log.ledger_sums import place_of
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.place import Place
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

DAY = timedelta(days=1)


def rests(shop: Written, commits: int) -> None:
    """Let a table with windows commit batches that close none, as one with hourly windows does."""
    path = shop.lake.table(PAID)
    first = latest_version(path) + 1
    for version in range(first, first + commits):
        made = entry(PAID, batch=version).encoded()
        info = {"commitInfo": {"timestamp": 1_790_000_000_000 + version, "userMetadata": made}}
        commit_file(path, version).put(json.dumps(info) + "\n")


def test_a_source_without_new_rows_for_hours_leaves_no_reader_behind(
    shop: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many commits it makes meanwhile; what a moment has shown is not looked at again."""
    rests(shop, find_moment.DEEP + 10)
    found = Finder(shop.lake).find(TABLES)
    assert found is not None
    assert found.behind == {}
    assert found.versions[PAID.id] == latest_version(shop.lake.table(PAID))

    monkeypatch.setattr(find_moment, "RESTED", 100)
    rests(shop, 50)
    alone = Finder(shop.lake).find(TABLES)
    assert alone is not None
    assert "it has read gold.paid up to version" in alone.behind[DAILY.id]
    again = Finder(shop.lake, found).find(TABLES)
    assert again is not None
    assert again.behind == {}
    assert again.versions[PAID.id] == found.versions[PAID.id] + 50

    shop.bronze()
    shop.silver()
    shop.above(SENT)
    shop.above(PAID)  # which DAILY has not read
    last = Finder(shop.lake, again).find(TABLES)
    assert last is not None
    assert last.versions[PAID.id] == again.versions[PAID.id]
    shop.above(DAILY)
    last = Finder(shop.lake, again).find(TABLES)
    assert last is not None
    assert last.versions[PAID.id] == latest_version(shop.lake.table(PAID))


def test_a_decision_is_no_part_of_a_time_before_it(shop: Written) -> None:
    """It is a commit of its own, by which a moment is later, though no table has a newer one."""
    first = note(shop.lake, TABLES, "a run")
    written(
        shop.lake.resolutions(SILVER), numbers(1), entry(SILVER, mode="discard", batch=0).encoded()
    )
    second = note(shop.lake, TABLES, "a run")

    assert first is not None
    assert second is not None
    assert second.number == 2
    assert second.at == committed_at(shop.lake.resolutions(SILVER), 0)
    before = chosen(second.at - timedelta(milliseconds=1), (), TABLES, shop.lake)
    assert before == first


def test_a_question_names_its_tables_at_a_moment_as_it_does_without(shop: Written) -> None:
    """By layer and name, in any letters, in quotes, in a query of its own, beside another version."""
    for sql in (
        "SELECT gold.paid.number FROM gold.paid",
        'SELECT count(GOLD.paid.number) FROM Gold."PAID"',
        "SELECT memory.gold.paid.number, s.number FROM memory.gold.paid JOIN silver.orders s USING (number)",
        "WITH paid AS (FROM gold.paid), sent AS (SELECT * FROM gold.sent) SELECT paid.number FROM paid JOIN sent USING (number)",
        "SELECT (SELECT max(silver.orders.number) FROM silver.orders) FROM gold.paid WHERE paid.number IN (SELECT number FROM gold.sent)",
        "FROM gold.paid AS a JOIN gold.paid AS b USING (number)",
    ):
        plain = ask(sql, TABLES, shop.lake)
        assert plain.rows
        assert ask(f"{sql} at moment latest;", TABLES, shop.lake).rows == plain.rows


def test_a_lake_that_is_read_at_a_moment_reads_no_table_as_it_is_now(shop: Written) -> None:
    """One that is no part of it was read so, beside others that were not."""
    with hold(shop.lake.lease(SENT, FOLLOWED)):
        moment = Finder(shop.lake).find(TABLES)
    assert moment is not None

    with pytest.raises(DefinitionError, match=r"gold\.sent is no part of it, because"):
        ask(
            "FROM gold.paid JOIN gold.sent USING (number)", TABLES, shop.lake, default=fixed(moment)
        )
    answer = ask("FROM gold.paid", TABLES, shop.lake, default=fixed(moment))
    assert answer.moment == moment


def test_a_column_may_begin_with_any_letter(shop: Written) -> None:
    """The words of a question are found by its bytes, and a letter has several."""
    found = ask("SELECT count(*) AS übrig FROM gold.paid AT MOMENT LATEST", TABLES, shop.lake)
    assert (found.columns, found.rows) == (("übrig",), ((4,),))


@pytest.mark.parametrize("word", ["²", "9" * 5_000, "17.5"])
def test_what_only_looks_like_a_number_is_none(word: str) -> None:
    """It was an error that no one had foreseen."""
    with pytest.raises(DefinitionError, match="is no moment"):
        split(f"SELECT 1 AT MOMENT {word}")


def test_a_moment_is_asked_for_by_its_number_in_any_way(shop: Written) -> None:
    """And a time that is still to come means the last."""
    first = note(shop.lake, TABLES, "a run")
    assert first is not None

    for which in ("1", " moment 1 ", "MOMENT 1", f"{first.at + 400 * DAY:%Y-%m-%d}", first.at, 1):
        assert chosen(which, (), TABLES, shop.lake) == first


def test_tables_without_rows_are_a_moment(tmp_path: Path) -> None:
    """So a question has an answer from the first minute on."""
    shop = Written(tmp_path / "lake")
    shop.commit(ORDERS, 0)
    assert Finder(shop.lake).find(TABLES) is None
    shop.commit(SILVER, 0)

    assert counts(shop, NAMES[:2], "AT MOMENT LATEST") == [0, 0]


def test_where_nothing_was_held_yet_the_quarantine_is_empty(shop: Written) -> None:
    """Its first commit is of a batch that the table does not have yet."""
    made = entry(SILVER, batch=2, quarantined={"late": 1}, versions={ORDERS.id: (2, 2)}).encoded()
    written(shop.lake.quarantine(SILVER), numbers(1), made)
    names = ("silver.orders", "quarantine.orders")

    assert counts(shop, names) == [4, 1]
    assert counts(shop, names, "AT MOMENT LATEST") == [4, 0]
    latest = chosen("LATEST", (), TABLES, shop.lake)
    keep_named(shop.lake, TABLES, "early", latest, "")
    assert counts(shop, names, "AT MOMENT 'early'") == [4, 0]
    refuse_unreadable(latest, shop.lake)


def advanced(shop: Written) -> None:
    """Let every table read two more records."""
    shop.bronze()
    shop.silver()
    for table in (PAID, SENT, DAILY):
        shop.above(table)


def dated(shop: Written, number: int, by: timedelta) -> None:
    """Let a moment be of another time, as a clock that is fast would."""
    (found,) = (each for each in noted(shop.lake) if each.number == number)
    micros = int(found.place.name.removesuffix(".json").partition("-")[2])
    name = f"{number:010d}-{micros + by // timedelta(microseconds=1)}.json"
    (found.place.parent / name).put(found.place.text() or "")
    found.place.remove_file()


def test_a_clock_that_was_fast_holds_no_log_for_a_year(shop: Written) -> None:
    """What was noted after its moment is of before it, so its time is that one."""
    note(shop.lake, TABLES, "a stream")
    dated(shop, 1, 400 * DAY)
    advanced(shop)
    second = note(shop.lake, TABLES, "a stream")
    advanced(shop)
    third = note(shop.lake, TABLES, "a stream")
    assert second is not None
    assert third is not None

    assert moments.kept(shop.lake, third.at + DAY, third.at)[PAID.id] == 1 + third.versions[PAID.id]
    assert moments.remove_unreadable(shop.lake, third.at + DAY) == 0


def test_the_moment_that_was_the_latest_can_be_read_as_long_as_one_of_then(shop: Written) -> None:
    """A question about ten minutes ago reads it, though its commits are of this morning; but none holds a log for ever."""
    first = note(shop.lake, TABLES, "a run")
    assert first is not None
    since = first.at + timedelta(hours=3)

    assert moments.kept(shop.lake, since, first.at)[PAID.id] == first.versions[PAID.id] + 1
    assert moments.kept(shop.lake, since, first.at + timedelta(hours=1)) == {}


def test_a_table_that_was_behind_is_kept_from_the_moment_that_has_it_on(shop: Written) -> None:
    """The oldest moment has no version of it."""
    with hold(shop.lake.lease(SENT, FOLLOWED)):
        first = note(shop.lake, TABLES, "a stream")
    second = note(shop.lake, TABLES, "a stream")
    assert first is not None
    assert second is not None

    needed = moments.kept(shop.lake, first.at, first.at)
    assert needed[SENT.id] == second.versions[SENT.id] + 1
    assert needed[PAID.id] == first.versions[PAID.id] + 1


def test_a_name_that_would_be_read_as_another_word_is_none(shop: Written) -> None:
    """A session over JDBC would read what there is by `live`."""
    latest = chosen("LATEST", (), TABLES, shop.lake)
    for name in ("live", "latest", "Month", "month end", "a" * 65, "../x", "ä", "1st", ""):
        with pytest.raises(DefinitionError, match="is no name of a moment"):
            keep_named(shop.lake, TABLES, name, latest, "")


def folders(shop: Written) -> list[str]:
    return (shop.lake.root / moments.FOLDER / moments.NAMED).names()


def test_what_a_kill_left_of_a_name_takes_no_room_for_ever(shop: Written) -> None:
    """While it was kept, or let go: no reader sees it, so maintenance removes it."""
    latest = chosen("LATEST", (), TABLES, shop.lake)
    for name in ("one", "two", "three"):
        keep_named(shop.lake, TABLES, name, latest, "")
    for name in ("one", "two"):
        (shop.lake.root / moments.FOLDER / moments.NAMED / name / moments.ABOUT).remove_file()

    remove_half(shop.lake)
    assert folders(shop) == ["three"]
    drop(shop.lake, "three")
    remove_half(shop.lake)
    assert folders(shop) == []


def test_a_moment_that_cannot_be_kept_leaves_nothing(shop: Written) -> None:
    """A file of it is gone."""
    latest = chosen("LATEST", (), TABLES, shop.lake)
    gone = next(each for each in shop.lake.table(DAILY).files() if each.name.endswith(".parquet"))
    gone.remove_file()

    with pytest.raises(DefinitionError, match="were deleted"):
        keep_named(shop.lake, TABLES, "month-end", latest, "")
    assert folders(shop) == []


def test_a_request_that_was_killed_half_way_through_a_name_goes_on(shop: Written) -> None:
    """What it had begun to remove has no log any more, and has rows."""
    latest = chosen("LATEST", (), TABLES, shop.lake)
    kept = keep_named(shop.lake, TABLES, "month-end", latest, "").kept
    assert kept is not None
    (place_of(kept, SILVER.id) / "_delta_log").remove()

    assert forget_in(shop.lake, [SILVER.id], NOON) == {"month-end": [SILVER.id]}
    assert not place_of(kept, SILVER.id).exists()


def made_anew(path: Place) -> None:
    """Make a table anew, as after `retire --delete`."""
    path.remove()
    written(path, numbers(1), entry(DAILY, versions={PAID.id: (0, 1)}, written=1).encoded())


def test_only_the_table_that_was_made_anew_is_lost_to_moments_of_before(shop: Written) -> None:
    """Its versions begin again; the others are read as they were, also once it is there no more."""
    note(shop.lake, TABLES, "a run")
    path = shop.lake.table(DAILY)
    for change in (made_anew, Place.remove):
        change(path)
        assert counts(shop, NAMES, "AT MOMENT 1") == [4, 4, 4, 4]
        assert counts(shop, NAMES, f"AT MOMENT '{NOON.year + 100}-01-01'") == [4, 4, 4, 4]
        found = chosen(1, (), TABLES, shop.lake)
        assert found.lost == {DAILY.id: "it was made anew since"}
        with pytest.raises(DefinitionError, match=r"gold\.daily cannot be read there any more"):
            chosen(1, [DAILY.id], TABLES, shop.lake)
    with pytest.raises(DefinitionError, match=r"gold\.daily cannot be read there any more"):
        chosen(f"{NOON.year + 100}-01-01", [PAID.id, DAILY.id], TABLES, shop.lake)


def test_tables_that_have_not_followed_a_backfill_are_in_no_moment(shop: Written) -> None:
    """One that was killed between two tables; the same again ends it, or a repair of the table, or a promotion."""
    day = {"since": "2026-11-20T00:00:00+00:00", "until": "2026-11-21T00:00:00+00:00"}
    span = day["since"], day["until"]
    left = {each.id: latest_version(shop.lake.table(each)) for each in (PAID, SENT)}
    whole = ToFollow(
        table=SILVER.id, after=latest_version(shop.lake.table(SILVER)), left=left, **day
    )
    note_to_follow(shop.lake, whole)
    assert shop.behind() == {}  # killed before its first commit

    shop.repaired(SILVER)
    why = "a backfill of silver.orders was interrupted before it was computed again"
    assert shop.behind() == {
        PAID.id: why,
        SENT.id: why,
        DAILY.id: "it reads gold.paid, which is no part of it",
    }
    note_followed(shop.lake, SILVER.id, span, SENT.id)
    assert {*shop.behind()} == {PAID.id, DAILY.id}

    again = replace(whole, after=latest_version(shop.lake.table(SILVER)), left={PAID.id: 9})
    note_to_follow(shop.lake, again)  # and is killed before its first commit, too
    assert {*shop.behind()} == {PAID.id, DAILY.id}
    shop.repaired(PAID, since="2026-11-20T12:00:00+00:00")
    assert PAID.id in shop.behind()
    shop.repaired(PAID)
    shop.above(DAILY)
    assert shop.behind() == {}

    note_to_follow(shop.lake, again)
    note_followed(shop.lake, SILVER.id, span)
    assert backfills_to_follow(shop.lake) == []


def test_two_machines_give_no_number_twice(
    shop: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lake on a store has folders of its own on each, so the lock is in the lake."""
    monkeypatch.setattr(Lake, "near", Place(str(tmp_path / "here")))
    done = threading.Event()

    def noted_here() -> None:
        note(shop.lake, TABLES, "a stream")
        done.set()

    with hold(shop.lake.root / moments.FOLDER / moments.LOCK):
        threading.Thread(target=noted_here, daemon=True).start()
        assert not done.wait(0.3)
    assert done.wait(60)
    assert [each.number for each in noted(shop.lake)] == [1]


def test_a_column_that_a_table_has_no_more_is_masked_in_a_kept_moment(tmp_path: Path) -> None:
    """Its lineage is known no more, and the table has a sensitive one: as at a version that is named."""
    lake, table = Lake(tmp_path / "lake"), user_actions.TABLE
    path, made = lake.table(table), entry(table).encoded()
    written(path, [{"action_id": "a1", "user_id": "alice", "address": "1 Main Street"}], made)
    ids = {table.id: table_id(path)[:8]}
    moment = Moment(at=NOON, versions={table.id: 0}, offsets={}, behind={}, ids=ids)
    keep_named(lake, catalog.tables(), "month-end", moment, "")
    rows = pa.Table.from_pylist([{"action_id": "a1", "user_id": "alice"}])
    write_deltalake(str(path), rows, mode="overwrite", schema_mode="overwrite")

    for end in ("AS u AT (VERSION => 0)", "AT MOMENT 'month-end'"):
        found = ask(f"FROM {table.id} {end}", catalog.tables(), lake)
        assert "1 Main Street" not in str(found.rows)
        assert found.masked == (f"{table.id}.address", f"{table.id}.user_id")


def aged(shop: Written, count: int, every: timedelta = timedelta(seconds=10)) -> None:
    """Let a lake have so many notes of before, as a stream makes them that no maintenance follows."""
    newest = note(shop.lake, TABLES, "a run")
    assert newest is not None
    folder = (shop.lake.root / moments.FOLDER).local
    (file,) = folder.glob("*.json")
    text = file.read_text()
    file.unlink()
    for number in range(1, count + 1):
        at = newest.at - (count - number) * every
        micros = (at - moments.EPOCH) // moments.MICROSECOND
        (folder / f"{number:010d}-{micros}.json").write_text(text)


def held(shop: Written) -> list[int]:
    """Return the numbers of the moments that are noted."""
    return [each.number for each in noted(shop.lake)]


def test_a_lake_that_is_never_maintained_has_few_notes(
    shop: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new one takes some old ones with it, of which the newest stay, and ever fewer of those before."""
    monkeypatch.setenv("STRANDLINE_MOMENTS_KEPT", "900")
    aged(shop, 3_000)
    keep_named(shop.lake, TABLES, "month-end", chosen(1, (), TABLES, shop.lake), "")
    advanced(shop)

    fresh = note(shop.lake, TABLES, "a stream")
    assert fresh is not None
    assert fresh.number == 3_001
    assert len(held(shop)) == 3_001 - moments.THINNED
    while (known := noted(shop.lake)) and len(thinned(shop, known)) < len(known):
        pass

    left = held(shop)
    assert left[-moments.DENSE :] == [*range(3_002 - moments.DENSE, 3_002)]
    older = [each for each in left if each <= 3_001 - 4 * moments.DENSE]
    assert all(each % 8 == 0 for each in older)
    assert len(left) < 1_000
    times = [each.at for each in noted(shop.lake)]
    asked = times[0] + timedelta(seconds=75)
    assert chosen(asked, (), TABLES, shop.lake).at == max(at for at in times if at <= asked)
    assert [each.name for each in moments.named(shop.lake)] == ["month-end"]
    with pytest.raises(DefinitionError, match="there is no moment 1 "):
        chosen(1, (), TABLES, shop.lake)


def thinned(shop: Written, known: list[moments.Noted]) -> list[int]:
    """Let the notes go that one more would take along; return those that are left."""
    moments.thin(known)
    return held(shop)


def test_notes_that_maintenance_keeps_readable_stay_and_the_one_before_them(
    shop: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that is; and by their numbers where a clock was a year ahead, by which all are old."""
    aged(shop, 1_000)
    monkeypatch.setenv("STRANDLINE_MOMENTS_KEPT", str(10 * 600))
    for _ in range(100):
        moments.thin(noted(shop.lake))
    assert held(shop)[-602:] == [*range(399, 1_001)]
    assert len(held(shop)) < 1_000

    monkeypatch.setenv("STRANDLINE_MOMENTS_KEPT", "900")
    dated(shop, 1_000, 365 * DAY)
    for _ in range(100):
        moments.thin(noted(shop.lake))
    assert held(shop)[-moments.DENSE :] == [*range(1_001 - moments.DENSE, 1_001)]


@pytest.mark.parametrize("text", ["", "{", "null", '{"versions": 1}', b"\xff\xfe"])
def test_a_note_that_is_torn_is_as_one_that_is_gone(shop: Written, text: str | bytes) -> None:
    """It hides no other moment, a further one is noted, and it goes with those that can be read no more."""
    note(shop.lake, TABLES, "a run")
    advanced(shop)
    second = note(shop.lake, TABLES, "a run")
    assert second is not None
    noted(shop.lake)[1].place.put_bytes(text if isinstance(text, bytes) else text.encode())

    assert chosen("2999-01-01", NAMES[:1], TABLES, shop.lake).number == 1
    with pytest.raises(DefinitionError, match="there is no moment 2 "):
        chosen(2, (), TABLES, shop.lake)
    third = note(shop.lake, TABLES, "a run")
    assert third is not None
    assert (third.number, third.versions) == (3, second.versions)
    noted(shop.lake)[0].place.remove_file()
    moments.remove_unreadable(shop.lake, third.at + DAY)
    assert held(shop) == [3]


def test_what_is_damaged_of_a_name_is_said_and_hides_nothing(shop: Written) -> None:
    """The other moments and tables are there; what is torn can be dropped, and a request to forget goes through it."""
    latest = chosen("LATEST", (), TABLES, shop.lake)
    for name in ("half", "torn", "whole"):
        keep_named(shop.lake, TABLES, name, latest, "")
    folder = shop.lake.root / moments.FOLDER / moments.NAMED
    (folder / "torn" / moments.ABOUT).put("{")
    (folder / "half" / "gold" / "paid").remove()
    for file in [*(folder / "half" / "gold" / "sent").files()]:
        if file.name.endswith(".parquet"):
            file.remove_file()

    assert [each.name for each in moments.named(shop.lake)] == ["half", "torn", "whole"]
    assert counts(shop, NAMES, "AT MOMENT 'whole'") == counts(shop, NAMES)
    assert counts(shop, NAMES[:2], "AT MOMENT 'half'") == counts(shop, NAMES[:2])
    with pytest.raises(DefinitionError, match=r"there is no table gold\.paid"):
        counts(shop, ["gold.paid"], "AT MOMENT 'half'")
    with pytest.raises(DefinitionError, match=r"moment half .* can be read no more"):
        counts(shop, ["gold.sent"], "AT MOMENT 'half'")
    with pytest.raises(DefinitionError, match="the file that says of the moment is torn"):
        counts(shop, ["gold.paid"], "AT MOMENT 'torn'")
    assert forget_in(shop.lake, ["silver.orders"], latest.at)["torn"] == ["silver.orders"]
    assert not (folder / "torn" / "silver" / "orders").exists()
    drop(shop.lake, "torn")
    assert [each.name for each in moments.named(shop.lake)] == ["half", "whole"]


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_a_time_that_has_no_year_in_utc_is_none(shop: Written, text: str) -> None:
    """It was an error that no one had foreseen."""
    with pytest.raises(DefinitionError, match="is no time"):
        chosen(text, (), TABLES, shop.lake)
    with pytest.raises(DefinitionError, match="is no moment"):
        ask(f"FROM gold.paid AT (TIMESTAMP => '{text}')", TABLES, shop.lake)
