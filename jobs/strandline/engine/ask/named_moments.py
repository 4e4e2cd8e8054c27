"""Moments that have a name: their tables are kept until a date, or for ever, whatever becomes of the lake's own.

Each table has a small log of its own there, with one commit that names the files of its version, and second names of these files:
nothing is copied in a folder, and maintenance, a promotion or a rebuild take nothing away. On a store the server copies them. Of a
quarantine the rows that were open are written down, as what is decided later must not change them.

A request to forget goes through them: a table that it has touched is kept no more, and the moment says so.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.accounting.held_records import State, offer
from strandline.engine.ask.find_moment import Moment
from strandline.engine.ask.lake_views import Source, sources
from strandline.engine.ask.moments import (
    ABOUT,
    FOLDER,
    LATEST,
    LIVE,
    NAME,
    NAMED,
    find_named,
    named,
    unreadable,
)
from strandline.engine.lake.duckdb_table import session, write_rows
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger_sums import place_of, snapshot, snapshot_file
from strandline.engine.lake.log.log_actions import live_files, table_id
from strandline.engine.lake.log.vacuum import swept_file
from strandline.engine.lake.open_table import (
    opened,
    pin_versions,
    readable_from,
    refuse_deleted_files,
)
from strandline.engine.lake.place import Place, keep_files
from strandline.engine.lake.snapshot_files import Held, freeze_copy, link
from strandline.engine.lake.store_lease import hold

LOCK = "named.lock"
"""Held while a moment is kept or dropped. It is no stream's: to copy the files of a lake on a store takes minutes."""


def keep_named(
    lake: Lake, tables: Sequence[Table], name: str, moment: Moment, until: str
) -> Moment:
    """Keep a moment under a name.

    Args:
        lake: The lake.
        tables: All tables of the lake.
        name: The name.
        moment: The moment, whose versions can be read.
        until: The time until which it is kept, as text; empty for ever.

    Raises:
        DefinitionError: The name is none, or is taken; or a version can be read no more.
    """
    if not NAME.fullmatch(name) or name.upper() in {LATEST, LIVE}:
        raise DefinitionError(
            f"{name!r} is no name of a moment",
            hint="a name has small letters, digits, - and _, begins with a letter, and is not latest or live: month-end-october.",
        )
    folder = lake.root / FOLDER / NAMED / name
    with hold(lake.root / FOLDER / LOCK):
        if find_named(lake, name) is not None:
            raise DefinitionError(
                f"there is a moment {name} already",
                hint=f"`strandline moments drop {name}` lets it go; or choose another name.",
            )
        folder.remove()  # what a kill has left
        known = sources(tables, lake)
        parts = {each: known[each] for each in moment.versions if each in known}
        pins = {part.place: moment.versions[each] + 1 for each, part in parts.items()}
        try:
            with pin_versions(lake.root, pins):
                for each, part in parts.items():
                    _keep(each, part, lake, moment, folder)
            keep_files(folder.files(), within=folder)  # before the file that makes it one
            (folder / ABOUT).put(json.dumps(_about(moment, until), indent=1))
        except Exception:
            folder.remove()
            raise
    return _there(lake, name)


def _about(moment: Moment, until: str) -> dict[str, Any]:
    return {
        **moment.record(),
        "at": moment.at.isoformat(),
        "number": moment.number,
        "until": until,
        "lost": dict(moment.lost),
    }


def _there(lake: Lake, name: str) -> Moment:
    found = find_named(lake, name)
    if found is None:
        known = ", ".join(each.name for each in named(lake))
        raise DefinitionError(
            f"there is no moment {name} in {lake.root}",
            hint=f"those with a name are {known}." if known else "none has a name.",
        )
    return found


def _keep(name: str, part: Source, lake: Lake, moment: Moment, folder: Place) -> None:
    """Keep a table of a moment, or the open rows of a quarantine."""
    version, to = moment.versions[name], place_of(folder, name)
    if part.is_quarantine and part.table is not None:
        decided = moment.version(f"resolutions.{part.table.name}")
        duck = session()
        offer(duck, "records", part.table, lake, (version, -1 if decided is None else decided))
        rows = duck.execute(
            f"SELECT * EXCLUDE (_state) FROM records WHERE _state = '{State.OPEN}'"  # noqa: S608  # no user's text
        ).to_arrow_table()
        write_rows(to, rows)
        return
    refuse_deleted_files(part.place, name, version)
    found = live_files(part.place, version)
    for path in found.files:
        file = unquote(path)
        if not link(part.place / file, to / file):
            (part.place / file).copy(to / file)
    commit_file(to, 0).create(_log(part.place, version, found.files.values()))


