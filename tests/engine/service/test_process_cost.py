"""What a process used is what the kernel counts for it and all that it started, line by line, and hardly anything is left over."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from strandline.core.stateful import AvailableNow
from strandline.engine.accounting.cost import Cost, Prices, costs
from strandline.engine.accounting.process_lines import (
    LINES,
    Process,
    fold,
    note_process,
    processes,
)
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.lake.snapshot_files import Taken
from strandline.engine.repair.expire import AFTER, scrub
from strandline.engine.repair.forget import Forgetting, carry_out
from strandline.engine.repair.forget_request import Request
from strandline.engine.repair.rebuild import promote, rebuild
from strandline.engine.runtime.jvm import measured
from strandline.engine.runtime.processes import threads_of
from strandline.engine.service.maintain import Policy, maintain
from strandline.engine.service.process_cost import Account, program
from strandline.engine.service.snapshot import restore, take
from tests.architecture.tree import ROOT
from tests.cli.typed import ENVIRONMENT, PROGRAM, strandline
from tests.engine.accounting.test_cost import log
from tests.engine.written import BRONZE, GOLD, SILVER, entry, small_lake
from tests.support.days import TABLES
from tests.support.events import readings, received
from tests.support.mistaken import mistaken
from tests.support.morning import TABLES as MORNING_TABLES
from tests.support.rows import NOON
from tests.support.snapshots import NOON as LATER
from tests.support.snapshots import full

EVENTS = """
    batch | id | device | event_at | arrived_at | value
    0     | e1 | d1     | 09:00:00 | 09:00:01   | 1.5
    0     | e2 | d1     | 09:01:00 | 09:01:01   | 2.5
    0     | e3 | d2     | 07:00:00 | 09:02:00   | 3.5
    1     | e4 | d2     | 12:00:00 | 12:00:01   | 4.5
"""
TODAY = date(2026, 11, 20)
EVER = date(2026, 11, 1), date(2026, 12, 1)


def used(day: date, cpu: float = 9.0, **tables: float) -> Process:
    """Return what some process used on a day."""
    return Process(
        program="run",
        host="here",
        pid=7,
        day=day.isoformat(),
        at=f"{day}T12:00:00+00:00",
        cores=2,
        seconds=10.0,
        cpu=cpu,
        lines=dict.fromkeys(LINES, 0.5),
        tables=tables,
    )


def counted(command: Sequence[str]) -> dict[str, Any]:
    """Return what the kernel counts for a program and all that it starts, which has ended by then."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.whole_cpu", *command],
        cwd=ROOT,
        env=dict(ENVIRONMENT),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return found


def said_of(lake: Lake) -> dict[str, Any]:
    """Return what the program says that a lake has cost, on all days."""
    days = ("--since", "2000-01-01", "--until", "2100-01-01")
    answer = strandline("cost", "--lake", lake.root, *days, "--json").succeeded()
    assert isinstance(answer.json, dict)
    return answer.json


def test_the_threads_of_a_process_add_up_to_what_the_kernel_counts_for_it() -> None:
    """Each by its name; one that computes has it, one that waits has nothing."""
    ends = threading.Event()
    waits = threading.Thread(target=ends.wait)
    waits.start()
    while time.thread_time() < 0.3:
        sum(range(1_000))

    found, whole = threads_of(os.getpid()), psutil.Process().cpu_times()
    ends.set()

    by_number = {number: seconds for (number, _), (_, seconds) in found.items()}
    assert sum(by_number.values()) <= whole.user + whole.system + 0.02
    assert by_number[threading.get_native_id()] >= 0.28
    assert by_number[waits.native_id or 0] <= 0.01
    assert threads_of(2**22 + 1) == {}


@pytest.mark.parametrize(
    ("started", "name"),
    [
        (("/bin/strandline", "cost", "--json"), "cost"),
        (("/lib/strandline/cli/__main__.py", "alerts", "--mode"), "alerts"),
        (("/bin/dagster", "api"), "dagster"),
    ],
)
def test_a_process_has_the_name_of_its_verb(
    monkeypatch: pytest.MonkeyPatch, started: tuple[str, ...], name: str
) -> None:
    """Also in the background, where it is started as a module."""
    monkeypatch.setattr(sys, "argv", [*started])
    assert program() == name


