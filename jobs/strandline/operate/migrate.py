"""One change, one plan: what an edit asks of each table, done downstream in order, and taken back as one."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from strandline import catalog

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.core.stateful import AvailableNow, Batch
from strandline.core.table import Ingested, Judged, Recomputed, Streamed, Table
from strandline.engine.flow import preflight, shadow_lake
from strandline.engine.flow.compare_plans import Remedy
from strandline.engine.flow.function_plan import hidden
from strandline.engine.flow.publications import publications
from strandline.engine.flow.recompute import Afresh
from strandline.engine.flow.runner import Site, run
from strandline.engine.flow.shadow_lake import Promotion, Shadow
from strandline.engine.lake.completeness import computable_from, fed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import handed_over, lease
from strandline.engine.lake.log.ledger import Entry, last_entry, latest_version
from strandline.engine.lake.log.log_actions import live_files
from strandline.engine.lake.store_lease import HeldError, hold
from strandline.engine.proof.compare import Comparison
from strandline.engine.proof.trial_lakes import Tried, tried
from strandline.engine.repair import migrate as repaired
from strandline.engine.repair import rebuild
from strandline.engine.repair.migrate import (
    Migration,
    Stage,
    Step,
    begun,
    has_read_all,
    keep,
    last,
    made,
    note_equal,
    planned,
    readers,
)
from strandline.engine.runtime import clock
from strandline.engine.runtime.code_files import code_version, is_code_of
from strandline.engine.runtime.processes import own
from strandline.engine.runtime.settings import Settings
from strandline.engine.service.edited_code import Loaded, ask
from strandline.engine.service.stream_health import heartbeat, living_shares
from strandline.operate import lakes, session
from strandline.operate.backfill import compared, stale_above
from strandline.operate.listener import Says
from strandline.operate.run import verdicts_of, with_absent_topics
from strandline.operate.stream import silence

PATIENCE, LOOKS_EVERY = 60.0, 0.5
"""Seconds for which a stream above is let read what came last, and between two looks."""

AFTER = "after "
"""Before the mark of a table's former promotion: its own, which follows that one, is not written down yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was done to a table.

    Args:
        table: Its name.
        says: What it was, in words.
        differences: How its rows differ from those of before, where they were compared.
    """

    table: str
    says: str
    differences: Sequence[Comparison] = ()


Dones: TypeAlias = Iterator[Done]


def plan(
    found: Settings, where: Lake, names: Sequence[str] | None, says: Says, *, forward: bool
) -> list[Stage]:
    """Return what the code of today asks of tables: of all, or of those that are named and all above them.

    Args:
        found: The settings.
        where: The lake.
        names: The tables; None for all.
        says: Hears what takes time.
        forward: Whether rows that are there stay as they are, wherever the stream can go on with them.
    """
    tables = _chosen(names, where)
    there = [each for each in tables if where.exists(each) or each.topics]
    verdicts = verdicts_of(found, where, there, says)
    verdicts = list(with_absent_topics(verdicts, found, where, there, says))
    known = {each.table: each for each in verdicts}
    safe = preflight.Answer.SAFE
    known |= {
        each.id: preflight.Verdict(table=each.id, answer=safe)
        for each in tables
        if each.id not in known
    }
    return planned(tables, where, known, forward=forward)


def _chosen(names: Sequence[str] | None, where: Lake) -> list[Table]:
    """Return the tables of a plan, each after those that it reads."""
    if not names:
        return lakes.to_feed(None, where)
    reached = {each.id for each in lakes.to_feed(names, where)}
    for table in catalog.tables():
        if any(source.id in reached for source in table.needs):
            reached.add(table.id)
    return fed([each for each in catalog.tables() if each.id in reached], where)


@contextmanager
def _alone(where: Lake) -> Iterator[None]:
    """Hold the lock under which one process alone migrates a lake.

    Raises:
        TransientError: Another one does.
    """
    try:
        with hold(where.lease_of("_migrate"), json.dumps(own()), waits=False):
            yield
    except HeldError as error:
        holder = json.loads(error.note or "{}")
        who = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
        raise TransientError(
            f"the lake is being migrated already: {who}",
            hint="wait until it is done, or stop it; `strandline migrate` then shows what is left.",
            **holder,
        ) from error


def carry_out(
    found: Settings,
    where: Lake,
    stages: Sequence[Stage],
    says: Says,
    on_commit: Callable[[Entry], None],
) -> Iterator[Done]:
    """Do what a plan asks, table by table, and yield what was done.

    Each stage leaves a lake that a new plan goes on with; one that was interrupted is done again.

    Raises:
        LakeError: A stage failed; those before it are done.
    """
    where.open_for_writing()
    work = [each for each in stages if each.is_work]
    with _alone(where):
        stream = _Stream(where, says, _held(stages))
        yield from stream.load()
        if not work:
            return
        migration = begun(where, clock.now(), clock.login())
        says("starting Spark …")
        site = session.site(found, where, None, says=says, beside=True)
        try:
            worker = _Worker(site, where, migration, stream, says, on_commit)
            for stage in work:
                yield worker.do(stage)
                if stage.step is Step.ALTERED:
                    yield from worker.widen_above(catalog.find(stage.table))
        except LakeError as error:
            left = "What was done stays; `strandline migrate` shows what is left."
            error.hint = f"{error.hint} {left}"
            raise
        finally:
            site.spark.stop()
        migration.done = True
        keep(where, migration)
        stream.release(*(each.table for each in stages if each.step is Step.MADE))


def _held(stages: Sequence[Stage]) -> list[str]:
    """Return the tables that the stream goes on with by the code of before, or does not begin, when it loads that of now.

    They are those that are exchanged, each until it is; those that cannot be, which the code of now would end; and new ones that
    read one of these.
    """
    held = [each.table for each in stages if each.is_work or each.step is Step.BLOCKED]
    for each in stages:
        if each.step is Step.MADE:
            held += [each.table for s in catalog.find(each.table).needs if s.id in held][:1]
    return held


@dataclass(slots=True)
class _Stream:
    """The stream that runs beside a migration: it goes on by the code of today, table by table.

    A table of which rows or checkpoint are exchanged goes on by the code of before until that is done.
    """

    lake: Lake
    says: Says
    held: list[str]

    def load(self) -> Iterator[Done]:
        """Let it load the code, and yield what that changes at once."""
        found = self._ask()
        if found is None:
            return
        words = {
            "goes on by the code of now": found.changed,
            "is fed from now on": found.added,
            "is fed no more, because no module declares it": found.gone,
        }
        for what, names in words.items():
            yield from (Done(table=name, says=f"{what}, in the stream that runs") for name in names)

    def release(self, *names: str) -> None:
        """Let tables go on by the code of now; each before its rows are of it, while it is handed over.

        A process that is killed in between leaves rows that say by which code they were made, or an exchange that is to be
        finished first, and never the code of before on rows of the new one.
        """
        if any(name in self.held for name in names):
            self.held = [name for name in self.held if name not in names]
            self._ask(loads=False)

    @contextmanager
    def taken(self, table: Table, verb: str) -> Iterator[None]:
        """Have a table that the stream hands over meanwhile; it takes it back by the code of now."""
        with handed_over(table, self.lake, clock.now, verb, note=self.says):
            self.release(table.id)
            yield

    def _ask(self, *, loads: bool = True) -> Loaded | None:
        beat = heartbeat(self.lake, clock.now())
        _refuse_shares(beat)
        if beat and beat["alive"] and not beat.get("loads_code"):
            self.says("the stream cannot load edited code: `strandline restart` when this is done")
            return None
        return ask(self.lake, self._is_there, self.held, loads=loads)

    def _is_there(self) -> bool:
        beat = heartbeat(self.lake, clock.now())
        return bool(beat and beat["alive"] and not silence(beat))


def _refuse_shares(beat: Mapping[str, Any] | None) -> None:
    """Refuse to exchange a table while hosts share the tables out: they would take it back by the code of before.

    Raises:
        TransientError: A share of the stream runs.
    """
    if named := ", ".join(living_shares(beat)):
        raise TransientError(
            f"the stream runs in shares ({named}), which load no edited code",
            hint="stop each of them (Ctrl-C; on Kubernetes, no replicas), type the same again, and start them: they begin by the edit.",
            shares=named,
        )


def _is_same(differences: Sequence[Comparison]) -> bool:
    return bool(differences) and all(each.equal for each in differences)


def _came_since(differences: Sequence[Comparison]) -> bool:
    """Return whether all that differs are rows that the live table has besides, as one does whose stream reads on."""
    return any(each.only_left for each in differences) and not any(
        each.only_right or each.changed or each.apart for each in differences
    )


@dataclass(frozen=True, slots=True)
class _Worker:
    """Does one stage after the other, in one Spark."""

    site: Site
    lake: Lake
    migration: Migration
    stream: _Stream
    says: Says
    on_commit: Callable[[Entry], None]
    with_same_rows: set[str] = field(default_factory=set)
    """The tables that were replaced by the same rows, which only have other columns."""

    def do(self, stage: Stage) -> Done:
        """Do a stage."""
        table = catalog.find(stage.table)
        self.says(f"{table.id}: {stage.step} …")
        match stage.step:
            case Step.FINISHED:
                return self._finish(table)
            case Step.ALTERED:
                return self._alter(table)
            case Step.REBUILT:
                return self._rebuild(table, stage)
            case _:
                return self._recompute(table)

    def _finish(self, table: Table) -> Done:
        known = shadow_lake.read(Shadow.of(table, self.lake))
        if known is None or known.done:  # by another process since
            return Done(table=table.id, says="was finished meanwhile")
        if known.undoing:
            with shadow_lake.alone(table, self.lake), self.stream.taken(table, "undo"):
                rebuild.undo(self.site.spark, table, self.lake)
            return self._noted(table, "its undo was finished")
        with shadow_lake.alone(table, self.lake):
            entry = self._promote(table)
        return Done(table=table.id, says=f"its promotion was finished, {entry.written:,} rows")

    def _alter(self, table: Table) -> Done:
        if isinstance(table, Ingested | Recomputed):
            raise TypeError(table.id)
        with self.stream.taken(table, "migrate"):
            before = preflight.judge(self.site.spark, table, self.lake)
            after = repaired.migrate(self.site.spark, table, self.lake)
            if after.answer is preflight.Answer.MIGRATE:  # the first remedy may show the others
                after = repaired.migrate(self.site.spark, table, self.lake)
            preflight.refuse(after)
        return self._noted(table, "; ".join(each.what for each in before.differences))

    def widen_above(self, table: Table) -> Iterator[Done]:
        """Give the tables above one the wider types that they pass on, and yield what was done; a plan cannot see it before."""
        for above in readers(table, self.lake):
            verdict = preflight.judge(self.site.spark, above, self.lake)
            if verdict.remedies == {Remedy.WIDEN}:
                yield self._alter(above)
                yield from self.widen_above(above)

    def _rebuild(self, table: Table, stage: Stage) -> Done:
        must = stage.must or self._may_wait_otherwise(table)
        with shadow_lake.alone(table, self.lake):
            shadow = rebuild.rebuild(table, self.lake, self.site, on_commit=self.on_commit)
            has_rows = not all(rebuild.is_unfilled(table, each) for each in (self.lake, shadow))
            if has_rows and (done := self._compare_and_promote(table, shadow, must=must)):
                return done
        if not has_rows:
            return self._begin_anew(table)
        rebuild.remove_shadow(table, self.lake)
        self.stream.release(table.id)
        return self._noted(table, "the same rows as before, so nothing was replaced")

    def _compare_and_promote(self, table: Table, shadow: Lake, *, must: bool) -> Done | None:
        """Compare a table with its rebuild, and replace it unless its rows are the same and it may go on."""
        version = latest_version(self.lake.table(table))
        differences = compared(table, self.lake, shadow, self.says)
        if _came_since(differences) and not must:
            differences = self._again(table, shadow)
        if not must and _is_same(differences) and table.id in self.stream.held:
            self._note_same(table, version)
        if must or not _is_same(differences):
            entry = self._promote(table)
            if differences and not any(d.only_left or d.only_right for d in differences):
                self.with_same_rows.add(table.id)
            words = f"replaced by {entry.written:,} rows"
            return Done(table=table.id, says=words, differences=differences)
        return None

    def _begin_anew(self, table: Table) -> Done:
        """Let a table begin by the code of now, which has no row that could be compared, as its rebuild has none."""
        rebuild.remove_shadow(table, self.lake)
        is_read = bool(readers(table, self.lake))
        with self.stream.taken(table, "migrate"):
            rebuild.begin_anew(self.site.spark, table, self.lake, is_read=is_read)
        return self._noted(table, "has no rows yet, and begins by the code of now")

    def _may_wait_otherwise(self, table: Table) -> bool:
        """Return whether rows that wait in a table's state, which no comparison sees, may be others than today's code makes wait.

        A window that is open has no row yet: a late change of its rows below would be lost with the state that the rebuild has.
        """
        if isinstance(table, Judged) or not (self.lake.checkpoint(table) / "state").names():
            return False
        found = made(table, self.lake)
        return found.code or any(each not in self.with_same_rows for each in found.sources)

    def _again(self, table: Table, shadow: Lake) -> list[Comparison]:
        """Compare a table whose stream has read on since: it hands the table over, and the rebuild catches up."""
        with handed_over(table, self.lake, clock.now, "compare", note=self.says):
            run(table, AvailableNow(), shadow, site=self.site, on_commit=self.on_commit)
            differences = compared(table, self.lake, shadow, self.says)
            if _is_same(differences):
                self._note_same(table, latest_version(self.lake.table(table)))
                self.stream.release(table.id)
        return differences

    def _note_same(self, table: Table, version: int) -> None:
        note_equal(table, self.lake, code_version(table), version)

    def _promote(self, table: Table) -> Entry:
        """Replace a table by its rebuild, which no other process touches, and write down first that this migration does."""
        former = shadow_lake.read(Shadow.of(table, self.lake))
        mark = (
            former.mark if former and not former.done else f"{AFTER}{former.mark if former else ''}"
        )
        self._note_promoted(table, mark)
        with self.stream.taken(table, "promote"):
            entry = rebuild.promote(table, self.lake, self.site, on_commit=self.on_commit)
        self._note_promoted(table, str(entry.promoted))
        return entry

    def _note_promoted(self, table: Table, mark: str) -> None:
        known = [each for each in self.migration.promoted if each[0] != table.id]
        self.migration.promoted = [*known, (table.id, mark)]
        keep(self.lake, self.migration)

    def _recompute(self, table: Table) -> Done:
        with self.stream.taken(table, "migrate"):
            if not isinstance(table, Recomputed) or computable_from(table, self.lake) is None:
                run(table, Batch(), self.lake, site=self.site, on_commit=self.on_commit)
                return self._noted(table, "all its windows were recomputed in one commit")
            with lease(
                self.site.spark, table, self.lake
            ):  # older windows lack rows by now, and stay
                Afresh(self.site.spark, table, self.lake, Batch().name).anew()
            self._note_same(table, latest_version(self.lake.table(table)))
        return self._noted(table, "all windows of which no row was deleted were recomputed")

    def _noted(self, table: Table, words: str) -> Done:
        self.migration.others[table.id] = words
        keep(self.lake, self.migration)
        return Done(table=table.id, says=words)


# A column under another name, which only a person can know to be the same.


def _let_read(tables: Sequence[Table], where: Lake) -> None:
    """Let a running stream read for tables what came last, now that nothing comes."""
    due = time.monotonic() + PATIENCE
    while time.monotonic() < due and not all(has_read_all(each, where) for each in tables):
        beat = heartbeat(where, clock.now())
        if not (beat and beat["alive"]):
            return
        time.sleep(LOOKS_EVERY)


def _renamable(where: Lake, name: str, names: Mapping[str, str]) -> Streamed:
    table = catalog.find(name)
    if isinstance(table, Ingested | Recomputed):
        raise DefinitionError(
            f"{table.id} has no stream that could go on under other names",
            hint=f"a recomputed table is computed anew: `strandline migrate {table.id} --go`; what a topic brings has its own names.",
            table=table.id,
        )
    where.refuse_missing(table)
    masked = {*names, *names.values()} & {*hidden(table, where), *table.secret}
    if masked:
        raise DefinitionError(
            f"{' and '.join(sorted(masked))} of {table.id} is masked, and a process of the code of before knows it by one name alone",
            hint=f"`strandline migrate {table.id} --go` without --rename computes the table anew with its masks.",
            table=table.id,
        )
    sent = [str(each["name"]) for each in publications(where) if each["table"] == table.id]
    if sent:
        raise DefinitionError(
            f"{' and '.join(sent)} publishes {table.id}, and its receivers would have the rows so far under the former name",
            hint=f"`strandline migrate {table.id} --go` without --rename computes the table anew, and sends what changed.",
            table=table.id,
        )
    return table


def foresee_rename(where: Lake, name: str, names: Mapping[str, str]) -> Iterator[Done]:
    """Yield what it costs to give columns of a table other names in place.

    Raises:
        DefinitionError: It is no table that has a stream.
    """
    table = _renamable(where, name, names)
    size = sum(int(each["size"]) for each in live_files(where.table(table)).files.values())
    words = " and ".join(f"{old} would be called {new}" for old, new in names.items())
    above = [each.id for each in readers(table, where)]
    read = f"; {' and '.join(above)} must have read all of it, and then call it so" if above else ""
    says = f"{words}: altered in place, no row is computed, {size / 1e6:,.1f} MB are written again{read}"
    yield Done(table=table.id, says=says)


def rename(
    found: Settings, where: Lake, name: str, names: Mapping[str, str], says: Says
) -> Iterator[Done]:
    """Give columns of a table other names in place; tables that read it go on with them.

    Raises:
        DefinitionError: Table or function have not these columns, or a table above has not read all rows yet.
    """
    table = _renamable(where, name, names)
    where.open_for_writing()
    above = [each for each in readers(table, where) if not isinstance(each, Ingested)]
    with _alone(where):
        stream = _Stream(where, says, [each.id for each in (table, *above)])
        yield from stream.load()
        migration = begun(where, clock.now(), clock.login())
        says("starting Spark …")
        site = session.site(found, where, None, is_brief=True, says=says, beside=True)
        try:
            with ExitStack() as held:
                held.enter_context(handed_over(table, where, clock.now, "migrate", note=says))
                _let_read(above, where)
                for each in above:
                    held.enter_context(handed_over(each, where, clock.now, "migrate", note=says))
                repaired.rename(site.spark, table, where, names, clock.now())
                stream.release(*(each.id for each in (table, *above)))
        finally:
            site.spark.stop()
        words = " and ".join(f"{old} is called {new}" for old, new in names.items())
        migration.others[table.id] = words
        migration.done = not migration.promoted and len(migration.others) == 1
        keep(where, migration)
        yield Done(table=table.id, says=f"{words}, with the values that it has")


# The same in a branch, of which nothing is left.


def try_out(
    found: Settings, where: Lake, stages: Sequence[Stage], newest: timedelta, says: Says
) -> Iterator[Tried]:
    """Compute the tables of a plan by the code of now from the newest records, beside the lake, and yield how each differs.

    Raises:
        DefinitionError: The tables below have no rows.
    """
    steps = {Step.ALTERED, Step.REBUILT, Step.RECOMPUTED, Step.MADE}
    chosen = [catalog.find(each.table) for each in stages if each.step in steps]
    tables = [each for each in chosen if not isinstance(each, Ingested)]
    if not tables:
        return
    where.refuse_newer()
    says("starting Spark …")
    site = session.site(found, where, None, is_brief=True, says=says, beside=True)
    try:
        yield from tried(tables, where, newest, site, says)
    finally:
        site.spark.stop()


# The last migration taken back.


def take_back(found: Settings, where: Lake, says: Says) -> Iterator[Done]:
    """Undo the promotions of the last migration, the last one first, and yield what was done.

    Raises:
        DefinitionError: There is none, or one of its tables was replaced again since.
    """
    migration = last(where)
    where.open_for_writing()
    with _alone(where):
        chosen = [(catalog.find(name), mark) for name, mark in migration.promoted]
        for table, mark in chosen:
            _refuse_later(table, where, mark)
            if _is_to_undo(_own(table, where, mark)):
                rebuild.refuse_undo(table, where)
        stream = _Stream(where, says, [table.id for table, _ in chosen])
        yield from stream.load()
        if edited := [table.id for table, _ in chosen if _is_by_code_of_now(table, where)]:
            says(
                f"the code of now is that of the migration; take the edit of {' and '.join(edited)} back as well, and type "
                "`strandline migrate --go`"
            )
        if chosen:
            says("starting Spark …")
            site = session.site(found, where, None, is_brief=True, says=says, beside=True)
            try:
                for table, mark in reversed(chosen):
                    yield _undone(table, where, mark, site, stream)
            finally:
                site.spark.stop()
        migration.undone = True
        keep(where, migration)


def _undone(table: Table, where: Lake, mark: str, site: Site, stream: _Stream) -> Done:
    if not _is_to_undo(_own(table, where, mark)):
        stream.release(table.id)
        return Done(table=table.id, says="was undone before")
    with shadow_lake.alone(table, where), stream.taken(table, "undo"):
        entry = rebuild.undo(site.spark, table, where)
    above = stale_above(table, where)
    more = f"; {' and '.join(above)} read rows of it meanwhile" if above else ""
    return Done(table=table.id, says=f"has the {entry.written:,} rows of before again{more}")


def _is_to_undo(known: Promotion | None) -> bool:
    return known is not None and not (known.done and known.undone)


def _is_by_code_of_now(table: Table, where: Lake) -> bool:
    newest = last_entry(where.table(table))
    return newest is not None and is_code_of(table, newest[1].code)


def _own(table: Table, where: Lake, mark: str) -> Promotion | None:
    """Return the promotion of a table that a migration has made; None where it was killed before that began."""
    known = shadow_lake.read(Shadow.of(table, where))
    if known is None or mark == f"{AFTER}{known.mark}":
        return None
    return known


def _refuse_later(table: Table, where: Lake, mark: str) -> None:
    known = _own(table, where, mark)
    if known is not None and not mark.startswith(AFTER) and known.mark != mark:
        raise DefinitionError(
            f"{table.id} was promoted again since the migration, so that cannot be undone as one",
            hint=f"`strandline undo {table.id}` reverts what came last; then the other tables by themselves.",
            table=table.id,
        )
