"""Restarts in Spark, each with the code before and after an edit: do they run, and with which rows?

A restart is right if the rows that it adds are those that the new code adds when it has run from the beginning, over the
same two parts of the log; and of what the new code had added before, those rows whose key the former code had not.
"""

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from unittest.mock import patch

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from strandline.core.errors import LakeError
from strandline.core.table import Ingested, Table, Upserted
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow import query
from strandline.engine.flow.compare_plans import Remedy
from strandline.engine.flow.preflight import Answer, Cleared, Verdict, judge
from strandline.engine.lake.commit.create_table import alter
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import opened
from strandline.engine.repair.migrate import migrate
from tests.support.edits import FIELDS, OTHER, VISITS, Edit
from tests.support.events import readings, received
from tests.support.literal import put
from tests.support.modes import derive
from tests.support.rows import Row, shown

PARTS = (("1",), ("2", "3"))


class Outcome(StrEnum):
    """What a restart was."""

    RIGHT = "right rows"
    FAILS = "an error"
    WRONG = "other rows, no error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """An edit, judged and then really restarted.

    Args:
        edit: The edit.
        verdict: What the pre-flight says.
        outcome: What the restart was.
        why: Its error, or the first row that differs.
        migrated: What the restart was after the migration that the verdict offers; None without one.
    """

    edit: str
    verdict: Verdict
    outcome: Outcome
    why: str
    migrated: Outcome | None
    unforeseen: str = ""
    """An error without a sentence of ours, with which a start ended that the pre-flight had judged."""

    @property
    def agrees(self) -> bool:
        """Return whether the verdict is what Spark did."""
        if self.unforeseen:
            return False
        if self.verdict.answer is Answer.SAFE:
            return self.outcome is Outcome.RIGHT
        needs = self.outcome is not Outcome.RIGHT
        return needs and self.migrated in {None, Outcome.RIGHT}


class Restarts:
    """Makes each lake of a former code once, and copies it for each edit."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        """Make lakes in a folder."""
        self._spark = spark
        self._root = root
        self._made: dict[tuple[object, ...], Lake] = {}

    def trial(self, edit: Edit) -> Trial:
        """Judge an edit, then restart."""
        was = self._ran(edit)
        lake = self._copy(was, edit)
        verdict = judge(self._spark, edit.after, lake)
        expected = self._expected(edit, was)
        outcome, why = self._restart(edit, lake, expected)
        migrated = None
        if verdict.remedies and Remedy.REBUILD not in verdict.remedies:
            other = self._copy(was, edit)
            after = migrate(self._spark, edit.after, other)
            assert after.answer is Answer.SAFE, after
            migrated, why = self._restart(edit, other, expected)
            if faults := balance(edit.after, other).faults:
                migrated, why = Outcome.WRONG, f"the ledger does not balance: {faults}"
        unforeseen = self._unforeseen(edit, self._copy(was, edit)) if edit.starts else ""
        return Trial(
            edit=edit.name,
            verdict=verdict,
            outcome=outcome,
            why=why,
            migrated=migrated,
            unforeseen=unforeseen,
        )

    def _unforeseen(self, edit: Edit, lake: Lake) -> str:
        """Return the error of a start as a user makes it, unless it is one that says what to do."""
        _add(lake, edit, PARTS[1])
        try:
            derive(self._spark, lake, edit.after)
        except LakeError as error:
            return "" if error.hint else f"without a hint: {error}"
        except (PySparkException, Py4JJavaError) as error:
            return str(error).strip().splitlines()[0]
        return ""

    def _restart(self, edit: Edit, lake: Lake, expected: Sequence[Row]) -> tuple[Outcome, str]:
        """Run the code after an edit over the second part of the log, whatever the pre-flight says.

        Commit by commit: a watermark of before the edit drops rows only from the second batch on.
        """
        former = rows_of(lake, edit.before)
        self._spark.conf.set("spark.sql.shuffle.partitions", edit.partitions)
        try:
            with patch.object(query, "refuse_unsafe", lambda *_: Cleared()):
                for batch in PARTS[1]:
                    _add(lake, edit, (batch,))
                    derive(self._spark, lake, edit.after)
        except (LakeError, PySparkException) as error:
            return Outcome.FAILS, str(error).strip().splitlines()[0]
        finally:
            self._spark.conf.set("spark.sql.shuffle.partitions", 2)
        if unreadable := self._unreadable(lake, edit.after):
            return Outcome.WRONG, unreadable
        names = list(expected[0]) if expected else None
        found = rows_of(lake, edit.after)
        if not isinstance(edit.after, Upserted) and edit.after.id == edit.before.id:
            found = _less(found, former)
        return _compared(_only(found, names), _only(expected, names))

    def _unreadable(self, lake: Lake, table: Table) -> str | None:
        """Return Spark's error when it reads the table, which a stream above does; files of other types are committed."""
        try:
            rows = self._spark.read.format("delta").load(str(lake.table(table)))
            rows.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JJavaError) as error:
            return str(error).strip().splitlines()[-1]
        return None

    def _expected(self, edit: Edit, was: Lake) -> list[Row]:
        """Return the rows that a right restart adds; of a table of updates, all that it has."""
        table = edit.reference or edit.after
        lake = self._new(table)
        _add(lake, edit, PARTS[0], table)
        derive(self._spark, lake, table)
        first = rows_of(lake, table)
        _add(lake, edit, PARTS[1], table)
        derive(self._spark, lake, table)
        last = rows_of(lake, table)
        if edit.after.id != edit.before.id:
            return last
        key = edit.after.key
        former = {_key(row, key): row for row in rows_of(was, edit.before)}
        missing = [row for row in first if _key(row, key) not in former]
        if not isinstance(edit.after, Upserted):
            return [*_less(last, first), *missing]
        changed = {_key(row, key): row for row in [*missing, *_less(last, first)]}
        return [*({**former, **changed}).values()]

    def _ran(self, edit: Edit) -> Lake:
        """Return a lake in which the former code has read the first part."""
        table, mark = edit.before, (edit.before, edit.log, edit.fields.json())
        if mark not in self._made:
            lake = self._new(table)
            put_part(lake, table.upstream, edit, PARTS[0])
            derive(self._spark, lake, table)
            self._made[mark] = lake
        return self._made[mark]

    def _copy(self, lake: Lake, edit: Edit) -> Lake:
        other = self._new(edit.after)
        shutil.copytree(lake.root, other.root, dirs_exist_ok=True)
        had = {each.id for each in edit.before.upstream}
        coming = [each for each in edit.after.upstream if each.id not in had]
        put_part(other, coming, edit, PARTS[0])
        edit.around(other)
        if edit.later:
            for each in edit.before.upstream:
                alter(self._spark, other.table(each), edit.later)
        return other

    def _new(self, table: Table) -> Lake:
        count = len(list(self._root.iterdir())) if self._root.exists() else 0
        return Lake(self._root / f"{count}-{table.name}").open_for_writing()


