"""What is killed at every change of the disk: operations, the lakes that they begin with, and what must be there at the end."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from strandline import catalog

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.gate_files import Where, read
from strandline.engine.accounting.held_records import held
from strandline.engine.ask.moments import FOLDER, LATEST, NAMED, chosen, named
from strandline.engine.ask.sql_query import ask
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.log.ledger_sums import snapshot
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.lake.shelves import RULE_HISTORY, live_rules, promotions
from strandline.engine.service.stream_health import order
from tests.cli import inside
from tests.faults.disk import programs
from tests.faults.disk.programs import PROGRAMS
from tests.support.events import readings, received
from tests.support.mistaken import EVENTS, mistaken
from tests.support.morning import LATER
from tests.support.seeds import copied

TABLES = (silver.TABLE, gold.TABLE)
SILVER, GOLD = silver.TABLE.id, gold.TABLE.id
PROGRAM = "program"
DAY = ("--since", "2026-11-20T08:00", "--until", "2026-11-20T10:00")

Make = Callable[[SparkSession, Lake], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation.

    Args:
        name: What it is called in the report.
        words: What is typed, or ``program`` and the name of a function.
        make: Fills the lake that it begins with.
        is_brief: Whether it needs no JVM.
    """

    name: str
    words: tuple[str, ...]
    make: Make
    is_brief: bool = False

    def seed(self, spark: SparkSession, lake: Lake) -> Lake:
        """Fill a lake with what the operation begins with."""
        return copied(lake, f"crash {self.name}", lambda empty: self.make(spark, empty))

    def again(self, lake: Lake) -> None:
        """Do it again, as an operator would after a crash; it succeeds, or says what to do.

        Raises:
            AssertionError: It ended without a hint.
        """
        if self.words[0] == PROGRAM:
            PROGRAMS[self.words[1]](lake)
            return
        answer = inside.strandline(*self.words, "--lake", lake.root)
        assert answer.code in {0, 2, 3, 4}, answer.printed[-3000:]
        assert answer.code == 0 or "hint: " in answer.printed, answer.printed[-3000:]
        assert "unforeseen" not in answer.printed, answer.printed[-3000:]


def _fresh(_: SparkSession, lake: Lake) -> None:
    received(lake, readings(EVENTS))


def _with_backlog(spark: SparkSession, lake: Lake) -> None:
    mistaken(spark, lake)
    received(lake, readings(LATER))


def _rebuilt(spark: SparkSession, lake: Lake) -> None:
    mistaken(spark, lake)
    inside.succeeded("rebuild", SILVER, "--lake", lake.root)


def _promoted(spark: SparkSession, lake: Lake) -> None:
    _rebuilt(spark, lake)
    inside.succeeded("promote", SILVER, "--lake", lake.root)


def _with(*steps: Callable[[Lake], None]) -> Make:
    def make(spark: SparkSession, lake: Lake) -> None:
        mistaken(spark, lake)
        for step in steps:
            step(lake)

    return make


def _verb(name: str, make: Make, *words: str) -> Operation:
    return Operation(name=name, words=words, make=make)


def _program(name: str, make: Make) -> Operation:
    return Operation(name=name.replace("_", " "), words=(PROGRAM, name), make=make, is_brief=True)


WHY = ("--reason", "late", "--because", "a test of the line")
OPERATIONS = (
    _verb("first run", _fresh, "run", SILVER, GOLD),
    _verb("next run", _with_backlog, "run", SILVER, GOLD),
    _verb("batch run", _fresh, "run", SILVER, GOLD, "--mode", "batch"),
    _verb("replay", mistaken, "quarantine", "replay", SILVER),
    _verb("discard", mistaken, "quarantine", "discard", SILVER, *WHY),
    _verb("backfill", mistaken, "backfill", SILVER, *DAY, "--downstream"),
    _verb("rebuild", mistaken, "rebuild", SILVER),
    _verb("promote", _rebuilt, "promote", SILVER),
    _verb("undo", _promoted, "undo", SILVER),
    _verb("forget", mistaken, "forget", "--where", "device_id = 'd2'", "--go"),
    Operation(
        name="maintain", words=("maintain",), make=_with(programs.make_orphans), is_brief=True
    ),
    _program("close_books", mistaken),
    _program("shut_gate", mistaken),
    _program("open_shut_gate", _with(programs.shut_gate)),
    _program("clear_gate", _with(programs.shut_gate)),
    _program("promote_rules", _with()),
    _program("undo_rules", _with(programs.promote_rules)),
    _program("ask_to_run", _with()),
    _program("note_moment", mistaken),
    _program("thin_notes", _with(programs.many_notes)),
    _program("keep_moment", mistaken),
    _program("drop_moment", _with(programs.keep_moment)),
)


