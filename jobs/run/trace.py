"""One record on its way: the commit of bronze that took it in, the batch that read it, and where it went.

A copy's original is found without reading the payload's format: the copy carries the same key, so the key of the
original stands in its bytes, whether they are JSON, cells or Avro. The law of lateness says between which moments
both must lie, so the search is that of an hour and not of the table.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from jobs.core.received import IDENTITY, PLACE
from jobs.core.table import Table
from jobs.run.balance import in_force
from jobs.run.files import added, files_between
from jobs.run.lake import Lake
from jobs.run.ledger import (
    LOOKED_AGAIN,
    Entry,
    between,
    commit_file,
    entries,
    entry_of,
    latest_version,
)
from jobs.run.needle import Found, Where, look
from jobs.run.settled import standing

PLAIN = re.compile(r"[\w .:@-]+", re.ASCII)

RECENT = 20
"""So many batches make the pace of a table."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a record stands in Kafka."""

    topic: str
    partition: int
    offset: int

    @property
    def part(self) -> str:
        """Return the partition's name, as the ledger writes it."""
        return f"{self.topic}/{self.partition}"

    @property
    def where(self) -> dict[str, object]:
        """Return the columns that say so in a row."""
        return {"_topic": self.topic, "_partition": self.partition, "_offset": self.offset}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Spot":
        """Return where a row came from."""
        return cls(row["_topic"], row["_partition"], row["_offset"])

    def __str__(self) -> str:
        """Return it as it is typed."""
        return f"{self.part}/{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The commit of bronze in whose range an offset lies, and the record, unless there is none at the offset."""

    version: int
    entry: Entry
    record: Found | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Departed:
    """A row that a commit took out of its table."""

    version: int
    entry: Entry
    found: Found


def taken(bronze: Path, spot: Spot) -> Taken | None:
    """Return the commit that took an offset in; None when none did."""
    for version, entry in entries(bronze):
        start, end = entry.offsets.get(spot.part, (0, 0))
        if start <= spot.offset < end:
            files = [file for file in added(bronze, version).files if Path(file).exists()]
            kept = files or None  # written anew since, into others
            rows = look(bronze, Where(equal=spot.where), among=kept)
            return Taken(version=version, entry=entry, record=rows[0] if rows else None)
    return None


def reach(bronze: Path, spot: Spot) -> tuple[int, int] | None:
    """Return the first offset of a partition that bronze took in, and the one after the last."""
    told = [e.offsets[spot.part] for _, e in entries(bronze) if spot.part in e.offsets]
    return (told[0][0], told[-1][1]) if told else None


def reader(table: Path, source: Table, version: int) -> tuple[int, Entry] | None:
    """Return the batch of a table that read a version of its source; None when none has yet."""
    for number, entry in in_force(list(entries(table))):
        first, last = entry.versions.get(source.id, (0, -1))
        if version <= last and (version >= first or entry.whole or entry.replaced):
            return number, entry
    return None


def behind(source: Path, first: int) -> int:
    """Return how many rows were appended to a table from a version on."""
    return sum(entry.appended for entry in between(source, first, latest_version(source)))


def pace(table: Path) -> float | None:
    """Return how many rows a second a table has read of late, while it ran; None when it never has."""
    told = [e for _, e in entries(table) if not e.is_passed_over and e.read and e.duration_ms]
    recent = told[-RECENT:]
    seconds = sum(entry.duration_ms for entry in recent) / 1000
    return sum(entry.read for entry in recent) / seconds if recent else None


def version_of(table: Path, file: Path) -> int | None:
    """Return the version that put a file into its table."""
    for version in range(latest_version(table), -1, -1):
        text = commit_file(table, version).read_text()
        if file.name in text and str(file) in added(table, version).files:
            return version
    return None


def came_in(table: Table, path: Path, row: Found) -> int | None:
    """Return the version in which a row came, past the commits that only wrote it anew beside others."""
    names = PLACE if table.judges else (*table.key, str(table.event_at))
    same = Where(equal={name: row.row[name] for name in names})
    while True:
        version = version_of(path, row.file)
        entry = entry_of(commit_file(path, version)) if version else None
        if not version or entry is None or not (entry.is_passed_over or entry.replaced):
            return version
        before = look(path, same, names, version=version - 1)
        if not before:
            return version
        row = before[0]


def silver_row(silver: Table, lake: Lake, record: Mapping[str, Any]) -> Found | None:
    """Return the row that a record of bronze has become."""
    return next(iter(look(lake.table(silver), _same(record))), None)


