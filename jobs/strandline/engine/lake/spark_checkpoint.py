"""Read Spark's checkpoint: the input of a planned batch, and the watermark.

A micro-batch's range is in the offset log before the batch begins, so a ledger entry made inside the batch
has exactly the range that a replay after a crash will read again.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from strandline.core.errors import DamagedError, DataError, TransientError
from strandline.core.table import Streamed, Table
from strandline.engine.lake.local_files import sync_all
from strandline.engine.lake.log.log_actions import Added, appended, table_id
from strandline.engine.lake.open_table import live_rows
from strandline.engine.lake.place import Place, is_outage, keep_files
from strandline.engine.runtime.code_files import is_code_of

NOTHING_YET = "-"
"""What Spark writes for a source without an offset."""

WHOLE = 1 << 40
"""Delta marks "every file of this version" with a number beyond any real position."""


WHOLE_MARK = "begins_whole"
"""The file in a checkpoint that marks a stream which began with a snapshot of its sources; Spark ignores it."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A position in a Delta table's log: the files before it were read."""

    version: int
    files: int = 0


Positions: TypeAlias = Mapping[str, Position]
"""A stream's position in each of its sources, by the id of the source's Delta table."""

NOWHERE = Position(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A micro-batch as Spark planned it.

    Args:
        number: The batch.
        start: Where its input begins.
        end: Where its input ends.
        watermark_ms: The watermark that evicts state in this batch.
        late_ms: The watermark below which this batch drops rows: that of the batch before.
        whole: Whether it reads a snapshot of its sources, and not their commits from the first on.
    """

    number: int
    start: Positions
    end: Positions
    watermark_ms: int
    late_ms: int
    whole: bool = False

    def input(self, source: Place, name: str | None = None) -> "list[tuple[int, Added]]":
        """Return the versions of a source that the batch reads, and what each adds.

        Args:
            source: The source.
            name: Its id, where it is known.
        """
        name = name or table_id(source)
        if self.whole:
            return _whole_input(source, self.end.get(name, NOWHERE))
        parts = _versions_between(self.start.get(name, NOWHERE), self.end.get(name, NOWHERE))
        found = ((version, appended(source, version, files=files)) for version, files in parts)
        return [(version, part) for version, part in found if part and part.rows]


def planned(checkpoint: Place, number: int) -> Planned:
    """Return a batch as the offset log has it, with the start taken from the batch before it."""
    watermark, end = _read_batch(checkpoint, number)
    late, start = _read_batch(checkpoint, number - 1) if number > 0 else (0, {})
    return Planned(
        number=number,
        start=start,
        end=end,
        watermark_ms=watermark,
        late_ms=late,
        whole=number == 0 and begins_whole(checkpoint),
    )


def begin_whole(checkpoint: Place) -> None:
    """Record that a stream begins with a snapshot of its sources."""
    (checkpoint / WHOLE_MARK).put("")


def begins_whole(checkpoint: Place) -> bool:
    """Return whether a stream began with a snapshot of its sources."""
    return (checkpoint / WHOLE_MARK).exists()


def is_new(checkpoint: Place) -> bool:
    """Return whether a stream has planned no batch yet."""
    return _newest(checkpoint, "offsets") is None


def newest_planned(checkpoint: Place) -> int | None:
    """Return the number of the last batch that was planned."""
    return _newest(checkpoint, "offsets")


def newest_done(checkpoint: Place) -> int | None:
    """Return the number of the last batch that is finished."""
    return _newest(checkpoint, "commits")


def read_until(checkpoint: Place) -> Positions:
    """Return where the batch after the last finished one begins, in each source; none before the first batch."""
    done = newest_done(checkpoint)
    return {} if done is None else _read_batch(checkpoint, done)[1]


def stream_id(checkpoint: Place) -> str | None:
    """Return the id that Spark gave to the checkpoint; None if it has none yet."""
    text = (checkpoint / "metadata").text()
    return None if text is None else str(json.loads(text)["id"])


def run_conditions(checkpoint: Place) -> str | None:
    """Return the watermark and the settings that Spark restores at the next start, as JSON; None for a new checkpoint."""
    newest = _newest(checkpoint, "offsets")
    return None if newest is None else _lines(checkpoint, "offsets", newest)[1]


def next_batch(checkpoint: Place) -> int:
    """Return the number of the batch with which a stream would go on: the planned one, or the one after the last."""
    planned, done = _newest(checkpoint, "offsets"), _newest(checkpoint, "commits")
    return 0 if planned is None else planned + 1 if planned == done else planned


def source_ids(checkpoint: Place) -> list[str | None]:
    """Return the ids of the Delta tables that a stream reads, in Spark's order; None for one that had no offset yet."""
    newest = _newest(checkpoint, "offsets")
    _, _, *offsets = ("", "") if newest is None else _lines(checkpoint, "offsets", newest)
    return [
        None if text == NOTHING_YET else str(json.loads(text)["reservoirId"]) for text in offsets
    ]


def kafka_ends(checkpoint: Place) -> tuple[int, dict[str, dict[str, int]]] | None:
    """Return the last committed batch of a stream over Kafka, and by topic and partition the offsets after its records.

    In micro-batches a batch is in the offset log before it runs, in the two other modes after it; it is in the commit log
    when it is done, in all of them.
    """
    done = _newest(checkpoint, "commits")
    if done is None:
        return None
    _, _, *offsets = _lines(checkpoint, "offsets", done)
    return done, {
        topic: ends
        for text in offsets
        if text != NOTHING_YET
        for topic, ends in json.loads(text).items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A micro-batch of a stream over Kafka, as it was planned.

    Args:
        start: Where it begins, by topic and partition; nothing for the first one.
        end: Where it ends.
        at_ms: When it was planned: the clock of the batch, also where it is run again.
        late_ms: The watermark below which it drops rows: that of the batch before.
    """

    start: Mapping[tuple[str, int], int]
    end: Mapping[tuple[str, int], int]
    at_ms: int
    late_ms: int


def epoch(checkpoint: Place, number: int) -> Epoch:
    """Return a micro-batch of a stream over Kafka.

    Raises:
        FileNotFoundError: Spark has removed it; it keeps about a hundred.
    """
    conditions, end = _epoch(checkpoint, number)
    before, start = _epoch(checkpoint, number - 1) if number else ({}, {})
    return Epoch(
        start=start,
        end=end,
        at_ms=int(conditions["batchTimestampMs"]),
        late_ms=int(before.get("batchWatermarkMs", 0)),
    )


def plan_epoch(
    checkpoint: Place,
    offsets: Sequence[Mapping[str, Mapping[int, int]]],
    conditions: str,
    at_ms: int,
) -> int:
    """Plan the next micro-batch of a stream over Kafka ahead of Spark, which runs it as it is; return its number.

    Args:
        checkpoint: The stream's, in which every planned batch is committed.
        offsets: Where it ends, by topic and partition, for each source in their order.
        conditions: The settings that a first batch has; a later one has those of the batch before.
        at_ms: The clock of the batch.
    """
    done, watermark = _newest(checkpoint, "commits"), 0
    if done is not None:
        _, conditions, *_ = _lines(checkpoint, "offsets", done)
        watermark = _next_watermark(checkpoint, done)
    has = {**json.loads(conditions), "batchWatermarkMs": watermark, "batchTimestampMs": at_ms}
    number = 0 if done is None else done + 1
    lines = ["v1", *(json.dumps(each, separators=(",", ":")) for each in (has, *offsets))]
    if stream_id(checkpoint) is None:
        (checkpoint / "metadata").put(json.dumps({"id": str(uuid4())}, separators=(",", ":")))
    (checkpoint / "offsets" / str(number)).put("\n".join(lines))
    return number


# A close that was ordered: all time up to a moment is over for a table, whatever its sources still say.
#
# What moves the watermark of a stream are the rows that it reads, so the last windows of a source that fell silent stay in the state.
# An order is a planned batch without input whose watermark is that moment. Spark runs it as it runs a batch that a kill left
# planned: it evicts and emits by the watermark of the batch, and drops what comes later below it, by that of the batch before. The
# file says who ordered it; it moves with the checkpoint, and a batch computes by it as well.


CLOSED = "closed.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """An order that all time up to a moment is over.

    Args:
        until_ms: The moment, in milliseconds since 1970.
        by: Who ordered it, when, and by which word.
        batch: The batch that was planned for it; -1 where no stream writes the table.
        before: The order that was in force before it, and is where a kill came before this one's batch was planned.
    """

    until_ms: int
    by: str
    batch: int = -1
    before: "Close | None" = None


def close_ordered(checkpoint: Place) -> Close | None:
    """Return the last close that was ordered; None where none was, or its batch was not planned before a kill.

    It is asked for by questions as well, so files that a power cut has left empty are passed over.
    """
    found = _close_in((checkpoint / CLOSED).text())
    while found is not None and found.batch >= 0:
        reached = _planned_until(checkpoint, found.batch)
        if reached is not None and reached >= found.until_ms:
            break
        found = found.before
    return found


def _close_in(text: str | None) -> Close | None:
    try:
        found = json.loads(text) if text else None
        before = found and found.pop("before", None)
        return Close(**found, before=before and Close(**before)) if found else None
    except (AttributeError, TypeError, ValueError):  # of another version
        return None


def _close_text(found: Close) -> str:
    return json.dumps({name: value for name, value in asdict(found).items() if value is not None})


def _planned_until(checkpoint: Place, first: int) -> int | None:
    """Return the watermark of the newest batch that was planned from a number on, of which the plan is whole."""
    names = (checkpoint / "offsets").names()
    for number in sorted((int(name) for name in names if name.isdigit()), reverse=True):
        if number < first:
            break
        with suppress(ValueError, KeyError, TypeError, FileNotFoundError):
            return _read_batch(checkpoint, number)[0]
    return None


def closed_ms(checkpoint: Place) -> int:
    """Return up to which moment all time was ordered to be over, in milliseconds; 0 where it was not."""
    found = close_ordered(checkpoint)
    return found.until_ms if found else 0


def rows_passed(checkpoint: Place, found: Close) -> bool:
    """Return whether rows have moved the watermark of a stream beyond a close that was ordered."""
    reached = _planned_until(checkpoint, found.batch) if found.batch >= 0 else None
    return reached is not None and reached > found.until_ms


def order_close(
    checkpoint: Place,
    until_ms: int,
    by: str,
    at_ms: int,
    *,
    first: Callable[[], None] = lambda: None,
) -> Close | None:
    """Order a close, and plan the batch for it where a stream writes the table; None where its watermark is there already.

    Args:
        checkpoint: The stream's, in which every planned batch is committed; nothing else may run on it meanwhile.
        until_ms: The moment, in milliseconds since 1970.
        by: Who orders it, when, and by which word.
        at_ms: The clock of the batch.
        first: Called before anything is written, where something is.

    Raises:
        TransientError: A batch is planned and not committed; its plan is never replaced.
    """
    done, begun = _newest(checkpoint, "commits"), _newest(checkpoint, "offsets")
    if begun != done:
        raise TransientError(
            f"{checkpoint.name} is not closed: its batch {begun} is planned and not done",
            hint=f"`strandline run {checkpoint.name}` ends it; then type the same again.",
            table=checkpoint.name,
        )
    former = close_ordered(checkpoint)
    if former is not None and until_ms <= former.until_ms:
        return None
    if done is None:
        first()
        found = Close(until_ms=until_ms, by=by)
        (checkpoint / CLOSED).put(_close_text(found))
        return found
    if until_ms <= _next_watermark(checkpoint, done):
        return None
    first()
    head, conditions, *offsets = _lines(checkpoint, "offsets", done)
    planned_as = {**json.loads(conditions), "batchWatermarkMs": until_ms, "batchTimestampMs": at_ms}
    before = replace(former, before=None) if former else None
    found = Close(until_ms=until_ms, by=by, batch=done + 1, before=before)
    (checkpoint / CLOSED).put(_close_text(found))
    lines = [head, json.dumps(planned_as, separators=(",", ":")), *offsets]
    (checkpoint / "offsets" / str(done + 1)).put("\n".join(lines))
    return found


def _epoch(checkpoint: Place, number: int) -> tuple[dict[str, Any], dict[tuple[str, int], int]]:
    _, conditions, *offsets = _lines(checkpoint, "offsets", number)
    ends = {
        (topic, int(part)): end
        for text in offsets
        if text != NOTHING_YET
        for topic, parts in json.loads(text).items()
        for part, end in parts.items()
    }
    return json.loads(conditions), ends


def unread_from(checkpoint: Place) -> Positions | None:
    """Return where a stream over tables reads on, by the id of each source; None where it is no such stream.

    That is the end of its last committed batch: a batch that was planned and not committed is read again. Of all files of
    the checkpoint two are read, and its folders are listed, in which Spark keeps about a hundred batches. A source from
    which nothing was read yet is left out; it is read from its first version on.

    Raises:
        DataError: The checkpoint cannot be read, so what it needs is unknown.
        DamagedError: A file of it is closed to this user, or cannot be read from its disk; it may be whole.
    """
    try:
        return _unread_from(checkpoint)
    except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
        raise DataError(
            f"the checkpoint {checkpoint} cannot be read: {error}",
            hint="if its stream starts all the same, try again; otherwise restore the folder, or remove it with its table, "
            "and the table is made anew.",
            checkpoint=str(checkpoint),
        ) from error
    except OSError as error:
        if is_outage(error):
            raise
        file = str(error.filename or checkpoint)
        raise DamagedError(
            f"the checkpoint {checkpoint} cannot be read: {file}: {error.strerror or error}",
            hint=f"`ls -ld {file}` shows what it is and whose; chown and chmod give it back, and a stream tries the table "
            "again by itself.",
            table=checkpoint.name,
            file=file,
        ) from error


def _unread_from(checkpoint: Place) -> Positions | None:
    if stream_id(checkpoint) is None:
        return None
    done = _newest(checkpoint, "commits")
    if done is not None:
        return _read_batch(checkpoint, done)[1] if _reads_tables(checkpoint, done) else None
    planned_first = _newest(checkpoint, "offsets")
    if planned_first is None:
        return {}
    if not _reads_tables(checkpoint, planned_first):
        return None
    if not begins_whole(checkpoint):
        return {}
    # The planned batch reads a snapshot, and ends after it.
    ends = _read_batch(checkpoint, planned_first)[1]
    return {name: Position(max(end.version - 1, 0)) for name, end in ends.items()}


def is_ahead(checkpoint: Place, newest: int | None, sources: Sequence[Place]) -> bool:
    """Return whether the checkpoint has committed batches with rows that the table's ledger lacks.

    Batches without rows have no entry and prove nothing; a stream that starts before its source has rows commits
    such a batch.
    """
    done = _newest(checkpoint, "commits")
    if done is None or (newest is not None and done <= newest):
        return False
    start = {} if newest is None else _read_batch(checkpoint, newest)[1]
    end = _read_batch(checkpoint, done)[1]
    between = Planned(number=done, start=start, end=end, watermark_ms=0, late_ms=0)
    return any(between.input(source) for source in sources)


def settled_ms(checkpoint: Place, *, emits_over_time: bool) -> int:
    """Return the event time before which a stream writes nothing more, in milliseconds; 0 if there is none.

    Admitted rows are above the newest watermark. But a stream that emits rows when the watermark moves emits them one
    batch later, so for such a table the result is the watermark of the last completed batch.
    """
    done = _newest(checkpoint, "commits")
    if done is None:
        return 0
    if emits_over_time:
        return _read_batch(checkpoint, done)[0]
    return _next_watermark(checkpoint, done)


def is_idle(checkpoint: Place, *, emits_over_time: bool) -> bool:
    """Return whether the last planned batch is complete, and with it any batch that its watermark causes.

    Args:
        checkpoint: The stream's checkpoint.
        emits_over_time: Whether a new watermark causes a batch without input.
    """
    planned, done = _newest(checkpoint, "offsets"), _newest(checkpoint, "commits")
    if planned is None:
        return True
    if done is None or planned != done:
        return False
    if not emits_over_time:
        return True
    return _read_batch(checkpoint, done)[0] == _next_watermark(checkpoint, done)


def _newest(checkpoint: Place, log: str) -> int | None:
    """Return the number of the last batch in one of the checkpoint's logs."""
    names = (checkpoint / log).names()
    return max((int(name) for name in names if name.isdigit()), default=None)


def _next_watermark(checkpoint: Place, number: int) -> int:
    """Return the watermark that follows from a committed batch, in milliseconds."""
    _, metadata, *_ = _lines(checkpoint, "commits", number)
    return int(json.loads(metadata)["nextBatchWatermarkMs"])


def _lines(checkpoint: Place, log: str, number: int) -> list[str]:
    if (text := (checkpoint / log / str(number)).text()) is None:
        raise FileNotFoundError(f"{checkpoint}/{log}/{number}")
    return text.splitlines()


def _whole_input(source: Place, end: Position) -> list[tuple[int, Added]]:
    """Return what a batch reads that begins with a snapshot of a source: the snapshot, and the commits right after it.

    The batch ends before the version after the snapshot, unless the source was committed to between the two moments in which
    Delta opens the snapshot and plans the batch: then it reads those commits as well, and ends within the last of them. A
    table of three sources that was rebuilt beside their streams lacked that version in its ledger, and its rows for good.
    """
    version = end.version - 1
    if version < 0:
        return []
    found = [(version, Added(rows=live_rows(source, version), lowest={}, files=()))]
    later = appended(source, end.version, files=_files(end)) if end.files else None
    return [*found, (end.version, later)] if later and later.rows else found


def _files(end: Position) -> tuple[int, int | None]:
    """Return the files of its last version that a position includes; None for all of them."""
    return 0, None if end.files >= WHOLE else end.files


def _versions_between(
    start: Position, end: Position
) -> Iterator[tuple[int, tuple[int, int | None]]]:
    for version in range(start.version, end.version + 1):
        first = start.files if version == start.version else 0
        last = end.files if version == end.version else None
        if last is None or last > first:
            yield version, (first, None if last is not None and last >= WHOLE else last)


def _reads_tables(checkpoint: Place, number: int) -> bool:
    """Return whether the sources of a batch are Delta tables, and not topics of Kafka."""
    _, _, *offsets = _lines(checkpoint, "offsets", number)
    return all("reservoirId" in json.loads(text) for text in offsets if text != NOTHING_YET)


def _read_batch(checkpoint: Place, number: int) -> tuple[int, dict[str, Position]]:
    _, metadata, *offsets = _lines(checkpoint, "offsets", number)
    positions = {}
    for text in offsets:
        if text == NOTHING_YET:
            continue
        offset = json.loads(text)
        # The index is that of the last file read, counted from 0 within the version; below 0 means none.
        at = Position(offset["reservoirVersion"], max(offset["index"] + 1, 0))
        positions[str(offset["reservoirId"])] = at
    return int(json.loads(metadata)["batchWatermarkMs"]), positions


# What a stream ran last, in a small file inside its checkpoint, which Spark ignores.
#
# Spark keeps the types of a state's columns, and not what they are computed from, nor the delay of a watermark. The file has
# that, so that the code of today can be compared with the code that made the state. It moves with the checkpoint: into a
# copy of the lake, and through a promotion and its undo.


FILE = "last_run.json"

SEARCHES = "searches"
CODE, SAME = "code", "same_as"
MOST_CODES = 20
"""Versions of code that a record has beside the last one."""

JOIN = "Join"
"""Spark's name of an operator that joins, as the plan has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What a stream ran last.

    Args:
        fingerprint: A hash of all that decides what it runs; while it is the same, nothing need be compared.
        ids: The ids of the Delta tables that it read, by the names of the tables.
        plan: What it ran, as values of JSON.
        apart_ms: How far apart the rows lie that meet in its joins; None where no condition bounds that, and in the
            records of older programs.
    """

    fingerprint: str
    ids: Mapping[str, str]
    plan: Mapping[str, Any]
    apart_ms: int | None = None

    @property
    def searches(self) -> tuple[str, ...] | None:
        """Return the searches by Java's engine in it; None where an older program has recorded it.

        They are in the plan, where that program passes over what it does not know.
        """
        found = self.plan.get(SEARCHES)
        return None if found is None else tuple(found)

    @property
    def same_codes(self) -> tuple[str, ...]:
        """Return the version of the code that ran, and those before it of which the plans show that they make the same rows."""
        code = self.plan.get(CODE)
        return (*self.plan.get(SAME, ()), str(code)) if code else ()

    @property
    def joins(self) -> bool:
        """Return whether streams are joined in it."""
        return any(each["kind"] == JOIN for each in self.plan.get("operators", ()))

    @property
    def apart(self) -> timedelta | None:
        """Return how far apart the rows lie that meet in its joins; None where it is not known."""
        if self.apart_ms is not None:
            return timedelta(milliseconds=self.apart_ms)
        return None if self.joins else timedelta(0)


def read_record(checkpoint: Place) -> RunRecord | None:
    """Return what a stream ran last; None where nothing was recorded, or by a version that wrote it otherwise."""
    text = (checkpoint / FILE).text()
    if text is None:
        return None
    try:
        return RunRecord(**json.loads(text))
    except (TypeError, ValueError):
        return None


def same_code(table: Table, checkpoint: Place) -> tuple[str, ...]:
    """Return the versions of a table's code that make the rows which today's makes, as its stream saw when it started with it."""
    found = read_record(checkpoint) if isinstance(table, Streamed) else None
    codes = found.same_codes if found else ()
    return codes if codes and is_code_of(table, codes[-1]) else ()


def write_record(checkpoint: Place, record: RunRecord) -> None:
    """Record what a stream runs."""
    (checkpoint / FILE).put(json.dumps(asdict(record), separators=(",", ":")))


# Bring what Spark wrote of a checkpoint to the disk, in the order that jobs/strandline/engine/lake/local_files.py explains.


CHANGES = (".changelog", ".delta")
LEADING_DIGITS = re.compile(r"\d+")


def keep_plan(checkpoint: Place, number: int) -> None:
    """Bring the plan of a batch to the disk, before the batch is written: after a power cut it decides what was read."""
    files = [checkpoint / "metadata", checkpoint / "offsets" / str(number)]
    keep_files(files, within=checkpoint.parent)


def keep_state(checkpoint: Place, known: set[str]) -> None:
    """Bring the files of the state to the disk that are new, before Spark marks their batch as finished.

    Those of a batch that is marked were kept before; a snapshot is written beside the batches, and kept with the next.

    Args:
        checkpoint: The stream's checkpoint.
        known: The files that were kept before; those of now are put in their place. Spark keeps a hundred batches.
    """
    if not checkpoint.is_local:
        return
    ends = [int(name) for name in (checkpoint / "commits").names() if name.isdigit()]
    state, done = (checkpoint / "state").local, max(ends, default=None)
    found = {str(file) for file in state.rglob("*") if file.is_file() and file.name[0] != "."}
    new = [Path(file) for file in found - known]
    kept = 0 if done is None else done + 1
    if new := [file for file in new if file.suffix not in CHANGES or _version_of(file) > kept]:
        sync_all(new, within=checkpoint.local)
    known.clear()
    known.update(found)


def _version_of(file: Path) -> int:
    """Return the version of the state that a file brings forward: one more than the number of its batch."""
    digits = LEADING_DIGITS.match(file.name)
    return int(digits[0]) if digits else 0
