"""What is still held in a quarantine: its records, less those that a second table says were resolved.

Nothing is ever taken out of a quarantine. A row that comes to silver, or is held on for other reasons, or is given up,
gets a line in ``resolutions/<table>``, which Delta itself keeps append-only: which record it was, what became of it,
who did it, when, and why. So a year later the original bytes and the whole story are still there.

A record is known by what it says: its place in Kafka, its reasons and its event time. An event that was released and is
held again for the same reasons is the same record a second time, and two of a kind are counted: so many were
held, so many resolved. That needs no number in the record, and works for quarantines that are older than this.

A **held** record is one that the ledger accounts for as quarantined. One that was **discarded** is held all the
same, because the event is in no other place, but it is not **open**: no replay looks at it. A backfill or a rebuild
still does, because they say what all of bronze gives by today's rules.

A rebuild that is promoted, or a batch, exchanges the quarantine as a whole, and what was resolved before says nothing of
the new records. So each line names the generation of records that it speaks of; an undo brings back the old one.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
from deltalake import DeltaTable

from jobs.core.errors import DefinitionError
from jobs.core.received import QUARANTINE
from jobs.core.table import Table
from jobs.run.lake import Lake
from jobs.run.ledger import Entry, entries, is_table

REPLAY = "replay"
"""The mode of a commit that brought rows of the quarantine to silver."""

FOLLOWED = "replay followed"
"""The mode of the commit after which everything that rests on a replay was computed again."""

DISCARD = "discard"
REOPEN = "reopen"


class State(StrEnum):
    """What a record of the quarantine is."""

    OPEN = "open"
    DISCARDED = "discarded"
    CLOSED = "closed"


class Status(StrEnum):
    """What was done about a record."""

    REPLAYED = "replayed"
    """Today's rules believe the row; it is in silver."""
    DUPLICATE = "duplicate"
    """Today's rules believe it, but an earlier copy of it is the one that counts."""
    STILL_BAD = "still_bad"
    """It is bad for other reasons than before; a new record has those."""
    BACKFILLED = "backfilled"
    """A backfill of its time judged it again."""
    DISCARDED = "discarded"
    REOPENED = "reopened"


RELEASED = (Status.REPLAYED, Status.DUPLICATE, Status.STILL_BAD, Status.BACKFILLED)
"""After these the ledger does not count the record any more."""

RECORD = ("_topic", "_partition", "_offset", "reasons", "event_at")
"""What a record is known by."""

STATES = """
SELECT {columns},
       CASE WHEN _nth <= coalesce(released, 0) THEN 'closed'
            WHEN _nth <= coalesce(released, 0) + coalesce(discarded, 0) THEN 'discarded'
            ELSE 'open' END AS _state
FROM (SELECT *, row_number() OVER (PARTITION BY {record} ORDER BY _offset) AS _nth FROM {quarantine}) q
LEFT JOIN (
    SELECT {record},
           sum(CASE WHEN status IN ({statuses}) THEN 1 ELSE 0 END) AS released,
           sum(CASE WHEN status = 'discarded' THEN 1 ELSE 0 END)
           - sum(CASE WHEN was = 'discarded' THEN 1 ELSE 0 END) AS discarded
    FROM {resolutions} WHERE generation = {generation} GROUP BY {record}
) s
ON q._topic = s._topic AND q._partition = s._partition AND q._offset = s._offset
AND q.reasons = s.reasons AND q.event_at IS NOT DISTINCT FROM s.event_at
"""
"""One text for DuckDB and for Spark: what is open cannot be two things."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The records that a quarantine holds since it was last exchanged as a whole.

    Args:
        begun: The version with which it was.
        entries: The ledger's entries of its commits.
    """

    begun: int
    entries: tuple[Entry, ...]


def generation(path: Path, until: int | None = None) -> Generation:
    """Return the generation of records that a quarantine has, or had at a version."""
    begun, said = [0], [list[Entry]()]
    for version, entry in entries(path):
        if until is not None and version > until:
            break
        if not entry.replaced:
            said[-1].append(entry)
        elif (entry.promoted or "").startswith("undo ") and len(begun) > 1:
            begun.pop()
            said.pop()
        else:
            begun.append(version)
            said.append([entry])
    return Generation(begun=begun[-1], entries=tuple(said[-1]))


def resolved(table: Table, lake: Lake) -> list[Entry]:
    """Return the entries of the resolutions that speak of the quarantine as it stands."""
    path = lake.resolutions(table)
    if not is_table(path):
        return []
    now, name = generation(lake.quarantine(table)).begun, f"quarantine.{table.name}"
    return [entry for _, entry in entries(path) if entry.versions.get(name, (0, 0))[0] == now]


