"""Promote a version of a model from a moment on, or roll the last promotion back; refuse what would make modes differ.

A term begins at a moment of event time, and every mode scores a row by the terms of that moment. So a term must be known
before the first row of it is scored. There are two ways to be sure:

* It begins later than now by more than a clock may run ahead (``Model.margin``): a row of it cannot be believed yet, so
  no batch that has begun can hold one, and a feed that judges such an event reads the terms within a second.
* It begins earlier, and the table has no row of it and no writer, and no alert feed has run that could have judged an
  event of it: the next writer reads the terms when it starts. That is how history that is yet to come in is scored by a
  version that was trained on what was there before.

What is in neither way is refused: rows that are there keep their score, and a backfill of them gives the same one.

Rows from before the first term have none. A version may be let hold of them afterwards, up to that term.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.model import FEATURES, SCORE, VERSION, Model
from strandline.core.table import Feed
from strandline.engine.lake import shelves
from strandline.engine.lake.duckdb_table import peek_files
from strandline.engine.lake.find_rows import Where, heap, look
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import is_held, refuse_if_taken
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.lake.shelves import PROMOTED, RESCORED, ROLLED_BACK, Decision, Terms
from strandline.engine.repair.closed_range import Span
from strandline_quality.findings import Drift


def feed_runs(lake: Lake, model: str) -> bool:
    """Return whether a process raises alerts by the model."""
    return is_held(lake.lease_of(_feed_id(model)))


def feed_ran_until(lake: Lake, model: str) -> datetime | None:
    """Return when the feed last judged events at the latest; None if it never ran.

    The alert feed of a model, as far as a promotion must know it: whether it runs, and until when it ran.

    The feed has the model's name (jobs/strandline/alerting/alert_rule.py). It judges an event before any table has it, so of a time of
    which the table has no row yet there may be alerts.

    A process that was killed has judged more than its ledger has, and its heartbeat is at most seconds older than that.
    """
    path = lake.root / Feed.layer / model
    newest = last_entry(path)
    if newest is None:
        return None
    beat = json.loads(lake.feeds_beat.text() or "{}")
    known = (
        [datetime.fromisoformat(beat["at"])] if _feed_id(model) in beat.get("tables", ()) else []
    )
    return max([committed_at(path, newest[0]), *known])


def _feed_id(model: str) -> str:
    return f"{Feed.layer}.{model}"


SECOND = timedelta(seconds=1)
SHOWN = 3
"""Complaints of a check that the sentence has; the error has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Who decides about a model, where and when."""

    lake: Lake
    model: Model
    clock: Callable[[], datetime]
    by: str

    def promote(self, version: str, since: datetime | None) -> Decision:
        """Let a version hold from a moment on, as soon as is safe where none is given.

        Raises:
            DefinitionError: The version's metrics do not fulfil the check, or rows of the time are scored already.
            TransientError: Another process has decided meanwhile, or writes the table.
        """
        self._refuse_unfit(version)
        was = shelves.terms(self.lake, self.model.name)
        return self._decide(was, PROMOTED, version, since)

    def rescore(self, version: str, since: datetime) -> Decision:
        """Let a version hold of history, from a moment on until the first term; a rebuild gives the rows their score.

        No row of that time has a score, so none changes; and what any later moment has scored, a running stream and a
        feed included, stays as it is.

        Raises:
            DefinitionError: The version's metrics do not fulfil the check, nothing is promoted yet, or the moment is
                not before the first term.
            TransientError: Another process has decided meanwhile.
        """
        self._refuse_unfit(version)
        was = shelves.terms(self.lake, self.model.name)
        if not was.every:
            raise DefinitionError(
                f"no version of {self.model.name} is promoted in {self.lake.root}, so nothing ends the history",
                hint=f"`strandline models promote {self.model.name} {version}` promotes it first.",
                model=self.model.name,
            )
        first = self.history_ends(was)
        if since >= first:
            raise DefinitionError(
                f"events of {self.model.name} from {first.isoformat()} on have the score of their time",
                hint="name an earlier moment: what is rescored is the time before.",
                model=self.model.name,
            )
        decision = self._decision(RESCORED, version, since.astimezone(first.tzinfo))
        shelves.decide(self.lake, self.model.name, was, decision)
        return decision

    @staticmethod
    def history_ends(known: Terms) -> datetime:
        """Return the first moment of which a decision was made."""
        return min(datetime.fromisoformat(each.since) for each in known.every)

    def _refuse_unfit(self, version: str) -> None:
        """Refuse a version that does not fulfil the check, and keep that in the history."""
        words = shelves.version(self.lake, self.model.name, version)
        complaints = self.model.against(words["certificate"])
        if complaints:
            line = {"what": "refused", "version": version, "by": self.by, "because": complaints}
            self._note(line)
            raise DefinitionError(
                f"version {version} of {self.model.name} is not promoted: {'; '.join(complaints[:SHOWN])}",
                hint="train it on a longer range or with other features; the check is in the model's module.",
                model=self.model.name,
                version=version,
                reasons=complaints,
            )

    def roll_back(self, since: datetime | None) -> Decision:
        """Let the version before the last promotion hold again, from a moment on; none where there is no such version.

        Raises:
            DefinitionError: Nothing is promoted, or rows of the time are scored already.
            TransientError: Another process has decided meanwhile, or writes the table.
        """
        was = shelves.terms(self.lake, self.model.name)
        if not was.stack:
            raise DefinitionError(
                f"no version of {self.model.name} is promoted in {self.lake.root}",
                hint=f"`strandline models promote {self.model.name} VERSION` promotes one.",
                model=self.model.name,
            )
        before = was.stack[-2] if len(was.stack) > 1 else None
        return self._decide(was, ROLLED_BACK, before, since)

    def _decide(
        self, was: Terms, what: str, version: str | None, since: datetime | None
    ) -> Decision:
        soonest = self._soonest()
        begins = (since or soonest).astimezone(soonest.tzinfo)
        is_ahead = begins >= soonest
        self._refuse_past(begins, is_ahead=is_ahead)
        decision = self._decision(what, version, begins)
        known = shelves.decide(self.lake, self.model.name, was, decision)
        if not is_ahead:
            self._take_back_if_late(known, was, begins)
        return decision

    def _decision(self, what: str, version: str | None, begins: datetime) -> Decision:
        return Decision(
            what=what,
            version=version,
            since=begins.isoformat(),
            at=self.clock().isoformat(timespec="seconds"),
            by=self.by,
        )

    def _take_back_if_late(self, known: Terms, was: Terms, begins: datetime) -> None:
        """Undo a decision about time of which a stream that started meanwhile has scored rows."""
        try:
            self._refuse_past(begins, is_ahead=False)
        except (DefinitionError, TransientError):
            shelves.restore(self.lake, self.model.name, known, was)
            self._note({"what": "taken back: a stream started meanwhile"})
            raise

    def _refuse_past(self, begins: datetime, *, is_ahead: bool) -> None:
        """Refuse a term of whose time something may be scored.

        Raises:
            DefinitionError: There are rows, or an alert feed has judged events.
            TransientError: A process writes the table, or raises alerts.
        """
        if not is_ahead:
            refuse_if_taken(self.model.of, self.lake)
            self._refuse_judged(begins)
        self._refuse_scored(begins)

    def _refuse_judged(self, begins: datetime) -> None:
        name, leave_out = self.model.name, "leave --from out"
        if feed_runs(self.lake, name):
            raise TransientError(
                f"`strandline alerts` raises alerts by {name}, and may have judged events from {begins.isoformat()} on",
                hint=f"{leave_out}: then it follows without a restart.",
                model=name,
            )
        ran = feed_ran_until(self.lake, name)
        if ran is not None and begins < (free := ran + self.model.margin):
            raise DefinitionError(
                f"`strandline alerts` has judged events by {name} until {ran.isoformat(timespec='seconds')}",
                hint=f"{leave_out}, or name {free.isoformat(timespec='seconds')} or a later moment: "
                "an alert has the score of its event's row.",
                model=name,
            )

    def _refuse_scored(self, begins: datetime) -> None:
        """Refuse a term of whose time rows are scored.

        Raises:
            DefinitionError: There are rows.
        """
        table, lake = self.model.of, self.lake
        soonest = self._soonest()
        within = {table.event_at: (begins, None)}
        if look(lake.table(table), Where(within=within, most=1), (table.event_at,)):
            raise DefinitionError(
                f"rows of {table.id} from {begins.isoformat()} on are written, with the score of their time",
                hint=f"leave --from out, or name {soonest.isoformat(timespec='seconds')} or a later moment; "
                "without a stream, any moment after the last row.",
                model=self.model.name,
            )

    def _soonest(self) -> datetime:
        """Return the first whole second of which no row can be scored yet."""
        return (self.clock() + self.model.margin).replace(microsecond=0) + SECOND

    def _note(self, line: Mapping[str, object]) -> None:
        now = self.clock().isoformat(timespec="seconds")
        shelves.note(self.lake, self.model.name, {"at": now, **line})


# How far the features and scores of a day have moved from those that the version that scored it has learnt.
#
# The figure is the population stability index: over the parts of the training's distribution the sum of
# (share of the day - share of the training) x ln(the one / the other). Banks have judged scores by it for decades: below
# 0.1 nothing has moved, above 0.25 the model is another one's. It needs counts alone, so the report asks DuckDB for them,
# in one look at the files of the day; a Kolmogorov-Smirnov test would call every large day significant.
#
# A share of zero would make it infinite, so each share is at least ``LEAST``.


LEAST = 0.0001
FEWEST = 200
"""Rows of a version on a day with fewer of which nothing is said: of ten parts each would have a handful by chance."""


def drift(model: Model, lake: Lake, since: datetime, until: datetime) -> list[Drift]:
    """Return the drift of each feature and of the score on a day, by the version that scored it.

    Args:
        model: The model.
        lake: Where its table is.
        since: The first moment of event time.
        until: The moment after the last.
    """
    path, moment = lake.table(model.of), model.of.event_at
    files = heap(path, Where(within={moment: (since, until)}))
    if not files:
        return []
    first, last = Span(since=since, until=until).in_micros()
    within = f"epoch_us({moment}) BETWEEN {first} AND {last}"
    with peek_files(list(files), "scored") as day:
        if VERSION not in {name for name, *_ in day.ask("DESCRIBE scored")}:
            return []  # they were written before the table was scored
        known = day.ask(
            f"SELECT {VERSION}, count(*) FROM scored WHERE {within} AND {VERSION} IS NOT NULL GROUP BY 1 ORDER BY 1"  # noqa: S608  # our own names
        )
        found = []
        for version, rows in known:
            if int(str(rows)) < FEWEST:
                continue
            words = shelves.version(lake, model.name, str(version))
            learnt = words["certificate"]["distributions"]
            (counts,) = day.ask(
                f"SELECT {', '.join(_counts(words))} FROM scored WHERE {within} AND {VERSION} = '{version}'"  # noqa: S608  # our own
            )
            reached = [int(str(count)) for count in counts]
            found += [*_drifts(model, str(version), int(str(rows)), learnt, reached)]
    return found


def index(learnt: Sequence[float], shares: Sequence[float]) -> float:
    """Return the population stability index of two distributions over the same parts.

    >>> index([0.5, 0.5], [0.5, 0.5]), round(index([0.5, 0.5], [0.9, 0.1]), 3)
    (0.0, 0.879)
    """
    pairs = [(max(a, LEAST), max(b, LEAST)) for a, b in zip(learnt, shares, strict=True)]
    return sum((b - a) * math.log(b / a) for a, b in pairs)


def _counts(words: Mapping[str, Any]) -> Iterator[str]:
    """Yield SQL for the number of rows up to each bound, feature by feature, the score last."""
    names = [each["name"] for each in words["features"]]
    columns = {name: f"{FEATURES}[{at}]" for at, name in enumerate(names, start=1)}
    for name, parts in words["certificate"]["distributions"].items():
        column = columns.get(name, SCORE)
        for bound in parts["bounds"]:
            yield f"count(*) FILTER ({column} <= {bound})"


def _drifts(
    model: Model, version: str, rows: int, learnt: Mapping[str, Any], reached: list[int]
) -> Iterator[Drift]:
    for name, parts in learnt.items():
        up_to = [reached.pop(0) for _ in parts["bounds"]]
        shares = [
            (after - before) / rows
            for before, after in zip([0, *up_to], [*up_to, rows], strict=True)
        ]
        moved = index(parts["shares"], shares)
        yield Drift(
            model=model.name,
            version=version,
            of=name,
            rows=rows,
            psi=round(moved, 4),
            warns=moved > model.drifts,
            learnt=tuple(parts["shares"]),
            shares=tuple(round(each, 6) for each in shares),
        )
