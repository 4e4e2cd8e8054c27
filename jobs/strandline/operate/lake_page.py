"""What the page for the lake shows: all tables at a look, one table in full, and where an event is. It only reads.

The figures are those of ``strandline metrics``, followed from look to look, so page and monitoring cannot disagree and a look
reads what was committed since the last one. A table's own page reads the newest commits of its log, its sums, and what was
declared. No answer starts Spark, asks Kafka for what the radar has seen, or reads a log from its beginning; however many pages
are open, one look is made at a time, and the others get the last one.

No masked column is shown: not in the samples of a quarantine, and not in the evidence about an event, where a value may have
come up under another name.
"""

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from strandline import catalog

from strandline.core.errors import LakeError
from strandline.core.table import Ingested, Judged, Recomputed, Table, Upserted
from strandline.engine.accounting import cost, gate_files
from strandline.engine.accounting.browse_held import piles, samples
from strandline.engine.accounting.table_books import Books
from strandline.engine.ask.find_moment import Moment
from strandline.engine.ask.locate import World
from strandline.engine.ask.moments import named as named_moments
from strandline.engine.ask.moments import noted
from strandline.engine.ask.why import why
from strandline.engine.flow import readers
from strandline.engine.flow.function_plan import cached_lineage, hidden, hidden_in_bronze
from strandline.engine.lake.completeness import Retirement, retired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import Kind, actions
from strandline.engine.lake.log.ledger import Entry, entry_in, latest_version
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.open_table import columns, live_rows
from strandline.engine.lake.order_log import CurrentRoles, attempted
from strandline.engine.lake.place import damage
from strandline.engine.proof.certificate import SECOND, kept, status
from strandline.engine.proof.daily_report import link, rulebook
from strandline.engine.proof.day_verdicts import WAITED, DayVerdict, capped
from strandline.engine.runtime.clock import login
from strandline.engine.runtime.roles import Role, RoleError
from strandline.engine.runtime.settings import Settings
from strandline.engine.service import metrics, metrics_page
from strandline.engine.service.condition import Condition, Trouble, condition
from strandline.engine.service.metrics import Metric
from strandline.engine.service.metrics_page import LakeLook
from strandline.operate import lakes
from strandline_quality.findings import MEANING, Verdict
from strandline_quality.mask import mask_value
from strandline_quality.page import TONE, span

EVERY, EVERY_ON_STORE = 2.0, 60.0
"""Seconds for which a look is as good as another one: on a store each table is some requests."""

PROVEN_EVERY, PROVEN_EVERY_ON_STORE = 30.0, 900.0
"""Seconds for which certificates are not read again."""

TAIL, TAIL_ON_STORE = 160, 40
"""The newest commits whose figures are drawn."""

MOST_HELD = 1_000_000
"""Rows of a quarantine beyond which they are counted by the ledger alone, because a look at each takes seconds."""

SPENT_AT_ONCE = 2_000
"""Commits that are read at most for one answer about what a table took; the page asks on."""

LONGEST = 1_000
"""Characters of a sentence, of a comment and of a question that are passed on."""

MASKED = re.compile(
    r"\[(?:(?:text|number), \d+(?: to \d+)? long|yes or no|object|list|datetime|date|Decimal|bytes)\]"
)
"""A value that a mask has replaced already; whatever else is between brackets may be the value."""

Clock = Callable[[], datetime]
Names = Sequence[str]


