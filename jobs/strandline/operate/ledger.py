"""Where every event is: the balance sheets of a lake and their faults, a row for each table, and how long every reader still has."""

from collections.abc import Iterator, Sequence

from strandline import catalog

from strandline.core.errors import DamagedError, DataError
from strandline.core.static import Static
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting.balance_sheet import (
    LIVE,
    UNSOUGHT,
    Balance,
    balance,
    feed_balances,
    held_rows,
)
from strandline.engine.accounting.routes import listed, remedy, said, undeclared
from strandline.engine.flow.readers import (
    Danger,
    Level,
    TopicReader,
    keep,
    table_dangers,
    topic_dangers,
    topic_readers,
)
from strandline.engine.gates import gate_files
from strandline.engine.kafka.topic_log import WAY
from strandline.engine.lake.completeness import retired
from strandline.engine.lake.files.damage import damage
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, last_entry
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.read import static_versions
from strandline.engine.lake.read.open_table import live_rows
from strandline.engine.proof.verify import status
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.engine.service.condition import stored_offsets
from strandline.operate import lakes


def sheets_of(
    where: Lake, names: Sequence[str] | None = None, *, audited: bool = False
) -> list[Balance]:
    """Return the balance sheets of the tables that exist.

    Raises:
        DefinitionError: None of them exists.
    """
    live = [name for name in names or () if name.startswith(f"{LIVE}.")]
    others = [name for name in names or () if name not in live]
    sheets = [] if live and not others else lakes.filled(where, others or None)
    return [
        *(balance(table, where, audited=audited) for table in sheets),
        *(
            sheet
            for sheet in feed_balances(where, audited=audited)
            if not names or sheet.table in live
        ),
    ]


def refuse_imbalance(sheets: list[Balance]) -> None:
    """Refuse sheets that do not balance.

    Raises:
        DataError: One does not; each fault is named with its batch.
        DamagedError: All that do balance, and others cannot be read.
    """
    damaged = [sheet.damage for sheet in sheets if sheet.damage is not None]
    if damaged and all(sheet.damage is not None for sheet in sheets if sheet.faults):
        raise DamagedError(
            "\n  ".join(dict.fromkeys(each.message for each in damaged)),
            hint=damaged[0].hint,
            tables=[sheet.table for sheet in sheets if sheet.damage is not None],
        )
    faults = [f"{sheet.table}: {fault}" for sheet in sheets for fault in sheet.faults]
    if faults:
        raise DataError(
            "the ledger does not balance:\n  " + "\n  ".join(faults),
            hint="no other program may write these folders; compare with `strandline run --mode batch` "
            "into another lake and `strandline compare`.",
            faults=faults,
        )


def notices(where: Lake) -> Iterator[str]:
    """Yield a sentence for each table that is fed no more, and for each topic and each cluster that one has left.

    None of a topic of a damaged table.
    """
    for name, ended in retired(where).items():
        yield f"retired: {name}, which is read and no longer fed, by {ended.words}"
    if names := undeclared(where):
        yield f"declared by no module: {listed(names)}, in the lake all the same; {remedy(names[0])}"
    for table in catalog.tables():
        if isinstance(table, Ingested) and where.exists(table):
            try:
                yield from said(table, where)
            except Exception as error:
                if damage(error, table) is None:
                    raise


def lost_words(sheet: Balance) -> str:
    """Return which offsets expired before they were read."""
    count = sum(end - first for ranges in sheet.lost.values() for first, end in ranges)
    listed = ", ".join(
        f"{part} offsets {first} to {end - 1}"
        for part, ranges in sheet.lost.items()
        for first, end in ranges
    )
    return f"{count:,} offsets that expired in Kafka unread ({listed})"


def table_rows(where: Lake) -> tuple[list[dict[str, object]], list[DataError]]:
    """Return a row for each table, and why some cannot be read; those have an empty one."""
    rows, damaged = [], list[DataError]()
    tables = catalog.tables()
    statics = {static.id: static for table in tables for static in table.static}
    for each in (*tables, *statics.values()):
        try:
            row = _static_row(each, where) if isinstance(each, Static) else _row(each, where)
        except Exception as error:
            found = damage(error, each)
            if found is None:
                raise
            damaged.append(found)
            row = _damaged_row(each)
        rows.append(row)
    return rows, damaged


def static_lines(where: Lake, names: Sequence[str] | None = None) -> Iterator[str]:
    """Yield for each table what it is joined with: the version of each static table, and how many rows lie before the first."""
    for table in catalog.tables():
        if not table.static or not where.exists(table) or (names and table.id not in names):
            continue
        newest = last_entry(where.table(table))
        before = sums_of(where.table(table)).before_static
        for each in table.static:
            at = newest[1].static.get(each.id) if newest else None
            rows = before.get(each.id, 0)
            more = (
                f", and {rows:,} rows that it has read lie before the first version" if rows else ""
            )
            yield f"joined to {table.id}: {each.id}, {_version_said(each, where, at)}{more}"