def held(silver: Table, lake: Lake, record: Mapping[str, Any]) -> Found | None:
    """Return what the quarantine still holds of a record."""
    kept = look(lake.quarantine(silver), _same(record))
    return next(reversed(standing(silver, lake, kept)), None)


def _same(record: Mapping[str, Any]) -> Where:
    at = record["_arrived_at"]
    return Where(equal=Spot.of(record).where, within={"_arrived_at": (at, at)})


def original(silver: Table, lake: Lake, record: Mapping[str, Any]) -> Found | None:
    """Return the row of which a record is a copy: the same key and event time."""
    at, moment = record["_arrived_at"], str(silver.event_at)
    law, payload = silver.lateness, record["_payload"] or b""
    rows = look(
        lake.table(silver),
        Where(
            within={moment: (at - law.late, at + law.early)},
            named=(silver.key, payload),
        ),
        dict.fromkeys((*silver.key, moment, *IDENTITY)),
    )
    told = [row for row in rows if all(names(payload, str(row.row[n])) for n in silver.key)]
    return min(told, key=lambda each: _unlike(each.row, silver, payload), default=None)


def _unlike(row: Mapping[str, Any], silver: Table, payload: bytes) -> tuple[bool, bool, int]:
    """Tell how little a row is what a payload says, as far as that can be read; a longer key says more."""
    told = said(payload)
    same_key = all(str(told.get(name)) == str(row[name]) for name in silver.key)
    same_time = _moment(told.get(str(silver.event_at))) == row[str(silver.event_at)]
    return not same_key, not same_time, -sum(len(str(row[name])) for name in silver.key)


def tells(payload: bytes, key: Sequence[str]) -> bool:
    """Tell whether a payload can be read far enough to see the fields of a key in it."""
    return all(name in said(payload) for name in key)


def has_another(payload: bytes, key: Mapping[str, object]) -> bool:
    """Tell whether a payload says that its key is another one, and only mentions this one elsewhere."""
    fields = said(payload)
    both = [(fields.get(name), value) for name, value in key.items()]
    return any(
        isinstance(there, str)
        and isinstance(here, str)
        and there.strip().casefold() != here.strip().casefold()
        for there, here in both
    )


def said(payload: bytes) -> Mapping[str, Any]:
    """Return the fields of a payload that is JSON; none of any other."""
    try:
        fields = json.loads(payload)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None


def names(payload: bytes, key: str) -> bool:
    """Tell whether a key stands in a payload as a word; Avro writes a text's length before it, and nothing behind."""
    text = key.encode()
    word = re.escape(text)
    by_length = re.escape(bytes([min(2 * len(text), 255)]))
    return re.search(rb"(?<![\w-])" + word + rb"(?![\w-])|" + by_length + word, payload) is not None


def naming(path: Path, key: Sequence[str], among: Collection[str] | None = None) -> list[Found]:
    """Return the records whose payloads name a key, in all of a table or in some of its files."""
    rows = look(path, Where(names={"_payload": _plainest(key)}), among=among)
    forms = [(part, json.dumps(part)[1:-1]) for part in key]
    return [
        row
        for row in rows
        if all(any(names(row.row["_payload"], one) for one in form) for form in forms)
    ]


def _plainest(key: Sequence[str]) -> str:
    """Return the longest piece of a key that every writer of JSON writes alike; others may be escaped."""
    return max((piece for part in key for piece in PLAIN.findall(part)), key=len, default="")


def departed(table: Path, where: Where) -> Departed | None:
    """Return a row that is there no longer, with the commit that put others in its place."""
    for version, entry in reversed(list(entries(table))):
        takes_away = entry.is_passed_over or entry.replaced
        if (
            not takes_away or entry.mode == LOOKED_AGAIN
        ):  # which keeps every row, with other words beside it
            continue
        _, went = files_between(table, version, version)
        left = {file for file in went if Path(file).exists()}
        rows = look(table, where, version=version - 1, among=left) if left else []
        # A file is rewritten whole, and most of its rows stay.
        stay = [each.row for each in look(table, where, version=version)] if rows else []
        rows = [each for each in rows if each.row not in stay]
        if rows:
            return Departed(version=version, entry=entry, found=rows[0])
    return None


def unread(source: Path, first: int) -> list[str]:
    """Return the files that were added to a table from a version on."""
    return [
        file
        for version in range(first, latest_version(source) + 1)
        for file in added(source, version).files
    ]