def put_part(
    lake: Lake, sources: Sequence[Table], edit: Edit, batches: Sequence[str], *, late: bool = False
) -> None:
    """Append a part of the log to the sources; one without rows is made all the same."""
    fields = edit.later if late and edit.later else edit.fields
    tables = [each for each in sources if not isinstance(each, Ingested)]
    logs = {
        each: (FIELDS, OTHER) if each.id == VISITS.id else (fields, edit.log) for each in tables
    }
    for batch in batches:
        put(lake, logs, batch)
        if len(tables) < len(sources):
            received(lake, [each for each in readings(edit.log) if each.batch == int(batch)])


def rows_of(lake: Lake, table: Table) -> list[Row]:
    """Return the rows of a table, as text."""
    if not lake.exists(table):
        return []
    found = opened(lake.table(table)).to_pyarrow_table().to_pylist()
    return shown([{name: _plain(value) for name, value in row.items()} for row in found])


def _plain(value: Any) -> Any:  # noqa: ANN401  # as Arrow has it
    """Return a value without the fields of structs that are NULL, and the others in one order: they are known by their names."""
    match value:
        case dict():
            return {name: _plain(value[name]) for name in sorted(value) if value[name] is not None}
        case list():
            return [_plain(each) for each in value]
        case _:
            return value


def _add(lake: Lake, edit: Edit, batches: Sequence[str], table: Table | None = None) -> None:
    sources = {each.id: each for each in (*(table or edit.after).upstream, *edit.before.upstream)}
    put_part(lake, [*sources.values()], edit, batches, late=True)


def _less(rows: Sequence[Row], former: Sequence[Row]) -> list[Row]:
    """Return the rows of a bag without those of another; a column that the other lacks is NULL there."""
    before = Counter(_bag(former))
    left = []
    for row, mark in zip(rows, _bag(rows), strict=True):
        if before[mark]:
            before[mark] -= 1
        else:
            left.append(row)
    return left


def _bag(rows: Sequence[Row]) -> list[tuple[tuple[str, str], ...]]:
    return [tuple(sorted((n, v) for n, v in row.items() if v != "-")) for row in rows]


def _only(rows: Sequence[Row], names: Sequence[str] | None) -> list[Row]:
    return [{name: row.get(name, "-") for name in names or row} for row in rows]


def _key(row: Row, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(row.get(name, "-") for name in names)


def _compared(found: Sequence[Row], expected: Sequence[Row]) -> tuple[Outcome, str]:
    more, less = _less(found, expected), _less(expected, found)
    if not more and not less:
        return Outcome.RIGHT, ""
    return Outcome.WRONG, f"found {more[:1]}, expected {less[:1]}"
