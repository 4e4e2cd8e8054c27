"""Plan the import of a file: how many records it has, when they arrived, and how many of them came before.

A file is known by its name or by its bytes, and its records are those of one topic: imported as records of a second one,
each event would count twice.
"""

from dataclasses import dataclass, replace

from jobs.core.errors import DataError, DefinitionError
from jobs.core.parse import parse_json
from jobs.core.parse_csv import parse_csv
from jobs.core.table import Ingested
from jobs.core.topic import Topic
from jobs.engine.repair.closed_range import Span
from jobs.engine.storage.history_file import Format, HistoryFile
from jobs.engine.storage.import_marks import part_of_imports
from jobs.engine.storage.import_notes import ImportNote, ImportNotes
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger_snapshot import sums_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an import of a file would do, or what there is left to do.

    Args:
        file: The file, to read it.
        note: What is known of it.
        done: How many of its records are committed.
        copy_of: The file with the same bytes that was imported before under another name.
    """

    file: HistoryFile
    note: ImportNote
    done: int
    copy_of: str | None = None

    @property
    def left(self) -> int:
        """Return how many records are to be committed."""
        return 0 if self.copy_of else self.note.rows - self.done

    @property
    def span(self) -> Span:
        """Return the range of the arrivals."""
        return Span.of_micros(self.note.oldest * 1000, self.note.newest * 1000)


def refuse_unlike(file: HistoryFile, topic: Topic) -> None:
    """Refuse a file whose records are no payloads of a topic.

    Raises:
        DefinitionError: The topic's payloads have another format.
    """
    is_csv, is_json = topic.parse is parse_csv, topic.parse is parse_json
    kind = file.format
    fits = is_json if kind is Format.PARQUET else is_csv == (kind is Format.CSV)
    if not fits:
        wanted = "lines of cells" if is_csv else "JSON" if is_json else "of a format of its own"
        raise DefinitionError(
            f"{file.place} is {kind}, and the payloads of topic {topic} are {wanted}",
            hint="write it again in the topic's format, for example with DuckDB: COPY (FROM 'a.csv') TO 'a.parquet'.",
            file=str(file.place),
            topic=topic.name,
        )


def unfinished_file(table: Ingested, lake: Lake) -> ImportNote | None:
    """Return the file whose import was interrupted after some of its rows were committed, if there is one."""
    newest = ImportNotes(table, lake).newest()
    if newest is None or not 0 < committed(table, lake, newest) < newest.rows:
        return None
    return newest


def planned(table: Ingested, topic: Topic, lake: Lake, file: HistoryFile) -> Plan:
    """Look what there is to import of a file; nothing is written. A file that was never imported is read once.

    Raises:
        DataError: It changed since it was imported, or cannot be read.
        DefinitionError: No record says when it arrived, or its records are no payloads of the topic.
    """
    refuse_unlike(file, topic)
    notes = ImportNotes(table, lake)
    known, mark = notes.of(file.place), file.fingerprint()
    done = committed(table, lake, known)
    if known and known.fingerprint != mark and done:
        raise DataError(
            f"{file.place} changed since {done:,} of its {known.rows:,} rows were imported",
            hint="imported rows stay as they were received; put new events into a file of another name.",
            file=str(file.place),
        )
    if known and done:
        _refuse_other_topic(file, topic, known)
        return Plan(file=replace(file, until=known.until), note=known, done=done)
    copy = notes.of_bytes(mark)
    if copy and (copied := committed(table, lake, copy)):
        _refuse_other_topic(file, topic, copy)
        return Plan(file=file, note=copy, done=copied, copy_of=copy.file)
    first = _reached(table, lake, topic.name)
    return Plan(file=file, note=_surveyed(file, topic, first, mark), done=0)


def committed(table: Ingested, lake: Lake, note: ImportNote | None) -> int:
    """Return how many records of a file are committed, by the offset that its own topic has reached."""
    return note.done(_reached(table, lake, note.topic)) if note else 0


def _refuse_other_topic(file: HistoryFile, topic: Topic, note: ImportNote) -> None:
    """Refuse to import the records of a file a second time, as those of another topic.

    Raises:
        DefinitionError: They were imported as those of another one.
    """
    if note.topic == topic.name:
        return
    same = f"{note.file} has the same bytes and" if note.file != str(file.place) else "its records"
    raise DefinitionError(
        f"{file.place} is not imported as records of {topic}: {same} came as those of {note.topic}",
        hint=f"a file has the records of one topic; --topic {note.topic} goes on with it.",
        file=str(file.place),
        topic=note.topic,
    )


def _surveyed(file: HistoryFile, topic: Topic, first: int, mark: str) -> ImportNote:
    rows, begins, oldest, newest = 0, None, 0, 0
    for record in file.records():
        rows += 1
        if record.arrived is not None:
            if begins is None:
                begins = oldest = newest = record.arrived
            oldest, newest = min(oldest, record.arrived), max(newest, record.arrived)
    if rows and begins is None:
        raise DefinitionError(
            f"none of the {rows:,} records of {file.place} has a moment in {file.column} at which it can have arrived",
            hint="name the field with the arrival: --arrived-at-column; the time of the event itself if there is none.",
            file=str(file.place),
        )
    return ImportNote(
        file=str(file.place),
        topic=topic.name,
        fingerprint=mark,
        first=first,
        rows=rows,
        column=file.column,
        header=file.header,
        begins=begins or 0,
        oldest=oldest,
        newest=newest,
        until=file.until,
    )


def _reached(table: Ingested, lake: Lake, topic: str) -> int:
    return sums_of(lake.table(table)).imported.get(part_of_imports(topic), 0)
