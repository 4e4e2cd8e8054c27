"""Damage of one table is one table's: every verb answers for the others, says which is damaged, and exits with 4."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir

import pytest
from strandline import catalog

from fleet.gold.device_daily import TABLE as DAILY
from strandline.core.errors import DamagedError, DefinitionError
from strandline.core.static import Static
from strandline.core.table import Table
from strandline.engine.accounting.table_books import close
from strandline.engine.flow import shadow_lake
from strandline.engine.flow.readers import How, readers
from strandline.engine.flow.shadow_lake import Promotion, Shadow
from strandline.engine.lake.import_notes import ImportSlices
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import HasWriterError
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import IMPORT, latest_version, part_of_imports
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.static_versions import refuse_untaken
from strandline.engine.repair.downstream import refuse_behind_above
from strandline.engine.repair.rebuild import can_be_read
from strandline.engine.repair.replay import refuse_unled
from strandline.engine.runtime import clock
from strandline.engine.service.maintain import Policy, maintain
from strandline.engine.service.metrics_page import LakeLook
from strandline.engine.service.set_aside import mend
from strandline.engine.service.stream_health import Order, write_desired
from tests.cli.inside import Answer, strandline
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, small_lake, written
from tests.support.other_user import as_another_user


def cut(file: Path) -> None:
    """Leave the begin of a commit, as a power cut may."""
    file.write_bytes(file.read_bytes()[:100])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def of_zeros(file: Path) -> None:
    """Leave its length, as some file systems do."""
    file.write_bytes(b"\0" * file.stat().st_size)


def without_its_end(file: Path) -> None:
    """Leave what the ledger needs and cut what Delta needs."""
    file.write_bytes(file.read_bytes()[:-20])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake in which the newest commit of silver and of gold is not their first."""
    found = small_lake(tmp_path / "lake")
    one = entry(BRONZE, batch=2, offsets={"0": (5, 6)}, read=1, good=1, written=1)
    written(found.table(BRONZE), numbers(1), one.encoded())
    for table, source in ((SILVER, BRONZE), (GOLD, SILVER)):
        last = latest_version(found.table(source))
        one = entry(table, batch=1, versions={source.id: (last, last)}, read=1, good=1, written=1)
        written(found.table(table), numbers(1), one.encoded())
    return found


def newest(lake: Lake, table: Table) -> Path:
    path = lake.table(table)
    return commit_file(path, latest_version(path)).local


@pytest.mark.whole
@pytest.mark.parametrize("damages", [cut, emptied, of_zeros])
def test_status_names_it_while_the_stream_is_paused(
    lake: Lake, damages: Callable[[Path], None]
) -> None:
    """It said *all is well; the stream is paused*, and the ledger, the metrics and Dagster said that a table is damaged."""
    write_desired(lake, Order(runs=False, at=clock.now().isoformat(), by="on-call"))
    before = strandline("status", "--lake", lake.root)
    damages(newest(lake, GOLD))

    found = strandline("status", "--lake", lake.root)
    said = strandline("status", "--lake", lake.root, "--json").json

    assert "well    yes: all is well; the stream is paused" in before.out
    assert f"well    no: {GOLD.id} " in found.out
    assert isinstance(said, dict)
    assert said["condition"]["well"] is False
    assert GOLD.id in said["condition"]["says"]


@pytest.mark.whole
@pytest.mark.parametrize("damages", [cut, emptied, of_zeros, without_its_end])
@pytest.mark.parametrize("verb", ["ledger", "tables"])
def test_a_torn_commit_is_one_table_s(
    lake: Lake, verb: str, damages: Callable[[Path], None]
) -> None:
    """These verbs read all tables themselves; each ended with 70 and named neither the table nor the file."""
    damages(newest(lake, GOLD))

    done = strandline(verb, "--lake", lake.root)

    assert done.code == DamagedError.exit_code, done.err
    assert BRONZE.id in done.out
    assert f"{GOLD.id} is damaged" in done.err
    assert "_delta_log" in done.err
    assert f"strandline mend {GOLD.id}" in done.err


