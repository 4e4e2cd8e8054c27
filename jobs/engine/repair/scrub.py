"""Scrub the history behind requests to forget: after it, no file of a lake holds what was forgotten.

A request deletes rows from the latest version of each table. Earlier versions, the statistics of their files and the checkpoints
of the log still hold them, for readers that are under way. After a while that is longer than any of these, the history of the
tables up to the request goes (jobs/engine/storage/scrub_log.py). A promotion from before it cannot be undone any more.

Nothing here knows whom a request was about: the lake wrote down which tables it concerned and up to which version.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pyspark.sql import SparkSession

from jobs.engine.storage.forgotten import Forgotten, folder_of, keep, requests
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import is_table, latest_version
from jobs.engine.storage.scrub_log import scrub_log

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
    for name, version in until.items():
        path = folder_of(lake, name)
        if is_table(path):
            last = min(version, latest_version(path))
            files, commits = scrub_log(spark, path, last)
            yield Scrubbed(table=name, until=last, files=files, commits=commits)
    for request in waiting:
        keep(lake, replace(request, scrubbed_at=now.isoformat()))
