"""The daily report: all evidence on whether the numbers may be believed, in one structure, and the server of its pages.

The balance sheets are those of the ledger itself; the figures of days and hours come from history, which is made of
the same entries. So the report and ``strandline ledger`` cannot disagree.

A browser lets no page link to a file, so while ``strandline ui`` runs, a lake's reports are served on loopback, with the last
backtest of rules and alerts. They can be read, and only from this machine: a request is parsed into a day, or a day and an
id, so no path of a client reaches the disk. The server refuses a foreign page whose name resolves to loopback, because its
Host header has that name. The address is in a file on which the server holds a lock: without the lock no server runs.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from threading import Thread
from urllib.parse import urlsplit

from strandline import catalog

from strandline.core.errors import DataError, DefinitionError
from strandline.core.kind import DISORDERED, IN_UTC, LATE
from strandline.core.model import Model
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting import commit_history, gate_files
from strandline.engine.accounting.balance_sheet import Balance, balance
from strandline.engine.accounting.browse_held import (
    has_quarantine,
    none_open,
    open_records,
    open_rows,
    samples,
)
from strandline.engine.accounting.gate_files import Where
from strandline.engine.accounting.history_queries import Mark, Past, marks
from strandline.engine.lake.completeness import retired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import hold, note_of_holder
from strandline.engine.proof import day_verdicts, revised
from strandline.engine.proof.day_verdicts import (
    HOUR,
    DayVerdict,
    Known,
    begins,
    capped,
    day_of,
    flow,
    judged,
    of_day,
    versions_in,
    worst,
)
from strandline.engine.proof.freshness import freshness
from strandline.engine.repair.migrate import made
from strandline_infra.programs import HOST
from strandline_quality.findings import (
    Day,
    Drift,
    Findings,
    Flow,
    Gate,
    Open,
    Proof,
    Sample,
    TableFindings,
    Verdict,
)
from strandline_quality.page import span
from strandline_quality.rules import Rule

# The drift of models in the daily report: of each judged day, with a warning where it is beyond a model's bound.


@dataclass(frozen=True, slots=True, kw_only=True)
class DayDrifts:
    """The drift of a table's model on a day.

    Args:
        known: Of each feature and of the score, by the version that scored the rows.
        unknown: Why it is not known; empty if it is.
    """

    known: Sequence[Drift] = ()
    unknown: str = ""


Days = Mapping[date, DayDrifts]

DAY = timedelta(days=1)


def by_day(tables: Sequence[Table], lake: Lake, days: Sequence[date]) -> dict[str, Days]:
    """Return the drift of each scored table on each day, by the event time of its rows."""
    found: dict[str, dict[date, DayDrifts]] = defaultdict(dict)
    for table in tables:
        if table.scored_by is not None:
            model = catalog.model(table.scored_by)
            for day in days:
                found[table.id][day] = _on(day, model, lake)
    return dict(found)


def warnings(days: Days) -> dict[date, list[str]]:
    """Return what the report says of the days on which something has moved too far."""
    return {
        day: [
            *(
                f"{each.of} of the model {each.model} has moved from its training: index {each.psi:.2f}"
                for each in drifts.known
                if each.warns
            ),
            *([drifts.unknown] if drifts.unknown else []),
        ]
        for day, drifts in days.items()
    }


def last(days: Days) -> tuple[Drift, ...]:
    """Return the drift of the last day."""
    return tuple(days[max(days)].known) if days else ()


def _on(day: date, model: Model, lake: Lake) -> DayDrifts:
    """Return the drift on a day; a version that is gone or damaged must not keep the report from being written."""
    # Not imported above: a project without models imports nothing of them.
    from strandline.engine.learning.promote_model import drift  # noqa: PLC0415  # as above

    try:
        return DayDrifts(known=drift(model, lake, begins(day), begins(day + DAY)))
    except (DataError, DefinitionError) as error:
        return DayDrifts(unknown=f"how far {model.name} has moved is not known: {error.message}")


COLUMNS: tuple[tuple[str, Callable[[Rule], object]], ...] = (
    ("rule", lambda rule: rule.name),
    ("holds", lambda rule: rule.holds),
    ("when unknown", lambda rule: "passes" if rule.null_ok else "is broken"),
    ("on failure", lambda rule: rule.on_fail),
    ("severity", lambda rule: rule.severity),
    ("at most", lambda rule: _share(rule.max_failed)),
    ("owner", lambda rule: rule.owner),
    ("about", lambda rule: rule.about),
)


def rulebook(table: Table) -> tuple[dict[str, str], ...]:
    """Return the rules of a table, then the law of time that holds for every judged row.

    The rules of a table for people: what must hold, what becomes of a row that breaks it, and who owns it.

    To show more of a rule, add a line to ``COLUMNS``.
    """
    own = [{name: _text(value(rule)) for name, value in COLUMNS} for rule in table.rules]
    return (*own, *_law(table)) if isinstance(table, Judged) else tuple(own)


def _law(table: Table) -> Iterator[dict[str, str]]:
    law = table.lateness
    empty = dict.fromkeys((name for name, _ in COLUMNS), "")
    for name, holds in (
        (
            LATE,
            f"{table.event_at} is at most {span(law.late.total_seconds())} before the arrival",
        ),
        (
            "early",
            f"{table.event_at} is at most {span(law.early.total_seconds())} after the arrival",
        ),
        (
            DISORDERED,
            f"the arrival is less than {span(law.disorder.total_seconds())} before the newest of earlier commits",
        ),
    ):
        known = {"rule": name, "holds": holds, "when unknown": "is broken"}
        is_believed = name == LATE and isinstance(table, Judged) and table.believes_history
        yield {
            **empty,
            **known,
            "on failure": "believed, as history" if is_believed else "quarantine",
        }


def _share(value: object) -> str:
    return f"{value:.2%}" if isinstance(value, float) else _text(value)


def _text(value: object) -> str:
    return "" if value is None else str(value)


SHOWN = 14
"""The number of days that are shown, the judged ones last."""

LEARNT = timedelta(weeks=26)
"""How far back the baseline uses hours."""


Shut = Callable[[Table, Lake], Gate | None]


def shut_gate(table: Table, lake: Lake) -> Gate | None:
    """Return a table's gate if it is shut. The gate of a range does not count: the published rows stay as they are."""
    gate = gate_files.shut(table, lake, Where.BEFORE) or gate_files.shut(table, lake, Where.BEHIND)
    return Gate(since=gate.at, why=gate.why) if gate else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The judged days, and the days that are shown before them."""

    since: date
    until: date
    now: datetime

    @property
    def days(self) -> list[date]:
        """Return the judged days."""
        return [self.since + n * DAY for n in range((self.until - self.since).days)]

    @property
    def shown(self) -> list[date]:
        """Return the days that are shown."""
        first = min(self.since, self.until - SHOWN * DAY)
        return [first + n * DAY for n in range((self.until - first).days)]


def newest_day(tables: Sequence[Table], lake: Lake, past: Past | None = None) -> date | None:
    """Return the day of the newest commit; by a history that was opened, or by that of the lake, which is brought up to date."""
    if past is None:
        commit_history.catch_up(lake, tables)
        past = Past(lake)
    there = [table for table in tables if lake.exists(table)]
    commits = [newest.at for newest in past.newest_of(there).values()]
    return day_of(max(commits)) if commits else None


def gather(
    lake: Lake,
    tables: Sequence[Table],
    period: Period,
    *,
    shut: Shut = shut_gate,
    past: Past | None = None,
) -> Findings:
    """Gather the findings on the tables of a lake; by a history that was opened, or by the lake's, which is brought up to date."""
    existing = [table for table in tables if lake.exists(table)]
    if past is None:
        commit_history.catch_up(lake, existing)
        past = Past(lake)
    # Before the sums are read, so that it is seen which tables have gone on meanwhile.
    moment = revised.newest_moment(lake, existing)
    desk = _Desk(lake, period, existing, shut, past)
    findings = tuple(desk.findings(table) for table in existing)
    verdict = max((each.verdict for each in findings), key=lambda v: v.rank, default=Verdict.SILENT)
    received = {table.id for table in existing if isinstance(table, Ingested)}
    seen = revised.last_seen(lake, period.since)
    ranked = sorted(findings, key=lambda each: -each.verdict.rank)
    return Findings(
        lake=lake.root.name,
        made_at=period.now.isoformat(timespec="seconds"),
        since=begins(period.since).isoformat(),
        until=begins(period.until).isoformat(),
        verdict=verdict,
        sentence=_sentence(verdict, ranked, period),
        because=tuple(f"{each.table}: {why}" for each in ranked for why in each.because),
        arrived=sum(each.flow.read for each in findings if each.table in received),
        judged=sum((each.flow for each in findings if each.judges), Flow()),
        tables=findings,
        unread=day_verdicts.unread(lake),
        reported=seen.at.isoformat(timespec="seconds"),
        revisions=(*revised.revisions(lake, existing, past, seen),),
        as_of=None if moment is None else revised.as_of(moment, lake),
    )