class LakePage:
    """The answers of the page for one lake."""

    def __init__(self, found: Settings, lake: Lake, clock: Clock) -> None:
        """Prepare; nothing is read yet."""
        self._settings, self._lake, self._clock = found, lake, clock
        self._seen: dict[str, Any] | None = None
        self._seen_at = 0.0
        self._roles, self._is_refused = CurrentRoles(lake), False
        self._looking, self._declaring, self._spending = (threading.Lock() for _ in range(3))
        self._look: LakeLook | None = None
        self._rows: dict[str, tuple[tuple[float, float | None], int]] = {}
        self._proven: dict[str, str] = {}
        self._proven_at = -PROVEN_EVERY_ON_STORE
        self._moment: Moment | None = None
        self._spent: dict[str, cost.Follower] = {}

    def refuse_stranger(self) -> None:
        """Refuse to answer where the roles of the lake do not let this program read.

        Raises:
            RoleError: They do not.
        """
        who = login()
        try:
            self._roles.refuse(who, Role.READ, "the page for the lake")
        except RoleError as error:
            if not self._is_refused:  # a page that is open asks every few seconds
                attempted(
                    self._lake,
                    "page",
                    who=who,
                    at=self._clock(),
                    over="page",
                    message=error.message,
                )
            self._is_refused = True
            raise
        self._is_refused = False

    def overview(self) -> dict[str, Any]:
        """Return all tables at the last look, which is made anew where it is old.

        Raises:
            LakeError: The project's tables cannot be known.
        """
        seen = self._seen
        if seen is not None and (self._is_new() or self._looking.locked()):
            return seen
        with self._looking:
            if self._seen is None or not self._is_new():
                self._seen = self._made()
                self._seen_at = time.monotonic()
            return self._seen

    def table(self, name: str) -> dict[str, Any]:
        """Return all of one table but what its quarantine holds.

        Raises:
            DefinitionError: There is no such table.
        """
        table, lake = self._find(name), self._lake
        own = next(each for each in self.overview()["tables"] if each["id"] == table.id)
        above = [each for each in self._tables() if table in each.needs]
        faults: list[str] = []

        def read(part: Callable[[], list[Any]]) -> list[Any]:
            # What is torn is one part's; the page has the others, and what is wrong.
            try:
                return part() if lake.exists(table) else []
            except Exception as error:
                if (found := damage(error, table)) is None:
                    raise
                faults.append(found.message)
                return []

        faults += read(lambda: list(Books(table, lake).follow().faults))
        return {
            **own,
            "key": list(table.key),
            "event_at": table.event_at,
            "read_by": [each.id for each in above],
            "static": [each.id for each in table.static],
            "topics": [each.name for each in table.topics],
            "columns": read(lambda: list(_columns(table, above, lake))),
            "has_lineage": cached_lineage(table, lake) is not None,
            "history": read(lambda: list(_history(table, lake))),
            "rules": list(rulebook(table)),
            "certificates": list(_certificates(table, lake)),
            "has_quarantine": isinstance(table, Judged),
            "faults": [_cut(each) for each in dict.fromkeys(faults)],
        }

    def held(self, name: str) -> dict[str, Any]:
        """Return what the quarantine of a table holds: by reason and age, and some records with masks.

        Raises:
            DefinitionError: There is no such table.
        """
        table, lake = self._find(name), self._lake
        if not isinstance(table, Judged) or not lake.exists(table):
            return {"table": table.id, "piles": [], "samples": [], "counted": {}}
        counted = dict(sums_of(lake.table(table)).held)
        if sum(counted.values()) > MOST_HELD or not counted:
            return {"table": table.id, "piles": [], "samples": [], "counted": counted}
        now = self._clock()
        return {
            "table": table.id,
            "counted": counted,
            "piles": [
                {
                    "reason": each.reason,
                    "open": each.open,
                    "discarded": each.discarded,
                    "oldest": _text(each.oldest),
                    "newest": _text(each.newest),
                }
                for each in piles(table, lake, now)
            ],
            "samples": [asdict(each) for each in samples(table, lake, now)],
        }

    def moments(self) -> dict[str, Any]:
        """Return the newest moment that was noted, with the version of each table, and those that have a name."""
        self._whole()
        latest = self._latest_moment()
        return {
            "latest": _of_moment(latest) if latest else None,
            "named": [_of_moment(each) for each in named_moments(self._lake)],
        }

    def cost(self, name: str) -> dict[str, Any]:
        """Return what a table took yesterday and today; ``is_whole`` is false where commits are left, which a further question reads.

        On a store, where each commit is a request, nothing is counted.

        Raises:
            DefinitionError: There is no such table.
        """
        table, today = self._find(name), self._clock().date()
        if not self._lake.root.is_local:
            return {"table": table.id, "days": None, "currency": "", "is_whole": True}
        found = self._settings
        prices = cost.Prices.said_in(found)
        with self._spending:
            follower = self._spent.get(table.id)
            if follower is None or follower.since != today - cost.DAY:
                follower = cost.Follower(table, self._lake, today - cost.DAY)
            is_whole = follower.look(SPENT_AT_ONCE)
            self._spent[table.id] = follower
            days = follower.days(today + cost.DAY)
        return {
            "table": table.id,
            "days": [
                {
                    "day": each.day,
                    **each.figures(),
                    "price": prices.of(each),
                }
                for each in days
            ],
            "currency": found.currency,
            "is_whole": is_whole,
        }

    def why(self, event: str, name: str | None = None) -> dict[str, Any]:
        """Return where an event is, as ``strandline why --quick`` does, with all that is masked left out.

        Args:
            event: topic/partition/offset, or the values of a key with commas between them.
            name: The table in question; the tables that judge the event when absent.

        Raises:
            DefinitionError: It names no event, or there is no such table.
        """
        self._whole()
        table = catalog.find(name) if name else None
        world = World(
            lake=self._lake,
            now=self._clock(),
            address=lakes.address(self._settings, self._lake),
            options=self._settings.kafka_options,
            search=False,
            sees_masked=False,
        )
        found = why(event[:LONGEST], table, world)
        return {
            "event": event[:LONGEST],
            "table": found.table,
            "verdict": found.verdict,
            "sentence": _cut(found.sentence),
            "evidence": masked(found.evidence, self._secrets()),
        }

    def _tables(self) -> tuple[Table, ...]:
        """Return the declared tables; the first of several threads imports the project, and the others wait for it."""
        with self._declaring:
            return catalog.tables()

    def _find(self, name: str) -> Table:
        self._whole()
        return catalog.find(name)

    def _whole(self) -> tuple[Table, ...]:
        """Return the declared tables, of a lake that is whole.

        Raises:
            TransientError: It is being restored: what is there of it so far looks as if it were all.
        """
        self._lake.refuse_restoring()
        return self._tables()

    def _secrets(self) -> frozenset[str]:
        """Return the columns that are masked in some table: a row of one may be in the evidence about another."""
        guarded = (each for each in self._tables() if each.secret and self._lake.exists(each))
        return frozenset[str]().union(*(hidden(each, self._lake) for each in guarded))

    def _is_new(self) -> bool:
        every = EVERY if self._lake.root.is_local else EVERY_ON_STORE
        return time.monotonic() - self._seen_at < every

    def _made(self) -> dict[str, Any]:
        tables, lake, now = self._tables(), self._lake, self._clock()
        if self._look is None:
            self._look = LakeLook(tables, lake, self._clock, lambda _: None, self._unread)
        self._look.look()
        if not self._look.away:
            lake.refuse_restoring()
        figures = _Figures.of(self._look)
        shut: dict[str, list[gate_files.Shut]] = defaultdict(list)
        if not self._look.away:
            for each in gate_files.every(lake):
                if each.opened is None:
                    shut[each.table].append(each)
            self._read_certificates(tables)
        ended = {} if self._look.away else retired(lake)
        lines: dict[str, dict[str, Any]] = {}
        verdicts: dict[str, DayVerdict] = {}
        for table in tables:
            own = _judged(table, figures, shut[table.id], self._proven.get(table.id, ""))
            below = {each.id: verdicts[each.id] for each in table.needs if each.id in verdicts}
            verdicts[table.id] = capped(own, below)
            lines[table.id] = self._line(table, figures, verdicts[table.id], ended.get(table.id))
        found = self._condition(now)
        return {
            "lake": lake.root.name,
            "looked_at": now.isoformat(timespec="seconds"),
            "sentence": _cut(found.sentence),
            "is_well": found.is_well,
            "is_grave": found.is_grave,
            "troubles": [
                {**asdict(each), "says": _cut(each.says), "hint": _cut(each.hint)}
                for each in found.troubles
            ],
            "unknown": figures.failed,
            "report": self._report(now),
            "moment": None if self._look.away else self._brief_moment(),
            "tables": list(lines.values()),
            "verdicts": {
                str(each): {"tone": TONE[each], "means": MEANING[each]} for each in Verdict
            },
        }

    def _line(
        self, table: Table, figures: "_Figures", judged: DayVerdict, ended: Retirement | None
    ) -> dict[str, Any]:
        """Return what is shown of a table among the others."""
        verdict, because = judged
        version, lag = (figures.one(each, table) for each in (metrics.VERSION, metrics.LAG))
        return {
            "id": table.id,
            "layer": str(table.layer),
            "name": table.name,
            "kind": type(table).__name__,
            "about": _cut(table.summary.partition("\n")[0]),
            "owner": table.owner,
            "reads": [each.id for each in table.needs],
            "topics": [each.name for each in table.topics] if isinstance(table, Ingested) else [],
            "version": None if version is None else int(version),
            "rows": self._rows_of(table, figures),
            "read": figures.one(metrics.READ, table),
            "held": figures.held(table),
            "copies": figures.one(metrics.ROWS, table, "duplicate"),
            "lag": None if lag is None else max(0, int(lag)),
            "behind_s": figures.one(metrics.BEHIND, table),
            "took_s": figures.one(metrics.TOOK, table),
            "at": _moment(figures.one(metrics.AT, table)),
            "newest": _moment(figures.one(metrics.NEWEST, table)),
            "watermark": _moment(figures.one(metrics.WATERMARK, table)),
            "promise": _promise(table, figures),
            "is_written": figures.is_written(table),
            "verdict": str(verdict),
            "tone": TONE[verdict],
            "because": [_cut(each) for each in because],
            "certificate": self._proven.get(table.id, ""),
            "retired": ended.words if ended else "",
        }

    def _rows_of(self, table: Table, figures: "_Figures") -> int | None:
        """Return how many rows a table has by its ledger; where batches replace rows, by its files, once for a version."""
        version, written = figures.one(metrics.VERSION, table), figures.one(metrics.WRITTEN, table)
        if version is None or not isinstance(table, Upserted | Recomputed):
            return None if written is None else int(written)
        # With its time, because a table that was removed and made again counts its versions from 0.
        of, known = (version, figures.one(metrics.AT, table)), self._rows.get(table.id)
        if known is None or known[0] != of:
            try:
                known = of, live_rows(self._lake.table(table))
            except Exception:  # noqa: BLE001  # one table that cannot be read hides no other; its verdict says it
                return None
            self._rows[table.id] = known
        return known[1]

    def _read_certificates(self, tables: Sequence[Table]) -> None:
        every = PROVEN_EVERY if self._lake.root.is_local else PROVEN_EVERY_ON_STORE
        if time.monotonic() - self._proven_at < every:
            return
        derived = [each for each in tables if not isinstance(each, Ingested)]
        self._proven = {each.id: status(each, self._lake) for each in derived}
        self._proven_at = time.monotonic()

    def _latest_moment(self) -> Moment | None:
        """Return the newest moment that was noted; its note is read once."""
        known = noted(self._lake)
        if not known:
            self._moment = None
        elif self._moment is None or self._moment.number != known[-1].number:
            self._moment = known[-1].read()
        return self._moment

    def _brief_moment(self) -> dict[str, Any] | None:
        latest = self._latest_moment()
        if latest is None:
            return None
        at, versions = latest.at.isoformat(), dict(latest.versions)
        return {"number": latest.number, "at": at, "versions": versions, "behind": _behind(latest)}

    def _condition(self, now: datetime) -> Condition:
        try:
            return condition(self._lake, now)
        except LakeError as error:  # a store that does not answer
            return Condition(
                troubles=(Trouble(what="away", says=error.message, hint=error.hint or ""),)
            )

    def _report(self, now: datetime) -> str | None:
        """Return the address of the report of today, or of the day before; None where neither was made, or none is served."""
        if self._look is not None and self._look.away:
            return None
        for day in (now.date(), now.date() - timedelta(days=1)):
            if self._lake.report(day.isoformat()).is_file():
                return link(self._lake, day)
        return None

    def _unread(self) -> Mapping[str, int]:
        """Return by bronze table what the radar saw unread, while no stream measures it; Kafka itself is not asked."""
        seen = readers.last(self._lake)
        found: dict[str, int] = defaultdict(int)
        for each in seen[1] if seen else ():
            found[each.reader] += each.unread
        return found


