"""What an agent may ask of a lake: the tools, resources and prompts of ``strandline mcp``, without the protocol (mcp_server.py).

Each tool is a public method of ``Tools``: its docstring is what an agent reads, its signature becomes the schema of the arguments, and
its answer has a verdict beside it (mcp_verdict.py). A tool more is a method more.

Nothing is written, and no value of a masked column leaves: rows and events are asked within limits and masks (mcp_questions.py), what is
shown of a quarantine is what the command shows without a reason to see more, and names out of payloads are left out where a payload may
be sensitive.
"""

import shlex
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field
from strandline import catalog

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.core.table import Ingested, Judged
from strandline.engine.accounting import browse_held
from strandline.engine.accounting.commit_history import read_on
from strandline.engine.accounting.history_queries import MOST, marks
from strandline.engine.ask import sql_query
from strandline.engine.ask.diff import Compared, differences
from strandline.engine.ask.find_moment import Moment
from strandline.engine.ask.lake_views import Source, sources
from strandline.engine.ask.locate import Verdict, World
from strandline.engine.ask.moments import LATEST, chosen, named, noted
from strandline.engine.ask.why import why
from strandline.engine.flow import readers
from strandline.engine.flow.function_plan import visible_columns
from strandline.engine.flow.preflight import Answer as Outlook
from strandline.engine.flow.preflight import judge, needs_spark
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import columns
from strandline.engine.runtime.limit import within
from strandline.operate import audit, lakes
from strandline.operate.mcp_pages import declaration, head, runbooks
from strandline.operate.mcp_questions import (
    LONGEST,
    LimitError,
    held_as_json,
    question_of,
    selected,
)
from strandline.operate.mcp_verdict import LAKE, Answer, Answers, belief, text, version_of
from strandline_quality.findings import TableFindings
from strandline_quality.findings import Verdict as Unbelieved

