"""Send the changes of a table to a target: from where that has got to, for as long as there are some, or for ever.

A publisher reads commits that are there, in a process without Spark and beside the stream: a target that is away makes it wait,
and nothing else. What the target has acknowledged is its position, kept in the target with the changes where it can (then each
is there exactly once), and in the lake. A target that is new begins with all rows of the table as they are, and goes on
with what later commits change.

A change that the target does not take as it is goes on the list of the refused with the reason, before the position passes it;
a later change of the same row that is taken takes it off. What else a target says is an outage: it is tried again.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime

from strandline.core.errors import DataError, DefinitionError, LakeError, TransientError
from strandline.engine.flow.publications import (
    LOCK,
    Books,
    Change,
    Position,
    Publish,
    books_of,
    file_of,
    mark_of,
)
from strandline.engine.flow.targets import Refused, Target, as_json
from strandline.engine.lake.duckdb_table import Columns, Range, Row, all_rows, changed_rows
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import Kind, actions, is_commit
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.open_table import pin_versions
from strandline.engine.lake.store_lease import FencedError, HeldError, hold
from strandline.engine.runtime.outage import skipped_in_outage
from strandline.engine.runtime.processes import own
from strandline_quality.mask import mask_value

ROWS = 1_000
"""Changes that are sent at once, and kept together."""
BYTES = 8_000_000
"""The same in bytes of JSON: of large rows fewer are sent at once."""
REFUSED = 1_000
"""Refused changes with which a publisher stops: the declaration or the target is wrong then, and not some rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What of a table goes where.

    Args:
        columns: The columns that leave.
        masked: Those of them that leave masked.
        target: Where to.
    """

    columns: Columns
    masked: frozenset[str]
    target: Target


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that are sent at once, and the positions before and after them, without their counts."""

    changes: tuple[Change, ...]
    before: Position
    after: Position