def test_a_table_has_what_its_runs_used_beside_batches(tmp_path: Path) -> None:
    """Of each day its own, and the price has it too."""
    lake = Lake(tmp_path)
    note_process(lake, "a", used(TODAY, **{SILVER.id: 3.6}))
    note_process(lake, "b", used(TODAY, **{SILVER.id: 7.2, "gold.other": 1.0}))
    note_process(lake, "a", used(TODAY + timedelta(days=1), **{SILVER.id: 1.0}))

    found = costs(lake, (SILVER, GOLD), TODAY, TODAY + timedelta(days=1), Prices(core_hour=1000))

    (one,) = found.tables
    assert (one.table, one.seconds, found.price(one)) == (
        SILVER.id,
        pytest.approx(10.8),
        pytest.approx(3.0),
    )
    left = pytest.approx(9 - 0.5 * len(LINES))
    assert [each.unexplained for each in found.processes] == [left] * 2
    assert [each.idle for each in found.processes] == [pytest.approx(11.0)] * 2


def test_days_that_are_over_are_one_file_each(tmp_path: Path) -> None:
    """A lake keeps years of them; yesterday may still be written."""
    lake = Lake(tmp_path)
    days = [TODAY - timedelta(days=n) for n in range(4)]
    for day in days:
        for number in range(3):
            note_process(lake, f"p{number}", used(day, cpu=float(number)))
    before = processes(lake, *EVER)

    fold(lake, TODAY)

    names = {name: len((lake.costs / name).names()) for name in lake.costs.names()}
    assert names == {"2026-11-17.jsonl": 0, "2026-11-18.jsonl": 0} | {
        day.isoformat(): 3 for day in days[:2]
    }
    assert sorted(map(str, processes(lake, *EVER))) == sorted(map(str, before))


def test_a_kill_while_they_are_put_together_counts_nothing_twice(tmp_path: Path) -> None:
    """After the one file is there some of the others may be, and a late one that is not in it is kept."""
    lake, old = Lake(tmp_path), TODAY - timedelta(days=9)
    for number in range(3):
        note_process(lake, f"p{number}", used(old, cpu=float(number)))
    fold(lake, TODAY)
    note_process(lake, "p1", used(old, cpu=1.0))
    note_process(lake, "late", used(old, cpu=50.0))

    half_done = processes(lake, *EVER)
    fold(lake, TODAY)

    for found in (half_done, processes(lake, *EVER)):
        assert sorted(each.cpu for each in found) == [0.0, 1.0, 2.0, 50.0]
    assert (lake.costs / old.isoformat()).names() == ["late.json"]


def test_a_torn_file_and_one_of_a_later_version_stop_no_answer(tmp_path: Path) -> None:
    """What is known of them is shown."""
    lake = Lake(tmp_path)
    (lake.costs / TODAY.isoformat() / "torn.json").put('{"program": "ru')
    later = asdict(used(TODAY)) | {"field of later": 3}
    (lake.costs / TODAY.isoformat() / "later.json").put(json.dumps(later))

    assert processes(lake, *EVER) == [used(TODAY)]


def test_a_file_of_a_version_before_has_no_requests_and_days_divide_them(tmp_path: Path) -> None:
    """What was sent until midnight is of the day before, and what two runs of maintenance sent is added up; so is what rebuilds took."""
    lake = Lake(tmp_path)
    before = asdict(used(TODAY))
    del before["requests"], before["apart"]
    (lake.costs / TODAY.isoformat() / "before.json").put(json.dumps(before))
    first, last = ({SILVER.id: {"GET": n, "PUT": 1}, "": {"LIST": n}} for n in (3, 5))

    assert processes(lake, *EVER) == [used(TODAY)]
    until, all_of_it = (
        replace(used(TODAY), requests=each, apart={SILVER.id: seconds})
        for each, seconds in ((first, 1.5), (last, 4.0))
    )
    assert all_of_it.since(until).apart == {SILVER.id: 2.5}
    assert (until + all_of_it).apart == {SILVER.id: 5.5}
    assert all_of_it.since(until).requests == {SILVER.id: {"GET": 2}, "": {"LIST": 2}}
    assert (until + all_of_it).requests == {SILVER.id: {"GET": 8, "PUT": 2}, "": {"LIST": 8}}