def released(table: Table, lake: Lake) -> int:
    """Return how many records of a quarantine are not held any more, from the logs alone."""
    return -sum(sum(entry.quarantined.values()) for entry in resolved(table, lake))


def unfinished(table: Table, lake: Lake) -> Entry | None:
    """Return the backfill or replay that wrote to the quarantine's side and was killed before it wrote the table.

    What it has changed there so far stands in its ``quarantined``.
    """
    if not table.judges:
        return None
    done = {entry.stream for _, entry in entries(lake.table(table)) if entry.is_backfill}
    told = (*resolved(table, lake), *generation(lake.quarantine(table)).entries)
    half = [entry for entry in told if entry.is_backfill and entry.stream not in done]
    if not half:
        return None
    held: Counter[str] = Counter()
    for entry in half:
        held.update(entry.quarantined)
    return replace(half[-1], quarantined=dict(held))


def unfollowed(table: Table, lake: Lake, told: Sequence[Entry]) -> Entry | None:
    """Return the replay after which the tables above were not computed again.

    Args:
        table: A judged table.
        lake: Where.
        told: The entries of the table that are in force.
    """
    done = {entry.stream for entry in resolved(table, lake) if entry.mode == FOLLOWED}
    changed = (entry for entry in told if entry.mode == REPLAY and (entry.came or entry.gone))
    return next((entry for entry in changed if entry.stream not in done), None)


def refuse_unheld(table: Table, lake: Lake) -> None:
    """See that a table has a quarantine.

    Raises:
        DefinitionError: It judges no rows, or was never run.
    """
    if not table.judges:
        raise DefinitionError(
            f"{table.id} judges no rows, so it has no quarantine",
            hint="name a silver table that reads bronze.",
            table=table.id,
        )
    if not is_table(lake.quarantine(table)):
        raise DefinitionError(
            f"{table.id} does not exist in {lake.root} yet",
            hint=f"run it first: `strandline run {table.id}`.",
            table=table.id,
        )


def statement(quarantine: str, resolutions: str, begun: int) -> str:
    """Return the question for all records of a quarantine, each with what it is in ``_state``."""
    record = ", ".join(RECORD)
    return STATES.format(
        columns=", ".join(
            f"q.{name}" if name in RECORD else name for name in QUARANTINE.fieldNames()
        ),
        record=record,
        statuses=", ".join(f"'{status}'" for status in RELEASED),
        quarantine=quarantine,
        resolutions=resolutions,
        generation=begun,
    )


def in_arrow(connection: duckdb.DuckDBPyConnection, name: str, table: DeltaTable) -> None:
    """Offer rows as a data set, which a question may read even where it may touch no file."""
    connection.register(name, table.to_pyarrow_dataset())


Read: TypeAlias = Callable[[duckdb.DuckDBPyConnection, str, DeltaTable], None]


def offer(  # noqa: PLR0913, PLR0917  # what, where, as of when, and how it is read
    connection: duckdb.DuckDBPyConnection,
    name: str,
    table: Table,
    lake: Lake,
    at: tuple[int | None, int | None] = (None, None),
    read: Read = in_arrow,
) -> None:
    """Make a view of a quarantine's records, each with what it is in ``_state``.

    Args:
        connection: Where to make it.
        name: What to call it.
        table: A judged table whose quarantine is there.
        lake: Where.
        at: The versions of quarantine and resolutions; below 0 is none.
        read: Makes a view of a Delta table's rows.
    """
    quarantine, resolutions = lake.quarantine(table), lake.resolutions(table)
    read(connection, f"__{name}", DeltaTable(quarantine, version=at[0]))
    question = f"SELECT *, 'open' AS _state FROM \"__{name}\""  # noqa: S608  # no user's text
    if is_table(resolutions) and (at[1] is None or at[1] >= 0):
        read(connection, f"__said_{name}", DeltaTable(resolutions, version=at[1]))
        begun = generation(quarantine, at[0]).begun
        question = statement(f'"__{name}"', f'"__said_{name}"', begun)
    connection.execute(f'CREATE VIEW "{name}" AS {question}')


def held(table: Table, lake: Lake, at: tuple[int | None, int | None] = (None, None)) -> Any:  # noqa: ANN401  # Arrow has no types
    """Return the records that the ledger counts as quarantined, as an Arrow table."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    offer(connection, "records", table, lake, at)
    answer = connection.execute(
        f"SELECT * EXCLUDE (_state) FROM records WHERE _state <> '{State.CLOSED}'"  # noqa: S608  # no user's text
    )
    return answer.to_arrow_table()