class _Desk:
    """The verdicts so far, table by table in the order in which data flows."""

    def __init__(
        self, lake: Lake, period: Period, tables: Sequence[Table], shut: Shut, past: Past
    ) -> None:
        self._lake = lake
        self._period = period
        self._shut = shut
        self._retired = retired(lake)
        self._past = past
        until = max(each.begins(period.until) for each in {IN_UTC, *(t.calendar for t in tables)})
        self._hours = past.hours_of(tables, until - LEARNT, until)
        self._newest = past.newest_of(tables)
        self._used = dict(self._core_seconds(tables))
        self._days: dict[str, dict[date, DayVerdict]] = {}
        self._drifts = by_day(tables, lake, period.days)

    def findings(self, table: Table) -> TableFindings:
        """Return the findings on a table; the tables that it reads must come before it."""
        sheet, gate = balance(table, self._lake), self._shut(table, self._lake)
        proof = day_verdicts.proof(table, self._lake)
        days = self._judged(table, sheet, gate, proof)
        some, counted = self._held(table, sheet)
        hours = self._hours[table.id]
        by_day = {day: of_day(hours, table.calendar, day) for day in self._period.shown}
        own = [hour for day in self._period.days for hour in by_day[day]]
        first = table.calendar.begins(self._period.since)
        newest = self._newest.get(table.id)
        judged_days = [days[day] for day in self._period.days]
        return TableFindings(
            table=table.id,
            about=self._about(table, sheet.said),
            owner=table.owner,
            judges=isinstance(table, Judged),
            verdict=worst(judged_days),
            because=tuple(self._because(days)),
            sheet=day_verdicts.sheet(sheet),
            flow=flow(own),
            newest_at=newest.at.isoformat() if newest else None,
            days=tuple(
                Day(day=day.isoformat(), verdict=days[day][0], because=days[day][1], flow=flow(on))
                for day, on in by_day.items()
            ),
            hours=day_verdicts.hours(own, [hour for hour in hours if hour.at < first]),
            failing=day_verdicts.failing(by_day, self._period.days),
            reasons=day_verdicts.reasons(own),
            samples=some,
            quarantine=counted,
            gate=gate,
            proof=proof,
            rules=rulebook(table),
            drift=last(self._drifts.get(table.id, {})),
            kinds=day_verdicts.kinds(sheet),
            own_day=self._own_day(table),
        )

    def _core_seconds(self, tables: Sequence[Table]) -> Iterator[tuple[str, float]]:
        """Yield what the batches of each table used on the judged days, which are those of its own calendar."""
        ends = (self._period.since, self._period.until)
        of: dict[tuple[datetime, ...], list[Table]] = defaultdict(list)
        for table in tables:
            of[tuple(table.calendar.begins(each) for each in ends)].append(table)
        for (first, last), own in of.items():
            yield from self._past.core_seconds_of(own, first, last).items()

    def _about(self, table: Table, said: Sequence[str]) -> str:
        """Return what a table is in a sentence, and of a retired one first by whose decision it gets no more rows.

        Args:
            table: The table.
            said: What its ledger says of it, such as of fields that it does not declare.
        """
        about = table.summary.partition("\n")[0]
        if table.local_day:
            about = f"{about} Its days are those of {table.local_day.zone}."
        if isinstance(table, Judged) and said:
            about = f"{about} Look at {', '.join(said)}."
        if used := self._used.get(table.id):
            about = f"{about} Its batches took {used:,.1f} core seconds."
        ended = self._retired.get(table.id)
        return f"Retired by {ended.words}. {about}" if ended else about

    def _own_day(self, table: Table) -> tuple[str, str] | None:
        """Return where the judged days of a table begin and end that has days of its own."""
        ends = (self._period.since, self._period.until)
        first, last = (table.calendar.begins(each).isoformat() for each in ends)
        return (first, last) if table.local_day else None

    def _because(self, days: dict[date, DayVerdict]) -> Iterator[str]:
        """Yield why the verdicts are not better; each reason with its day if several days are judged."""
        judged_days = self._period.days
        for day in judged_days:
            for why in days[day][1]:
                yield f"{day.day} {day:%B}, {why}" if len(judged_days) > 1 else why

    def _held(self, table: Table, sheet: Balance) -> tuple[tuple[Sample, ...], Open | None]:
        """Return some open rows of a table's quarantine, and how many there are; of one that holds none by its books no row is read."""
        if sheet.damage is not None or not has_quarantine(table, self._lake):
            return (), None
        if sheet.balanced and not any(sheet.quarantined.values()):
            return (), none_open()
        with open_records(table, self._lake) as held:
            until, now = begins(self._period.until), self._period.now
            some = samples(table, self._lake, until, held)
            return some, open_rows(table, self._lake, now, held)

    def _judged(
        self, table: Table, sheet: Balance, gate: Gate | None, proof: Proof | None
    ) -> dict[date, DayVerdict]:
        ended = self._retired.get(table.id)
        known = Known(
            hours=self._hours[table.id],
            sources=None if isinstance(table, Ingested) else self._filled(table),
            changes=self._changes(table),
            faults=self._faults(table, sheet),
            unproven=self._unproven(proof),
            warnings=self._warnings(table, sheet),
            shut=(table.calendar.date_of(datetime.fromisoformat(gate.since)), gate.why)
            if gate
            else None,
            waiting=sheet.waiting > 0,
            retired=datetime.fromisoformat(ended.at) if ended else None,
            calendar=table.calendar,
            now=self._period.now,
        )
        needed = [each for each in table.needs if each.id in self._days]
        days = {}
        for day in self._period.shown:
            below = {each.id: self._days[each.id][day] for each in needed}
            days[day] = capped(judged(known, day), below)
        self._days[table.id] = days
        return days

    def _warnings(self, table: Table, sheet: Balance) -> dict[date, list[str]]:
        """Return what else needs a look; on the last judged day, that the table rests on rows that are gone, or is older than promised."""
        found = {day: [*each] for day, each in warnings(self._drifts.get(table.id, {})).items()}
        is_fed = table.id not in self._retired and sheet.damage is None
        replaced = made(table, self._lake, asks_code=False).sources if is_fed else ()
        if replaced:
            why = f"it was computed from rows of {' and '.join(replaced)} that were replaced since (`strandline migrate`)"
            found.setdefault(self._period.days[-1], []).append(why)
        is_of_now = self._period.now < begins(self._period.until + DAY)
        promised = freshness(table, self._lake, self._period.now) if is_fed and is_of_now else None
        if promised is not None and not promised.is_kept:
            found.setdefault(self._period.days[-1], []).append(promised.says)
        return found

    def _changes(self, table: Table) -> list[Mark]:
        first = table.calendar.begins(self._period.shown[0])
        over = [hour for hour in self._hours[table.id] if hour.at + HOUR <= self._period.now]
        shown = [hour for hour in over if hour.at >= first]
        return marks(shown, over[: len(over) - len(shown)])

    def _filled(self, table: Table) -> list[datetime]:
        """Return the hours in which a table's sources got rows that a stream reads (so not those of a repair)."""
        hours = chain.from_iterable(self._hours.get(each.id, ()) for each in table.upstream)
        return sorted(
            hour.at for hour in hours if hour.value("written") > 0 and hour.value("read") > 0
        )

    def _faults(self, table: Table, sheet: Balance) -> dict[date, list[str]]:
        """Assign each fault to the day of the batch that it names, or to the last judged day if it names none."""
        faults = defaultdict(list)
        last = self._period.days[-1]
        for fault in sheet.faults:
            days = {
                table.calendar.date_of(at)
                for version in versions_in(fault)
                if (at := self._past.committed_at(table, version))
            }
            for day in days or {last}:
                faults[day].append(fault)
        return dict(faults)

    def _unproven(self, proof: Proof | None) -> tuple[date, str] | None:
        """Return the last judged day and why, where the last certificate failed; the books of such a table may balance."""
        if proof is None or not proof.standing.startswith("NOT"):
            return None
        why = "its certificate says that its rows differ from what bronze gives"
        return self._period.days[-1], why


