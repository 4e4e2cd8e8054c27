"""A table in SQL recomputed by another engine: DuckDB, from the rows of what the table reads, without Spark.

A verification computes a table twice by our own code, as a batch and as a stream; a fault that both have is seen by neither. Here
nothing of it takes part but the text of the table's SELECT: delta-rs lists the files of what it reads at the version that the table
has read, DuckDB reads them and computes the SELECT in its own words (jobs/strandline/engine/proof/duckdb_words.py), and the result is
compared with the live rows: for a table that emits a row once it is final, those up to the watermark that follows from the rows.

What a function in Python adds to the rows of a SELECT, a dimension or a model, is not compared, and the certificate says so.
"""

import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from importlib.metadata import version as release

from strandline.core.errors import DefinitionError
from strandline.core.kind import Emit
from strandline.core.model import SCORED
from strandline.core.table import Appended, Computed, Ingested, Judged, Recomputed, Table, Upserted
from strandline.engine.accounting.balance_sheet import readable_at
from strandline.engine.flow.function_plan import hidden
from strandline.engine.lake.commit.file_index import EPOCH
from strandline.engine.lake.completeness import refuse_never_whole, whole_from
from strandline.engine.lake.duckdb_table import Duck, duck_error, scan, spilling
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.open_table import pin_versions
from strandline.engine.lake.spark_checkpoint import closed_ms
from strandline.engine.proof.certificate import Certificate, keep
from strandline.engine.proof.compare import compared_views, within
from strandline.engine.proof.duckdb_words import MACROS, in_duckdb
from strandline.engine.proof.verify import Note, refuse_unsettled
from strandline.engine.runtime.code_files import code_version
from strandline.sql_function import Sql

INSTRUMENT = "duckdb"


def recompute(table: Table, lake: Lake, clock: Callable[[], datetime], note: Note) -> Certificate:
    """Recompute a table by DuckDB, compare it with the live one, and keep a certificate.

    Args:
        table: A table of gold, or of silver above silver, in SQL.
        lake: The lake; only the certificate is written to it.
        clock: Returns the present time.
        note: Is called with a line for each step.

    Raises:
        DefinitionError: It is no such table, has not read all of its sources, or DuckDB lacks a word.
    """
    begun = time.monotonic()
    asked, function = _asked(table)
    refuse_unsettled([asked], lake)
    whole = whole_from(asked, lake)
    refuse_never_whole(asked, lake, whole)
    own = latest_version(lake.table(asked))
    read = {source.id: readable_at(asked, source, lake) for source in asked.upstream}
    places = {lake.table(source): read[source.id] for source in asked.upstream}
    with pin_versions(lake.root, {**places, lake.table(asked): own}), spilling() as duck:
        kinds = _sources(duck, asked, lake, read)
        chosen: Mapping[str, Mapping[str, str]] = {
            f"source_{number}": kinds[number] for number in function.order
        }
        if len(chosen) < len(function.order):
            chosen = _once_each(duck, function.order, kinds)
        select = in_duckdb(function.statement, chosen)
        note(f"{asked.id}: computing it by DuckDB …")
        left_out = _compared_rows(duck, asked, lake, own, select)
        secret = hidden(asked, lake)
        found = compared_views(
            asked.id,
            asked.row_key,
            duck,
            ("live", "by DuckDB"),
            within(f'"{asked.event_at}"', None, whole),
            secret,
            (),
        )
    lines = _differences(found.apart, found.only_left, found.only_right, asked, found.samples)
    took = time.monotonic() - begun
    result = "equal" if not lines else "NOT EQUAL"
    note(f"{asked.id}: {found.left_rows:,} rows compared with DuckDB in {took:.1f} s, {result}")
    certificate = Certificate(
        table=asked.id,
        equal=not lines,
        rows=found.left_rows,
        splits=0,
        kills=0,
        seed=0,
        offsets={},
        versions={asked.id: own, **read},
        code=code_version(asked),
        at=clock().isoformat(timespec="seconds"),
        seconds=round(took, 1),
        whole_from=whole.isoformat() if whole else None,
        differences=tuple(lines),
        instrument=f"DuckDB {release('duckdb')}, sqlglot {release('sqlglot')}",
        without=tuple(left_out),
    )
    keep(certificate, asked, lake)
    return certificate


def _asked(table: Table) -> tuple[Computed, Sql]:
    """Return a table with its SQL.

    Raises:
        DefinitionError: Its rows are made by more than a SELECT.
    """
    why = ""
    function = None if isinstance(table, Ingested) else table.transform
    if isinstance(table, Ingested) or not isinstance(function, Sql):
        why = "is not in SQL"
    elif isinstance(table, Judged):
        why = "judges records: its payloads are read strictly, for which DuckDB has no word"
    elif table.static:
        why = "joins static tables"
    elif isinstance(table, Appended) and table.rows:
        why = "makes rows of a list before its SELECT"
    elif isinstance(table, Upserted) and table.emits is Emit.ON_WATERMARK:
        why = "emits what is final of a row, which its SELECT does not say"
    if why or isinstance(table, Ingested) or not isinstance(function, Sql):
        raise DefinitionError(
            f"{table.id} {why}, so DuckDB cannot recompute it",
            hint="`strandline verify` without --by recomputes any table by Spark.",
            table=table.id,
        )
    return table, function


