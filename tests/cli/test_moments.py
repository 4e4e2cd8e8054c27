"""Questions at a moment as they are typed, and after what changes a lake: maintenance, repairs, a promotion, a request, a copy."""

import io
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m
from fleet.silver import device_telemetry as silver
from strandline.cli.verbs.query import _Shell
from strandline.core.errors import DefinitionError
from strandline.core.stateful import AvailableNow
from strandline.engine.ask.find_moment import FOLLOWED
from strandline.engine.ask.moments import named
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.order_log import FORGOTTEN, Asked, newest
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import hold
from strandline.engine.service.maintain import Policy, maintain
from strandline.operate.orders import ordered
from tests.cli.inside import strandline, succeeded
from tests.engine.written import BRONZE as STREAM
from tests.engine.written import entry, numbers, small_lake, written
from tests.support.events import readings, received
from tests.support.rows import NOON

BRONZE, SILVER, GOLD = "bronze.device_telemetry", silver.TABLE.id, device_signal_10m.TABLE.id
HELD = "quarantine.device_telemetry"
COUNTS = f"SELECT (SELECT count(*) FROM {BRONZE}) AS b, (SELECT count(*) FROM {SILVER}) AS s, (SELECT count(*) FROM {HELD}) AS q"  # noqa: S608  # our own names

FIRST = """
    batch | id | device | event_at | arrived_at | value
    0     | e1 | d1     | 09:00:00 | 09:00:01   | 1.5
    0     | e2 | d1     | 09:01:00 | 09:01:01   | 2.5
    0     | e2 | d1     | 09:01:00 | 09:01:02   | 2.5
    0     | e3 | d2     | 07:00:00 | 09:02:00   | 3.5
    1     | e4 | d2     | 12:00:00 | 12:00:01   | 4.5
"""


SECOND = """
    batch | id | device | event_at | arrived_at | value
    2     | f1 | d1     | 12:01:00 | 12:01:01   | 1.5
    2     | f2 | d2     | 12:02:00 | 12:02:01   | 2.5
    3     | f3 | d2     | 12:03:00 | 12:03:01   | 4.5
"""


def asked(lake: Place | Path, end: str = "") -> dict[str, int]:
    answer: Any = succeeded("query", f"{COUNTS} {end}", "--json", "--lake", lake).json
    return dict(answer[0])


def latest(lake: Place) -> dict[str, int]:
    """Note the latest, which is what a question on a store reads, and ask."""
    succeeded("moments", "note", "--lake", lake)
    return asked(lake, "AT MOMENT LATEST")


def moments(lake: Place | Path) -> list[dict[str, Any]]:
    found: Any = succeeded("moments", "--json", "--lake", lake).json
    return [*found]


@pytest.fixture
def own(filled: Path, tmp_path: Path) -> Path:
    """Return a lake of five events, of the test's own."""
    return Path(shutil.copytree(filled, tmp_path / "own"))


def test_a_run_notes_one_and_a_question_names_the_one_that_it_has_read(own: Path) -> None:
    """Its number and its time beside the answer; the versions on request."""
    succeeded("run", SILVER, GOLD, "--lake", own)
    (only,) = moments(own)

    answer = succeeded("query", f"{COUNTS} AT MOMENT LATEST", "--lake", own)
    shown: Any = succeeded("moments", "show", "--json", "--lake", own).json

    assert (only["moment"], only["by"], only["behind"]) == (1, "a run", {})
    assert "at moment 1 of " in answer.err
    assert shown == only
    assert {BRONZE, SILVER, GOLD, HELD} <= shown["versions"].keys()
    assert asked(own, "AT MOMENT 1") == {"b": 5, "s": 3, "q": 1}
    assert "there is no moment 2" in strandline("moments", "show", 2, "--lake", own).err


def test_a_lake_that_was_never_run_by_hand_has_one_as_well(own: Path) -> None:
    """The latest is found as it is asked for; noting it gives it a number."""
    assert "none is noted yet" in succeeded("moments", "--lake", own).out
    assert asked(own, "AT MOMENT LATEST") == {"b": 5, "s": 3, "q": 1}
    assert "moment 1 of" in succeeded("moments", "note", "--lake", own).out
    assert (
        "bronze has read up to: device-telemetry"
        in succeeded("moments", "show", 1, "--lake", own).out
    )


@pytest.fixture
def ahead(tmp_path: Path) -> Lake:
    """Return a lake whose bronze has two records more than silver has read."""
    lake = small_lake(tmp_path / "ahead")
    made = entry(STREAM, batch=2, offsets={"0": (5, 7)}, read=2, good=2, written=2).encoded()
    written(lake.table(STREAM), numbers(2), made)
    return lake


