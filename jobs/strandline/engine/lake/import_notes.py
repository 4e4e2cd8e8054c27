"""What is known of the files that were imported into a bronze table: one small file for each, found by its name or its bytes.

A file is read once before anything is committed, to know that it can be read, and what there is of it is kept as a draft.
A note is written before the first row of its file is committed: the hash of the bytes, how many records there are, and the
offset at which they begin. How many of them are committed is never written down beside the ledger: it follows from the
offset that the table's ledger has reached. So a process that is killed anywhere leaves nothing that could disagree, and a
file that changed, or that has the bytes of another one, is found by reading one note and not those of all files.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from strandline.core.kind import in_utc
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import IMPORT, Entry, part_of_imports
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import END_OF_TIME

FOLDER = "_imports"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportNote:
    """A file whose rows are, or become, rows of a bronze table.

    Args:
        file: Its address.
        topic: The topic whose records it has.
        fingerprint: The hash of its bytes.
        first: The offset of its first record.
        rows: How many records it has.
        column: Where a record has its arrival.
        header: Whether its first line names the cells.
        begins: The arrival of records before the first that says one, in milliseconds since 1970.
        oldest: The oldest arrival.
        newest: The newest arrival.
        stamp: What would have changed if the file had been written since (jobs/strandline/engine/lake/place.py); a file of the
            same stamp is not read again. A file that is written twice within the resolution of its clock, with as many
            bytes, would go unnoticed.
        given_up: How many more records it had when the rest of it was given up.
        until: When the file was looked at; a later arrival is none. It is kept, so that the rest of an interrupted file is
            read as its begin was.
    """

    file: str
    topic: str
    fingerprint: str
    first: int
    rows: int
    column: str
    header: bool
    begins: int
    oldest: int
    newest: int
    stamp: str = ""
    given_up: int = 0
    until: int = END_OF_TIME

    def done(self, reached: int) -> int:
        """Return how many of its records are committed, given the offset that the ledger has reached."""
        return min(max(reached - self.first, 0), self.rows)


class ImportNotes:
    """The notes of a bronze table."""

    def __init__(self, table: Table, lake: Lake) -> None:
        """Read nothing yet."""
        self._folder = notes_of(table, lake)

    def of(self, file: Place) -> ImportNote | None:
        """Return the note of a file; None where it was never imported."""
        return _read(self._folder / "files" / f"{_hash(str(file))}.json")

    def of_bytes(self, fingerprint: str) -> ImportNote | None:
        """Return the note of a file with the same bytes."""
        return _read(self._folder / "bytes" / f"{fingerprint}.json")

    def draft_of(self, file: Place) -> ImportNote | None:
        """Return what was found in a file that is not imported yet."""
        return _read(self._draft(file))

    def newest(self) -> ImportNote | None:
        """Return the note that was written last."""
        return _read(self._folder / "newest.json")

    def write(self, note: ImportNote) -> None:
        """Write a note, and name it as the newest; each of these files is whole or not there."""
        text = json.dumps(asdict(note), indent=1)
        (self._folder / "newest.json").put(text)
        (self._folder / "bytes" / f"{note.fingerprint}.json").put(text)
        (self._folder / "files" / f"{_hash(note.file)}.json").put(text)
        self._draft(Place.of(note.file)).remove_file()

    def keep_draft(self, note: ImportNote) -> None:
        """Write down what was found in a file, before anything of it is imported."""
        self._draft(Place.of(note.file)).put(json.dumps(asdict(note), indent=1))

    def know(self, file: Place, note: ImportNote) -> None:
        """Write down that a file has the bytes of a note; the note may be that of a file of another name."""
        (self._folder / "files" / f"{_hash(str(file))}.json").put(
            json.dumps(asdict(note), indent=1)
        )
        self._draft(file).remove_file()

    def _draft(self, file: Place) -> Place:
        return self._folder / "drafts" / f"{_hash(str(file))}.json"

    def forget(self, note: ImportNote) -> None:
        """Remove the note of a file of which nothing was committed."""
        (self._folder / "files" / f"{_hash(note.file)}.json").remove_file()
        (self._folder / "bytes" / f"{note.fingerprint}.json").remove_file()
        (self._folder / "newest.json").remove_file()


def notes_of(table: Table, lake: Lake) -> Place:
    """Return the folder with the notes of a bronze table."""
    return lake.root / FOLDER / table.name


def reached(table: Table, lake: Lake, topic: str) -> int:
    """Return the offset that the imported rows of a topic have reached."""
    return sums_of(lake.table(table)).imported.get(part_of_imports(topic), 0)


def committed(table: Table, lake: Lake, note: ImportNote | None) -> int:
    """Return how many records of a file are committed, by the offset that its own topic has reached."""
    return note.done(reached(table, lake, note.topic)) if note else 0


def unfinished_file(table: Table, lake: Lake) -> ImportNote | None:
    """Return the file whose import was interrupted after some of its rows were committed, if there is one."""
    newest = ImportNotes(table, lake).newest()
    if newest is None or not 0 < committed(table, lake, newest) < newest.rows:
        return None
    return newest


def note_begun(table: Table, lake: Lake, what: Place) -> None:
    """Write down, before its first record is committed, the file or the folder with which streams are to begin.

    What was begun before and left half is not forgotten for it, unless nothing of it was committed.
    """
    if begun_import(table, lake) is None or not sums_of(lake.table(table)).history:
        _begun(table, lake).put(json.dumps({"from": str(what)}))


def begun_import(table: Table, lake: Lake) -> str | None:
    """Return the file or the folder of which an import has perhaps committed a part only; None where there is none.

    Of a folder whose first file is whole no note of a file says that another one was to follow.
    """
    text = _begun(table, lake).text()
    return str(json.loads(text)["from"]) if text else None


def note_ended(table: Table, lake: Lake, what: Place | None = None) -> None:
    """Write down that all of it is committed, or with nothing named that the rest of what was begun does not come."""
    if what is None or begun_import(table, lake) == str(what):
        _begun(table, lake).remove_file()


def _begun(table: Table, lake: Lake) -> Place:
    return notes_of(table, lake) / "begun.json"


def origin(table: Table, lake: Lake, entry: Entry, offset: int) -> dict[str, object]:
    """Return the file of an imported row, by the entry of its commit, and the number of the row in it, from 1."""
    note = ImportNotes(table, lake).of_bytes(entry.stream.removeprefix(f"{IMPORT} "))
    row = {"row": offset - note.first + 1} if note else {}
    return {"file": entry.source, **row}


def range_to_follow(table: Table, lake: Lake) -> tuple[str, str] | None:
    """Return the range in which an import changed a judged table, and the tables above were not computed again yet."""
    text = range_file(table, lake).text()
    return (str(json.loads(text)["since"]), str(json.loads(text)["until"])) if text else None


def note_range(table: Table, lake: Lake, since: str, until: str) -> None:
    """Write down, before a range of a judged table changes, that the tables above must follow."""
    known = range_to_follow(table, lake)
    reach = {"since": min(since, known[0]), "until": max(until, known[1])} if known else None
    range_file(table, lake).put(json.dumps(reach or {"since": since, "until": until}))


def forget_range(table: Table, lake: Lake) -> None:
    """Write down that the tables above have followed."""
    range_file(table, lake).remove_file()


def range_file(table: Table, lake: Lake) -> Place:
    """Return the file that names that range."""
    return lake.root / FOLDER / f"{table.id}.json"


def _read(file: Place) -> ImportNote | None:
    text = file.text()
    return ImportNote(**json.loads(text)) if text else None


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


# A backfill that the tables above have to follow: written down before its first commit, so that one that is killed between two tables
# says which of them have the rows of before.


TO_FOLLOW = "_moments/unfollowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToFollow:
    """A range of a table whose rows a backfill changes, or was to change, and the tables above that have not followed it.

    Args:
        table: The table.
        since: The start of the range, as text.
        until: Its end.
        after: The version of the table before.
        left: The version of each table that is to follow, before.
    """

    table: str
    since: str
    until: str
    after: int
    left: Mapping[str, int]

    def is_within(self, since: str | None, until: str | None) -> bool:
        """Return whether a range holds this one."""
        if since is None or until is None:
            return False
        texts = (self.since, self.until, since, until)
        begin, end, first, last = (in_utc(datetime.fromisoformat(each)) for each in texts)
        return first <= begin and end <= last


def backfills_to_follow(lake: Lake) -> list[ToFollow]:
    """Return the backfills of a lake that tables above have not followed."""
    folder = lake.root / TO_FOLLOW
    texts = ((folder / name).text() for name in folder.names())
    return [ToFollow(**each) for text in texts if text for each in json.loads(text)]


def to_follow_folder(lake: Lake) -> Place:
    """Return the folder that names them."""
    return lake.root / TO_FOLLOW


def note_to_follow(lake: Lake, found: ToFollow) -> None:
    """Write down that tables above have to follow a range; what was left of the same one is a part of it."""
    known = [each for each in backfills_to_follow(lake) if each.table == found.table]
    same = [each for each in known if each.is_within(found.since, found.until)]
    left = {**found.left}
    for each in same:
        left |= {name: min(at, left.get(name, at)) for name, at in each.left.items()}
    whole = replace(found, after=min(each.after for each in (found, *same)), left=left)
    _write_to_follow(lake, found.table, [*(each for each in known if each not in same), whole])


def note_followed(lake: Lake, table: str, span: tuple[str, str], above: str | None = None) -> None:
    """Write down that a table above has followed a range; all of them have when None."""
    known = [each for each in backfills_to_follow(lake) if each.table == table]
    done = [
        replace(each, left={n: at for n, at in each.left.items() if above not in {None, n}})
        if each.is_within(*span)
        else each
        for each in known
    ]
    _write_to_follow(lake, table, done)


def _write_to_follow(lake: Lake, table: str, known: list[ToFollow]) -> None:
    file, left = lake.root / TO_FOLLOW / f"{table}.json", [asdict(e) for e in known if e.left]
    if left:
        file.put(json.dumps(left, indent=1))
    else:
        file.remove()


# Where the slices of imports are in a table's log: one small file a slice, numbered in the order of the commits.
#
# An import is rare among the commits of a table, so a search of the log for the commit with an imported offset reads nearly
# all of it: 10,002 entries of a log with 10,000. The files here are as dense as the offsets: a number is found by halving,
# with two small files read for each doubling of their count.
#
# A file is written before its commit and names the newest version then. So it can lack no commit, whenever a process is
# killed, and the commit is one of the next versions. It is a hint: what it leads to is read from the log and compared, and
# where there is none (a lake of an older version) the log is searched.


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of imported rows, and where its commit is.

    Args:
        first: Its first offset.
        after: The newest version of the table before its commit.
    """

    first: int
    after: int


