"""Numbers that are not what they were when their day was reported, and the moment of which the sums of a report are.

A report is read once, and what it says of a day is quoted. A backfill, a replay, a promotion or late events change that day
afterwards. So each report names the rows of gold of closed days that are otherwise since the last one.

It costs little: history knows of each commit the first time of its rows, so the commits are found that have to do with closed days,
and their files alone are compared (jobs/strandline/engine/ask/diff.py). Between two of them other commits bring rows of open days, or
put files together, which moves no row.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from strandline.core.errors import LakeError
from strandline.core.kind import in_utc
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting.history_queries import Past
from strandline.engine.ask.diff import compared, in_words, note_moved, repairs, row_key
from strandline.engine.ask.find_moment import Moment
from strandline.engine.ask.moments import LATEST, chosen
from strandline.engine.lake.duckdb_table import (
    Duck,
    File,
    Range,
    columns_of,
    files_changed_by,
    quoted,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import EXPIRE, Entry, entry_at, latest_version
from strandline.engine.lake.log.ledger_sums import EPOCH, MICROSECOND, place_of
from strandline.engine.lake.place import Place
from strandline.engine.proof.day_verdicts import begins
from strandline_quality.findings import AsOf, Revision

REPORT = re.compile(r"report-(?P<day>\d{4}-\d{2}-\d{2})\.html")
MADE_AT = re.compile(r'"made_at": ?"(?P<at>[^"]+)"')

MOST_COMMITS = 200
"""The commits of a table that are looked at; the newest of more."""

MOST_ROWS = 5_000_000
"""The rows of their files that are compared; of more the commits are named, and their rows not counted."""

LATE = "late events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """When days that are over were last seen.

    Args:
        at: When the last report of a day before was made; else when the judged day began.
        in_report: Whether there is a report, in which numbers were read: rows that come later to a day are then a change of it.
    """

    at: datetime
    in_report: bool


def last_seen(lake: Lake, day: date) -> Seen:
    """Return when the days before a day were last reported; when it began, where they never were."""
    folder = lake.report(day.isoformat()).parent
    names = (REPORT.fullmatch(name) for name in folder.names())
    days = [each["day"] for each in names if each and each["day"] < day.isoformat()]
    text = lake.report(max(days)).text() if days else None
    found = MADE_AT.search(text) if text else None
    try:
        at = in_utc(datetime.fromisoformat(found["at"])) if found else None
    except ValueError:  # a page that a person has edited
        at = None
    return Seen(at=begins(day), in_report=False) if at is None else Seen(at=at, in_report=True)


def newest_moment(lake: Lake, tables: Sequence[Table]) -> Moment | None:
    """Return the newest moment; None where there is none, for which no report fails."""
    try:
        return chosen(LATEST, (), tables, lake)
    except LakeError:
        return None


def as_of(moment: Moment, lake: Lake) -> AsOf:
    """Return what a report says of a moment that was found before its sums were read."""
    versions = {name: latest_version(place_of(lake.root, name)) for name in moment.ids}
    return AsOf(
        moment=moment.number or None,
        at=moment.at.isoformat(timespec="milliseconds"),
        beyond=tuple(name for name, each in versions.items() if each != moment.versions[name]),
        behind=tuple(moment.behind),
    )


def revisions(lake: Lake, tables: Sequence[Table], past: Past, seen: Seen) -> Iterator[Revision]:
    """Yield for each table of gold the rows of closed days that are not what they were."""
    derived = [table for table in tables if not isinstance(table, Ingested | Judged)]
    closed = [(table, _closed(table, seen)) for table in derived]
    versions = past.versions_into_of(closed, seen.at)
    for table in derived:
        if not versions[table.id]:
            continue
        try:
            found = _Revised(table, lake, past, seen).found()
        except LakeError:  # a table that is damaged, of which its findings say so
            continue
        if found is not None:
            yield found


def _closed(table: Table, seen: Seen) -> datetime:
    """Return the first moment of the day that was not over yet when days were last seen."""
    return table.calendar.begins(table.calendar.date_of(seen.at))


class _Revised:
    """What is otherwise in a table."""

    def __init__(self, table: Table, lake: Lake, past: Past, seen: Seen) -> None:
        self._table, self._lake, self._past, self._seen = table, lake, past, seen
        self._path = lake.table(table)
        self._closed = _closed(table, seen)

    def found(self) -> Revision | None:
        """Return it; None where nothing is otherwise."""
        commits = self._commits(self._table)
        if not commits or commits[0][0] == 0:  # none, or the table was made since
            return None
        came, went = files_changed_by(self._path, [version for version, _ in commits])
        if sum(each.rows or 0 for each in (*came, *went)) > MOST_ROWS or _is_gone(came, went):
            causes = Counter(self._reason(entry) for _, entry in commits)
            return self._revision(commits, None, (), [(what, None) for what in causes])
        columns = columns_of(self._path, row_key(self._table))
        time = str(self._table.event_at)
        if time not in columns.kinds:
            return None
        with compared(came, went, columns, Range(time, EPOCH, self._closed)) as duck:
            if not duck.execute("SELECT count(*) FROM moved").fetchall()[0][0]:
                return None  # as of most tables at most times
            for version, _ in commits:
                note_moved(duck, self._path, version, columns)
            is_key = time in [*columns.kinds][: columns.key]
            moved = self._moved(duck, time, commits, is_key=is_key)
        rows = sum(count for _, count in moved[0])
        return self._revision(commits, rows, moved[1], moved[0]) if rows else None

    def _commits(self, table: Table) -> list[tuple[int, Entry]]:
        """Return the newest commits of a table since the last report that may have changed closed days."""
        path = self._lake.table(table)
        versions = self._past.versions_into(table, self._seen.at, self._closed)
        entries = ((each, entry_at(path, each)) for each in versions[-MOST_COMMITS:])
        return [(each, entry) for each, entry in entries if entry and self._may_change(entry)]

    def _may_change(self, entry: Entry) -> bool:
        """Return whether a commit may have changed closed days; that retention ends them is no news."""
        if entry.mode == EXPIRE:
            return False
        first = entry.changed[0] if entry.changed else None
        return first is None or EPOCH + first * MICROSECOND < self._closed

    def _moved(
        self, duck: Duck, time: str, commits: Sequence[tuple[int, Entry]], *, is_key: bool
    ) -> tuple[list[tuple[str, int]], tuple[str, ...]]:
        """Return how many rows each reason moved, the most first, and the first day and the last of these."""
        name = quoted(time)
        at = name if is_key else f"coalesce(__now.{name}, __was.{name})"
        entries = dict(commits)
        reasons, times = Counter[str](), list[datetime]()
        for version, what, rows, first, last in duck.execute(
            f"SELECT __by, __what, count(*), min({at}), max({at}) FROM moved GROUP BY ALL"  # noqa: S608  # our own names
        ).fetchall():
            entry = entries.get(version)
            # What its own runs bring to a day that was in no report makes it whole.
            is_news = self._seen.in_report or what != "came" or (entry and repairs(entry))
            if is_news:
                reasons[LATE if entry is None else self._reason(entry)] += rows
                times += [each for each in (first, last) if isinstance(each, datetime)]
        days = [self._table.calendar.date_of(in_utc(each)).isoformat() for each in times]
        return reasons.most_common(), ((min(days), max(days)) if days else ())

    def _reason(self, entry: Entry) -> str:
        """Return what a commit did; of an own run the repair below that it follows, else that events were late."""
        if repairs(entry):
            return in_words(entry)
        for source in self._below(self._table):
            path = self._lake.table(source)
            for version, below in reversed(self._commits(source)):
                reads = entry.versions.get(source.id)
                if repairs(below) and (reads is None or version <= reads[1]):
                    return f"its own run, which follows {in_words(below)} of {source.id} at {committed_at(path, version):%H:%M}"
        return LATE

    def _below(self, table: Table) -> list[Table]:
        """Return the tables that a table rests on and that have times of events, the nearest first."""
        found = [each for each in table.needs if self._lake.exists(each)]
        for each in table.needs:
            found += [one for one in self._below(each) if one not in found]
        return [each for each in found if not isinstance(each, Ingested)]

    def _revision(
        self,
        commits: Sequence[tuple[int, Entry]],
        rows: int | None,
        days: tuple[str, ...],
        causes: Sequence[tuple[str, int | None]],
    ) -> Revision:
        since, until = commits[0][0] - 1, commits[-1][0]
        return Revision(
            table=self._table.id,
            rows=rows,
            days=days,
            causes=tuple(causes),
            commits=len(commits),
            since=since,
            until=until,
            command=f"strandline diff {self._table.id} --from {since} --to {until}",
        )


def _is_gone(came: Sequence[File], went: Sequence[File]) -> bool:
    """Return whether a file is gone that is to be compared."""
    return not all(Place.of(each.path).exists() for each in (*came, *went))