def _sources(
    duck: Duck, table: Computed, lake: Lake, read: Mapping[str, int]
) -> list[dict[str, str]]:
    """Make a view of each table that is read, and return its columns; times have no zone, and are in UTC."""
    found = []
    for number, source in enumerate(table.upstream):
        scan(duck, f"files_{number}", lake.table(source), read[source.id])
        _bare(duck, f"source_{number}", f"files_{number}")
        found.append(_kinds(duck, f"source_{number}"))
    return found


def _once_each(
    duck: Duck, order: tuple[int, ...], kinds: list[dict[str, str]]
) -> Mapping[str, Mapping[str, str]]:
    """Return a view for each place where a table is read, where one is read several times."""
    found = {}
    for place, number in enumerate(order):
        name = f"place_{place}"
        duck.execute(f'CREATE VIEW "{name}" AS FROM "source_{number}"')
        found[name] = kinds[number]
    return found


def _bare(duck: Duck, name: str, of: str) -> None:
    zoned = [each for each, kind in _kinds(duck, of).items() if kind == "TIMESTAMP WITH TIME ZONE"]
    casts = ", ".join(f'CAST("{each}" AS TIMESTAMP) AS "{each}"' for each in zoned)
    columns = f"* REPLACE ({casts})" if zoned else "*"
    duck.execute(f'CREATE VIEW "{name}" AS SELECT {columns} FROM "{of}"')  # noqa: S608  # our own names


def _kinds(duck: Duck, name: str) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in duck.execute(f'DESCRIBE "{name}"').fetchall()}


def _compared_rows(duck: Duck, table: Computed, lake: Lake, version: int, select: str) -> list[str]:
    """Make the views of the live rows and of those that DuckDB computes; return the columns that are not compared."""
    scan(duck, "files_live", lake.table(table), version)
    _bare(duck, "live", "files_live")
    duck.execute(MACROS)
    try:
        duck.execute(f"CREATE TEMP TABLE computed AS {select}")
    except duck_error() as error:
        raise DefinitionError(
            f"DuckDB cannot compute {table.id}: {str(error).splitlines()[0]}",
            hint="`strandline verify` without --by recomputes it by Spark.",
            table=table.id,
        ) from error
    live = _kinds(duck, "live")
    made = {name.lower(): name for name in _kinds(duck, "computed")}
    added = {
        *(table.dimension.columns if table.dimension else ()),
        *(SCORED if table.scored_by else ()),
    }
    left_out = [each for each in live if each in added and each.lower() not in made]
    casts = [
        f'CAST("{made.pop(name.lower())}" AS {kind}) AS "{name}"'
        for name, kind in live.items()
        if name.lower() in made
    ]
    casts += [f'"{name}"' for name in made.values()]
    excluded = f"EXCLUDE ({', '.join(map(_quoted, left_out))}) " if left_out else ""
    duck.execute(f"CREATE VIEW all_l AS SELECT * {excluded}FROM live")
    duck.execute(
        f"CREATE VIEW all_r AS SELECT {', '.join(casts)} FROM computed WHERE {_final(duck, table, closed_ms(lake.checkpoint(table)))}"  # noqa: S608  # our own names
    )
    return left_out


def _quoted(name: str) -> str:
    return f'"{name}"'


def _final(duck: Duck, table: Computed, closed_ms: int) -> str:
    """Return the condition that a row is emitted: that no admitted row can change it any more, where the table waits for that.

    Args:
        duck: Has the rows of the sources.
        table: The table.
        closed_ms: Up to when all time was ordered to be over; 0 where it was not.
    """
    waits = isinstance(table, Recomputed) and table.waits
    if isinstance(table, Recomputed) and not waits:
        return "true"
    closes_at = getattr(table, "closes_at", None)
    if isinstance(table, Upserted) or (closes_at is None and not waits):
        return "true"
    bounds = [
        duck.execute(
            f"SELECT date_trunc('millisecond', max(\"{source.event_at}\")) - INTERVAL "  # noqa: S608  # our own names
            f"'{source.lateness.delay // timedelta(milliseconds=1)} milliseconds' FROM source_{number}"
        ).fetchall()[0][0]
        for number, source in enumerate(table.upstream)
        if not (waits and source.valid_until)
    ]
    closed = EPOCH + timedelta(milliseconds=closed_ms)
    if any(each is None for each in bounds) and not closed_ms:
        return f'"{closes_at}" IS NULL' if closes_at else "false"
    known = [] if any(each is None for each in bounds) else [min(bounds)]
    bound = f"TIMESTAMP '{max([*known, closed.replace(tzinfo=None)]).isoformat(sep=' ')}'"
    if closes_at:
        return f'("{closes_at}" IS NULL OR "{closes_at}" <= {bound})'
    length = int(table.window_length / timedelta(microseconds=1))
    start = getattr(table, "window_from", table.event_at)
    return f"\"{start}\" + INTERVAL '{length} microseconds' <= {bound}"


def _differences(
    apart: tuple[str, ...], only_live: int, only_made: int, table: Table, samples: tuple[str, ...]
) -> list[str]:
    lines = []
    if apart:
        lines.append(f"{table.id}: only one of the two has {', '.join(apart)}")
    if only_live or only_made:
        lines.append(
            f"{table.id}: {only_live:,} rows of the live table are not what DuckDB computes, and {only_made:,} that it computes "
            "are not in the live table"
        )
    return [*lines, *(f"{table.id}: {sample}" for sample in samples)]