def _log(path: Place, version: int, files: Collection[Mapping[str, Any]]) -> str:
    """Return the one commit of a table with the files of a version of another."""
    table = opened(path, version)
    about, rules = table.metadata(), table.protocol()
    protocol: dict[str, Any] = {
        "minReaderVersion": rules.min_reader_version,
        "minWriterVersion": rules.min_writer_version,
    }
    if rules.reader_features is not None:
        protocol["readerFeatures"] = [*rules.reader_features]
    if rules.writer_features is not None:
        protocol["writerFeatures"] = [*rules.writer_features]
    metadata = {
        "id": about.id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": table.schema().to_json(),
        "partitionColumns": [*about.partition_columns],
        "configuration": {},
    }
    lines = [{"protocol": protocol}, {"metaData": metadata}]
    lines += [{"add": {**each, "dataChange": True}} for each in files]
    return "\n".join(json.dumps(line) for line in lines) + "\n"


def drop(lake: Lake, name: str) -> None:
    """Let a moment go; what it says of itself first, so that a half of it is none.

    Raises:
        DefinitionError: There is none of the name.
    """
    kept = _there(lake, name).kept
    assert kept is not None  # noqa: S101  # for mypy
    with hold(lake.root / FOLDER / LOCK):
        (kept / ABOUT).remove_file()
        kept.remove()


def remove_half(lake: Lake) -> None:
    """Remove what a kill has left of moments with a name, which no reader sees, and whose room would never be free again."""
    folder = lake.root / FOLDER / NAMED
    if all((folder / name / ABOUT).is_file() for name in folder.names()):
        return
    with hold(lake.root / FOLDER / LOCK):
        for name in folder.names():
            if not (folder / name / ABOUT).is_file():
                (folder / name).remove()


def drop_due(lake: Lake, now: datetime) -> list[str]:
    """Let the moments go whose time is over; return their names."""
    due = [
        each.name
        for each in named(lake)
        if each.until and datetime.fromisoformat(each.until) <= now
    ]
    for name in due:
        drop(lake, name)
    return due


def forget_in(lake: Lake, names: Collection[str], at: datetime) -> dict[str, list[str]]:
    """Keep tables no more in moments that have a name, because a request to forget has touched them; return which, by moment."""
    gone: dict[str, list[str]] = {}
    # One that is being kept meanwhile has rows of before, and is in no list yet.
    with hold(lake.root / FOLDER / LOCK):
        for moment in named(lake):
            if moment.kept is None:
                continue
            lost = [each for each in names if place_of(moment.kept, each).exists()]
            if not lost:
                continue
            why = f"a request to forget has gone through it on {at:%Y-%m-%d}"
            if moment.versions:  # what is torn says nothing that would be wrong
                about = json.loads((moment.kept / ABOUT).text() or "{}")
                about["lost"] |= dict.fromkeys(lost, why)
                (moment.kept / ABOUT).put(json.dumps(about, indent=1))
            for each in lost:
                place_of(moment.kept, each).remove()
            gone[moment.name] = lost
    return gone


def refuse_unreadable(moment: Moment, lake: Lake) -> None:
    """Refuse a moment of which a version can be read no more, as far as logs and maintenance say; one with a name keeps its own.

    Raises:
        DefinitionError: It cannot.
    """
    for name, version in moment.versions.items() if moment.kept is None else ():
        first = readable_from(place_of(lake.root, name))
        if 0 <= version < first:
            gone = DefinitionError(
                f"of {name} the versions from {first:,} on are there, and it has {version:,}",
                hint="",
                table=name,
            )
            raise unreadable(moment, gone)


# A moment in a snapshot: which version of each table, with the books that go no further.


def versions_at(table: Table, lake: Lake, moment: Moment) -> dict[Place, int]:
    """Return the version of a table at a moment, and those of its quarantine and of the decisions about it; -1 for none.

    Raises:
        DefinitionError: The lake has one of them no more. A moment with a name keeps rows, and no ledger.
    """
    if not table_id(lake.table(table)).startswith(moment.ids.get(table.id, "")):
        raise DefinitionError(
            f"{moment} is of before {table.id} was made anew",
            hint="take a later one: `strandline moments` lists them.",
            table=table.id,
        )
    names = (table.id, f"quarantine.{table.name}", f"resolutions.{table.name}")
    found: dict[Place, int] = {}
    for name, path in zip(names, lake.books(table), strict=False):
        version = moment.version(name)
        found[path] = -1 if version is None else version
        if version is not None and version >= 0:
            try:
                refuse_deleted_files(path, name, version)
            except DefinitionError as error:
                raise unreadable(moment, error) from error
    return found


def hold_books(versions: Mapping[Place, int], held: Held) -> None:
    """Hold the closed books that go no further than versions; without them a reader adds the entries up himself."""
    for path, version in versions.items():
        if snapshot(path).sums.version <= version:
            freeze_copy(snapshot_file(path), held)
        freeze_copy(swept_file(path), held)