TableName = Annotated[str, Field(description="such as gold.device_daily", max_length=200)]
TableNames = Annotated[
    list[str] | None,
    Field(description="such as gold.device_daily; all when absent", max_length=300),
]
Day = Annotated[str | None, Field(description="2026-11-01, today or yesterday", max_length=20)]
FirstDay = Annotated[str | None, Field(description="the first of several days", max_length=20)]
DayAfter = Annotated[str | None, Field(description="the day after the last", max_length=20)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools(Answers):
    """The tools over one lake."""

    # ---- what there is -----------------------------------------------------------------------------------

    def tables(
        self,
        layer: Annotated[
            str | None, Field(description="bronze, silver or gold", max_length=20)
        ] = None,
    ) -> Answer:
        """List the tables of the lake: what each is about, what it reads, how many rows it has, whether it is certified.

        Begin here. bronze is as received, silver has the judged rows, gold the answers. Every name can be asked with `query`; rows that
        were held back are in quarantine.<table>.
        """
        rows, damaged = audit.table_rows(self.lake)
        about = {each.id: each.summary.partition("\n")[0] for each in self.tables_}
        shown = [
            {"about": about.get(str(row["table"]), ""), **row}
            for row in rows
            if layer is None or str(row["table"]).startswith(f"{layer}.")
        ]
        ill = [
            f"{row['table']}: {row[what]}"
            for row in shown
            for what in ("certificate", "gate")
            if str(row.get(what) or "").startswith(("NOT", "shut"))
        ]
        because = [*(each.message for each in damaged), *ill]
        return self._of(
            {
                "tables": shown,
                "also": [
                    name for name in sql_query.names(self.tables_, self.lake) if name not in about
                ],
            },
            believed=not because,
            verdict="as the logs of the tables say"
            if not because
            else "some tables are not in order",
            because=because,
            check=["the tool ledger proves the counts of one table", "strandline tables"],
            verdicts={
                str(row["table"]): str(row["certificate"] or "as received")
                for row in shown
                if row["mode"] != "damaged"
            },
        )

    def schema(self, table: TableName) -> Answer:
        """Describe a table: its columns with types and comments, which are masked, its key, its rules, how late rows may come.

        Also of what `query` can name beside tables, such as quarantine.device_telemetry. A masked column shows hashes: it can be
        counted, grouped and joined, and no value of it can be asked for.
        """
        source = self._source(table)
        secret = source.secret(self.tables_, self.lake)
        known = columns(source.place)
        kinds = {name: kind for name, (kind, _) in known.items()} | source.columns
        comments = {name: own for name, (_, own) in known.items() if own}
        described = [
            {
                "name": name,
                "type": kind,
                **({"comment": comments[name]} if name in comments else {}),
                **({"masked": True} if name in secret else {}),
            }
            for name, kind in kinds.items()
        ]
        of = source.table
        declared = declaration(of) if of is not None and source.is_plain else {}
        return self._believed(
            {table: source},
            {"table": table, "columns": described, **declared},
            masked=[f"{table}.{name}" for name in kinds if name in secret],
        )

    # ---- questions ---------------------------------------------------------------------------------------

    def query(
        self,
        sql: Annotated[
            str,
            Field(
                description="one SELECT in DuckDB's SQL, such as: SELECT signal, count(*) AS n FROM silver.device_telemetry GROUP BY ALL",
                max_length=LONGEST,
            ),
        ],
    ) -> Answer:
        """Answer one SELECT over the lake's tables, in DuckDB's SQL; nothing can be changed and no file can be read.

        Tables are named with their layer (silver.device_telemetry); quarantine.<table>, resolutions.<table>, ledger.entries and
        quality.history can be asked as well, and a past version: FROM gold.device_daily AT (VERSION => 12). At the end, AT MOMENT LATEST has all tables agree. Times are in UTC. An answer
        that is too long is refused and not cut: aggregate, or add LIMIT. `columns` and `rows` are in one order.
        """
        question = question_of(sql, self.tables_, self.lake, self.limits)
        known = sources(self.tables_, self.lake)
        named = {each.name: known[each.name] for each in question.tables if each.name in known}
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            before = {name: version_of(source) for name, source in named.items()}
            found = selected(question, self.tables_, self.lake, self.limits)
            after = {name: version_of(source) for name, source in named.items()}
            if before == after or tries == TRIES or time.monotonic() - began > SHORT:
                break
        at = {each.name: f"{each.unit} => {each.at}" for each in question.tables if each.unit}
        read: dict[str, tuple[Source, int | str]] = {
            name: (
                source,
                at.get(name)
                or (
                    before[name]
                    if before[name] == after[name]
                    else f"{before[name]} to {after[name]}, while a writer went on"
                ),
            )
            for name, source in named.items()
        }
        return self._answer(
            belief(read, self.tables_, self.lake, self.clock()),
            {"columns": list(found.columns), "rows": found.rows, "count": len(found.rows)},
            masked=list(found.masked),
        )

    def why(
        self,
        event: Annotated[
            str,
            Field(
                description="its place in Kafka, TOPIC/PARTITION/OFFSET, or the values of a table's key with commas between them",
                max_length=2_000,
            ),
        ],
        table: Annotated[
            str | None,
            Field(
                description="the silver or gold table in which it is missing; the one that judges it when absent",
                max_length=200,
            ),
        ] = None,
    ) -> Answer:
        """Explain where one event is and why: in a table, late, a duplicate, held back, not read yet, waiting for its window, lost.

        One verdict of a closed list, a sentence, and the evidence. By its place any event is found; by a key only rows are, because
        payloads are not searched here.
        """
        asked = catalog.find(table) if table else None
        world = World(
            lake=self.lake,
            now=self.clock(),
            address=lakes.address(self.found, self.lake),
            options=self.found.kafka_options,
            search=False,
            sees_masked=False,
        )
        finding = why(event, asked, world)
        names = [each.strip() for each in finding.table.split(",")]
        of = [each for each in self.tables_ if each.id in names and self.lake.exists(each)]
        known = finding.verdict not in (Verdict.UNKNOWN, Verdict.UNACCOUNTED)
        believed = self._believed(
            self._sources([each.id for each in of]),
            {
                "event": event,
                "table": finding.table,
                "verdict": str(finding.verdict),
                "sentence": finding.sentence,
                "evidence": dict(finding.evidence),
            },
        )
        if not known:
            believed.believed = False if finding.verdict is Verdict.UNACCOUNTED else None
            believed.because.insert(0, finding.sentence)
        believed.check.append(
            f"strandline why {shlex.quote(event)}" + (f" --in {table}" if table else "")
        )
        return believed

    # ---- proofs ------------------------------------------------------------------------------------------

    def ledger(self, tables: TableNames = None) -> Answer:
        """Prove where every event is: read = good + duplicates + quarantined + skipped + dropped + lost - made, table by table.

        `waiting` are rows of its sources that a table has not read yet. Sums that differ are a fault, named with its batch: then the
        numbers of the table may not be believed.
        """
        sheets = audit.sheets_of(self.lake, tables)
        known = {each.id: each for each in self.tables_}
        faults = [
            f"{sheet.table}: {fault}"
            for sheet in sheets
            for fault in (
                ["its sums differ; a person sees where: strandline ledger"]
                if sheet.faults and self._is_secret(known.get(sheet.table))
                else sheet.faults
            )
        ]
        shown = list[dict[str, Any]]()
        for sheet in sheets:
            figures = {
                name: value
                for name, value in sheet.figures().items()
                if value not in (0, {}, [], "", False)
            }
            if self._is_secret(
                known.get(sheet.table)
            ):  # kinds and undeclared fields are out of payloads
                for name in ("said", "faults", "unrouted", "left_out", "kinds"):
                    figures.pop(name, None)
            shown.append(
                {
                    **figures,
                    "table": sheet.table,
                    "read": sheet.read,
                    "good": sheet.good,
                    "balanced": sheet.balanced,
                }
            )
        return self._of(
            {"tables": shown},
            believed=not faults,
            verdict="every event is in exactly one place" if not faults else "unbalanced",
            because=faults,
            check=["strandline ledger --audit reads every entry since the first commit"],
            verdicts={
                sheet.table: "balanced" if sheet.balanced else "unbalanced" for sheet in sheets
            },
        )

    def report(
        self,
        day: Day = None,
        since: FirstDay = None,
        until: DayAfter = None,
    ) -> Answer:
        """Say whether the numbers of a day can be trusted, and why not: by table, with what was read, held back and late.

        Without a day that of the newest commit is judged. Days are those in which rows were committed.
        """
        found = audit.report_of(self.lake, day=day, since=since, until=until, writes=False)
        shown = [
            {
                "table": each.table,
                "verdict": str(each.verdict),
                "because": self._because(each),
                "flow": {name: value for name, value in asdict(each.flow).items() if value},
                "newest_commit": each.newest_at,
                **({"certificate": each.proof.standing} if each.proof else {}),
                **({"held": each.quarantine.rows} if each.quarantine else {}),
                **({"gate": each.gate.why} if each.gate else {}),
            }
            for each in found.tables
        ]
        return self._of(
            {
                "sentence": found.sentence,
                "since": found.since,
                "until": found.until,
                "arrived": found.arrived,
                "judged": asdict(found.judged),
                "tables": shown,
                "unread": [asdict(each) for each in found.unread],
            },
            believed=found.verdict.is_trusted,
            verdict=f"{found.verdict}: {found.sentence}",
            because=[why for each in found.tables for why in self._because(each)][:FEW],
            check=[f"strandline report --day {found.since[:10]} writes the page of it"],
            verdicts={each.table: str(each.verdict) for each in found.tables},
        )

    def _because(self, found: TableFindings) -> list[str]:
        """Return why a table is not believed, without kinds out of payloads that may be sensitive."""
        if found.verdict is Unbelieved.UNBALANCED and self._is_secret(catalog.find(found.table)):
            return [f"its sums differ; a person sees where: strandline ledger {found.table}"]
        return list(found.because)

    def lineage(self, table: TableName) -> Answer:
        """Show what a table is computed from, which tables read it, and which columns each of its columns shows values of."""
        of = catalog.find(table)
        source = self._source(table)
        made_of = visible_columns(of, self.lake) if of.upstream else None
        secret = source.secret(self.tables_, self.lake)
        return self._believed(
            {table: source},
            {
                "table": table,
                "reads": [str(each) for each in of.reads],
                "needs": [each.id for each in of.needs],
                "read_by": [each.id for each in self.tables_ if of in each.needs],
                "columns": None
                if made_of is None
                else {
                    name: [f"{below}.{column}" for below, column in pairs]
                    for name, pairs in made_of.items()
                },
                "masked": sorted(secret),
                **(
                    {"note": "by column it is known once Spark has run the table"}
                    if made_of is None
                    else {}
                ),
            },
            masked=sorted(f"{table}.{name}" for name in secret),
        )

    def quarantine(
        self,
        table: Annotated[
            str | None,
            Field(description="a silver table; all when absent", max_length=200),
        ] = None,
        reason: Annotated[
            str | None,
            Field(description="only records with this reason, such as late", max_length=200),
        ] = None,
        samples: Annotated[
            int, Field(description="how many records of one table to show, masked", ge=0, le=20)
        ] = 0,
    ) -> Answer:
        """Count the records that are held back, by table and reason, and since when; show some of one table, masked.

        Held records are in no table above: a number lacks them until they are replayed.
        """
        chosen = (
            [each for each in self.tables_ if isinstance(each, Judged) and self.lake.exists(each)]
            if table is None
            else [catalog.find(table)]
        )
        piles = [
            pile
            for each in chosen
            for pile in browse_held.piles(each, self.lake, self.clock())
            if reason is None or pile.reason == reason
        ]
        shown: list[dict[str, Any]] = []
        if samples and table is not None:
            (of,) = chosen
            if isinstance(of, Ingested) and self._is_secret(of):
                raise DefinitionError(
                    f"the payloads of {of.id} are masked",
                    hint="leave samples out, or ask for those of the silver table above it.",
                    table=of.id,
                )
            for row in browse_held.rows(of, self.lake, reason=reason, limit=samples):
                secret = browse_held.withheld(of, self.tables_)
                held = browse_held.masked(row, of, self.lake, secret) if secret else row
                shown.append(held_as_json(held))
        return self._believed(
            self._sources([each.id for each in chosen]),
            {
                "piles": [
                    {
                        "table": each.table,
                        "reason": each.reason,
                        "open": each.open,
                        "discarded": each.discarded,
                        "oldest": text(each.oldest),
                        "newest": text(each.newest),
                    }
                    for each in piles
                ],
                "samples": shown,
            },
        )

    def radar(self) -> Answer:
        """Show for every reader how much it has not read, and how long until something that it still needs may be gone from Kafka.

        Kafka is asked where it answers; else it is what was seen last, with its time.
        """
        try:
            dangers = audit.dangers_of(self.found, self.lake, keeps=False)
            at, live = text(self.clock()), True
        except (DefinitionError, TransientError):
            at, dangers = readers.last(self.lake) or (None, [])
            live = False
        ill = [each for each in dangers if each.level.is_alarming]
        return self._of(
            {
                "seen_at": at,
                "readers": [
                    {
                        "reader": each.reader,
                        "source": each.source,
                        "unread": each.unread,
                        "may_go_at": each.goes_at,
                        "state": each.level.value,
                        "says": each.says,
                    }
                    for each in dangers
                ],
            },
            believed=not ill if live else None,
            verdict="as Kafka says now" if live else "Kafka does not answer: as it was seen last",
            because=[f"{each.reader}, {each.source}: {each.says}" for each in ill],
            check=["strandline radar"],
        )

    def history(
        self,
        table: TableName,
        last: Annotated[int, Field(description="how many batches", ge=1, le=100)] = 10,
    ) -> Answer:
        """Show the last batches of a table: when, how many rows were read, accepted, held back, how late they were, and what is unusual.

        A volume or a share is compared with the same hour of the week, once there are 14 batches.
        """
        of = catalog.find(table)
        self.lake.refuse_missing(of)
        batches = read_on(self.lake, [of]).last(of, MOST + last)
        unusual = marks(batches[-last:], batches[:-last])
        shown = [
            {
                "version": each.version,
                "at": text(each.at),
                "mode": each.mode,
                **{
                    name: value
                    for name, value in sorted(each.values.items())
                    if value and not name.startswith("null:")
                },
                **(
                    {"unusual": found}
                    if (found := [one.said for one in unusual if one.version == each.version])
                    else {}
                ),
            }
            for each in batches[-last:]
        ]
        return self._believed({table: self._source(table)}, {"table": table, "batches": shown})

    def moments(
        self,
        last: Annotated[
            int, Field(description="how many of those that were noted", ge=1, le=100)
        ] = 10,
    ) -> Answer:
        """List the moments at which the tables of the lake agree, so that sums over one are those over another.

        A question over several tables ends with one: AT MOMENT LATEST, AT MOMENT 17, AT MOMENT '2026-11-26 09:00' or, of one that has
        a name, AT MOMENT 'month-end-october'. `behind` names tables that are no part of a moment, with the reason.
        """
        known = noted(self.lake)
        found = [each for one in reversed(known[-last:]) if (each := one.read()) is not None]
        because = list[str]()
        try:
            latest = _moment(chosen(LATEST, (), self.tables_, self.lake))
            because += [f"{name}: {why}" for name, why in latest["behind"].items()]
        except (DefinitionError, TransientError) as error:
            latest = {}
            because.append(error.message)
        return self._of(
            {"latest": latest, "moments": [_moment(each) for each in (*named(self.lake), *found)]},
            believed=None,
            verdict="the tables of a moment agree; whether they are right, the tool report says",
            because=because,
            check=["strandline moments show"],
        )

    def diff(  # noqa: PLR0913  # each is an argument of the tool
        self,
        table: TableName,
        since: Annotated[
            str | None,
            Field(
                description="a version, or a time such as 2026-11-26T09:00; a day ago when absent",
                max_length=40,
            ),
        ] = None,
        until: Annotated[
            str | None, Field(description="likewise; the latest when absent", max_length=40)
        ] = None,
        by: Annotated[
            list[str] | None,
            Field(description="columns by whose values to count and sum", max_length=5),
        ] = None,
        *,
        downstream: Annotated[
            bool, Field(description="also compare the tables that read it")
        ] = False,
        limit: Annotated[int, Field(description="most rows and groups", ge=0, le=100)] = 10,
    ) -> Answer:
        """Show which rows of a table came, went or changed between two versions or times, and which repair or run did it.

        Use it for "why is yesterday's number another one today?". Counts and sums are of all rows; rows and groups are samples.
        """
        of = catalog.find(table)
        first = since or (self.clock() - timedelta(days=1)).isoformat()
        asked = Compared(since=first, until=until, by=tuple(by or ()), most=limit)
        with within(self.limits.seconds):
            found = [*differences(of, self.lake, asked, downstream=downstream)]
        answer = self._believed(
            self._sources([each.table for each in found]),
            {"tables": [asdict(each) for each in found]},
            masked=[f"{each.table}.{name}" for each in found for name in each.masked],
        )
        words = ["strandline", "diff", table, "--from", first, *(["--to", until] if until else [])]
        answer.check.insert(0, shlex.join(words))
        return answer

    def cost(
        self,
        tables: TableNames = None,
        day: Day = None,
        since: FirstDay = None,
        until: DayAfter = None,
    ) -> Answer:
        """Show what each table took on a day or several: CPU, rows, bytes, its share, and a price where one is set.

        The dearest come first. Without a day it is that of the newest commit. `processes` says what no table took, idle cores included.
        """
        self._refuse_many_days(day, since, until)
        with within(self.limits.seconds):
            found = audit.costs_of(self.lake, self.found, tables, day=day, since=since, until=until)
        because = [
            *(each.message for each in found.damaged),
            *(
                f"{each.table}: {each.not_said} commits do not say their CPU"
                for each in found.tables
                if each.not_said
            ),
        ]
        return self._of(
            found.as_json(),
            believed=not because,
            verdict="as the ledger and the processes say" if not because else "a bound, not a sum",
            because=because[:FEW],
            check=[f"strandline cost --since {found.since} --until {found.until}"],
        )

    def _refuse_many_days(self, day: str | None, since: str | None, until: str | None) -> None:
        """Refuse a range each commit of which would be read for longer than an answer may take."""
        named = lakes.days(self.clock().date(), day, since, until)
        if named is not None and (named[1] - named[0]).days > MOST_DAYS:
            raise LimitError(
                f"what tables took is said of {MOST_DAYS} days at most", hint="ask for fewer days."
            )

    def preflight(self, tables: TableNames = None) -> Answer:
        """Say for each table whether its stream may go on with the code as it is now, without starting anything.

        Where code or sources have changed, plans must be compared, which a person does: strandline preflight.
        """
        chosen = [each for each in lakes.to_feed(tables, self.lake) if self.lake.exists(each)]
        shown, because = list[dict[str, Any]](), list[str]()
        for each in chosen:
            if needs_spark(each, self.lake):
                shown.append(
                    {"table": each.id, "answer": "not known: its code or a source has changed"}
                )
                because.append(f"{each.id}: plans must be compared, for which Spark is needed")
                continue
            found = judge(None, each, self.lake)
            shown.append({"table": each.id, "answer": found.answer.value, "hint": found.hint})
            if found.answer is not Outlook.SAFE:
                because.append(f"{each.id}: {found.answer.value}")
        return self._of(
            {"tables": shown},
            believed=True if not because else None,
            verdict="every stream may go on"
            if not because
            else "not every stream may go on as it is",
            because=because,
            check=["strandline preflight"],
            verdicts={str(each["table"]): str(each["answer"]) for each in shown},
        )

    def runbook(
        self,
        name: Annotated[
            str | None,
            Field(description="such as silent; the list of pages when absent", max_length=100),
        ] = None,
    ) -> Answer:
        """Return a page for people on call: what an alarm means, what to look at and what to type; without a name the list of pages."""
        pages = runbooks()
        if name is not None and name not in pages:
            raise DefinitionError(
                f"there is no runbook {name!r}", hint=f"the pages are {', '.join(pages)}."
            )
        found: dict[str, Any] = {"pages": {each: head(file) for each, file in pages.items()}}
        if name is not None:
            found = {"name": name, "page": pages[name].read_text(encoding="utf-8")}
        return self._of(found, believed=None, verdict="a page, and no number", because=[], check=[])


TRIES, SHORT = 3, 3.0
"""How often a question is asked again whose tables were written meanwhile, and the seconds within which it is."""

MOST_DAYS = 31
"""Days of one answer about what tables took: each commit of them is read."""

FEW = 30
"""Reasons beside the verdict on a day; each table has its own."""


def _moment(found: Moment) -> dict[str, Any]:
    return {
        "moment": found.name or found.number or LATEST,
        "at": text(found.at),
        "versions": dict(found.versions),
        "behind": dict(found.behind),
        **({"lost": dict(found.lost)} if found.lost else {}),
    }


NAMES = (
    "tables",
    "schema",
    "query",
    "why",
    "ledger",
    "report",
    "lineage",
    "quarantine",
    "radar",
    "history",
    "moments",
    "diff",
    "cost",
    "preflight",
    "runbook",
)
"""The tools, in the order in which an agent meets them."""


def in_words(error: LakeError, lake: Lake) -> str:
    """Return an error as an agent reads it, without the place of the lake on this machine."""
    return f"{error.message}\nhint: {error.hint}".replace(str(lake.root), LAKE)