def _sentence(verdict: Verdict, ranked: Sequence[TableFindings], period: Period) -> str:
    when = _written(period)
    match verdict:
        case Verdict.SILENT:
            return f"Nothing was written on {when}."
        case Verdict.BELIEVED:
            return f"The numbers of {when} can be trusted."
        case Verdict.WARNED:
            return f"The numbers of {when} can be trusted, with warnings."
        case _:
            bad = [each for each in ranked if not each.verdict.is_trusted]
            more = f", and {len(bad) - 1} more not in order" if len(bad) > 1 else ""
            return (
                f"The numbers of {when} cannot be trusted: "
                f"{bad[0].table} is {bad[0].verdict}{more}."
            )


def _written(period: Period) -> str:
    first, last = period.days[0], period.days[-1]
    end = f"{last.day} {last:%B %Y}"
    if first == last:
        return end
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day} to {end}"
    start = f"{first.day} {first:%B}" + ("" if first.year == last.year else f" {first.year}")
    return f"{start} to {end}"


DAY_IN_PATH = r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
ASKED = re.compile(rf"/report-{DAY_IN_PATH}\.html")
ALERT = re.compile(rf"/alert-{DAY_IN_PATH}-([0-9a-f]{{8,64}})\.html")
TEXT, HTML = "text/plain", "text/html"

