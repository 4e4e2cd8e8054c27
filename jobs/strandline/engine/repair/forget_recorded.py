"""Carry out a request to forget and write it down: by a hash, the tables that it concerned, and their versions after it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from strandline.engine.repair.forget import Forgetting, Part
from strandline.engine.repair.forget_request import Request
from strandline.engine.storage.forgotten import Forgotten, folder_of, keep, requests
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import is_table, latest_version
from strandline.engine.storage.ledger_snapshot import name_of


def carry_out(
    work: Forgetting,
    lake: Lake,
    request: Request,
    clock: Callable[[], datetime],
    found: Sequence[Part],
) -> Iterator[Part]:
    """Carry out what does not wait, and yield what went from each table.

    The record is there before the first row goes, so that a request that was killed is seen; where nothing was found, and no
    earlier record of it is open, none is written.

    Args:
        work: What was found.
        lake: The lake.
        request: The request.
        clock: The time.
        found: The parts of what was found.
    """
    concerned = {name_of(path): path for path in work.concerned()}
    known = _record(work, lake, request)
    is_open = known is not None and not known.is_done
    if not (is_open or any(part.rows for part in found)):
        return
    # One that was killed after its last row finds nothing any more, but its tables are written down.
    names = [
        *concerned,
        *(name for name in (known.versions if known else ()) if name not in concerned),
    ]
    record = Forgotten(
        mark=known.mark if known else request.mark(folder_of(lake, names[0])),
        begun_at=known.begun_at if known else clock().isoformat(),
        versions=dict.fromkeys(names, -1),
    )
    keep(lake, record)
    yield from work.carry_out(record.mark)
    versions = {name: latest_version(folder_of(lake, name)) for name in names}
    done_at = None if any(part.waits for part in found) else clock().isoformat()
    keep(lake, replace(record, versions=versions, done_at=done_at))


def _record(work: Forgetting, lake: Lake, request: Request) -> Forgotten | None:
    """Return what was written down of a request before.

    A record is named by the hash of one of its tables, and which table that was may have changed: a catalogue with a new first
    table looked for another name, and the interrupted request stayed open for ever, so that its history was never scrubbed.
    """
    known = requests(lake)
    tables = [lake.table(table) for table in work.tables]
    named = {name for each in known for name in each.versions}
    paths = [
        *tables,
        *(path for path in (folder_of(lake, name) for name in named) if is_table(path)),
    ]
    marks = {request.mark(path) for path in dict.fromkeys(paths)}
    found = [each for each in known if each.mark in marks]
    return min(found, key=lambda each: each.is_done, default=None)
