"""A table is retired: it is fed no more, keeps what it has, and stays readable; and taken back.

No row moves, and no entry of its ledger is written. The decision is one file of the lake (jobs/strandline/engine/storage/retired.py), which
is asked before a table is run and again once its lease is taken; who retires a table has it handed over by its stream first,
so no batch of it is under way then. Requests to forget, retention, maintenance, snapshots and questions go on.
"""

from collections.abc import Iterator, Mapping

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer
from strandline.core.modes import AvailableNow
from strandline.core.table import Recomputed, Table
from strandline.core.writer_schema import schemas_from
from strandline.engine.accounting.undeclared import undeclared
from strandline.engine.pipeline import masked_columns
from strandline.engine.pipeline.recompute_windows import Afresh
from strandline.engine.pipeline.runner import Site
from strandline.engine.quarantine.write import Signed
from strandline.engine.repair.expire import refuse_unfit
from strandline.engine.storage.commit_log import log_of
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry
from strandline.engine.storage.ledger_snapshot import FOLDER
from strandline.engine.storage.locks import WriterWatch, is_held, lease
from strandline.engine.storage.place import Place
from strandline.engine.storage.retired import (
    Retirement,
    changed,
    refuse_signed,
    retired,
    strike_out,
    write_down,
)
from strandline.engine.storage.schema_shelf import Shelf


def retire(table: Table, lake: Lake, signed: Signed, writer: WriterWatch) -> Retirement:
    """Feed a table no more.

    Args:
        table: It exists.
        lake: Its lake.
        signed: Who decides it, when and why.
        writer: Says whether a process writes the table after all.

    Raises:
        DefinitionError: It is retired already, or a table that is fed reads it, or something of it is half done.
        HasWriterError: A process has begun to write it.
    """
    known = retired(lake)
    refuse_signed(table.id, known)
    readers = [
        each.id
        for each in catalog.tables()
        if table.id in {source.id for source in each.needs}
        and each.id not in known
        and lake.exists(each)
    ]
    if readers:
        raise DefinitionError(
            f"{' and '.join(readers)} would get no more rows, because {table.id} is read by "
            f"{'it' if len(readers) == 1 else 'them'}",
            hint=f"retire what reads it first (`strandline retire {readers[-1]}`), or let it read another table.",
            table=table.id,
            readers=readers,
        )
    refuse_unfit(table, lake)
    writer.refuse()
    found = Retirement(
        who=signed.who,
        at=signed.at.isoformat(timespec="seconds") if signed.at else "",
        why=signed.why or "",
    )
    # What it could bear bounds no batch of its sources any more.
    lake.batch_size(table).remove_file()
    write_down(table.id, found, lake)
    try:
        writer.refuse()  # a run that had looked before it was written down
    except BaseException:
        strike_out(table.id, lake)
        raise
    return found


def take_back(table: Table, lake: Lake) -> None:
    """Feed a retired table again, from where it ended.

    Raises:
        DefinitionError: It is not retired, or a table that it reads is; or its stream cannot go on where it ended.
    """
    with changed(lake) as known:
        _refuse_unready(table, known)
        if not known[table.id].place_kept:
            raise DefinitionError(
                f"{table.id} cannot go on where it ended: what it has not read was kept for a week, or was deleted or forgotten "
                "since",
                hint=_way_on(table),
                table=table.id,
            )
        known.pop(table.id)


def is_behind_for_good(table: Table, lake: Lake) -> bool:
    """Return whether a retired table can be fed again only by recomputing what it has not followed, and it is one that is recomputed."""
    known = retired(lake).get(table.id)
    return isinstance(table, Recomputed) and known is not None and not known.place_kept


def take_back_anew(table: Recomputed, lake: Lake, site: Site) -> Entry:
    """Recompute a retired table whose place was let go, and feed it again; windows of which retention deleted rows stay.

    Typed again after a kill it is recomputed once more: until that is done, it is retired.

    Raises:
        DefinitionError: It is not retired, or a table that it reads is.
        GateShutError: The gate of a source is shut.
        HasWriterError: Another process does the same.
    """
    with lease(site.spark, table, lake), schemas_from(Shelf(lake.schemas)):
        _refuse_unready(table, retired(lake))
        masked_columns.learn(site.spark, table, lake)
        entry = Afresh(site.spark, table, lake, AvailableNow().name).anew()
        with changed(lake) as known:
            _refuse_unready(
                table, known
            )  # a source that was retired meanwhile would feed it no more
            known.pop(table.id)
    return entry


def _refuse_unready(table: Table, known: Mapping[str, Retirement]) -> None:
    if table.id not in known:
        raise DefinitionError(
            f"{table.id} is not retired",
            hint="`strandline ledger` lists what is.",
            table=table.id,
        )
    if below := [each.id for each in table.needs if each.id in known]:
        raise DefinitionError(
            f"{table.id} reads {' and '.join(below)}, which {'is' if len(below) == 1 else 'are'} retired",
            hint=f"first `strandline retire {below[0]} --undo`.",
            table=table.id,
        )


def _way_on(table: Table) -> str:
    """Return how a table is had again whose place was let go."""
    if isinstance(table, Recomputed):
        return f"`strandline retire {table.id} --undo` recomputes it; its place was let go at this moment."
    return (
        f"`strandline rebuild {table.id}` computes it anew from what there is, and `strandline promote {table.id}` feeds "
        "it from there on. Where retention has deleted rows below it since, so that a rebuild is refused: declare it under "
        "another name, which computes it from what there is; this one stays readable."
    )


def delete(name: str, lake: Lake) -> None:
    """Delete a table that no module declares; typed again after a kill it goes on, because its log goes last.

    Raises:
        DefinitionError: A module declares it, or there is none.
    """
    if name not in undeclared(lake):
        raise DefinitionError(
            f"{name} is not a table that no module declares, and only such a one is deleted",
            hint="`strandline status` names those that there are. A table that is declared is retired and kept.",
            table=name,
        )
    if is_held(lake.lease_of(name)):
        raise DefinitionError(
            f"a process writes {name}",
            hint="stop it first: `strandline pause`.",
            table=name,
        )
    strike_out(name, lake)
    for place in _beside(name, lake):
        place.remove()
    layer, _, bare = name.partition(".")
    _remove_table(lake.root / layer / bare)


def _beside(name: str, lake: Lake) -> Iterator[Place]:
    """Yield what the lake has of a table beside the table; each place is derived from its name, as in ``Lake``."""
    layer, _, bare = name.partition(".")
    root = lake.root
    yield from (root / folder / name for folder in ("_checkpoints", "_rebuild"))
    yield from (root / folder / f"{name}.json" for folder in ("_sizes", "_audits", "_lineage"))
    yield from (root / "_certificates" / each for each in (f"{name}.json", f"{name}.range.json"))
    known = {name}
    if layer == Layer.SILVER:
        known |= {f"quarantine.{bare}", f"resolutions.{bare}"}
        yield from (root / folder / bare for folder in ("quarantine", "resolutions"))
    for folder in (root / FOLDER, lake.gates):
        for each in folder.names():
            if any(each.startswith(f"{of}.") for of in known):
                yield folder / each


def _remove_table(path: Place) -> None:
    log = log_of(path).name
    for each in path.names():
        if each != log:
            (path / each).remove()
    path.remove()