@dataclass(frozen=True, slots=True)
class _Figures:
    """The samples of a look, by what they are of."""

    values: Mapping[tuple[Metric, tuple[str, ...]], float]
    reasons: Mapping[str, Mapping[str, float]]
    leases: Mapping[str, bool]
    failed: Names

    @classmethod
    def of(cls, look: LakeLook) -> "_Figures":
        """Return those of a look."""
        values: dict[tuple[Metric, tuple[str, ...]], float] = {}
        held: dict[str, dict[str, float]] = defaultdict(dict)
        leases: dict[str, bool] = defaultdict(bool)
        failed = []
        for each in look.samples():
            values[each.metric, each.labels] = each.value
            if each.metric is metrics.HELD:
                held[each.labels[0]][each.labels[1]] = each.value
            elif each.metric is metrics.LEASE:
                leases[each.labels[0]] |= bool(each.value)
            elif each.metric is metrics_page.FAILED and each.value:
                failed.append(each.labels[0])
        return cls(values, held, leases, failed)

    def one(self, metric: Metric, table: Table, *more: str) -> float | None:
        """Return a figure of a table; None where it is not known."""
        return self.values.get((metric, (table.id, *more)))

    def held(self, table: Table) -> int | None:
        """Return how many records the quarantine of a table has got; None where it has none."""
        is_judged = isinstance(table, Judged)
        return int(sum(self.reasons.get(table.id, {}).values())) if is_judged else None

    def is_written(self, table: Table) -> bool:
        """Return whether a process holds the table's lease."""
        return self.leases.get(table.id, False)


