"""A run works on tables that do not depend on each other side by side, and what is printed and returned is as if it did not."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from strandline import catalog

from strandline.core.errors import DataError, DefinitionError, LakeError
from strandline.core.table import Ingested, Table
from strandline.engine.flow.running import Report
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.settings import Settings
from strandline.operate import run as operate_run
from strandline.operate.run import SideBySide, at_once

TABLES = catalog.tables()
BRONZE = [table for table in TABLES if isinstance(table, Ingested)]
PATIENCE = 30.0


class Seen:
    """What was worked on, when."""

    def __init__(self, work: Callable[[Table], None] = lambda _: time.sleep(0.002)) -> None:
        """Begin with nothing."""
        self._work = work
        self._lock = threading.Lock()
        self.at_work: set[str] = set()
        self.most = 0
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.beside: set[frozenset[str]] = set()

    def __call__(self, table: Table) -> None:
        """Work on a table."""
        with self._lock:
            self.beside |= {frozenset({table.id, other}) for other in self.at_work}
            self.at_work.add(table.id)
            self.begun.append(table.id)
            self.most = max(self.most, len(self.at_work))
            assert {each.id for each in table.needs} <= {*self.ended}
        try:
            self._work(table)
        finally:
            with self._lock:
                self.at_work.discard(table.id)
                self.ended.append(table.id)


@pytest.mark.parametrize("most", [1, 2, 4, 24])
def test_each_table_is_worked_on_once_after_those_that_it_needs_and_no_more_of_them_at_a_time(
    most: int,
) -> None:
    seen = Seen()

    SideBySide(most, seen).go(TABLES)

    assert sorted(seen.ended) == sorted(table.id for table in TABLES)
    assert seen.most <= most


def test_tables_that_do_not_depend_on_each_other_are_worked_on_together() -> None:
    """None of them ends before all have begun."""
    together = threading.Barrier(3, timeout=PATIENCE)

    SideBySide(3, lambda _: together.wait()).go(BRONZE[:3])

    assert not together.broken


def test_one_at_a_time_is_the_order_of_the_catalog() -> None:
    seen = Seen()

    SideBySide(1, seen).go(TABLES)

    assert seen.ended == [table.id for table in TABLES]


def test_of_tables_with_a_backlog_one_is_computed_at_a_time_and_others_beside_it() -> None:
    """Each would take half of the heap."""
    large = {table.id for table in TABLES if not isinstance(table, Ingested)}
    seen = Seen()

    SideBySide(4, seen, is_large=lambda table: table.id in large).go(TABLES)

    assert sorted(seen.ended) == sorted(table.id for table in TABLES)
    assert not any(pair <= large for pair in seen.beside)
    assert seen.most > 1


def test_an_error_that_ends_all_lets_what_runs_end_and_begins_nothing_more() -> None:
    """What runs is asked to end after its batch."""
    first, second, *_ = BRONZE
    begun = threading.Barrier(2, timeout=PATIENCE)

    def work(table: Table) -> None:
        begun.wait()
        if table is first:
            raise DefinitionError("no broker", hint="")
        assert all_of_them.ends.wait(PATIENCE)

    seen = Seen(work)
    all_of_them = SideBySide(2, seen)
    with pytest.raises(DefinitionError, match="no broker"):
        all_of_them.go(TABLES)

    assert sorted(seen.ended) == sorted([first.id, second.id])


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({"cores": 2, "memory": "2g"}, 4),
        ({"cores": 2, "memory": "512m"}, 1),
        ({"cores": 1, "memory": "8g"}, 2),
        ({"cores": 64, "memory": "64g"}, 24),
        ({"cores": 2, "memory": "512m", "tables_at_once": 7}, 7),
    ],
)
def test_how_many_at_a_time_follows_from_cores_and_memory_or_is_chosen(
    given: dict[str, object], most: int
) -> None:
    assert at_once(Settings(**given)) == most  # type: ignore[arg-type]  # as settings are given


def test_whichever_table_fails_first_the_exit_code_is_that_of_the_first_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of two ends first is chance, and a scheduler looks at the code."""
    first, second, third = BRONZE[:3]
    errors: dict[str, LakeError] = {
        first.id: DefinitionError("the first is mistaken", hint=""),
        second.id: DataError("the second is damaged", hint=""),
    }
    ended = threading.Event()

    def run(table: Table, *_: object, **__: object) -> Report:
        if table is first:
            assert ended.wait(PATIENCE)
        elif table is second:
            ended.set()
        if table.id in errors:
            raise errors[table.id]
        return Report(table=table.id, mode="available-now")

    monkeypatch.setattr(operate_run, "run", run)
    monkeypatch.setattr(operate_run, "_ready", lambda *_: None)
    said: list[str] = []
    done = operate_run.catch_up(
        Settings(cores=2, memory="2g"),
        Lake(tmp_path).open_for_writing(),
        [first, second, third],
        says=said.append,
        on_commit=lambda *_: None,
        on_done=lambda report: said.append(report.table),
    )

    assert [*done.failed.errors] == [first.id, second.id]
    assert {
        third.id,
        f"{first.id} failed, and the others go on: {first.id}: the first is mistaken",
    } <= {*said}
    with pytest.raises(DefinitionError, match="2 of 3 tables failed"):
        done.refuse()
