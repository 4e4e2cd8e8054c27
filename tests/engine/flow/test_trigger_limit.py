"""A batch ends between two commits and is about as large as it should be, also one that Spark has planned before."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.core.stateful import AvailableNow
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.gate_files import Shut, Where, clear, write
from strandline.engine.flow.batch.governor import FIRST, Governor
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, entries, latest_version
from strandline.engine.lake.spark_checkpoint import stream_id
from strandline.engine.runtime.jvm import Heap
from strandline.engine.runtime.processes import killed_for_memory
from tests.support.events import readings, received
from tests.support.rows import NOON
from tests.support.seeds import copied

pytestmark = pytest.mark.slow

SILVER, GOLD = silver.TABLE, device_signal_10m.TABLE
FOUR = """
    batch | partition | id | device | event_at | arrived_at | value
    0     | 0         | e1 | d1     | 08:00:00 | 08:00:01   | 1.5
    0     | 1         | e2 | d2     | 08:00:00 | 08:00:02   | 1.5
    1     | 0         | e3 | d1     | 10:00:00 | 10:00:01   | 3.5
    1     | 1         | e1 | d1     | 08:00:00 | 10:00:02   | 1.5
    2     | 0         | e4 | d1     | 12:00:00 | 12:00:01   | 4.5
    2     | 1         | e5 | d2     | 12:00:00 | 12:01:00   | 5.5
    3     | 0         | e6 | d1     | 15:00:00 | 15:00:01   | 6.5
    3     | 1         | e3 | d1     | 10:00:00 | 15:00:02   | 3.5
"""
"""Four commits of two rows; copies come later, so they are found by the state of the batches before."""


@pytest.fixture(scope="module")
def site(spark: SparkSession) -> Site:
    """Return a world without Kafka."""
    return Site(spark=spark, clock=lambda: NOON)


@pytest.fixture
def four(lake: Lake) -> Lake:
    """Return a lake whose bronze has four commits."""
    received(lake, readings(FOUR))
    return lake


def drained(lake: Lake, site: Site, most: int | None = None) -> dict[str, list[str]]:
    """Run both tables and return their rows, as text in an order of its own."""
    for table in (SILVER, GOLD):
        run(table, AvailableNow(max_offsets=most), lake, site=site)
        assert not balance(table, lake).faults
    return contents(lake, site)


def contents(lake: Lake, site: Site) -> dict[str, list[str]]:
    folders = [*lake.folders(SILVER), *lake.folders(GOLD)]
    frames = {
        str(path.local.relative_to(lake.root)): site.spark.read.format("delta").load(str(path))
        for path in folders
    }
    return {name: sorted(map(str, rows.collect())) for name, rows in frames.items()}


@pytest.fixture
def undisturbed(tmp_path_factory: pytest.TempPathFactory, site: Site) -> dict[str, list[str]]:
    """Return the rows of a lake that was drained at once."""
    lake = Lake(tmp_path_factory.mktemp("undisturbed")).open_for_writing()
    copied(lake, "four at once", lambda seed: (received(seed, readings(FOUR)), drained(seed, site)))
    return contents(lake, site)


def reads(lake: Lake) -> list[int]:
    return [entry.read for _, entry in entries(lake.table(SILVER))]


@pytest.mark.whole
def test_batches_of_whole_commits_give_the_same_rows(
    four: Lake, site: Site, undisturbed: dict[str, list[str]]
) -> None:
    """A commit has two files, of one partition each, so half a commit would move the watermark past the other half."""
    assert drained(four, site, most=4) == undisturbed
    assert reads(four) == [4, 4]


@pytest.mark.whole
def test_a_commit_larger_than_the_size_is_read_whole(four: Lake, site: Site) -> None:
    run(SILVER, AvailableNow(max_offsets=1), four, site=site)

    assert balance(SILVER, four).faults == []
    assert reads(four) == [2, 2, 2, 2]


def die_after_its_state(
    table: object, lake: Lake, site: Site, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """Let the next batch of a table end when Spark has written its state, after so many commits of its own."""
    whole, done = delta_commit.Commit.commit, list[int]()

    def dies(commit: delta_commit.Commit, metadata: str) -> int:
        if len(done) == commits:
            raise RuntimeError("killed here")
        done.append(whole(commit, metadata))
        return done[-1]

    with monkeypatch.context() as patch:
        patch.setattr(delta_commit.Commit, "commit", dies)
        with pytest.raises(Exception, match="killed here"):
            run(table, AvailableNow(), lake, site=site)  # type: ignore[arg-type]  # a test's own


def state_of(lake: Lake, table: object) -> set[int]:
    """Return the versions of a table's state."""
    files = lake.checkpoint(table).local.glob("state/0/*/[0-9]*.*")  # type: ignore[arg-type]  # a table of the test's own
    return {int(file.name.partition(".")[0]) for file in files}


