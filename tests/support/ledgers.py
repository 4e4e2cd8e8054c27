"""Logs that hold ledger entries and no files, written directly, so that a long history takes no time."""

import json
from collections.abc import Iterator, Sequence
from random import Random
from uuid import uuid4

from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.place import Place
from tests.engine.written import BRONZE, GOLD, SILVER, entry
from tests.support import lakes

METADATA = {
    "format": {"provider": "parquet", "options": {}},
    "schemaString": '{"type":"struct","fields":[]}',
    "partitionColumns": [],
    "configuration": {},
}
RANGE = {"since": "2026-11-20", "until": "2026-11-21"}
Log = Sequence[Entry | None]
"""The entries of a table's commits; None is a commit of maintenance."""


def write_log(path: Place, log: Log, first: int = 0) -> None:
    """Write a commit for each entry, from a version on."""
    commit_file(path, 0).parent.make()
    for version, each in enumerate(log, first):
        info = {"timestamp": 1_780_000_000_000 + version, "operation": "WRITE"}
        info |= {"userMetadata": each.encoded()} if each else {}
        actions: list[dict[str, object]] = [{"commitInfo": info}]
        if version == 0:
            actions.append({"metaData": {"id": str(uuid4()), **METADATA}})
            actions.append({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
        lines = (json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
        lakes.write(commit_file(path, version), lines)


def histories(commits: int, random: Random, repairs: float = 0.15) -> dict[Table, Log]:
    """Return the entries of bronze, silver and gold: batches, backfills, promotions, undone ones, and maintenance.

    Args:
        commits: Batches of bronze.
        random: Decides.
        repairs: The share of batches of the others that a backfill or a replay follows.
    """
    bronze = [*_taken_in(commits, random)]
    silver = [*_read(SILVER, BRONZE, bronze, random, repairs)]
    return {BRONZE: bronze, SILVER: silver, GOLD: [*_read(GOLD, SILVER, silver, random, repairs)]}


def made(lake: Lake, logs: dict[Table, Log]) -> None:
    """Write the logs of tables."""
    for table, log in logs.items():
        write_log(lake.table(table), log)


def _taken_in(commits: int, random: Random) -> Iterator[Entry | None]:
    offset = 0
    for batch in range(commits):
        rows = random.randint(1, 9)
        offsets = {"x/0": (offset, offset + rows)}
        yield entry(BRONZE, batch=batch, offsets=offsets, read=rows, good=rows, written=rows)
        offset += rows
        if random.random() < 0.1:
            yield None


def _read(
    table: Table, source: Table, log: Log, random: Random, repairs: float
) -> Iterator[Entry | None]:
    """Yield the entries of a table that reads another batch by batch."""
    version = batch = read = 0
    while version < len(log):
        last = min(len(log) - 1, version + random.randint(0, 3))
        rows = sum(each.appended for each in log[version : last + 1] if each)
        read += rows
        yield _settled(table, source, batch, (version, last), rows, random)
        version, batch = last + 1, batch + 1
        if random.random() < repairs:
            yield _repaired(table, batch, random)
        if random.random() < 0.05:
            mark = random.choice(["m", "undo m"])
            yield _promoted(table, source, batch, last, read, mark)
        if random.random() < 0.1:
            yield None


def _settled(  # noqa: PLR0913, PLR0917  # a test's own values
    table: Table, source: Table, batch: int, versions: tuple[int, int], rows: int, random: Random
) -> Entry:
    held, copies = random.randint(0, rows // 3), random.randint(0, rows // 3)
    good = rows - held - copies
    return entry(
        table,
        batch=batch,
        versions={source.id: versions},
        read=rows,
        good=good,
        duplicates=copies,
        quarantined={random.choice(["late", "malformed"]): held},
        written=good,
    )


def _repaired(table: Table, number: int, random: Random) -> Entry:
    came = random.randint(0, 3)
    fields = {"came": came, "good": came, "duplicates": -came, "written": came + 2}
    mode = random.choice(["backfill", "replay"])
    return entry(table, mode=mode, stream=f"repair {number}", **RANGE, **fields)


def _promoted(  # noqa: PLR0913, PLR0917  # a test's own values
    table: Table, source: Table, batch: int, last: int, read: int, mark: str
) -> Entry:
    return entry(
        table,
        batch=batch,
        versions={source.id: (0, last)},
        read=read,
        good=read,
        written=read,
        replaced=True,
        promoted=mark,
    )
