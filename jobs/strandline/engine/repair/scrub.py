"""Scrub the history behind requests to forget: after it, no file of a lake holds what was forgotten.

A request deletes rows from the latest version of each table. Earlier versions, the statistics of their files and the checkpoints
of the log still hold them, for readers that are under way. After a while that is longer than any of these, the history of the
tables up to the request goes (jobs/strandline/engine/lake/forgotten.py). A promotion from before it cannot be undone any more.

A rebuild that began before a request has read what is gone, and waits to be promoted; it is removed.

Nothing here knows whom a request was about: the lake wrote down which tables it concerned and up to which version.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pyspark.sql import SparkSession
from strandline import catalog

from strandline.core.errors import TransientError
from strandline.core.table import Table
from strandline.engine.flow.readers import How, readers
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.forgotten import Forgotten, folder_of, keep, requests, scrub_log
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_passed_over, is_table, latest_version
from strandline.engine.lake.read.table_versions import pins
from strandline.engine.lake.retired import let_go, retired
from strandline.engine.repair.rebuild import remove_outdated, remove_put_away, remove_shadow

AFTER = timedelta(hours=1)
"""How long the history stays for readers that began before the request; a query takes seconds, a batch minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubbed:
    """A table whose history was scrubbed.

    Args:
        table: Its name.
        until: The version up to which.
        files: Data files that were deleted.
        commits: Commits from whose statistics texts were dropped.
    """

    table: str
    until: int
    files: int
    commits: int


def due(lake: Lake, now: datetime, after: timedelta = AFTER) -> list[Forgotten]:
    """Return the requests whose history can be scrubbed."""
    return [request for request in requests(lake) if request.is_due(now - after)]


def scrub(
    spark: SparkSession, lake: Lake, now: datetime, after: timedelta = AFTER
) -> Iterator[Scrubbed]:
    """Scrub the history behind the requests that are due; repeated after a kill it goes on.

    Raises:
        TransientError: A stream, or a work that reads versions by their numbers, still needs it; or a rebuild is under way.

    Args:
        spark: The session.
        lake: The lake.
        now: The time.
        after: How long ago a request must have been carried out.
    """
    waiting = due(lake, now, after)
    until: dict[str, int] = {}
    for request in waiting:
        for name, version in request.versions.items():
            until[name] = max(version, until.get(name, -1))
    # First: what is removed reads nothing any more.
    yield from _without_shadows(lake, until)
    refuse_needed(lake, until)
    _let_go(lake, until)
    for name, version in until.items():
        path = folder_of(lake, name)
        if is_table(path):
            last = min(version, latest_version(path))
            files, commits = scrub_log(spark, path, last)
            yield Scrubbed(table=name, until=last, files=files, commits=commits)
    for table in catalog.tables():
        if remove_put_away(table, lake):
            yield Scrubbed(table=f"the undo of {table.id}", until=-1, files=1, commits=0)
    for request in waiting:
        keep(lake, replace(request, scrubbed_at=now.isoformat()))


def _without_shadows(lake: Lake, until: Mapping[str, int]) -> Iterator[Scrubbed]:
    """Remove the rebuilds that began before a request, and those of retired tables, which nothing lets read on."""
    ended = {table.id for table in _ended(lake)}
    needing = {
        each.table
        for each in readers(lake)
        if each.how is How.REBUILD and each.table in ended and any(_unread(lake, each.needs, until))
    }
    for table in catalog.tables():
        if remove_outdated(table, lake) or (table.id in needing and remove_shadow(table, lake)):
            yield Scrubbed(table=f"the rebuild of {table.id}", until=-1, files=1, commits=0)


def refuse_needed(lake: Lake, until: Mapping[str, int]) -> None:
    """Refuse to delete a history that is still read; what only an undo, or a retired table, would read is no reason.

    Raises:
        TransientError: It is needed.
    """
    ended = {table.id for table in _ended(lake)}
    readers_of = [
        (each.table, each.needs)
        for each in readers(lake)
        if each.how is How.REBUILD or (each.how is not How.UNDO and each.table not in ended)
    ]
    for who, versions in (*readers_of, *_pinned(lake)):
        for name, version, first in _unread(lake, versions, until):
            raise TransientError(
                f"{who} still reads {name} from version {first:,} on, and its history up to {version:,} is to be "
                "scrubbed",
                hint="let it read on (`strandline run`), then type the same again.",
                table=name,
            )


def _let_go(lake: Lake, until: Mapping[str, int]) -> None:
    """Keep nothing any more for the retired tables that have not read what is to be scrubbed: taken back, they would miss it."""
    needing = {each.table for each in readers(lake) if any(_unread(lake, each.needs, until))}
    for table in _ended(lake):
        if table.id in needing:
            let_go(table, lake)


def _ended(lake: Lake) -> list[Table]:
    known = retired(lake)
    return [table for table in catalog.tables() if table.id in known]


def _unread(
    lake: Lake, versions: Mapping[str, int], until: Mapping[str, int]
) -> Iterator[tuple[str, int, int]]:
    """Yield what a reader needs of what is to be scrubbed: the table, the version up to which it is, the first that it reads."""
    for name, version in until.items():
        first = _next_read(folder_of(lake, name), versions.get(name, version + 1))
        if first <= version:
            yield name, version, first


def _pinned(lake: Lake) -> Iterator[tuple[str, Mapping[str, int]]]:
    for pin in pins(lake.root):
        since = f", since {pin.since}" if pin.since else ""
        yield f"a verification ({pin.who}{since})", pin.versions


def _next_read(path: Place, version: int) -> int:
    """Return the first version from one on whose rows a stream reads; it passes over repairs, and over the request itself."""
    while is_passed_over(path, version):
        version += 1
    return version