NO_BACKTEST = b"""There is no backtest of rules yet.

hint: materialise the rules in Dagster, or type `strandline rules backtest`.
"""
NO_ALERT = b"""There is no such alert in gold.alerts.

hint: `strandline run bronze.alerts silver.alerts gold.alerts` brings the newest.
"""

AlertPage = Callable[[date, str], str | None]
"""Makes the page of an alert, by the day of its event and its id; None if there is no such alert."""


@contextmanager
def served(lake: Lake, alert_page: AlertPage = lambda *_: None) -> Iterator[str]:
    """Serve the reports and alerts of a lake on a free port, and yield the address."""
    # A reader of the address holds it for a moment; no other server does, as a lake has one `strandline ui`.
    with _Server(lake, alert_page) as server, hold(_note(lake), server.address):
        answering = Thread(target=server.serve_forever, name="reports", daemon=True)
        answering.start()
        try:
            yield server.address
        finally:
            server.shutdown()
            answering.join()


def address(lake: Lake) -> str | None:
    """Return the address at which the reports of a lake are served; None when they are not."""
    return note_of_holder(_note(lake)) or None


def link(lake: Lake, day: date) -> str | None:
    """Return the address of a day's report, made or not; None when reports are not served."""
    where = address(lake)
    return f"{where}/{lake.report(day.isoformat()).name}" if where else None


