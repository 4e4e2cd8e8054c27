"""What a table took on a day is what its commits of that day say, and nothing else is read."""

import json
import tracemalloc
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from strandline.engine.accounting import cost
from strandline.engine.accounting.commit_history import catch_up
from strandline.engine.accounting.cost import Prices, costs
from strandline.engine.accounting.history_queries import Past
from strandline.engine.flow.running import Report
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file, log_of
from strandline.engine.lake.log.vacuum import cut
from strandline.engine.lake.place import Place
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, written
from tests.support import lakes
from tests.support.ledgers import METADATA
from tests.support.packs import small_packs, with_checkpoints

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
DAY = timedelta(days=1)
FREE = Prices()


def log(path: Place, commits: list[tuple[datetime, str | None, list[int]]], first: int = 0) -> None:
    """Write commits: when, their metadata, and the sizes of the files that they add."""
    commit_file(path, 0).parent.make()
    for version, (at, metadata, sizes) in enumerate(commits, first):
        info = {"timestamp": int(at.timestamp() * 1000), "operation": "WRITE"}
        info |= {"userMetadata": metadata} if metadata else {}
        lines: list[dict[str, object]] = [{"commitInfo": info}]
        if version == 0:
            lines.append({"metaData": {"id": "a", **METADATA}})
            lines.append({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
        lines += [{"add": {"path": f"{version}-{n}", "size": s}} for n, s in enumerate(sizes)]
        lakes.write(commit_file(path, version), (json.dumps(line) + "\n" for line in lines))


def said(own: int, **fields: object) -> str:
    """Return the entry of a batch that used so many milliseconds."""
    return entry(SILVER, own_ms=own, cpu_ms=9 * own, **fields).encoded()


def test_the_days_of_tables_are_the_sums_of_their_commits(tmp_path: Path) -> None:
    """Counted here while they are written, with quarantines, repairs, and commits that have no entry."""
    random, lake = Random(7), Lake(tmp_path)  # noqa: S311  # no secret
    truth: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0] * 7)
    for table in (BRONZE, SILVER, GOLD):
        for place in lake.folders(table):
            at, commits = BEGIN, []
            for batch in range(60):
                at += timedelta(minutes=random.randint(1, 200))
                sizes = [random.randint(1, 10**6) for _ in range(random.randint(0, 3))]
                own, rows = random.randint(0, 5_000), random.randint(0, 99)
                repair = {"since": "2026-11-01", "until": "2026-11-02"}
                is_repair, is_plain = random.random() < 0.2, random.random() < 0.1
                text = entry(
                    table,
                    batch=batch,
                    own_ms=own,
                    cpu_ms=own * 3,
                    read=rows,
                    written=rows,
                    **(repair if is_repair else {}),
                ).encoded()
                commits.append((at, None if is_plain else text, sizes))
                found = truth[at.date().isoformat(), table.id]
                found[0] += 1
                found[1] += is_plain
                found[2] += len(sizes)
                found[3] += sum(sizes)
                if not is_plain:
                    found[4] += rows if place == lake.table(table) else 0
                    found[5] += own / 1000
                    found[6] += own / 1000 if is_repair else 0
            log(place, commits)

    wanted = [BEGIN + n * DAY for n in range(30)]
    all_of_them = costs(lake, (BRONZE, SILVER, GOLD), BEGIN.date(), wanted[-1].date(), FREE)
    by_day = [
        each
        for day in wanted
        for each in costs(lake, (BRONZE, SILVER, GOLD), day.date(), (day + DAY).date(), FREE).days
    ]

    def figures(each: cost.Cost) -> list[float]:
        return [
            each.commits,
            each.maintained,
            each.files,
            each.bytes,
            each.read,
            each.core_seconds,
            each.repair_seconds,
        ]

    expected = {key: pytest.approx(values) for key, values in truth.items()}
    assert {(each.day, each.table): figures(each) for each in all_of_them.days} == expected
    assert {(each.day, each.table): figures(each) for each in by_day} == expected
    assert [each.core_seconds for each in all_of_them.tables] == sorted(
        (each.core_seconds for each in all_of_them.tables), reverse=True
    )
    assert sum(all_of_them.share(each) for each in all_of_them.tables) == pytest.approx(1)
    assert not any(each.most_seconds for each in all_of_them.days)