class Publisher:
    """Sends the changes of one table to one target; within the lease its owner calls ``step`` again and again."""

    def __init__(
        self,
        declared: Publish,
        lake: Lake,
        route: Callable[[], Route],
        clock: Callable[[], datetime],
        masks: Callable[[], frozenset[str]] | None = None,
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            declared: What is sent where.
            lake: The lake.
            route: Returns the way there, with the columns that the table has now.
            clock: Returns the time.
            masks: Returns the columns that leave masked, which may become more while a process lives.
        """
        self._masks = masks
        self._seen = -1
        """The version up to which the columns are known."""
        self.name, self.table = declared.name, declared.table
        self.books = Books(table=declared.table.id, target=declared.shown)
        self._lake, self._path = lake, lake.table(declared.table)
        self._find, self._clock = route, clock
        self._route: Route | None = None
        self._batches: Iterator[Batch] = iter(())
        self._file = file_of(lake, declared.name)
        self._tag: str | None = None

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Be the only one that sends to this target.

        Raises:
            TransientError: Another process does.
            DefinitionError: The name is that of another table or target.
        """
        with ExitStack() as held:
            lock = hold(file_of(self._lake, self.name, LOCK), json.dumps(own()), waits=False)
            try:
                held.enter_context(lock)
            except HeldError as error:
                raise TransientError(
                    f"{self.name} is published already, by process {json.loads(error.note or '{}').get('pid')}",
                    hint="stop it (it ends on Ctrl-C): one process sends to a target.",
                ) from error
            held.callback(self._close)
            self._read_books()
            yield

    def step(self) -> bool:
        """Send one batch; return False where nothing is left to send.

        Raises:
            FencedError: Another process sends to the target now.
            DataError: What the position needs is gone, or the target refuses too much.
            LakeError: The target is away; the next step begins at its position.
        """
        try:
            batch = next(self._batches, None)
            if batch is None:
                self._batches = self._packed(self._begun())
                batch = next(self._batches, None)
            if batch is not None:
                self._send(batch)
        except Exception as error:
            self._close()
            with skipped_in_outage(), suppress(FencedError):
                said = error.message if isinstance(error, LakeError) else str(error)
                self._say(said, passes=not isinstance(error, DataError))
            raise
        return batch is not None

    def again(self) -> None:
        """Begin anew with all rows of the table: a target that can loses what the table has not."""
        self._connect()
        known = (self._to.target.begin(), self.books.place)
        self.books.refused.clear()
        self._keep(self._whole(1 + max(each.generation if each else 0 for each in known)))

    def replay(self, within: Range) -> int:
        """Send rows as they are once more, when all changes are sent; return their number. The position stays.

        Args:
            within: The range of their event time.
        """
        at, sent = self._begun(), 0
        version = at.version - 1
        with pin_versions(self._lake.root, {self._path: version}):
            for rows in all_rows(self._path, version, self._to.columns, within=within):
                changes = [self._change(row, version, at.generation) for row in rows]
                refused = self._offer(changes)
                self._to.target.keep(at)
                self.books.replayed += len(changes) - len(refused)
                self._store()
                sent += len(changes)
        return sent

    @property
    def _to(self) -> Route:
        assert self._route is not None  # it has begun  # noqa: S101
        return self._route

    @property
    def _place(self) -> Position:
        assert self.books.place is not None  # it has begun  # noqa: S101
        return self.books.place

    def _read_books(self) -> None:
        known = self._file.tagged()
        if known is None:
            return
        stored, self._tag = books_of(known[0]), known[1]
        if (stored.table, stored.target) != (self.books.table, self.books.target):
            raise DefinitionError(
                f"{self.name} has published {stored.table} to {stored.target}, and now publishes {self.books.table} to "
                f"{self.books.target}",
                hint=f"give what is new a name of its own, or remove {self._file}.",
            )
        self.books = stored

    def _begun(self) -> Position:
        """Return the position; where nothing is connected, or the table has other columns from there on, connect before."""
        at = self.books.place
        has_more = at is not None and is_commit(self._path, at.version)
        if self._route is None or at is None or (has_more and self._is_other(at.version)):
            self._connect()
            at = self._found(self._to.target)
            self._keep(at)
        elif not has_more:
            return at
        if at.known >= 0 and self._mark(at.known) != at.mark:
            raise DataError(
                f"{self.books.target} has got {self.books.table} up to version {at.known:,} of another history: the lake was "
                "restored, or the table made anew",
                hint=f"`strandline publish {self.name} --again` sends all rows as they are now.",
            )
        return at

    def _connect(self) -> None:
        self._close()
        self._seen = latest_version(self._path)
        self._route = self._find()

    def _is_other(self, version: int) -> bool:
        """Return whether the table has other columns from a version on than are known, or other masks."""
        return self._is_shaped(version) or self._has_other_masks()

    def _has_other_masks(self) -> bool:
        """Return whether other columns are masked than are known: the lake says so before the first row that needs it."""
        return self._masks is not None and self._masks() != self._to.masked

    def _found(self, target: Target) -> Position:
        """Return the position of the target, or that of the lake where it is the later one or the target keeps none."""
        kept, stored = target.begin(), self.books.place
        if stored is None:
            return kept or self._whole(1)
        # That of the lake is the later one where all rows are to be sent anew and none of them was, or where Kafka lost one.
        keeps = stored.read and not target.loses_positions
        if kept is not None and (keeps or kept.generation >= stored.generation):
            return kept
        if kept is None and stored.read and not target.loses_positions:
            raise DataError(
                f"{self.books.target} has no position of {self.name} any more, and got {stored.accepted:,} changes: it was made anew",
                hint=f"`strandline publish {self.name} --again` sends all rows as they are now.",
            )
        return stored

    def _whole(self, generation: int) -> Position:
        version = latest_version(self._path)
        mark = self._mark(version)
        return Position(version=version, whole=True, mark=mark, generation=generation)

    def _mark(self, version: int) -> str:
        return mark_of(self._path, version)

    def _is_shaped(self, version: int) -> bool:
        """Return whether a version has other columns than those that are known."""
        there = version > self._seen and is_commit(self._path, version)
        return there and any(actions(self._path, version, Kind.METADATA))

    def _packed(self, at: Position) -> Iterator[Batch]:
        """Yield what is to be sent from a position on, up to the latest version."""
        before = after = at
        changes: list[Change] = []
        size = 0
        for change, after in self._items(at):
            if change is not None:
                changes.append(change)
                size += len(as_json(change.row))
            if len(changes) >= ROWS or size >= BYTES or before.whole is not after.whole:
                yield Batch(tuple(changes), before, after)
                before, changes, size = after, [], 0
        if after != before:
            yield Batch(tuple(changes), before, after)

    def _items(self, at: Position) -> Iterator[tuple[Change | None, Position]]:
        """Yield each change with the position after it, and at the end of a version the one after that."""
        path, columns = self._path, self._to.columns
        if at.whole:
            with pin_versions(self._lake.root, {path: at.version}):
                rows = all_rows(path, at.version, columns, at.done)
                yield from self._counted(at, rows)
            at = replace(at, version=at.version + 1, done=0, whole=False)
            yield None, at
        latest = latest_version(path)
        if self._has_other_masks():
            return
        for version in range(at.version, latest + 1):
            if self._is_shaped(version):
                return
            yield from self._counted(at, changed_rows(path, version, columns, at.done))
            at = replace(at, version=version + 1, done=0, mark=self._mark(version))
            yield None, at

    def _counted(
        self, at: Position, found: Iterator[list[Row]]
    ) -> Iterator[tuple[Change | None, Position]]:
        done = at.done
        for rows in found:
            for row in rows:
                done += 1
                yield self._change(row, at.version, at.generation), replace(at, done=done)

    def _change(self, row: Row, version: int, generation: int) -> Change:
        columns, masked = self._to.columns, self._to.masked
        values = dict(zip(columns.kinds, row.values, strict=False))
        key = dict(list(values.items())[: columns.key])
        hash_ = hashlib.sha256(as_json(key)).hexdigest()[:16]
        shown = {
            name: mask_value(value) if name in masked else value for name, value in values.items()
        }
        return Change(
            id=f"{self.books.table}/{generation}/{version}/{hash_}",
            table=self.books.table,
            generation=generation,
            version=version,
            key=key,
            row=None if row.is_gone else shown,
        )

    def _send(self, batch: Batch) -> None:
        before = batch.before
        refused = self._offer(
            batch.changes,
            is_first=before.whole and not before.done,
            is_last=before.whole and not batch.after.whole,
        )
        after = replace(
            batch.after,
            read=self._place.read + len(batch.changes),
            refused=self._place.refused + len(refused),
        )
        self._to.target.keep(after)
        self._keep(after)

    def _offer(
        self, changes: Sequence[Change], *, is_first: bool = False, is_last: bool = False
    ) -> Refused:
        """Send changes, and note which of them are refused before any of them counts."""
        refused = self._to.target.offer(changes, is_first=is_first, is_last=is_last)
        known = self.books.refused
        for each in changes:
            key = as_json(each.key).decode()
            known.pop(key, None)
            if why := refused.get(each.id):
                known[key] = {"id": each.id, "version": each.version, "why": why}
        if len(known) > REFUSED:
            raise DataError(
                f"{self.books.target} refuses more than {REFUSED:,} rows of {self.books.table}: {[*known.values()][-1]['why']}",
                hint="correct the target, or what is declared, then send all rows with --again; "
                f"`strandline publish {self.name} --refused` lists them.",
            )
        if refused:
            self._store()
        return refused

    def _keep(self, place: Position) -> None:
        if (self.books.place, self.books.away) != (place, None):
            self.books.place, self.books.away = place, None
            self._store()

    def _say(self, away: str, *, passes: bool) -> None:
        if (self.books.away, self.books.passes) != (away, passes):
            self.books.away, self.books.passes = away, passes
            self._store()

    def _store(self) -> None:
        self.books.at = self._clock().isoformat(timespec="microseconds")
        tag = self._file.exchange(self.books.text(), self._tag)
        if tag is None:
            raise FencedError(
                f"another process publishes {self.name} now, because this one did not renew its lease",
                hint="let the other go on; it has begun where this one was.",
            )
        self._tag = tag

    def _close(self) -> None:
        self._batches = iter(())
        if self._route is not None:
            self._route.target.close()
        self._route = None
