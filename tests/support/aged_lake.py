"""A lake of any age: the rows of another one, laid out in as many commits as wanted, as if a stream had made them.

Fifty thousand batches of a stream take a day. So a lake reads its topics once, in few large batches, and its rows are
written again commit by commit, at times that are days apart from the first to the last. Each commit has the rows that a
batch of these records would have had, and says so in its ledger entry; every so often the lake is maintained, with the clock
of its history. Then the checkpoints of the streams follow, whose batches Spark knows by their numbers alone: a live stream
goes on where the history ends. ``strandline ledger --audit`` proves that it adds up.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from strandline.core.table import Table
from strandline.engine.lake.commit.create_table import ALWAYS
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import Kind, actions, commit_file, sum_file
from strandline.engine.lake.log.ledger import Entry, entries, is_table, last_entry, latest_version
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.place import Place
from strandline.engine.service.maintain import Policy, maintain
from tests.support import by_hand
from tests.support.history import Age, Pieces
from tests.support.moved_checkpoint import move

MAINTAINED_EVERY = 500
"""Batches of bronze between two rounds of maintenance: an hour and a half at ten seconds a batch."""

CHECKPOINT_EVERY = int(ALWAYS["delta.checkpointInterval"])


@dataclass(slots=True, kw_only=True)
class Aged:
    """Writes the history of a bronze table, of a silver one and its quarantine, and of a gold one.

    Args:
        whole: The lake that read the same records in few batches.
        lake: Where the history is written; nothing is there.
        tables: Bronze, silver, gold.
        age: How old it becomes.
        show: Called with a line now and then.
    """

    whole: Lake
    lake: Lake
    tables: tuple[Table, Table, Table]
    age: Age
    show: Callable[[str], None] = print
    _ends: dict[str, int] = field(default_factory=dict)
    _waiting: dict[Table, tuple[int, int, int]] = field(default_factory=dict)
    _arrived: datetime | None = None

    def write(self) -> None:
        """Write it, and let the streams follow."""
        for table in self.tables:
            for path in self.whole.books(table):
                if is_table(path):
                    self._begin(path)
        bronze, silver, gold = self.tables
        self._ends = {
            key: end
            for _, each in entries(self.whole.table(bronze))
            for key, (_, end) in each.offsets.items()
        }
        known = {
            table: [each for _, each in entries(self.whole.table(table))] for table in self.tables
        }
        rows = self._pieces()
        for batch in range(self.age.commits):
            self._take_in(bronze, batch, known[bronze], rows["bronze"])
            step, rest = divmod(batch + 1, self.age.each)
            if not rest:
                self._judge(silver, step - 1, known[silver], rows["silver"], rows["quarantine"])
                self._answer(gold, step - 1, known[gold], rows["gold"])
            left = self.age.commits - batch - 1  # a history ends just before a maintenance
            if left and not left % MAINTAINED_EVERY:
                self._maintain(self.age.at(batch + 1))
        for table in (silver, gold):
            self._follow(table)

    def _begin(self, path: Place) -> None:
        """Create a table as it was created, at the time when the history begins; its id stays."""
        target = self._there(path)
        commit_file(target, 0).parent.make()
        first, *others = (commit_file(path, 0).text() or "").splitlines()
        info = json.loads(first)
        info["commitInfo"]["timestamp"] = int(self.age.at(0).timestamp() * 1000)
        commit_file(target, 0).put("\n".join([json.dumps(info), *others]) + "\n")
        sum_file(target, 0).put(json.dumps(self._sums_of_nothing(path)))

    def _sums_of_nothing(self, path: Place) -> dict[str, Any]:
        sums = json.loads(sum_file(path, latest_version(path)).text() or "")
        sums.pop("fileSizeHistogram", None)
        return {**sums, "tableSizeBytes": 0, "numFiles": 0, "allFiles": []}

    def _pieces(self) -> dict[str, Pieces]:
        bronze, silver, gold = self.tables
        steps = self._steps
        windows = _read(self.whole.table(gold)).sort_by("window_until")
        shares = [len(windows) * step // steps for step in range(steps + 1)]
        return {
            "bronze": self._by_offsets(_read(self.whole.table(bronze)), self.age.commits, 1),
            "silver": self._by_offsets(_read(self.whole.table(silver)), steps, self.age.each),
            "quarantine": self._by_offsets(
                _read(self.whole.quarantine(silver)), steps, self.age.each
            ),
            "gold": Pieces(rows=windows, begins=shares),
        }

    def _by_offsets(self, rows: pa.Table, batches: int, each: int) -> Pieces:
        """Give each batch the rows whose records it reads."""
        batch = np.zeros(len(rows), dtype=np.int64)
        offsets, partitions = rows["_offset"].to_numpy(), rows["_partition"].to_numpy()
        topics = np.array(rows["_topic"].to_pylist())
        for key, end in self._ends.items():
            topic, _, partition = key.rpartition("/")
            mine = (topics == topic) & (partitions == int(partition))
            bounds = [self._bound(end, number * each) for number in range(batches + 1)]
            batch[mine] = np.searchsorted(bounds, offsets[mine], side="right") - 1
        order = np.argsort(batch, kind="stable")
        begins = np.searchsorted(batch[order], np.arange(batches + 1))
        return Pieces(rows=rows.take(pa.array(order)).combine_chunks(), begins=begins.tolist())

    def _bound(self, end: int, batch: int) -> int:
        """Return the first offset of a batch in a partition that ends with one."""
        return end * batch // self.age.commits

    def _take_in(self, table: Table, batch: int, known: Sequence[Entry], pieces: Pieces) -> None:
        rows, at = pieces.of(batch), self.age.at(batch + 1)
        rows = _with(rows, "_batch", batch)
        rows = _with(rows, "_ingested_at", at)
        rows = _with(rows, "_newest_before", self._arrived)
        came = pc.max(rows["_arrived_at"]).as_py()
        self._arrived = max(filter(None, (self._arrived, came)), default=None)
        ranges = {
            key: (self._bound(end, batch), self._bound(end, batch + 1))
            for key, end in self._ends.items()
        }
        entry = replace(
            self._alike(known, batch, self.age.commits),
            batch=batch,
            offsets={key: each for key, each in ranges.items() if each[0] < each[1]},
            read=len(rows),
            good=len(rows),
            written=len(rows),
            newest_arrival=self._arrived.isoformat() if self._arrived else None,
        )
        self._commit(table, rows, entry, at)

    def _judge(
        self, table: Table, step: int, known: Sequence[Entry], good: Pieces, held: Pieces
    ) -> None:
        rows, bad, at = good.of(step), held.of(step), self._at(step)
        read, versions = self._unread(self.tables[0])
        reasons = Counter(each[0] for each in bad["reasons"].to_pylist())
        newest = pc.max(rows["event_at"]).as_py()
        entry = replace(
            self._alike(known, step, self._steps),
            batch=step,
            versions=versions,
            read=read,
            good=len(rows),
            quarantined=dict(reasons),
            broke=dict(reasons),
            duplicates=read - len(rows) - len(bad),
            written=len(rows),
            newest=newest.isoformat() if newest else None,
        )
        self._append(self.lake.quarantine(table), bad, entry, at)
        self._commit(table, rows, entry, at)

    def _answer(self, table: Table, step: int, known: Sequence[Entry], windows: Pieces) -> None:
        rows = windows.of(step)
        read, versions = self._unread(self.tables[1])
        entry = replace(
            self._alike(known, step, self._steps),
            batch=step,
            versions=versions,
            read=read,
            good=read,
            written=len(rows),
        )
        self._commit(table, rows, entry, self._at(step))

    def _commit(self, table: Table, rows: pa.Table, entry: Entry, at: datetime) -> None:
        version = self._append(self.lake.table(table), rows, entry, at)
        first, _, count = self._waiting.get(table, (version, version, 0))
        self._waiting[table] = (first, version, count + len(rows))

    @staticmethod
    def _append(path: Place, rows: pa.Table, entry: Entry, at: datetime) -> int:
        """Commit rows, with a checkpoint of Delta where a stream's writer makes one; return the version."""
        by_hand.commit(path, [rows], entry.encoded(), at)
        version = latest_version(path)
        _date(path, version, at)
        if not version % CHECKPOINT_EVERY:
            DeltaTable(str(path)).create_checkpoint()
        return version

    def _unread(self, source: Table) -> tuple[int, dict[str, tuple[int, int]]]:
        """Return how many rows of a source were committed since the last call, and in which versions."""
        first, last, rows = self._waiting.pop(source)
        return rows, {source.id: (first, last)} if rows else {}

    @property
    def _steps(self) -> int:
        return self.age.commits // self.age.each

    def _at(self, step: int) -> datetime:
        return self.age.at((step + 1) * self.age.each)

    @staticmethod
    def _alike(known: Sequence[Entry], batch: int, batches: int) -> Entry:
        """Return the entry of the whole lake that is as far in its history: what is not counted is taken from it."""
        return known[batch * len(known) // batches]

    def _maintain(self, now: datetime) -> None:
        paths = [path for table in self.tables for path in self.lake.books(table) if is_table(path)]
        before = {path: latest_version(path) for path in paths}
        for each in maintain(self.lake, now, Policy()):
            self.show(f"{now:%Y-%m-%d %H:%M} {each.sentence}")
        for path, last in before.items():
            for version in range(last + 1, latest_version(path) + 1):
                _date(path, version, now)

    def _follow(self, table: Table) -> None:
        """Let the stream of a table go on after the history."""
        last = last_entry(self.lake.table(table))
        assert last is not None
        paths = {source.id: self.lake.table(source) for source in table.upstream}
        ends = {table_id(path): latest_version(path) + 1 for path in paths.values()}
        before = {table_id(paths[name]): first for name, (first, _) in last[1].versions.items()}
        target = self.lake.checkpoint(table)
        target.parent.make()
        source = self.whole.checkpoint(table).local
        move(source, target.local, self._steps - 1, ends, before)

    def _there(self, path: Place) -> Place:
        return self.lake.root / path.parent.name / path.name


def _read(path: Place) -> pa.Table:
    """Return the rows of a table in the types with which Spark writes them."""
    found = DeltaTable(str(path))
    columns = StructType.fromJson(json.loads(found.schema().to_json()))
    return found.to_pyarrow_table().cast(to_arrow_schema(columns, timezone="UTC"))


def _date(path: Place, version: int, at: datetime) -> None:
    """Give the files of a version the time at which they would have been written."""
    for action in actions(path, version, Kind.ADD):
        os.utime(path / action.body["path"], times=(at.timestamp(), at.timestamp()))


def _with(rows: pa.Table, column: str, value: object) -> pa.Table:
    """Give all rows one value in a column."""
    number = rows.schema.get_field_index(column)
    field = rows.schema.field(number)
    return rows.set_column(number, field, pa.array([value] * len(rows), field.type))