def test_the_bytes_are_those_of_the_files_on_the_disk(tmp_path: Path) -> None:
    """The log's own sizes are believed nowhere else without a look at the files."""
    lake = Lake(tmp_path)
    for batch in range(3):
        written(lake.table(SILVER), numbers(50 * batch + 1), said(10, batch=batch))
    written(lake.quarantine(SILVER), numbers(3), said(4))

    (found,) = costs(lake, (SILVER,), date(2000, 1, 1), date(2100, 1, 1), FREE).tables

    files = [
        file
        for place in lake.folders(SILVER)
        for file in place.local.rglob("*.parquet")
        if "_delta_log" not in file.parts
    ]
    assert (found.files, found.bytes) == (len(files), sum(file.stat().st_size for file in files))
    assert (found.commits, found.core_seconds) == (4, pytest.approx(0.034))


def test_a_report_and_a_run_have_the_same_seconds(tmp_path: Path) -> None:
    """The one from history, whose rows are derived from the ledger, the other from the commits that it heard of."""
    lake, run = Lake(tmp_path), Report(table=SILVER.id, mode="available-now")
    for batch, own in enumerate((1_500, 20, 0)):
        one = entry(SILVER, batch=batch, own_ms=own, replaced=batch == 1)
        written(lake.table(SILVER), numbers(3), one.encoded())
        run.add(one)
    ever = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    catch_up(lake, (SILVER,))

    (found,) = costs(lake, (SILVER,), *(each.date() for each in ever), FREE).tables

    assert Past(lake).core_seconds(SILVER, *ever) == pytest.approx(found.core_seconds)
    assert run.core_seconds == pytest.approx(found.core_seconds) == pytest.approx(1.52)
    assert Past(lake).core_seconds(SILVER, ever[1], ever[1] + DAY) == 0


def test_only_the_commits_of_the_days_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside those by which the first is found, and some behind the last."""
    path = Lake(tmp_path).table(SILVER)
    log(path, [(BEGIN + n * timedelta(minutes=30), said(1), []) for n in range(2_000)])
    read: list[int] = []
    real = cost.actions

    def counting(of: Place, version: int, *kinds: object) -> object:
        read.append(version)
        return real(of, version, *kinds)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(cost, "actions", counting)
    tenth = (BEGIN + 10 * DAY).date()
    (found,) = costs(Lake(tmp_path), (SILVER,), tenth, tenth + DAY, FREE).days

    assert found.commits == 48
    assert read == [*range(480, 480 + 48 + cost.BEHIND + 1)]
    assert cost.first_since(path, BEGIN + 10 * DAY) == 480
    assert cost.first_since(path, BEGIN - DAY) == 0
    assert cost.first_since(path, BEGIN + 99 * DAY) == 2_000


def test_a_clock_that_was_a_year_ahead_for_a_while_hides_no_commit(tmp_path: Path) -> None:
    """Its own commits are of the day that they name."""
    times = [BEGIN + n * timedelta(hours=1) for n in range(72)]
    for n in range(30, 40):
        times[n] += timedelta(days=365)
    lake = Lake(tmp_path)
    log(lake.table(SILVER), [(at, said(1), []) for at in times])

    second = (BEGIN + DAY).date()
    (found,) = costs(lake, (SILVER,), second, second + DAY, FREE).days
    (ahead,) = costs(lake, (SILVER,), second + 365 * DAY, second + 366 * DAY, FREE).days

    assert (found.commits, ahead.commits) == (24 - 10, 10)


def test_what_a_commit_of_before_used_is_a_bound_and_in_no_sum(tmp_path: Path) -> None:
    """Its process had other tables, so its seconds would be counted several times."""
    lake, old = Lake(tmp_path), json.loads(said(700))
    del old["own_ms"]
    log(lake.table(SILVER), [(BEGIN, json.dumps(old), []), (BEGIN, said(200), [])])

    found = costs(lake, (SILVER,), BEGIN.date(), (BEGIN + DAY).date(), Prices(core_hour=36))
    (one,) = found.tables

    assert (one.core_seconds, one.most_seconds, one.not_said) == (
        pytest.approx(0.2),
        pytest.approx(6.3),
        1,
    )
    assert found.price(one) == pytest.approx(0.002)


def test_of_uneven_batches_the_worst_is_known_and_what_they_waited_adds_up(tmp_path: Path) -> None:
    """What is held was computed by the same batch, and is in its table's entry as well."""
    lake = Lake(tmp_path)
    waited = [(4_000, 1_000), None, (9_000, 1_500), (2_000, 1_900)]
    for place in (lake.table(SILVER), lake.quarantine(SILVER)):
        log(
            place, [(BEGIN + n * DAY, said(1, uneven_ms=each), []) for n, each in enumerate(waited)]
        )

    found = costs(lake, (SILVER,), BEGIN.date(), (BEGIN + 9 * DAY).date(), FREE)

    (one,) = found.tables
    assert (one.waited_seconds, one.longest_task, one.median_task) == (
        pytest.approx(10.6),
        9.0,
        1.5,
    )
    assert one.is_uneven
    assert [each.is_uneven for each in found.days] == [True, False, True, False]