def _version_said(static: Static, where: Lake, version: int | None) -> str:
    if not version:
        return "of which there was no version"
    try:
        found = last_entry(where.table(static), version)
    except DataError as error:
        return f"version {version}, of which nothing more is known: {error.message}"
    if found is None:
        return f"version {version}"
    return f"version {found[0]}, which holds {static_versions.holds_said(found[1].holds_from)}"


def _static_row(static: Static, where: Lake) -> dict[str, object]:
    """Return the row of a static table: its source, and its newest version."""
    newest = static_versions.newest(static, where)
    return {
        **_of_static(static),
        "rows": static_versions.rows_of(static, where, newest[0]) if newest else 0,
        "version": newest[0] if newest else None,
        "mode": newest[1].mode if newest else "never run",
    }


def _of_static(static: Static) -> dict[str, object]:
    """Return the columns of that row in their order, with what the declaration says."""
    none = dict.fromkeys(("rows", "quarantined", "copies", "version", "mode"))
    return {
        "table": static.id,
        "reads": static_versions.source_said(static),
        **none,
        **dict.fromkeys(("watermark", "certificate", "gate")),
    }


def _row(table: Table, where: Lake) -> dict[str, object]:
    newest = last_entry(where.table(table))
    return {
        "table": table.id,
        "reads": ", ".join(map(str, (*table.reads, *table.static))),
        "rows": live_rows(where.table(table)),
        "quarantined": held_rows(table, where) if isinstance(table, Judged) else None,
        "copies": _copies(table),
        "version": newest[0] if newest else None,
        "mode": _mode(table, where, newest[1] if newest else None),
        "watermark": newest[1].watermark if newest else None,
        "certificate": None if isinstance(table, Ingested) else status(table, where),
        "gate": gate_files.summary(table, where),
    }


def _copies(table: Table) -> str | None:
    """Return whether a table looks for copies of events; None of one that reads judged rows or judges none."""
    if not isinstance(table, Judged):
        return None
    return UNSOUGHT if table.keeps_copies else "left out"


def _mode(table: Table, where: Lake, newest: Entry | None) -> str:
    """Return how a table was written last, or that it no longer is."""
    if table.id in retired(where):
        return "retired"
    return newest.mode if newest else "never run"


def _damaged_row(table: Table | Static) -> dict[str, object]:
    """Return the same of a table that cannot be read."""
    if isinstance(table, Static):
        return {**_of_static(table), "mode": "damaged"}
    none = dict.fromkeys(("rows", "quarantined"))
    reads = ", ".join(map(str, (*table.reads, *table.static)))
    last = dict.fromkeys(("watermark", "certificate", "gate"))
    own = {"copies": _copies(table), "version": None, "mode": "damaged"}
    return {"table": table.id, "reads": reads, **none, **own, **last}


# How long every reader of a lake still has, what was seen kept for the report, and what a person must act on now refused.


ALERTS = "bronze.alerts"


def dangers_of(found: Settings, where: Lake) -> list[Danger]:
    """Look at all readers of a lake, and keep what was found for its report.

    Raises:
        DefinitionError: No broker is known.
        TransientError: None answers.
    """
    readers = [*topic_readers(where), *_receivers(where)]
    dangers = table_dangers(where)
    if readers:
        address = lakes.demanded_address(found, where)
        dangers = [
            *topic_dangers(readers, address, found.kafka_options, clock.now()),
            *dangers,
        ]
    keep(where, dangers, clock.now())
    return dangers


def refuse_danger(dangers: Sequence[Danger]) -> None:
    """Refuse what a person must act on now.

    Raises:
        DataError: Something is lost, or will be soon.
    """
    alarming = [each for each in dangers if each.level.is_alarming]
    if not alarming:
        return
    lost = [each for each in alarming if each.level is Level.LOST]
    what = "records are gone that were not read" if lost else "unread records may soon be gone"
    raise DataError(
        f"{what}:\n  " + "\n  ".join(f"{e.reader}, {e.source}: {e.says}" for e in alarming),
        hint=_hint(lost, alarming),
        readers=sorted({each.reader for each in alarming}),
    )


def _hint(lost: Sequence[Danger], alarming: Sequence[Danger]) -> str:
    renamed = [each for each in lost if each.lost is None]
    if renamed:
        return WAY
    if lost:
        return f'`strandline accept-loss {lost[0].reader} --because "…"` records that, and it goes on (infra/runbooks/lost.md).'
    return (
        f"let {alarming[0].reader} read (`strandline status`), or let its topic keep records for longer "
        "(infra/runbooks/expiring.md)."
    )


def _receivers(where: Lake) -> Iterator[TopicReader]:
    """Yield the receivers of notices; they read the topic of alerts, go on where a record is gone, and count it."""
    alerts = next((table for table in catalog.tables() if table.id == ALERTS), None)
    topics = alerts.topics if alerts else ()
    for topic in topics:
        for receiver, offsets in stored_offsets(where):
            positions = {(topic.name, number): at for number, at in offsets.items()}
            yield TopicReader(name=f"notices to {receiver}", positions=positions, stops=False)