def test_what_is_written_to_a_file_is_of_one_moment(ahead: Lake, tmp_path: Path) -> None:
    """Where the question has several tables; another one, or none, where that is asked for."""
    succeeded("moments", "note", "--lake", ahead.root)
    both = f"SELECT (SELECT count(*) FROM {BRONZE}) AS b, (SELECT count(*) FROM {SILVER}) AS s"  # noqa: S608  # our own names
    file = tmp_path / "both.json"

    def wrote(sql: str, *words: object, to: Path = file) -> dict[str, int]:
        done = succeeded("query", sql, "--to", to, *words, "--lake", ahead.root)
        if to.suffix == ".json":
            found = json.loads(to.read_text())[0]
        else:
            (found,) = pq.read_table(to).to_pylist()
        assert ("at moment 1 of" in done.err) == (found["b"] == 5)
        return dict(found)

    assert wrote(both) == {"b": 5, "s": 3}
    assert wrote(both, to=tmp_path / "both.parquet") == {"b": 5, "s": 3}
    assert wrote(both, "--moment", "live") == {"b": 7, "s": 3}
    assert wrote(f"SELECT count(*) AS b FROM {BRONZE}") == {"b": 7}  # noqa: S608  # as above
    assert wrote(f"SELECT count(*) AS b FROM {BRONZE}", "--moment", 1) == {"b": 5}  # noqa: S608  # as above
    assert wrote(f"{both} AT MOMENT 1", "--moment", "LIVE") == {"b": 5, "s": 3}
    for wrong, says in ((7, "there is no moment 7"), ("noon", "is no time, and no moment")):
        refused = strandline("query", both, "--moment", wrong, "--lake", ahead.root)
        assert (refused.code, says in refused.err) == (2, True)


def test_tables_that_no_moment_has_are_written_as_they_are(ahead: Lake, tmp_path: Path) -> None:
    """And a line says that they may differ."""
    sql = f"SELECT (SELECT count(*) FROM {BRONZE}) AS b, (SELECT count(*) FROM {SILVER}) AS s"  # noqa: S608  # our own names
    with hold(ahead.lease(silver.TABLE, FOLLOWED)):
        done = succeeded("query", sql, "--to", tmp_path / "x.csv", "--lake", ahead.root)

    assert (tmp_path / "x.csv").read_text() == "b,s\n7,3\n"
    assert "each table is read as it is now, and they may differ" in done.err