def masked(value: object, secrets: frozenset[str]) -> Any:  # noqa: ANN401  # JSON
    """Return evidence without the values of masked columns, at any depth, under the names that they have there."""
    match value:
        case Mapping():
            return {
                name: _hidden(each) if name in secrets else masked(each, secrets)
                for name, each in value.items()
            }
        case list() | tuple():
            return [masked(each, secrets) for each in value]
        case str():
            return _cut(value)
        case _:
            return value


def _hidden(value: object) -> object:
    is_done = isinstance(value, str) and MASKED.fullmatch(value)
    return value if is_done else mask_value(value)


def _judged(
    table: Table, figures: _Figures, shut: Sequence[gate_files.Shut], proven: str
) -> DayVerdict:
    """Return whether the numbers of a table may be used now, with all reasons why it is not better, the worst first."""
    reasons = sorted(_reasons(table, figures, shut, proven), key=lambda each: -each[0].rank)
    if reasons:
        return reasons[0][0], tuple(says for _, says in reasons)
    was_written = bool(figures.one(metrics.BATCHES, table))
    return (Verdict.BELIEVED if was_written else Verdict.SILENT), ()


def _reasons(
    table: Table, figures: _Figures, shut: Sequence[gate_files.Shut], proven: str
) -> Iterator[tuple[Verdict, str]]:
    if figures.one(metrics.DAMAGED, table):
        yield Verdict.UNBALANCED, f"its books cannot be read: `strandline ledger {table.id}`"
    if faults := int(figures.one(metrics.FAULTS, table) or 0):
        many = "a fault" if faults == 1 else f"{faults} faults"
        yield Verdict.UNBALANCED, f"its ledger has {many}: `strandline ledger {table.id}`"
    if proven.startswith("NOT"):
        yield Verdict.UNPROVEN, "its certificate says that its rows differ from what bronze gives"
    for each in shut:
        yield Verdict.HELD, f"the gate {each.where} it is shut since {each.at}: {each.why}"
    behind = timedelta(seconds=figures.one(metrics.BEHIND, table) or 0.0)
    # Of bronze it is the time since its newest record, and a topic may be silent.
    if behind > WAITED and figures.one(metrics.LAG, table):
        yield Verdict.STALE, f"rows have waited for {span(behind.total_seconds())}"
    promise = _promise(table, figures)
    if promise is not None and not promise["is_kept"]:
        old, promised = span(promise["age_s"]), span(promise["within_s"])
        yield (
            Verdict.WARNED,
            f"its newest row is {old} old by {promise['by']}, and {promised} are promised",
        )
    if tries := int(figures.one(metrics.TRIES, table) or 0):
        yield Verdict.WARNED, f"its stream has failed {tries} times in a row"