@pytest.mark.whole
@pytest.mark.parametrize(
    "first",
    [False, pytest.param(True, marks=pytest.mark.prove(alone="a quarter of a minute"))],
    ids=["after a batch", "the first batch"],
)
def test_a_batch_that_was_planned_and_has_written_its_state_is_planned_again_smaller(
    lake: Lake,
    site: Site,
    undisturbed: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    first: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    events = readings(FOUR)
    if not first:
        received(lake, [each for each in events if each.batch == 0])
        run(SILVER, AvailableNow(), lake, site=site)
        received(lake, [each for each in events if each.batch > 0])
    else:
        received(lake, events)
    die_after_its_state(SILVER, lake, site, monkeypatch, commits=0)
    assert state_of(lake, SILVER) == ({1} if first else {1, 2}), "of a batch that is not committed"

    assert drained(lake, site, most=2) == undisturbed
    assert reads(lake) == [2, 2, 2, 2]


@pytest.mark.prove(alone="a quarter of a minute")
def test_windows_that_were_planned_and_have_state_are_planned_again_smaller(
    four: Lake, site: Site, undisturbed: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(SILVER, AvailableNow(max_offsets=2), four, site=site)
    die_after_its_state(GOLD, four, site, monkeypatch, commits=0)
    assert state_of(four, GOLD) == {1}

    assert drained(four, site, most=2) == undisturbed
    assert [entry.read for _, entry in entries(four.table(GOLD))][:3] == [2, 1, 2]


@pytest.mark.whole
def test_a_batch_whose_quarantine_is_committed_keeps_its_offsets(
    lake: Lake, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its held rows are there already; planned again, the others would be held twice."""
    late = FOUR + "    3     | 0         | e9 | d1     | 02:00:00 | 15:00:03   | 9.5\n"
    received(lake, readings(late))
    die_after_its_state(SILVER, lake, site, monkeypatch, commits=1)
    held = latest_version(lake.quarantine(SILVER))

    drained(lake, site, most=2)

    assert reads(lake) == [9]
    assert latest_version(lake.quarantine(SILVER)) == held


@pytest.mark.whole
def test_a_batch_that_a_gate_names_keeps_its_offsets(
    four: Lake, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator may have opened the gate for just these rows."""
    die_after_its_state(SILVER, four, site, monkeypatch, commits=0)
    stream = str(stream_id(four.checkpoint(SILVER)))
    gate = Shut(table=SILVER.id, where=Where.BEFORE, stream=stream, batch=0)
    write(gate, SILVER, four)

    run(SILVER, AvailableNow(max_offsets=2), four, site=site)

    assert reads(four) == [8]
    clear(SILVER, four, Where.BEFORE)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[Lake], dict[str, object]]:
    """Let small batches count as large ones, and return what is kept of their sizes."""
    monkeypatch.setattr("strandline.engine.flow.batch.governor.LEAST", 1)
    return lambda lake: json.loads(lake.batch_size(SILVER).text() or "{}")


@pytest.mark.whole
def test_a_process_that_ended_within_a_batch_leaves_a_mark_and_the_next_takes_half(
    four: Lake,
    site: Site,
    measured: Callable[[Lake], dict[str, object]],
    undisturbed: dict[str, list[str]],
) -> None:
    died = {"batch": 0, "rows": 2 * FIRST, "failed": False, "pid": 1, "host": "x", "started": 1.0}
    four.batch_size(SILVER).put(json.dumps({"rows": 4 * FIRST, "begun": died}))

    assert drained(four, site) == undisturbed

    kept = measured(four)
    assert (kept["rows"], kept["most"], kept["begun"]) == (FIRST, FIRST, None)
    assert "a process ended within a batch of 100,000 rows" in str(kept["why"])


def test_a_batch_that_fails_for_another_reason_is_no_death(
    four: Lake,
    site: Site,
    measured: Callable[[Lake], dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    die_after_its_state(SILVER, four, site, monkeypatch, commits=0)
    begun = measured(four)["begun"]
    assert isinstance(begun, dict)
    assert (begun["batch"], begun["rows"], begun["failed"]) == (0, 8, True)

    run(SILVER, AvailableNow(max_offsets=2), four, site=site)

    assert reads(four) == [8], "its tasks ran in this JVM, which may still upload their state"
    assert measured(four)["begun"] is None


def died_once_for_memory(site: Site, mark: Mapping[str, object]) -> dict[str, object]:
    """Return what is kept of sizes when one process has ended for want of memory, and another one with a mark."""
    died = {"batch": 0, "rows": 1, "failed": False, "pid": 1, "host": "x", "started": 1.0, **mark}
    heap = Heap(site.spark).bytes
    return {"rows": 1, "most": 1, "deaths": 1, "short": 1, "heap": heap, "begun": died}


def test_what_the_kernel_killed_for_memory_meanwhile_is_evidence(
    four: Lake, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count is the kernel's, of a file in its form: a test cannot take the memory of the machine."""
    counts = tmp_path / "vmstat"
    monkeypatch.setattr("strandline.engine.runtime.processes.COUNTS", counts)
    counts.write_text("pgfault 17\noom_kill 4\n")
    before = killed_for_memory()
    counts.write_text("pgfault 18\noom_kill 5\n")
    kept = died_once_for_memory(site, {"killed": before})
    four.batch_size(SILVER).put(json.dumps(kept))

    with pytest.raises(DefinitionError, match="2 processes have ended for want of memory"):
        run(SILVER, AvailableNow(), four, site=site)


@pytest.mark.whole("a mark of before", "not known")
@pytest.mark.parametrize(
    "mark",
    [
        {},
        {"killed": None},
        {"killed": {"boot": "another boot of the machine", "count": -1}},
        {"killed": killed_for_memory()},
    ],
    ids=["a mark of before", "not known", "before a boot", "none were"],
)
def test_processes_that_end_without_a_sign_of_memory_refuse_nothing(
    four: Lake, site: Site, mark: Mapping[str, object]
) -> None:
    """A person and Kubernetes kill as well; the batches are smaller, and a commit that cannot be is read as it is."""
    kept = {**died_once_for_memory(site, mark), "deaths": 7}
    four.batch_size(SILVER).put(json.dumps(kept))

    run(SILVER, AvailableNow(), four, site=site)

    assert sum(reads(four)) == 8
    assert not balance(SILVER, four).faults


def test_a_batch_whose_error_is_that_memory_ran_out_leaves_that_for_the_next_start(
    four: Lake, measured: Callable[[Lake], dict[str, object]]
) -> None:
    text = "Lost task 1.0 in stage 24.0 (TID 141): java.lang.OutOfMemoryError: Java heap space"
    governor = Governor(SILVER, four)
    governor.begins(0, 2 * FIRST)
    governor.failed(StreamingQueryException(message=text))
    begun = measured(four)["begun"]
    assert isinstance(begun, dict)
    assert (begun["short"], begun["failed"]) == (True, False)
    four.batch_size(SILVER).put(json.dumps({**measured(four), "begun": {**begun, "pid": 1}}))

    size = Governor(SILVER, four).size

    assert (size.rows, size.deaths, size.short) == (FIRST, 1, 1)
    assert "100,000 rows, for want of memory" in size.why


def test_a_commit_that_kills_again_and_again_is_named_with_what_to_do(
    four: Lake, site: Site
) -> None:
    """It cannot be read in parts, so only memory helps; a heap of another size is tried."""
    kept = died_once_for_memory(site, {"short": True})
    heap = Heap(site.spark).bytes
    four.batch_size(SILVER).put(json.dumps(kept))

    with pytest.raises(
        DefinitionError,
        match=r"one commit of .* has 2 rows, and 2 processes have ended for want of memory",
    ) as no:
        run(SILVER, AvailableNow(), four, site=site)

    assert "STRANDLINE_MEMORY=4g" in str(no.value.hint)
    four.batch_size(SILVER).put(json.dumps({**kept, "heap": heap // 2}))
    run(SILVER, AvailableNow(), four, site=site)
    assert reads(four) == [2, 6]


@pytest.mark.whole
def test_an_entry_has_the_size_that_was_chosen(four: Lake, site: Site) -> None:
    found: list[Entry] = []

    run(SILVER, AvailableNow(), four, site=site, on_commit=found.append)

    assert [entry.most for entry in found] == [FIRST]