class ImportSlices:
    """The slices of one topic's imported rows in the commits of a table.

    Args:
        table: Where the table lies.
        part: The partition of the topic's imported rows.
    """

    def __init__(self, table: Place, part: str) -> None:
        """Read nothing yet."""
        root, name = table.parent.parent, f"{table.parent.name}.{table.name}"
        self._folder = root / FOLDER / "slices" / name / part

    def note(self, first: int, after: int) -> None:
        """Write down that the next commit has the rows from an offset on; one that was never made is replaced."""
        text = json.dumps(asdict(Slice(first, after)))
        (self._folder / f"{self._number_from(first)}.json").put(text)

    def of(self, offset: int) -> Slice | None:
        """Return the slice that an offset is in, or would be in; None where none is known."""
        number = self._number_from(offset + 1) - 1
        return self._read(number) if number >= 0 else None

    def before_run(self, first: int, version: int) -> int | None:
        """Return the version before a row of commits that are nothing but slices, which ends with a slice; None if unknown.

        A slice is committed behind the version that its note names, and before the note of the next slice. So where the
        versions of the notes grow by one, all commits between are slices.

        Args:
            first: The first offset of the last slice.
            version: Its version.
        """
        number = self._number_from(first)
        last = self._read(number)
        if last != Slice(first, version - 1):
            return None
        low, high, found = 0, number, last
        while low < high:
            middle = (low + high) // 2
            near = self._read(middle)
            if near is not None and last.after - near.after == number - middle:
                high, found = middle, near
            else:
                low = middle + 1
        return found.after

    def _number_from(self, offset: int) -> int:
        """Return the number of the first slice that begins at an offset or later; the next one where none does."""
        high = 1
        while self._is_before(high - 1, offset):
            high *= 2
        low = high // 2
        while low < high:
            middle = (low + high) // 2
            if self._is_before(middle, offset):
                low = middle + 1
            else:
                high = middle
        return low

    def _is_before(self, number: int, offset: int) -> bool:
        found = self._read(number)
        return found is not None and found.first < offset

    def _read(self, number: int) -> Slice | None:
        text = (self._folder / f"{number}.json").text()
        return Slice(**json.loads(text)) if text else None