def test_a_clock_that_is_a_year_ahead_takes_nothing_from_a_day_that_goes_on(tmp_path: Path) -> None:
    """It puts today together as if it were long over; what is written of today afterwards is newer, and is kept as well."""
    lake = Lake(tmp_path)
    note_process(lake, "a", used(TODAY, cpu=1.0))
    fold(lake, TODAY + timedelta(days=365))
    note_process(lake, "a", used(TODAY, cpu=5.0))

    for day in (TODAY, TODAY + timedelta(days=2)):
        fold(lake, day)
        assert [each.cpu for each in processes(lake, *EVER)] == [5.0]


def test_a_restored_lake_has_what_its_days_took(tmp_path: Path) -> None:
    """What was paid was paid: for batches, and for what its processes used beside them."""
    lake = full(tmp_path / "lake")
    said = entry(SILVER, own_ms=2_500, stream="s", batch=3).encoded()
    log(lake.table(SILVER), [(LATER, said, [])], first=latest_version(lake.table(SILVER)) + 1)
    note_process(lake, "a", used(TODAY, **{SILVER.id: 3.6}))
    note_process(lake, "b", used(TODAY - timedelta(days=9), **{GOLD.id: 1.0}))
    fold(lake, TODAY)
    ever = date(2000, 1, 1), date(2100, 1, 1)
    before = costs(lake, TABLES, *ever, Prices(core_hour=1))

    taken = take(lake, TABLES, Place.of(tmp_path / "backup"), LATER)
    restore(Taken(taken.path), Lake(tmp_path / "new"), LATER)

    assert costs(Lake(tmp_path / "new"), TABLES, *ever, Prices(core_hour=1)) == before
    assert {each.table: each.seconds for each in before.tables}[SILVER.id] == pytest.approx(6.1)
    assert len(before.processes) == 2


def test_a_lake_on_a_store_has_the_same(bucket: Place, tmp_path: Path) -> None:
    """Also where days are put together there."""
    disk = small_lake(tmp_path)
    store = Lake(bucket)
    for lake in (disk, store):
        for number in range(3):
            note_process(lake, f"p{number}", used(TODAY, cpu=number, **{SILVER.id: 2.0}))
            note_process(lake, "p", used(TODAY - timedelta(days=number + 2), cpu=1.0))
        fold(lake, TODAY)
    for file in disk.root.files():
        if not file.below(disk.root).startswith("_costs/"):
            (store.root / file.below(disk.root)).put_bytes(file.bytes() or b"")
    ever = date(2000, 1, 1), date(2100, 1, 1)

    of_store, of_disk = (
        costs(lake, (BRONZE, SILVER, GOLD), *ever, Prices(gigabyte=1)) for lake in (store, disk)
    )

    assert of_store.as_json() == of_disk.as_json()
    assert sorted(store.costs.names()) == sorted(disk.costs.names())
    assert len(of_disk.processes) == 6


def test_what_maintenance_takes_is_of_each_table_and_adds_up_over_its_runs(tmp_path: Path) -> None:
    """Beside the clock of the process; a look that changes nothing is kept nowhere."""
    lake = small_lake(tmp_path)
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    tables = (BRONZE, SILVER, GOLD)

    def maintained(*, go: bool) -> float:
        began = time.process_time()
        done = [*maintain(lake, now, Policy(go=go, untouched=timedelta(0)))]
        assert {each.table for each in done} >= {SILVER.id, f"quarantine.{SILVER.name}"}
        assert sum(each.core_seconds for each in done) <= time.process_time() - began
        return sum(each.core_seconds for each in done)

    maintained(go=False)
    assert processes(lake, *EVER) == []
    all_of_them = maintained(go=True) + maintained(go=True)

    found = costs(lake, tables, TODAY, TODAY + timedelta(days=1), Prices(core_hour=3_600))
    (process,) = found.processes
    assert process.lines["maintenance"] == pytest.approx(all_of_them)
    assert sum(process.maintained.values()) == pytest.approx(all_of_them)
    assert process.unexplained == pytest.approx(0)
    by_table = {each.table: each for each in found.tables}
    silver = process.maintained[SILVER.id] + process.maintained[f"quarantine.{SILVER.name}"]
    assert by_table[SILVER.id].maintain_seconds == pytest.approx(silver)
    assert found.price(by_table[SILVER.id]) == pytest.approx(silver)
    assert all(each.maintain_seconds > 0 for each in found.tables)


