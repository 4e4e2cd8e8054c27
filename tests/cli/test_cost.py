"""``strandline cost``: the dearest table first, for a person and for a program."""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from strandline.engine.accounting.process_lines import State, note_process
from strandline.engine.lake.lake import Lake
from tests.cli.inside import strandline, succeeded
from tests.engine.accounting.test_cost import log
from tests.engine.service.test_process_cost import used
from tests.engine.written import BRONZE, GOLD, SILVER, entry

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
PRICED = {
    "STRANDLINE_PRICE_CORE_HOUR": "0.36",
    "STRANDLINE_PRICE_GIGABYTE": "1",
    "STRANDLINE_CURRENCY": "EUR",
}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a lake with three tables, whose commits of two days say what they took."""
    of = Lake(tmp_path / "lake")
    for table, own in ((BRONZE, 1_000), (SILVER, 30_000), (GOLD, 9_000)):
        said = entry(table, own_ms=own, cpu_ms=40_000, read=7, written=5).encoded()
        earlier = NOON.replace(day=19)
        log(of.table(table), [(earlier, said, [500_000]), (NOON, said, [1_000_000])])
    return of.root.local


def test_the_newest_day_is_shown_with_its_dearest_table_first(lake: Path) -> None:
    """Without a price, seconds and bytes alone."""
    lines = succeeded("cost", "--lake", lake).out.splitlines()

    assert lines[0] == "the commits of 2026-11-20"
    assert [line.split()[0] for line in lines[2:5]] == [SILVER.id, GOLD.id, BRONZE.id]
    assert lines[2].split() == [SILVER.id, "1", "7", "5", "1.0", "30.0", "75%"]
    assert lines[5] == "all tables: 40.0 core seconds, 3.0 MB"


def test_a_rate_makes_it_a_price(lake: Path) -> None:
    """36 seconds of a core at 0.36 an hour are 0.0036, and a gigabyte costs 1."""
    words = ("cost", "--lake", lake, "--since", "2026-11-19", "--until", "2026-11-21")

    text = succeeded(*words, env=PRICED).out
    found = json.loads(succeeded(*words, "--json", env=PRICED).out)

    assert text.splitlines()[0] == "the commits of 2026-11-19 to 2026-11-21, 2 days"
    assert "price EUR" in text.splitlines()[1]
    first = found["tables"][0]
    assert (first["table"], first["core_seconds"], first["share"]) == (SILVER.id, 60, 0.75)
    assert first["price"] == pytest.approx(60 / 3600 * 0.36 + 0.0015)
    assert [each["day"] for each in found["days"]] == ["2026-11-19"] * 3 + ["2026-11-20"] * 3
    assert found["currency"] == "EUR"


@pytest.mark.whole
def test_a_table_and_a_day_can_be_named(lake: Path) -> None:
    """Of a day without a commit there is nothing."""
    one = succeeded("cost", GOLD.id, "--day", "2026-11-19", "--lake", lake, "--json").json
    none = succeeded("cost", "--day", "2026-11-18", "--lake", lake)

    assert isinstance(one, dict)
    assert [(each["table"], each["bytes"]) for each in one["days"]] == [(GOLD.id, 500_000)]
    assert "all tables: 0.0 core seconds" in none.out


def test_an_uneven_batch_is_named_and_what_streams_keep_is_shown(lake: Path) -> None:
    """Of a day the batch that waited most; of a state what Spark said last, and nothing of another table."""
    of = Lake(lake)
    uneven = entry(SILVER, own_ms=9, uneven_ms=(30_000, 2_000)).encoded()
    even = entry(GOLD, own_ms=9, uneven_ms=(3_000, 2_500)).encoded()
    log(of.table(SILVER), [(NOON, uneven, []), (NOON, entry(SILVER).encoded(), [])], first=2)
    log(of.table(GOLD), [(NOON, even, [])], first=2)
    state = State(operator="dedupe", rows=77, memory=3_000_000, disk=0)
    for at, kept in (
        ("09:00", State(operator="dedupe", rows=1, memory=1, disk=1)),
        ("10:00", state),
    ):
        process = replace(
            used(NOON.date()), at=f"2026-11-20T{at}:00+00:00", state={SILVER.id: [kept]}
        )
        note_process(of, at.replace(":", ""), process)

    text = succeeded("cost", "--lake", lake).out
    one = succeeded("cost", "--lake", lake, "--json").json
    kept = succeeded("cost", "--state", "--lake", lake).out
    other = succeeded("cost", GOLD.id, "--state", "--lake", lake).out

    assert f"{SILVER.id} waited 28.0 s for longest tasks: one took 30.0 s" in text
    assert f"{GOLD.id} waited" not in text
    assert isinstance(one, dict)
    (silver,) = (each for each in one["tables"] if each["table"] == SILVER.id)
    assert (silver["waited_seconds"], silver["longest_task"], silver["median_task"]) == (28, 30, 2)
    assert one["state"] == [
        {"table": SILVER.id, "at": "2026-11-20T10:00:00+00:00", **asdict(state)}
    ]
    (line,) = (each.split() for each in kept.splitlines() if SILVER.id in each)
    assert line[:5] == [SILVER.id, "dedupe", "77", "3.0", "0.0"]
    assert SILVER.id not in other


def test_gates_the_ledger_maintenance_and_rules_are_lines_of_their_own(lake: Path) -> None:
    """Rules as the last backtest measured them, since all of a table share a plan."""
    of = Lake(lake)
    said = entry(SILVER, own_ms=9_000, gate_ms=2_000, ledger_ms=3_000).encoded()
    log(of.table(SILVER), [(NOON, said, [])], first=2)
    log(of.quarantine(SILVER), [(NOON, said, [])])
    note_process(
        of, "m", replace(used(NOON.date()), maintained={f"quarantine.{SILVER.name}": 10.0})
    )
    rules = {"table": SILVER.id, "rules": 3_000, "events": 1_000_000, "cpu_seconds": 70.4}
    of.backtest_figures.put(json.dumps({"tables": [rules]}))

    text = succeeded("cost", "--lake", lake).out
    one = succeeded("cost", SILVER.id, "--lake", lake, "--json").json

    assert "of these, gates: 2.0 core seconds, 2.9%" in text
    assert "of these, the ledger: 3.0 core seconds, 4.4%" in text
    assert "of these, maintenance: 10.0 core seconds, 14.7%" in text
    assert "maintain s" in text
    assert f"rules about {SILVER.id}: 3,000 took 70.4 core seconds for 1,000,000 events" in text
    assert isinstance(one, dict)
    (silver,) = one["tables"]
    assert [silver[f"{name}_seconds"] for name in ("gate", "ledger", "maintain")] == [2, 3, 10]


def test_what_rebuilds_and_proofs_took_has_a_column_and_a_price(lake: Path) -> None:
    """It is of the day on which it was used, also of a table that had no commit then."""
    of, day = Lake(lake), NOON.replace(day=18).date()
    note_process(of, "v", replace(used(day), program="verify", apart={SILVER.id: 3_600.0}))
    priced = {"STRANDLINE_PRICE_CORE_HOUR": "2"}

    text = succeeded("cost", "--lake", lake, "--day", "2026-11-18").out
    found = succeeded("cost", "--lake", lake, "--day", "2026-11-18", "--json", env=priced).json

    assert "apart s" in text
    assert "of these, rebuilds, replays and proofs: 3,600.0 core seconds, 100.0%" in text
    assert isinstance(found, dict)
    (silver,) = found["tables"]
    assert (silver["commits"], silver["apart_seconds"], silver["price"]) == (0, 3_600, 2)
    assert "apart s" not in succeeded("cost", "--lake", lake).out


def test_requests_to_a_store_are_shown_by_table_and_have_a_price(lake: Path) -> None:
    """Those of a quarantine are its table's, those of no table are named; a lake on a disk has no such column."""
    of = Lake(lake)
    sent = {
        SILVER.id: {"GET": 300_000, "HEAD": 200_000, "PUT": 60_000, "LIST": 30_000, "DELETE": 9},
        f"quarantine.{SILVER.name}": {"PUT": 6_000, "POST": 3_000, "COPY": 1_000},
        GOLD.id: {"LIST": 1_000},
        "": {"PUT": 400, "GET": 7},
        "gold.other": {"GET": 3},
    }
    before = succeeded("cost", "--lake", lake).out
    note_process(of, "a", replace(used(NOON.date()), requests=sent))
    note_process(of, "b", replace(used(NOON.date()), requests={GOLD.id: {"GET": 10}}))
    priced = {"STRANDLINE_PRICE_MILLION_READS": "0.4", "STRANDLINE_PRICE_MILLION_WRITES": "5"}

    text = succeeded("cost", "--lake", lake).out
    found = succeeded("cost", "--lake", lake, "--json", env=priced).json

    assert "requests" not in before
    assert "requests" in text.splitlines()[1]
    assert "600,009" in next(line for line in text.splitlines() if line.startswith(SILVER.id))
    assert "601,019 requests (500,010 read, 70,000 write, 31,000 list, 9 remove)" in text
    assert "they sent 601,429 requests" in text
    assert "of no table 410" in text
    assert isinstance(found, dict)
    silver, gold, _ = found["tables"]
    kinds = ("reads", "writes", "lists", "deletes")
    assert [silver[each] for each in kinds] == [500_000, 70_000, 30_000, 9]
    assert [gold[each] for each in kinds] == [10, 0, 1_000, 0]
    assert silver["price"] == pytest.approx(0.5 * 0.4 + 0.1 * 5)
    assert found["prices"]["million_writes"] == 5
    assert found["processes"][0]["requests"] == sent


@pytest.mark.whole
@pytest.mark.parametrize(
    "words",
    [
        ("--day", "noon"),
        ("--day", "today", "--since", "today"),
        ("--since", "2026-11-20", "--until", "2026-11-20"),
    ],
)
def test_what_is_no_day_is_refused(lake: Path, words: tuple[str, ...]) -> None:
    """With what to write instead."""
    answer = strandline("cost", *words, "--lake", lake)

    assert answer.code == 2
    assert "hint:" in answer.err


@pytest.mark.whole
def test_a_price_below_nothing_is_refused(lake: Path) -> None:
    """As any wrong setting is."""
    answer = strandline("cost", "--lake", lake, env={"STRANDLINE_PRICE_GIGABYTE": "-1"})

    assert answer.code == 2
    assert "STRANDLINE_PRICE_GIGABYTE" in answer.err