def test_a_shell_reads_at_a_moment_until_it_reads_what_there_is(
    ahead: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that there is not is refused, and changes nothing; a question may name another."""
    count = f"SELECT count(*) FROM {BRONZE}"  # noqa: S608  # our own names
    shell = _Shell(ahead, None)
    words = (
        ".format csv\n.moment\n",
        f".moment LATEST\n{count};\n.moment noon\n.moment\n{count};\n",
        f"{count} AT MOMENT 7;\n.moment live\n{count};\n",
    )
    shell.read(io.StringIO("".join(words)))
    shown = capsys.readouterr()

    assert [each for each in shown.out.splitlines() if each.isdigit()] == ["5", "5", "7"]
    assert shown.out.splitlines()[0] == "reading what there is"
    assert shown.out.count("reading at a moment of ") == 2
    assert "'noon' is no time, and no moment has that name" in shown.err
    assert "there is no moment 7" in shown.err
    assert shell.failed == 2


def test_a_name_is_kept_until_a_day_that_is_still_to_come(ahead: Lake) -> None:
    """Else the next maintenance would let it go."""
    over = strandline("moments", "name", "old", "--until", "2020-01-01", "--lake", ahead.root)
    assert (over.code, "2020-01-01 is over" in over.err) == (2, True)
    later = ("--until", "2999-01-01")
    assert (
        "kept until 2999-01-01"
        in succeeded("moments", "name", "old", *later, "--lake", ahead.root).out
    )
    shown: Any = succeeded("moments", "show", "old", "--json", "--lake", ahead.root).json
    assert shown["until"] == "2999-01-01T00:00:00+00:00"


def test_a_name_goes_on_its_day_though_maintenance_never_has_the_time(ahead: Lake) -> None:
    """Of a lake so large that each run is out of time before its last table."""
    for name, until in (("due", "2999-01-01"), ("kept", "3000-01-01")):
        succeeded("moments", "name", name, "--until", until, "--lake", ahead.root)
    now = datetime(2999, 1, 1, tzinfo=UTC)
    (done,) = maintain(ahead, now, Policy(is_over=lambda: True))

    assert done.left == "out of time"
    assert [each.name for each in named(ahead)] == ["kept"]


def test_maintenance_and_a_repair_note_what_they_have_left(ahead: Lake) -> None:
    """So a time just after them means that; a lake that has no moment gets none by a repair."""
    day = {"since": "2026-11-20T00:00:00+00:00", "until": "2026-11-21T00:00:00+00:00"}
    made = entry(device_signal_10m.TABLE, mode="backfill", came=1, gone=1, **day)
    repair = {"because": "a test"}
    with ordered("accept-loss", repair, says=lambda _: None, lake=ahead):
        pass
    assert moments(ahead.root) == []
    succeeded("moments", "note", "--lake", ahead.root)
    written(ahead.table(device_signal_10m.TABLE), numbers(1), made.encoded())
    with (
        pytest.raises(DefinitionError),
        ordered("accept-loss", repair, says=lambda _: None, lake=ahead),
    ):
        raise DefinitionError("half of it", hint="")
    first = moments(ahead.root)[0]
    assert (first["moment"], first["by"]) == (2, "accept-loss")

    for path in ahead.books(silver.TABLE)[:1]:
        newest = commit_file(path, latest_version(path) + 1)
        newest.put('{"commitInfo":{"timestamp":1790000000000,"operation":"OPTIMIZE"}}\n')
    succeeded("maintain", "--lake", ahead.root)
    last = moments(ahead.root)[0]
    assert (last["moment"], last["by"]) == (3, "maintenance")
    assert last["versions"][SILVER] == latest_version(ahead.table(silver.TABLE))


@pytest.mark.core
@pytest.mark.slow
@pytest.mark.whole
def test_a_moment_outlives_what_changes_a_lake(
    spark: SparkSession, anywhere: Place, tmp_path: Path
) -> None:
    """Also on a store; what came since is at the next moment."""
    lake = Lake(anywhere / "lake").open_for_writing()
    site = Site(spark=spark, clock=lambda: NOON)
    tables = (silver.TABLE, device_signal_10m.TABLE)
    received(lake, readings(FIRST))
    for table in tables:
        run(table, AvailableNow(), lake, site=site)
    first = {"b": 5, "s": 3, "q": 1}
    succeeded("moments", "note", "--lake", lake.root)
    received(lake, readings(SECOND))
    assert asked(lake.root) == {"b": 8, "s": 3, "q": 1}
    assert asked(lake.root, "AT MOMENT LATEST") == first
    for table in tables:
        run(table, AvailableNow(), lake, site=site)
    second = {"b": 8, "s": 6, "q": 1}
    assert latest(lake.root) == second

    succeeded("maintain", "--lake", lake.root)
    for words in (
        ("rebuild", GOLD),
        ("promote", GOLD),
        ("undo", GOLD),
        ("rebuild", SILVER),
        ("promote", SILVER),
    ):
        succeeded(*words, "--lake", lake.root)
    assert latest(lake.root) == second
    assert asked(lake.root, "AT MOMENT 1") == first

    named = f"SELECT count(*) FROM {SILVER} WHERE device_id = 'd1'"  # noqa: S608  # our own names
    succeeded("query", named, "--unmasked", "case 17", "--lake", lake.root)
    done = succeeded("forget", "--where", "device_id = 'd1'", "--go", "--now", "--lake", lake.root)
    assert "the log of orders names it in 1 order," in done.err
    assert latest(lake.root)["s"] == 3  # those of d2
    assert asked(lake.root, "AT MOMENT 1") == first

    store, new = tmp_path / "copies", anywhere / "new"
    succeeded("snapshot", store, "--lake", lake.root)
    succeeded("restore", store, "--into", new)
    assert moments(new) == []
    assert asked(new, "AT MOMENT LATEST") == asked(lake.root, "AT MOMENT LATEST")

    given = newest(lake, Asked(last=8)).orders
    assert [each.verb for each in given] == [
        *("snapshot", "moments note", "forget", "unmask", "moments note"),
        *("promote", "rebuild", "undo"),
    ]
    assert {each.state for each in given} == {"done", "shown"}
    assert given[3].asked["sql"] == named.replace("d1", FORGOTTEN)
    assert given[2].asked["where"].startswith("sha256 ")
    (made,) = newest(Lake(new), Asked()).orders
    assert (made.verb, made.state, made.asked["source"]) == ("restore", "done", str(store))
