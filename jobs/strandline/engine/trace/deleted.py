"""What became of an event that retention or a request to forget deleted: by which commit, and when.

The row is gone, so the answer is taken from the ledger: what the commits deleted, and up to when.
"""

from collections.abc import Iterator
from datetime import datetime

from strandline.core.moment import shifted
from strandline.core.table import Judged, Table
from strandline.engine.storage.commit_time import committed_at
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry, is_table
from strandline.engine.storage.ledger_search import newest_first
from strandline.engine.storage.ledger_snapshot import sums_of
from strandline.engine.storage.log_actions import added
from strandline.engine.storage.place import Place
from strandline.engine.trace.verdict import Finding, Verdict, make_finding

Deletion = tuple[int, Entry, datetime]
"""The version of a commit that deleted rows, its entry, and when it was committed."""


def explain_deleted(
    table: Table, version: int, entry: Entry, at: datetime | None = None
) -> Finding:
    """Explain which commit deleted a row for good; a row that was forgotten on request is not shown."""
    when = f" on {at.isoformat(timespec='seconds')}" if at else ""
    if entry.forgotten:
        sentence = f"{table.id} deleted it on request{when}, in version {version}"
        return make_finding(
            table, Verdict.FORGOTTEN, sentence, version=version, request=entry.stream, at=at
        )
    sentence = f"{table.id} deleted what is older than {entry.until}{when}, in version {version}"
    return make_finding(table, Verdict.DELETED, sentence, version=version, until=entry.until, at=at)


def deleted_since(path: Place, version: int) -> Deletion | None:
    """Return the commit that deleted what a version of a table added; None when none can have.

    The first expiry that reaches beyond the oldest row of that version did it; else a request to forget.
    """
    lowest = added(path, version).lowest.get("_arrived_at")
    moment = datetime.fromisoformat(lowest) if lowest else None
    return _deletion(path, moment, version)


def expired_with(silver: Judged, arrived_at: datetime, version: int, lake: Lake) -> Deletion | None:
    """Return the commit that deleted the row of a record from silver; None when it would still be there.

    The event is at most so much older than its arrival as the table admits.
    """
    return _deletion(lake.table(silver), shifted(arrived_at, -silver.lateness.late), version)


def deletions(table: Table, lake: Lake) -> Iterator[str]:
    """Yield in words what was deleted of a table and of what it reads, so that an event is not taken for one that never was."""
    for each in (*table.upstream, table):
        sums = sums_of(lake.table(each))
        if sums.expired:
            yield f"retention deleted {sums.expired:,} rows of {each.id} from before {sums.horizon}"
        if sums.forgotten:
            yield f"{sums.forgotten:,} rows of {each.id} were forgotten on request"


def _deletion(path: Place, moment: datetime | None, version: int) -> Deletion | None:
    if not is_table(path) or not sums_of(path).removed:
        return None
    found: tuple[int, Entry] | None = None
    forgot: tuple[int, Entry] | None = None
    for number, entry in newest_first(path):
        if number <= version:
            break
        if entry.forgotten:
            forgot = (number, entry)
        if not entry.expired:
            continue
        if moment is None or not entry.until or moment >= datetime.fromisoformat(entry.until):
            break
        found = (number, entry)
    best = found or forgot
    return None if best is None else (*best, committed_at(path, best[0]))