@pytest.mark.parametrize("verb", ["ledger", "tables"])
def test_a_torn_commit_of_a_static_table_is_that_table_s(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """All of ``tables`` ended with it, and it named ``mend``, which knows no static table."""
    static = Static(name="prices", columns="item string, price int", key=("item",), rows=())
    joining = replace(GOLD, static=(static,))
    tables = [joining if each == GOLD else each for each in catalog.tables()]
    monkeypatch.setattr(catalog, "tables", lambda: tables)
    taken = entry(GOLD, mode="content", stream="", batch=1)
    written(lake.table(static), numbers(1), replace(taken, table=static.id).encoded())
    joined = entry(GOLD, batch=2, versions={SILVER.id: (1, 1)}, static={static.id: 0})
    written(lake.table(GOLD), numbers(1), joined.encoded())
    cut(commit_file(lake.table(static), 0).local)

    done = strandline(verb, "--lake", lake.root)

    assert BRONZE.id in done.out
    assert GOLD.id in done.out
    assert "strandline mend" not in done.err
    if verb == "tables":
        assert done.code == DamagedError.exit_code, done.err
        assert f"{static.id} is damaged: its commit" in done.err
        assert "strandline restore" in done.err


def test_a_repair_does_not_join_with_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that declares a static table anew meets its first version with its next run, and a repair takes none in."""
    static = Static(name="prices", columns="item string, price int", key=("item",), rows=())
    joining = replace(GOLD, static=(static,))
    tables = [joining if each == GOLD else each for each in catalog.tables()]
    monkeypatch.setattr(catalog, "tables", lambda: tables)

    for refuses in (
        lambda: refuse_untaken(joining, lake),
        lambda: refuse_behind_above(SILVER, lake),
        lambda: refuse_unled(replace(SILVER, static=(static,)), lake),
    ):
        with pytest.raises(DefinitionError, match=rf"joins {static.id}, of which no content") as no:
            refuses()
        table = no.value.fields["table"]
        assert no.value.hint == f"`strandline run {table}` takes it in first."


def test_the_report_is_written_and_names_it(lake: Lake) -> None:
    """A certificate of the damaged table is not asked for, nor what is in its quarantine."""
    lake.quarantine(SILVER).remove()  # a report shows rows of it, and this lake's have no columns
    cut(newest(lake, GOLD))

    done = strandline("report", "--lake", lake.root)

    assert done.code == DamagedError.exit_code, done.err
    assert "the page: " in done.out
    assert f"{GOLD.id}: {GOLD.id} is damaged: its commit" in done.out


@pytest.mark.whole
def test_the_sheets_of_the_others_balance(lake: Lake) -> None:
    cut(newest(lake, GOLD))

    done = strandline("ledger", "--lake", lake.root)

    rows = {line.split()[0]: line for line in done.out.splitlines() if "." in line.split(" ")[0]}
    assert rows[BRONZE.id].split()[-1] == "yes"
    assert rows[SILVER.id].split()[-1] == "yes"
    assert rows[GOLD.id].split()[-1] == "NO"


def test_a_folder_of_another_user_is_one_table_s(lake: Lake) -> None:
    """Its mode ended each verb, and the stream of all tables."""
    with closed(lake.table(GOLD).local / "_delta_log"):
        answers = {verb: asked(verb, lake) for verb in ("ledger", "tables", "preflight")}

    assert [each.code for each in answers.values()] == [
        4,
        4,
        2,
    ]  # no stream wrote the others, as preflight says
    for done in answers.values():
        assert SILVER.id in done.out
        assert GOLD.id in done.out + done.err
        assert "may not be read" in done.out + done.err


@pytest.mark.parametrize("what", ["offsets", "metadata"])
def test_a_checkpoint_of_another_user_is_its_table_s(lake: Lake, what: str) -> None:
    """Maintenance left all tables, each for damage of its own, and ``mend`` was named for a healthy source."""
    planned(lake, SILVER, done=0)

    with closed(lake.checkpoint(SILVER).local / what), as_another_user():
        done = maintain(lake, clock.now(), Policy(go=False))
        needs = [each.needs for each in readers(lake) if each.table == SILVER.id]

    assert [each.left for each in done if each.left] == []
    assert needs == [{BRONZE.id: 0}], "what it has read is unknown, so nothing goes"


def test_a_checkpoint_of_another_user_is_not_removed_as_one_that_is_torn(lake: Lake) -> None:
    """A promotion would have removed what an undo goes on with once the folder is given back."""
    made, put_away = Shadow.of(SILVER, lake), "a mark"
    path = made.put_away(put_away)
    for name in ("metadata", "commits/0"):
        (path / name).put('{"id":"s"}')
    (path / "offsets" / "0").put("")
    shadow_lake.write(made, Promotion(mark=put_away, before=[0, 0], done=True))
    torn = can_be_read(path)

    with closed(path.local / "offsets"), as_another_user():
        is_kept = can_be_read(path)
        needs = {each.how: each.needs for each in readers(lake)}[How.UNDO]

    assert not torn
    assert is_kept
    assert needs[BRONZE.id] == 0


def test_metrics_name_the_damaged_table_and_go_on_with_the_others(lake: Lake) -> None:
    """Of a table whose books were never readable the page kept no figure at all, of any table."""
    cut(newest(lake, GOLD))
    failed: list[str] = []
    look = LakeLook([BRONZE, SILVER, GOLD], lake, clock.now, failed.append)

    look.look()

    assert f'strandline_table_damaged{{table="{GOLD.id}"}} 1.0' in look.text()
    assert f'strandline_table_damaged{{table="{SILVER.id}"}} 0.0' in look.text()
    assert f'strandline_rows_read_total{{table="{SILVER.id}"}} 6.0' in look.text()
    assert failed == []


def test_books_of_the_others_are_closed(lake: Lake) -> None:
    """The books of all tables behind the damaged one in the list stayed open for ever."""
    cut(newest(lake, SILVER))

    with pytest.raises(DamagedError, match=SILVER.id):
        close(lake, [SILVER, BRONZE], every=1)

    assert f"{BRONZE.id}.json" in (lake.root / "_books").names()


def test_a_commit_that_nothing_took_for_written_is_set_aside(lake: Lake) -> None:
    """The lake balances as before the commit; a stream finds no entry of its planned batch and writes it again."""
    before = strandline("ledger", "--lake", lake.root, "--json").succeeded().json
    planned(lake, GOLD, done=1, begun=2)
    one = entry(GOLD, batch=2, versions={SILVER.id: (2, 2)}, written=1)
    written(lake.table(GOLD), numbers(1), one.encoded())
    cut(torn := newest(lake, GOLD))

    done = strandline("mend", GOLD.id, "--lake", lake.root)

    assert done.code == 0, done.err
    assert "Nothing had taken it for written" in done.out
    assert not torn.exists()
    assert [each.endswith(".json") for each in (lake.root / "_damaged").names()] == [True]
    assert strandline("ledger", "--lake", lake.root, "--json").succeeded().json == before
    assert (
        strandline("mend", GOLD.id, "--lake", lake.root).out == f"no commit of {GOLD.id} is torn\n"
    )


@pytest.mark.whole
def test_one_that_a_table_above_has_read_is_replaced_by_an_empty_one(lake: Lake) -> None:
    """No stream would bring its rows again, so the ledger shows the gap and a rebuild is named."""
    cut(torn := newest(lake, SILVER))

    done = strandline("mend", SILVER.id, "--lake", lake.root)

    assert done.code == DamagedError.exit_code
    assert f"because {GOLD.id} has read it" in done.out
    assert f"`strandline rebuild {SILVER.id}`, then `strandline promote {SILVER.id}`" in done.err
    assert torn.is_file()
    sheets = strandline("ledger", "--lake", lake.root)
    assert sheets.code == 4
    assert "the ledger does not balance" in sheets.err
    assert "is damaged" not in sheets.err


def test_a_table_above_that_is_recomputed_is_not_to_be_rebuilt(lake: Lake) -> None:
    """It was named, `rebuild` refused it, and its own hint, a run, was refused beside the stream: a dead end at 3 a.m."""
    one = entry(DAILY, batch=0, versions={GOLD.id: (0, 0)}, read=1, good=1, written=1)
    written(lake.table(DAILY), numbers(1), one.encoded())
    cut(newest(lake, SILVER))

    done = strandline("mend", SILVER.id, "--lake", lake.root)

    assert done.code == DamagedError.exit_code
    assert f"in this order: {GOLD.id};" in done.err
    assert DAILY.id not in done.err


def test_a_bronze_commit_that_silver_has_read_is_only_replaced_by_a_copy(lake: Lake) -> None:
    """Its rows cannot be computed again, so nothing is done to it."""
    cut(torn := newest(lake, BRONZE))
    size = torn.stat().st_size

    done = strandline("mend", BRONZE.id, "--lake", lake.root)

    assert done.code == DamagedError.exit_code
    assert "strandline restore" in done.err
    assert torn.stat().st_size == size


Wrote = tuple[Table, dict[str, object]]

REPAIRS: dict[str, Wrote] = {
    "a backfill": (GOLD, {"mode": "backfill", "stream": "backfill 1", "since": "a", "until": "b"}),
    "a request to forget": (GOLD, {"mode": "forget", "stream": "a hash", "since": ""}),
    "a promotion": (GOLD, {"batch": 9, "promoted": "a mark", "replaced": True}),
    "a commit of another stream": (GOLD, {"batch": 2, "stream": "another"}),
}


@pytest.mark.whole
@pytest.mark.parametrize("damages", [cut, emptied, without_its_end])
@pytest.mark.parametrize("repair", REPAIRS)
def test_a_commit_that_no_stream_writes_again_is_never_set_aside(
    lake: Lake, repair: str, damages: Callable[[Path], None]
) -> None:
    """It was removed, exit code 0, and its rows were said to come again by themselves."""
    table, fields = REPAIRS[repair]
    # Where its own words are whole they count, whatever the stream has open.
    planned(lake, table, done=1, begun=2 if damages is without_its_end else None)
    written(lake.table(table), numbers(1), entry(table, **fields).encoded())
    damages(torn := newest(lake, table))

    done = strandline("mend", table.id, "--lake", lake.root)

    assert done.code == DamagedError.exit_code, done.out
    assert "by itself" not in done.out
    assert f"`strandline rebuild {table.id}`, then `strandline promote {table.id}`" in done.err
    assert torn.is_file()


@pytest.mark.parametrize("damages", [cut, without_its_end])
def test_nor_one_beside_which_the_stream_planned_its_next_batch(
    lake: Lake, damages: Callable[[Path], None]
) -> None:
    """A stream begins anew by itself after the power is back, and its open batch is then not the torn commit."""
    one = entry(GOLD, mode="backfill", since="a", until="b")
    written(lake.table(GOLD), numbers(1), one.encoded())
    damages(torn := newest(lake, GOLD))
    os.utime(torn, (1, 1))
    planned(lake, GOLD, done=1, begun=2)

    done = strandline("mend", GOLD.id, "--lake", lake.root)

    assert done.code == DamagedError.exit_code, done.out


@pytest.mark.parametrize("damages", [cut, emptied, without_its_end])
def test_a_torn_import_is_only_replaced_by_a_copy(
    lake: Lake, damages: Callable[[Path], None]
) -> None:
    """Kafka does not have its rows, and a line about them is all that is left of who typed it."""
    topic = BRONZE.topics[0].name
    part = part_of_imports(topic)
    ImportSlices(lake.table(BRONZE), part).note(0, latest_version(lake.table(BRONZE)))
    one = entry(BRONZE, mode=IMPORT, batch=-1, since="a", offsets={part: (0, 1)}, came=1)
    written(lake.table(BRONZE), numbers(1), one.encoded())
    damages(torn := newest(lake, BRONZE))
    size = torn.stat().st_size

    done = strandline("mend", BRONZE.id, "--lake", lake.root)

    assert done.code == DamagedError.exit_code, done.out
    assert "strandline restore" in done.err
    assert torn.stat().st_size == size


@pytest.mark.parametrize("damages", [cut, without_its_end])
def test_a_slice_of_kafka_that_nothing_has_read_is_read_again(
    lake: Lake, damages: Callable[[Path], None]
) -> None:
    one = entry(BRONZE, batch=3, offsets={"0": (6, 7)}, read=1, good=1, written=1)
    written(lake.table(BRONZE), numbers(1), one.encoded())
    damages(torn := newest(lake, BRONZE))

    done = strandline("mend", BRONZE.id, "--lake", lake.root)

    assert done.code == 0, done.err
    assert not torn.exists()


def test_a_torn_decision_is_to_be_typed_again(lake: Lake) -> None:
    """A rebuild was named where one was, which brings no decision back; mostly it was called written by itself."""
    for number in range(2):
        one = entry(SILVER, mode="discard", stream=f"discard {number}")
        written(lake.resolutions(SILVER), numbers(1), one.encoded())
    cut(commit_file(lake.resolutions(SILVER), 1).local)

    done = strandline("mend", SILVER.id, "--lake", lake.root)

    assert done.code == DamagedError.exit_code, done.out
    assert "Type the discard or the replay again" in done.err
    assert "strandline rebuild" not in done.err


def test_a_torn_checkpoint_of_delta_is_no_circle(lake: Lake) -> None:
    """``ledger`` named ``mend``, which found no torn commit and exited with 0."""
    opened(lake.table(GOLD)).create_checkpoint()
    (file,) = (lake.table(GOLD) / "_delta_log").local.glob("*.checkpoint.parquet")
    cut(file)

    done = strandline("mend", GOLD.id, "--lake", lake.root)

    assert done.code == DamagedError.exit_code, done.out
    assert str(file) in done.err
    assert "strandline restore" in done.err
    assert "strandline mend" not in done.err


def test_what_was_done_is_said_though_a_later_commit_ends_it(lake: Lake) -> None:
    """Nothing was printed of the quarantine's commit, which was empty by then, and no rebuild was named."""
    one = entry(SILVER, batch=1, quarantined={"late": 1})
    written(lake.quarantine(SILVER), numbers(1), one.encoded())
    cut(commit_file(lake.quarantine(SILVER), 1).local)
    cut(commit_file(lake.table(SILVER), 0).local)

    done = strandline("mend", SILVER.id, "--lake", lake.root)
    as_json = strandline("mend", SILVER.id, "--lake", lake.root, "--json")

    assert done.code == DamagedError.exit_code
    assert "version 1 was torn" in done.out
    assert f"`strandline rebuild {SILVER.id}`" in done.err
    assert "only a copy of that file" in done.err
    assert as_json.json == []


def test_a_writer_that_lost_patience_is_seen_before_anything_is_changed(lake: Lake) -> None:
    cut(torn := newest(lake, SILVER))
    size = torn.stat().st_size

    with written_by_another(lake, SILVER), pytest.raises(HasWriterError):
        list(mend(SILVER, lake, clock.now()))

    assert torn.stat().st_size == size


@contextmanager
def written_by_another(lake: Lake, table: Table) -> Iterator[None]:
    """Hold the table's lease in another process, as the JVM of a stream does."""
    path = lake.lease(table)
    path.parent.make()
    path.local.touch()
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'r+'); fcntl.lockf(file, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        yield
        other.communicate()


def planned(lake: Lake, table: Table, *, done: int, begun: int | None = None) -> None:
    """Write what Spark's checkpoint has of its batches: one that is done, and perhaps one that is planned."""
    checkpoint = lake.checkpoint(table)
    (checkpoint / "metadata").put('{"id":"s"}')
    for number in {done, begun or done}:
        lines = ["v1", '{"batchWatermarkMs":0,"nextBatchWatermarkMs":0}', "-"]
        (checkpoint / "offsets" / str(number)).put("\n".join(lines))
    (checkpoint / "commits" / str(done)).put('v1\n{"nextBatchWatermarkMs":0}')


def asked(verb: str, lake: Lake) -> Answer:
    with as_another_user():
        return strandline(verb, "--lake", lake.root)


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Take a folder from all users but root, and let another user reach the lake."""
    for above in folder.parents:
        if above != Path(gettempdir()) and above.is_relative_to(gettempdir()):
            above.chmod(0o777)
    folder.chmod(0)
    try:
        yield
    finally:
        folder.chmod(0o755)