def backtest_link(lake: Lake) -> str | None:
    """Return the address of the page of the last backtest, made or not; None when pages are not served."""
    where = address(lake)
    return f"{where}/{lake.backtest.name}" if where else None


def alert_link(where: str, alert_id: str, event_at: datetime) -> str:
    """Return the address of the page of an alert.

    Args:
        where: The address at which pages are served.
        alert_id: The alert.
        event_at: The time of its event.
    """
    return f"{where}/alert-{event_at.date().isoformat()}-{alert_id}.html"


def _note(lake: Lake) -> Place:
    return lake.dagster / "reports.address"


class _Server(ThreadingHTTPServer):
    """Serves one lake; a browser that stops reading does not delay the end of the process."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, lake: Lake, alert_page: AlertPage) -> None:
        super().__init__((HOST, 0), _Handler)
        self.lake, self.alert_page = lake, alert_page
        self.names = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}
        self.address = f"http://{HOST}:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server
    server_version, sys_version = "strandline", ""
    timeout = 10

    def do_GET(self) -> None:
        """Send a report, or the reason why there is none."""
        status, kind, words = self._answer()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(words)))
        self.send_header("Cache-Control", "no-store")  # a report is made anew under the same name
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(words)

    def do_HEAD(self) -> None:
        """Send the headers alone."""
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Log nothing: requests are no news for the terminal of ``strandline ui``."""

    def _answer(self) -> tuple[HTTPStatus, str, bytes]:
        if self.headers.get("Host") not in self.server.names:
            return (
                HTTPStatus.FORBIDDEN,
                TEXT,
                b"Reports are read under 127.0.0.1 or localhost only.\n",
            )
        path = urlsplit(self.path).path
        if path == f"/{self.server.lake.backtest.name}":
            return _or_none(self.server.lake.backtest.bytes(), NO_BACKTEST)
        if alert := ALERT.fullmatch(path):
            return self._alert(_day(alert[1]), alert[2])
        report = ASKED.fullmatch(path)
        day = _day(report[1]) if report else None
        if day is None:
            return (
                HTTPStatus.NOT_FOUND,
                TEXT,
                b"Only reports are here, such as /report-2026-11-01.html.\n",
            )
        return _or_none(self.server.lake.report(day.isoformat()).bytes(), _none_yet(day))

    def _alert(self, day: date | None, alert_id: str) -> tuple[HTTPStatus, str, bytes]:
        page = self.server.alert_page(day, alert_id) if day else None
        return _or_none(page.encode() if page else None, NO_ALERT)


def _or_none(page: bytes | None, reason: bytes) -> tuple[HTTPStatus, str, bytes]:
    """Return a page, or the reason why there is none."""
    return (HTTPStatus.NOT_FOUND, TEXT, reason) if page is None else (HTTPStatus.OK, HTML, page)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:  # such as the 31st of February
        return None


def _none_yet(day: date) -> bytes:
    return (
        f"There is no report of {day.day} {day:%B %Y} yet.\n\n"
        f"hint: launch the job `report` in Dagster, or type `strandline report --day {day}`.\n"
    ).encode()