def _promise(table: Table, figures: _Figures) -> dict[str, Any] | None:
    """Return how a table keeps what it promises of the age of its newest row; None where that is nothing."""
    by = table.promise.by if table.promise else ""
    age, within = (
        figures.one(metric, table, by) for metric in (metrics_page.AGE, metrics_page.PROMISED)
    )
    if age is None or within is None:
        return None
    is_kept = not figures.one(metrics_page.OVERDUE, table)
    return {"by": by, "age_s": age, "within_s": within, "is_kept": is_kept}


def _columns(table: Table, above: Sequence[Table], lake: Lake) -> Iterator[dict[str, Any]]:
    """Yield the columns of a table: what each says of itself, whether it is masked, where it is from and where it goes."""
    secret = hidden(table, lake) | hidden_in_bronze(table, catalog.tables())
    came = cached_lineage(table, lake) or {}
    goes: dict[str, list[list[str]]] = defaultdict(list)
    for reader in above:
        for name, made_of in (cached_lineage(reader, lake) or {}).items():
            for source, column in made_of:
                if source == table.id:
                    goes[column].append([reader.id, name])
    for name, (kind, about) in columns(lake.table(table)).items():
        yield {
            "name": name,
            "type": kind,
            "about": _cut(about),
            "is_masked": name in secret,
            "is_key": name in table.key,
            "from": [list(each) for each in came.get(name, ())],
            "goes": goes.get(name, []),
        }