def test_the_dearest_is_first_by_its_price(tmp_path: Path) -> None:
    """A table with little CPU may be dear by what it keeps."""
    lake = Lake(tmp_path)
    log(lake.table(SILVER), [(BEGIN, said(5_000), [10])])
    log(lake.table(GOLD), [(BEGIN, entry(GOLD, own_ms=10).encoded(), [10**9])])
    days = BEGIN.date(), (BEGIN + DAY).date()

    by_cpu = costs(lake, (SILVER, GOLD), *days, FREE)
    priced = costs(lake, (SILVER, GOLD), *days, Prices(core_hour=0.036, gigabyte=0.5))

    assert [each.table for each in by_cpu.tables] == [SILVER.id, GOLD.id]
    assert by_cpu.price(by_cpu.tables[0]) is None
    assert [each.table for each in priced.tables] == [GOLD.id, SILVER.id]
    assert priced.price(priced.tables[0]) == pytest.approx(0.5 + 1e-7)


def test_a_torn_commit_hides_no_other_table(tmp_path: Path) -> None:
    """It is named, and the others are counted."""
    lake = Lake(tmp_path)
    for table in (SILVER, GOLD):
        log(lake.table(table), [(BEGIN, entry(table, own_ms=10).encoded(), [])] * 3)
    commit_file(lake.table(SILVER), 1).put('{"commitInfo":{"time')

    found = costs(lake, (SILVER, GOLD), BEGIN.date(), (BEGIN + DAY).date(), FREE)

    assert {each.table: each.commits for each in found.tables}[GOLD.id] == 3
    assert [SILVER.id in each.message for each in found.damaged] == [True]


def test_commits_that_maintenance_moved_out_of_the_log_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cost what they did."""
    small_packs(monkeypatch)
    lake = Lake(tmp_path)
    with_checkpoints(lake.table(SILVER), 45)
    ever = date(2000, 1, 1), date(2100, 1, 1)
    before = costs(lake, (SILVER,), *ever, FREE)

    cut(lake.table(SILVER), needed=40)

    assert not commit_file(lake.table(SILVER), 3).exists()
    assert costs(lake, (SILVER,), *ever, FREE) == before
    assert before.tables[0].commits == 45


@pytest.mark.whole
def test_a_day_of_an_old_lake_takes_the_memory_of_a_day(tmp_path: Path) -> None:
    """Of 50,000 commits those of one day, however many there are."""
    lake, each = Lake(tmp_path), timedelta(minutes=1)
    log(lake.table(SILVER), [(BEGIN + n * each, said(1), [7]) for n in range(50_000)])
    # As Delta's own at every hundredth version; without it the log would be listed.
    (log_of(lake.table(SILVER)) / "_last_checkpoint").put('{"version": 49900}')
    for days in (1, 30):
        tracemalloc.start()
        found = costs(
            lake, (SILVER,), BEGIN.date() + 3 * DAY, BEGIN.date() + (3 + days) * DAY, FREE
        )
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1e7  # the commits of 30 days have 60 MB
        assert sum(one.commits for one in found.days) == days * 1_440