@pytest.mark.whole
@pytest.mark.spark
def test_a_request_to_forget_adds_its_own_commits_and_changes_no_cost(
    spark: SparkSession, morning: Lake
) -> None:
    """What the rows took that are gone was paid; no value of them is kept beside the ledger."""
    tables, ever = (*MORNING_TABLES, BRONZE), (date(2000, 1, 1), date(2100, 1, 1))
    note_process(morning, "a", used(TODAY, **{SILVER.id: 3.6}))
    before = {each.table: each for each in costs(morning, tables, *ever, Prices()).tables}
    request = Request.of("device_id = 'd2'")

    work = Forgetting(spark, morning, request)
    try:
        gone = [*carry_out(work, morning, request, lambda: NOON, [*work.parts()])]
    finally:
        work.close()
    [*scrub(spark, morning, NOON + AFTER)]

    after = {each.table: each for each in costs(morning, tables, *ever, Prices()).tables}
    assert sum(each.rows for each in gone) > 0
    assert sum(each.commits for each in after.values()) > sum(
        each.commits for each in before.values()
    )
    for name, one in before.items():
        assert after[name].core_seconds >= one.core_seconds > 0 or name == BRONZE.id
        assert after[name].bytes >= one.bytes
        assert (after[name].read, after[name].beside_seconds) == (one.read, one.beside_seconds)
    texts = [file.text() or "" for file in morning.costs.files()]
    assert texts
    assert not any("d2" in text for text in texts)


@pytest.mark.whole
@pytest.mark.spark
def test_a_rebuild_and_its_promotion_are_counted_once_and_apart(
    spark: SparkSession, morning: Lake
) -> None:
    """Its batches are in no commit of the table, also after its promotion; what is noted beside is no part of what runs took."""
    account = Account(morning, spark, lambda: NOON, 2).begin(None)
    site = Site(spark=spark, clock=lambda: NOON, record=account.record, apart=account.apart)
    ever = date(2000, 1, 1), date(2100, 1, 1)

    def silver() -> Cost:
        account.write()
        (found,) = costs(morning, (SILVER,), *ever, Prices()).tables
        return found

    before, began = silver(), measured().total
    made = rebuild(SILVER, morning, site)
    batches = measured().total - began
    rebuilt, said = silver(), sum(each.own_ms for _, each in entries(made.table(SILVER))) / 1000
    with site.record(spark, SILVER, "promote", morning):
        promote(SILVER, morning, site)
    promoted = silver()
    with account.apart(SILVER.id) as also:
        also(100.0)
    after = silver()
    account.close()

    assert before.apart_seconds == 0
    assert said == pytest.approx(batches, abs=0.01)
    assert said > 0
    assert rebuilt.apart_seconds > batches
    assert (rebuilt.core_seconds, rebuilt.beside_seconds) == (before.core_seconds, 0)
    assert promoted.apart_seconds > rebuilt.apart_seconds
    assert promoted.core_seconds == rebuilt.core_seconds
    assert after.apart_seconds == pytest.approx(promoted.apart_seconds + 100, abs=0.1)
    (process,) = processes(morning, *ever)
    parts = after.beside_seconds + after.apart_seconds - 100
    of_batches = measured().total - began
    assert process.lines["beside"] + of_batches == pytest.approx(parts, abs=0.05)