def _history(table: Table, lake: Lake) -> Iterator[dict[str, Any]]:
    """Yield the figures of the newest commits, the oldest of them first; those of other tools have none."""
    path = lake.table(table)
    last = latest_version(path)
    first = max(0, last + 1 - (TAIL if path.is_local else TAIL_ON_STORE))
    for version in range(first, last + 1):
        try:
            info = next((each.body for each in actions(path, version, Kind.INFO)), {})
        except FileNotFoundError:  # a hole that a mended log has
            continue
        entry = entry_in(info, path, version)
        if entry is not None and "timestamp" in info:
            at = datetime.fromtimestamp(info["timestamp"] / 1000, tz=UTC)
            yield {"version": version, "at": at.isoformat(), **_of_commit(entry)}


def _of_commit(entry: Entry) -> dict[str, Any]:
    return {
        "mode": entry.mode,
        "is_repair": entry.is_backfill,
        "read": entry.read,
        "good": max(0, entry.good),
        "copies": max(0, entry.duplicates),
        "held": max(0, entry.held_records),
        "skipped": sum(entry.skipped.values()),
        "written": entry.written,
        "came": entry.came,
        "gone": entry.gone,
        "took_s": entry.duration_ms / 1000,
    }


def _certificates(table: Table, lake: Lake) -> Iterator[dict[str, Any]]:
    """Yield the last certificates of a table; rows in which two sides differ are named by their number alone."""
    if isinstance(table, Ingested):
        return
    of = (
        ("all rows", kept(table, lake)),
        ("a range", kept(table, lake, is_whole=False)),
        ("another engine", kept(table, lake, by=SECOND)),
    )
    for what, found in of:
        if found is not None:
            yield {
                "of": what,
                "is_equal": found.equal,
                "at": found.at,
                "rows": found.rows,
                "splits": found.splits,
                "kills": found.kills,
                "since": found.since,
                "until": found.until,
                "differences": len(found.differences),
            }


def _of_moment(moment: Moment) -> dict[str, Any]:
    return {
        "number": moment.number or None,
        "name": moment.name or None,
        "at": moment.at.isoformat(),
        "by": _cut(moment.by),
        "until": moment.until or None,
        "versions": dict(moment.versions),
        "offsets": dict(moment.offsets),
        "behind": _behind(moment),
        "lost": {name: _cut(why) for name, why in moment.lost.items()},
    }


def _behind(moment: Moment) -> dict[str, str]:
    return {name: _cut(why) for name, why in moment.behind.items()}


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