def state(lake: Lake) -> dict[str, Any]:
    """Return what a reader of the lake finds, without names and times that differ from run to run."""
    books = [path for table in TABLES for path in lake.books(table) if is_table(path)]
    return {
        "tables": {table.id: _rows(lake.table(table)) for table in TABLES},
        "quarantine": _held(lake),
        "decisions": _decisions(lake),
        "gate": read(silver.TABLE, lake, Where.BEFORE),
        "order": order(lake),
        "rules": (len(promotions(lake)), _rules(lake)),
        "changes of rules": _said(lake),
        "closed": [snapshot(path).sums.version for path in books],
        "entries": sorted(
            (row["table"], row["version"]) for row in _all(lake.closed_entries, "table", "version")
        ),
        "at the latest moment": _counts(lake, LATEST),
        "named": {each.name: _counts(lake, f"'{each.name}'") for each in named(lake)},
        "kept": (lake.root / FOLDER / NAMED).names(),
        "orphans": [name for name in lake.table(silver.TABLE).names() if name.startswith("part-t")],
    }


def _counts(lake: Lake, which: str) -> dict[str, object]:
    """Return how many rows each table has at a moment; none of those that are no part of it."""
    try:
        names = sorted(chosen(which.strip("'"), (), catalog.tables(), lake).versions)
    except DefinitionError as error:
        return {"refused": type(error).__name__}
    asked = ", ".join(f"(SELECT count(*) FROM {name})" for name in names)  # noqa: S608  # our own names
    (row,) = ask(f"SELECT {asked} AT MOMENT {which}", catalog.tables(), lake).rows
    return dict(zip(names, row, strict=True))


def faults(lake: Lake) -> list[str]:
    """Return what is wrong in the books."""
    return [
        str(fault)
        for table in (*TABLES, catalog.find("bronze.device_telemetry"))
        if lake.exists(table)
        for fault in balance(table, lake).faults
    ]


def _rules(lake: Lake) -> list[str]:
    """Return the files of the rules that are live."""
    folder = live_rules(lake)
    files = sorted(folder.rglob("*.yml")) if folder else []
    return [f"{file.name}: {file.read_text()}" for file in files]


def _said(lake: Lake) -> list[str]:
    """Return what was done to the rules; a crash may leave a line twice."""
    text = (lake.rules / RULE_HISTORY).text() or ""
    return sorted({each["what"] for each in map(json.loads, text.splitlines())})


def _held(lake: Lake) -> list[str]:
    if not is_table(lake.quarantine(silver.TABLE)):
        return []
    return sorted(map(str, held(silver.TABLE, lake).to_pylist()))


def _decisions(lake: Lake) -> list[tuple[object, ...]]:
    names = ("_topic", "_partition", "_offset", "status", "because")
    rows = _all(lake.resolutions(silver.TABLE), *names)
    return sorted(tuple(str(row[name]) for name in names if name in row) for row in rows)


def _rows(path: Place) -> list[str]:
    return sorted(map(str, _all(path)))


def _all(path: Place, *names: str) -> list[dict[str, Any]]:
    if not is_table(path):
        return []
    rows = opened(path).to_pyarrow_table()
    wanted = [name for name in names if name in rows.column_names]
    found: list[dict[str, Any]] = (rows.select(wanted) if names else rows).to_pylist()
    return found