@pytest.mark.whole
@pytest.mark.spark
def test_what_is_used_after_midnight_is_of_the_next_day(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both days add up to all of it, and a second account of the process begins where the first ends."""
    lake, times = Lake(tmp_path).open_for_writing(), [datetime(2026, 11, 20, 23, 59, tzinfo=UTC)]
    account = Account(lake, spark, lambda: times[0], 2).begin(None)
    received(lake, readings(EVENTS))
    site = Site(spark=spark, clock=lambda: NOON, record=account.record)
    run(SILVER, AvailableNow(), lake, site=site)
    account.look()
    account.write()
    times[0] += timedelta(minutes=2)
    account.look()
    account.write()
    run(GOLD, AvailableNow(), lake, site=site)
    account.close()

    found = {each.day: each for each in processes(lake, *EVER)}
    assert [*found] == ["2026-11-20", "2026-11-21"]
    assert sum(each.cpu for each in found.values()) == pytest.approx(account.found().cpu)
    assert found["2026-11-20"].tables[SILVER.id] > 0
    assert found["2026-11-21"].tables[GOLD.id] > 0
    assert found["2026-11-21"].tables[SILVER.id] == pytest.approx(0)
    assert found["2026-11-21"].cpu < found["2026-11-20"].cpu

    times[0] += timedelta(days=365)  # and back, as of a machine whose clock is set
    account.write()
    times[0] -= timedelta(days=365)
    account.look()
    account.write()
    account.look()
    account.write()
    ever = date(2026, 11, 1), date(2027, 12, 1)
    days = [each.day for each in processes(lake, *ever)]
    assert days == ["2026-11-20", "2026-11-21", "2026-11-21", "2027-11-21"]
    assert sum(each.idle for each in processes(lake, *ever)) < 2 * 3_600  # no year of two cores
    assert sum(each.cpu for each in processes(lake, *ever)) == pytest.approx(account.found().cpu)

    other = Account(Lake(tmp_path / "other").open_for_writing(), spark, lambda: times[0], 2)
    assert other.begin(account).found().cpu >= account.found().cpu
    other.close()
    assert processes(Lake(tmp_path / "other"), *EVER) == []  # no table of it was run


@pytest.mark.whole
@pytest.mark.spark
def test_all_that_a_run_uses_is_explained(tmp_path: Path) -> None:
    """Against the kernel's own sum over the program and all that it started, which has ended by then."""
    lake = Lake(tmp_path / "lake").open_for_writing()
    received(lake, readings(EVENTS))
    command = [PROGRAM, "run", SILVER.id, GOLD.id, "--lake", str(lake.root)]
    kernel, found = counted(command)["cpu"], said_of(lake)
    (process,) = found["processes"]

    assert process["program"] == "run"
    # What the program uses after its last look: the end of its interpreter and of its JVM.
    assert 0.85 * kernel < process["cpu"] <= kernel + 0.05
    assert abs(process["unexplained"]) <= 0.1 * process["cpu"]
    assert sum(each["core_seconds"] for each in found["tables"]) == pytest.approx(
        process["lines"]["batches"], abs=0.01
    )
    assert {each["table"] for each in found["tables"]} >= {SILVER.id, GOLD.id}
    assert all(each >= -0.05 for each in process["lines"].values()), process["lines"]


@pytest.mark.whole
@pytest.mark.spark
def test_replays_rebuilds_and_promotions_have_what_the_kernel_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each in a process of its own, where threads of tasks and of queries work for nothing else.

    The kernel is asked from outside, thread by thread: their sum is less than what the tables have, as threads of Python and its calls
    into the JVM work for them as well, and with all of those it is more.
    """
    lake = mistaken(spark, Lake(Place.of(tmp_path / "lake")).open_for_writing())
    parts = ("core_seconds", "beside_seconds", "apart_seconds")

    def spent(said: dict[str, Any]) -> dict[str, float]:
        return {each: sum(table[each] for table in said["tables"]) for each in parts}

    said = said_of(lake)
    for verb in (("quarantine", "replay"), ("rebuild",), ("promote",)):
        before = spent(said)
        kernel = counted([PROGRAM, *verb, SILVER.id, "--lake", str(lake.root)])
        said = said_of(lake)
        after = spent(said)
        grown = {each: after[each] - before[each] for each in parts}
        threads = kernel["threads"]
        # A promotion has hardly a task.
        least = threads.get("Executo", 0.0) + threads.get("stream ", 0.0)
        most = least + threads["the program"] + threads["Thread-"]
        (process,) = (e for e in said["processes"] if e["program"] == verb[0])

        assert 0.8 * least <= sum(grown.values()) <= most + 0.2, (verb, grown, kernel)
        of_none = sum(process["lines"][each] for each in ("queries", "calls", "python"))
        assert sum(grown.values()) + of_none == pytest.approx(most, rel=0.1), (verb, grown, kernel)
        assert grown["apart_seconds"] > 0
        # A replay is in commits of the table, a rebuild and its promotion are in none.
        assert (grown["core_seconds"] > 0) == (verb[0] == "quarantine")
        assert 0.85 * kernel["cpu"] < process["cpu"] <= kernel["cpu"] + 0.05
        assert abs(process["unexplained"]) <= 0.1 * process["cpu"], (verb, process)
        assert all(each >= -0.05 for each in process["lines"].values()), process["lines"]
