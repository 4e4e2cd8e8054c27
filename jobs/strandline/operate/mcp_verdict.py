"""Whether a number may be believed, as of when, and how it is checked: what is beside each answer of ``strandline mcp``.

The signs are those of on-call (jobs/strandline/engine/proof/day_verdicts.py), the words those of the report. An answer is as good as
the worst of the tables that it was read from and of those below them: a sum over gold is wrong where silver lost rows.

What a sign says of a table with sensitive columns is a number, where its words would have names or kinds out of payloads: a name that
no module declares may itself be a value.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.accounting.commit_history import newest_event
from strandline.engine.ask import sql_query
from strandline.engine.ask.lake_views import Source, is_secret, sources
from strandline.engine.lake.completeness import every_need, with_below
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.proof import day_verdicts
from strandline.engine.proof.daily_report import shut_gate
from strandline.engine.proof.day_verdicts import Sign, committed_at, signs
from strandline.engine.runtime.settings import Settings
from strandline.operate.listener import of_json
from strandline.operate.mcp_questions import LimitError, Limits
from strandline_quality.findings import MEANING, Verdict

WORSE = {
    day_verdicts.LEDGER: Verdict.UNBALANCED,
    day_verdicts.CERTIFICATE: Verdict.UNPROVEN,
    day_verdicts.FRESH: Verdict.STALE,
}
"""What a sign that is not well makes of a table; every other one warns."""

MASKED_WORDS = (day_verdicts.DRIFT, day_verdicts.ROUTED, day_verdicts.LEDGER)
"""The signs whose words may have names or kinds out of payloads."""

LAKE = "the lake"
NO_TABLE = "no table of the lake was asked, so there is nothing to believe"


class TableState(BaseModel):
    """How far a table is that was read."""

    version: int | str = Field(
        description="the version of the table that was read, or how a past one was asked for"
    )
    committed_at: str | None = Field(description="when its newest version was committed, in UTC")
    newest_event: str | None = Field(
        default=None, description="the newest event time among its last commits"
    )
    rows_behind: int | None = Field(
        default=None, description="rows of what it reads that it has not read yet"
    )
    verdict: str = Field(description="whether this table alone may be believed")
    certificate: str | None = Field(
        default=None, description="whether it was computed again from the raw records, and agreed"
    )


class Belief(BaseModel):
    """Whether an answer may be believed, and as of when."""

    believed: bool | None = Field(
        description="true: the numbers may be used; false: they may not; null: it is not known"
    )
    verdict: str = Field(description="the same in words, such as stale or unbalanced")
    because: list[str] = Field(
        default_factory=list, description="why it is not better, the worst first"
    )
    asked_at: str = Field(description="when the answer was made, in UTC")
    as_of: dict[str, TableState] = Field(
        default_factory=dict,
        description="each table that was read: its version, and how far it is behind",
    )
    check: list[str] = Field(
        default_factory=list,
        description="how to check the answer: other tools, and commands that a person types",
    )


def belief(
    read: Mapping[str, tuple[Source, int | str]], tables: Sequence[Table], lake: Lake, now: datetime
) -> Belief:
    """Return whether what was read may be believed.

    Args:
        read: What has a name in a query, with the version that was read.
        tables: All tables of the project.
        lake: The lake.
        now: The clock.
    """
    owners = [each.table for each, _ in read.values() if each.table is not None]
    below = (each for each in with_below(*owners, sources=every_need) if lake.exists(each))
    found = {each.id: _judged(each, tables, lake, now) for each in below}
    states = {
        name: _state(source, version, lake, found.get(source.table.id) if source.table else None)
        for name, (source, version) in read.items()
    }
    if not found:
        return Belief(
            believed=True if read else None,
            verdict="the books of the lake itself" if read else NO_TABLE,
            asked_at=str(text(now)),
            as_of=states,
        )
    ranked = sorted(found.values(), key=lambda each: -each.verdict.rank)
    names = " ".join(found)
    return Belief(
        believed=ranked[0].verdict.is_trusted,
        verdict=f"{ranked[0].verdict}: {MEANING[ranked[0].verdict]}",
        because=[why for each in ranked for why in each.because],
        asked_at=str(text(now)),
        as_of=states,
        check=[
            *_past(read),
            f"the tool ledger, or: strandline ledger {names}",
            f"computed again from the raw records: strandline verify {' '.join(_derived(owners))}"
            if _derived(owners)
            else "bronze is as received; the tool why follows one record",
        ],
    )


def as_of(
    verdicts: Mapping[str, str], tables: Sequence[Table], lake: Lake
) -> dict[str, TableState]:
    """Return how far tables are whose verdict is known; of those that were never run nothing."""
    known = {each.id: each for each in tables if each.id in verdicts and lake.exists(each)}
    return {
        name: TableState(
            version=latest_version(lake.table(table)),
            committed_at=text(committed_at(table, lake)),
            verdict=verdicts[name],
        )
        for name, table in known.items()
    }


def text(moment: datetime | None) -> str | None:
    """Return a moment as JSON has it."""
    return None if moment is None else moment.isoformat(timespec="seconds")


class _Judged:
    """The verdict on one table alone."""

    def __init__(
        self, table: Table, verdict: Verdict, because: list[str], found: list[Sign]
    ) -> None:
        self.table, self.verdict, self.because = table, verdict, because
        self._said = {each.name: each for each in found}

    @property
    def behind(self) -> int | None:
        sign = self._said.get(day_verdicts.LAGS)
        return int(sign.figures["lag"]) if sign and "lag" in sign.figures else None

    @property
    def certificate(self) -> str | None:
        sign = self._said.get(day_verdicts.CERTIFICATE)
        return sign.message if sign else None


def _judged(table: Table, tables: Sequence[Table], lake: Lake, now: datetime) -> _Judged:
    found = [*signs(table, lake, now)]
    ill = [each for each in found if not each.well]
    verdicts = [WORSE.get(each.name, Verdict.WARNED) for each in ill]
    because = [f"{table.id}: {said(each, table, tables)}" for each in ill]
    gate = shut_gate(table, lake)
    if gate is not None:
        verdicts.append(Verdict.HELD)
        because.append(f"{table.id}: its gate is shut since {gate.since}: {gate.why}")
    verdict = max(verdicts, key=lambda each: each.rank, default=Verdict.BELIEVED)
    return _Judged(table, verdict, because, found)


def said(sign: Sign, table: Table, tables: Sequence[Table]) -> str:
    """Return what a sign says, without names out of payloads where a payload may be sensitive."""
    if not is_secret(table, tables) or sign.name not in MASKED_WORDS:
        return sign.message
    figures = ", ".join(f"{value} {name}" for name, value in sign.figures.items())
    return f"{sign.name} is not well ({figures}); a person sees more: strandline ledger {table.id}"


def _state(source: Source, version: int | str, lake: Lake, judged: _Judged | None) -> TableState:
    table = source.table
    if judged is None or table is None:
        return TableState(version=version, committed_at=None, verdict="a book of the lake")
    return TableState(
        version=version,
        committed_at=text(committed_at(table, lake)),
        newest_event=text(newest_event(table, lake)) if table.event_at else None,
        rows_behind=judged.behind,
        verdict=str(judged.verdict),
        certificate=judged.certificate,
    )


def _past(read: Mapping[str, tuple[Source, int | str]]) -> Iterator[str]:
    """Yield how the same rows are read later."""
    pinned = [
        f"{name} AT (VERSION => {version})"
        for name, (source, version) in read.items()
        if source.is_plain and isinstance(version, int)
    ]
    if pinned:
        yield f"the same rows later: query {', '.join(pinned)}"


def _derived(owners: Iterable[Table]) -> list[str]:
    return sorted({each.id for each in owners if each.upstream})


def version_of(source: Source) -> int:
    """Return the newest version of what has a name in a query; -1 where it does not exist."""
    return latest_version(source.place)


# What all tools share: the lake that they read, and how an answer gets its verdict.


class Answer(Belief):
    """An answer, and whether it may be believed."""

    masked: list[str] = Field(
        default_factory=list,
        description="columns whose values are replaced by hashes; equal values have equal hashes within one answer",
    )
    answer: dict[str, Any] = Field(description="what was asked")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Answers about one lake, each with its verdict.

    Args:
        lake: The lake.
        found: The settings, for Kafka's address.
        tables_: All tables of the project.
        clock: The time.
        limits: What one answer may cost.
    """

    lake: Lake
    found: Settings
    tables_: tuple[Table, ...]
    clock: Callable[[], datetime]
    limits: Limits = field(default_factory=Limits)

    def _source(self, name: str) -> Source:
        return self._sources([name])[name]

    def _sources(self, names: Sequence[str]) -> dict[str, Source]:
        known = sources(self.tables_, self.lake)
        for name in names:
            if name not in known or not is_table(known[name].place):
                there = sql_query.names(self.tables_, self.lake)
                raise DefinitionError(
                    f"there is no table {name} in the lake",
                    hint=f"the tables are {', '.join(there)}.",
                )
        return {name: known[name] for name in names}

    def _is_secret(self, table: Table | None) -> bool:
        return table is not None and is_secret(table, self.tables_)

    def _believed(
        self, read: Mapping[str, Source], answer: dict[str, Any], masked: Sequence[str] = ()
    ) -> Answer:
        versions: dict[str, tuple[Source, int | str]] = {
            name: (source, version_of(source)) for name, source in read.items()
        }
        found = belief(versions, self.tables_, self.lake, self.clock())
        return self._answer(found, answer, masked=list(masked))

    def _of(  # noqa: PLR0913  # each is a part of an answer
        self,
        answer: dict[str, Any],
        *,
        believed: bool | None,
        verdict: str,
        because: list[str],
        check: list[str],
        verdicts: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return an answer whose verdict is its own; of tables with a verdict in it the versions are said."""
        return self._answer(
            Belief(
                believed=believed,
                verdict=verdict,
                because=because,
                asked_at=str(text(self.clock())),
                as_of=as_of(verdicts or {}, self.tables_, self.lake),
                check=check,
            ),
            answer,
            masked=[],
        )

    def _answer(self, found: Belief, answer: dict[str, Any], *, masked: list[str]) -> Answer:
        here = json.dumps(str(self.lake.root))[1:-1]
        made = Answer(
            **{**found.model_dump(), "because": [self._placeless(each) for each in found.because]},
            masked=masked,
            answer=json.loads(json.dumps(of_json(answer), default=_said).replace(here, LAKE)),
        )
        if (size := len(made.model_dump_json())) > 2 * self.limits.size:
            raise LimitError(
                f"the answer has {size:,} bytes, and {2 * self.limits.size:,} are allowed",
                hint="name one table, or ask for less of it.",
            )
        return made

    def _placeless(self, text: str) -> str:
        """Return a text without the place of the lake on this machine, which a message about a file may have."""
        return text.replace(str(self.lake.root), LAKE)


def _said(value: object) -> object:
    if isinstance(value, datetime):
        return text(value)
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
