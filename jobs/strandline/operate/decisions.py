"""What a person decides: about rows (what leaves, what was held and is judged again, what was lost), and about what a lake keeps.

Rows that a condition means are deleted in all layers; tables and topics are read no more, or a cluster is left. Rows of the
quarantine are judged again, discarded, and taken out of the discard. Records that Kafka removed before they were read are
accepted as lost. All of this needs Spark; what maintenance may do does not.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from strandline import catalog

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.model import Model
from strandline.core.table import Feed, Ingested, Recomputed, Table
from strandline.engine.accounting.held_records import REPLAY, Signed
from strandline.engine.accounting.routes import remedy, undeclared
from strandline.engine.ask.named_moments import forget_in
from strandline.engine.flow.runner import Site
from strandline.engine.lake import order_log, shelves
from strandline.engine.lake.completeness import Retirement
from strandline.engine.lake.forgotten import Forgotten
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import handed_over
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.log.ledger_sums import name_of
from strandline.engine.lake.open_table import let_go
from strandline.engine.lake.order_log import FORGOTTEN, Whom
from strandline.engine.repair import replay, retire
from strandline.engine.repair.close import Accepted, accept, accept_of_feed
from strandline.engine.repair.closed_range import Span, moment
from strandline.engine.repair.expire import Scrubbed, due, scrub
from strandline.engine.repair.forget import Forgetting, Part, carry_out
from strandline.engine.repair.forget_request import Condition, Request
from strandline.engine.repair.replay import Choice, Replayed
from strandline.engine.repair.retire import Leaving
from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import own
from strandline.engine.runtime.settings import Settings, settings
from strandline.engine.service.maintain import Left, Policy, left, take_away
from strandline.operate import lakes, session
from strandline.operate.backfill import change
from strandline.operate.lakes import seconds
from strandline.operate.listener import Says

if TYPE_CHECKING:
    from strandline.engine.learning.promote_model import Desk


def forgotten(  # noqa: PLR0913  # the request, where, how far, and who hears of it
    request: Request, found: Settings, lake: Lake, says: Says, *, now: bool, go: bool
) -> tuple[Forgetting, list[Part], list[Part]]:
    """Find what a request means, and delete it with ``go``.

    Args:
        request: Whom to forget.
        found: The settings.
        lake: The lake.
        says: Hears of what takes time, and of what is not searched.
        now: Whether tables are computed anew whose time a stream still owns.
        go: Whether it is done.

    Returns:
        The work, what was found, and what was done.
    """
    says("starting Spark …")
    site = session.site(found, lake, None, is_brief=True, says=says)
    spark = site.spark
    work = Forgetting(spark, lake, request, site if now else None)
    if not work.condition.words:
        says(
            "the condition is no comparison with texts: only records that can be parsed are searched"
        )
    parts = [part for part in work.parts() if part.rows or part.mentions]
    done = [*carry_out(work, lake, request, clock.now, parts)] if go else []
    _forget_in_orders(lake, request, work.condition, says, go=go)
    spark.stop()
    names = [name_of(path) for path in work.concerned()] if go else []
    for name, lost in forget_in(lake, names, clock.now()).items():
        says(f"moment {name} keeps {', '.join(lost)} no more, of which it had rows of before")
    return work, parts, done


def _forget_in_orders(
    lake: Lake, request: Request, condition: Condition, says: Says, *, go: bool
) -> None:
    """Go through the logs of orders and of agents, because a question or a reason may name whom to forget."""
    columns = [parts[-1] for parts in condition.columns]
    whom = Whom.of(request.where, condition.words, columns)
    what = f"and has {FORGOTTEN} there now" if go else "which --go replaces there"
    for log, of, count in (
        ("the log of orders", "order", order_log.forget(lake, whom, go=go)),
        ("the log of agents on this machine", "request", order_log.forget_calls(lake, whom, go=go)),
    ):
        if count:
            says(f"{log} names it in {count:,} {of}{'' if count == 1 else 's'}, {what}")


def scrubbed(
    found: Settings, lake: Lake, says: Says, *, go: bool
) -> tuple[list[Forgotten], list[Scrubbed]]:
    """Find the requests whose history is due, and make it unreadable with ``go``."""
    ready = due(lake, clock.now())
    done = []
    if go and ready:
        says("starting Spark …")
        spark = session.site(found, lake, None, is_brief=True, says=says).spark
        done = [*scrub(spark, lake, clock.now())]
        spark.stop()
    return ready, done


def refuse_waiting(parts: list[Part]) -> None:
    """Exit with 3 where a part waits.

    Raises:
        TransientError: It does.
    """
    reasons = dict.fromkeys(
        f"{each.table}: {each.waits}" for each in parts if each.waits and each.rows
    )
    if reasons:
        raise TransientError(
            "some rows cannot be forgotten yet:\n  " + "\n  ".join(reasons),
            hint="see to it that no new ones come, let the streams read on, then type the same again; or with --now, which "
            "computes the tables of these streams anew beside them.",
        )


# A table or a topic is read no more, and a cluster is left: by whose decision, and why.


def refuse_without_reason(because: str) -> None:
    """Refuse to change what a table is fed from without a reason.

    Raises:
        DefinitionError: None is given.
    """
    if not because.strip():
        raise DefinitionError(
            "what a table is fed from is changed for a reason",
            hint='give it: --because "the old data centre closes".',
        )


def declared(name: str, where: Lake) -> Table:
    """Return the table of a name.

    Raises:
        DefinitionError: No module declares it; the lake may have it all the same.
    """
    if name in undeclared(where):
        raise DefinitionError(
            f"{where.root} has {name}, and no module declares it, so how it is read, masked and forgotten from is not known",
            hint=remedy(name),
            table=name,
        )
    return catalog.find(name)


def received(name: str, where: Lake) -> Ingested:
    """Return the existing bronze table of a name.

    Raises:
        DefinitionError: It is no bronze table, or does not exist.
    """
    chosen = catalog.find(name)
    if not isinstance(chosen, Ingested):
        raise DefinitionError(
            f"{name} reads tables and no topic",
            hint=f"name the bronze table at its begin; it reads {', '.join(each.id for each in chosen.upstream)}.",
            table=name,
        )
    where.refuse_missing(chosen)
    return chosen


def signed_by(because: str) -> Signed:
    """Return who decides, when and why."""
    return Signed(who=clock.login(), at=clock.now(), why=because.strip())


def retired(name: str, where: Lake, because: str, says: Says) -> Retirement:
    """Retire a table; a running stream hands it over.

    Raises:
        DefinitionError: No module declares it, or it does not exist.
    """
    table = declared(name, where)
    where.refuse_missing(table)
    signed = signed_by(because)
    with handed_over(table, where, clock.now, "retire", note=says) as writer:
        ended = retire.retire(table, where, signed, writer)
    for each in retire.feeds_of(table, where) if isinstance(table, Ingested) else ():
        says(
            f"{each} reads the same topics live, and goes on; `strandline alerts --pause` stops it"
        )
    return ended


def taken_back(name: str, found: Settings, where: Lake, says: Says) -> Entry | None:
    """Feed a retired table again; return the entry of its recomputation where its place was let go and it needs no other.

    Raises:
        DefinitionError: No module declares it, or it is not retired, or it is to be rebuilt.
    """
    table = declared(name, where)
    if not isinstance(table, Recomputed) or not retire.is_behind_for_good(table, where):
        retire.take_back(table, where)
        return None
    says(f"{table.id} is recomputed, because its sources were not kept for it")
    site = _site(found, where, None, says)
    try:
        return retire.take_back_anew(table, where, site)
    finally:
        site.spark.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """How a topic or a cluster is left.

    Args:
        because: The reason.
        former: The cluster that was read until now, where it is named.
        leaves_unread: Whether to go on although records were not read.
        undo: Whether it is taken back.
    """

    because: str
    former: str | None
    leaves_unread: bool
    undo: bool


def topic_left(  # noqa: PLR0913, PLR0917  # which topic of what, how, where, and who hears of it
    table: Ingested, topic: str, leave: Leave, found: Settings, where: Lake, says: Says
) -> Entry:
    """Retire a topic of a table, or read it on from where it ended."""
    signed = signed_by(leave.because)
    site = _site(found, where, None, says)
    try:
        if leave.undo:
            return retire.take_back_topic(table, topic, where, site, signed)
        known = leave.former or lakes.address(found, where)
        leaving = Leaving(signed=signed, address=known, leaves_unread=leave.leaves_unread)
        return retire.retire_topic(table, topic, where, site, leaving)
    finally:
        site.spark.stop()


def moved(  # noqa: PLR0913, PLR0917  # what is moved, how, from when on, where, and who hears of it
    table: Ingested, leave: Leave, since: str | None, found: Settings, where: Lake, says: Says
) -> Entry:
    """Move a table to another Kafka cluster, or back."""
    signed = signed_by(leave.because)
    address = None if leave.undo else lakes.demanded_address(found, where)
    site = _site(found, where, address, says)
    try:
        if leave.undo:
            return retire.move_back(table, where, site, signed)
        leaving = Leaving(signed=signed, address=leave.former, leaves_unread=leave.leaves_unread)
        begin = moment(since, "--since") if since else None
        return retire.move(table, where, site, leaving, begin)
    finally:
        site.spark.stop()


def _site(found: Settings, where: Lake, address: str | None, says: Says) -> Site:
    says("starting Spark …")
    return session.site(found, where, address, is_brief=True, says=says)


def replayed(  # noqa: PLR0913  # which rows of what, where, how far, and who hears of it
    table: Table, choice: Choice, found: Settings, where: Lake, says: Says, *, dry_run: bool
) -> tuple[Replayed, list[Entry | None]]:
    """Judge open rows again, or only report what would become of them.

    Returns:
        What became of them, and the entries of the table and of those above.
    """
    replay.refuse_unfit(table, where)
    says("starting Spark …")
    site = session.site(found, where, None, is_brief=True, says=says)
    spark = site.spark
    done: list[Entry | None] = []
    if dry_run:
        with site.apart(table.id):
            result = replay.rehearse(spark, table, where, choice)
    else:
        signed = Signed(who=clock.login(), at=clock.now())
        with (
            session.recorder(where, says)(spark, table, REPLAY, where) as wrote,
            site.apart(table.id),
        ):

            def on_table(each: Table, entry: Entry | None) -> None:
                if entry:
                    wrote(each, entry)
                done.append(entry)
                says(change(each, entry))

            result = replay.replay(spark, table, where, choice, signed, on_table=on_table)
    spark.stop()
    return result, done


def discarded(  # noqa: PLR0913, PLR0917  # which rows of what, where, and who hears of it
    table: Table,
    choice: Choice,
    because: str | None,
    found: Settings,
    where: Lake,
    says: Says,
    *,
    undo: bool,
) -> int:
    """Discard open rows, or revert the last discard, and return how many rows that were.

    Raises:
        DefinitionError: It is not said which rows, or why.
    """
    signed = Signed(who=clock.login(), at=clock.now(), why=because)
    if undo and not (choice.is_whole and because is None):
        raise DefinitionError(
            "--undo reverts the last discard as a whole",
            hint="give it without --reason, --at and --because.",
        )
    if not undo:
        replay.refuse_vague(table, choice, signed)
    replay.refuse_undiscardable(table, where)
    says("starting Spark …")
    spark = session.site(found, where, None, is_brief=True, says=says).spark
    if undo:
        count = replay.reopen(spark, table, where, signed)
    else:
        count = replay.discard(spark, table, where, choice, signed)
    spark.stop()
    return count


# What Kafka removed before it was read is recorded as lost, and its reader goes on behind the gap.


def accepted(name: str, because: str, found: Settings, where: Lake, says: Says) -> Accepted:
    """Record what a bronze table or a feed of alerts lost in Kafka, so that it goes on.

    Raises:
        DefinitionError: The name is that of another table, or nothing is lost.
    """
    is_feed = name.startswith(f"{Feed.layer}.")
    table = None if is_feed else catalog.find(name)
    if table is not None and not isinstance(table, Ingested):
        below = ", ".join(each.id for each in table.upstream)
        raise DefinitionError(
            f"{name} reads tables and no topic, so Kafka cannot lose anything of it",
            hint=f"name the bronze table at its begin; it reads {below}.",
            table=name,
        )
    if table is not None:
        where.refuse_missing(table)
    address = lakes.demanded_address(found, where)
    signed = Signed(who=clock.login(), at=clock.now(), why=because)
    says("starting Spark …")
    site = session.site(found, where, address, is_brief=True, says=says)
    try:
        if table is None:
            return accept_of_feed(name.removeprefix(f"{Feed.layer}."), where, site, signed)
        return accept(table, where, site, signed)
    finally:
        site.spark.stop()


# Maintenance of a lake: what it may do, what a machine that is gone held, and what belongs to nothing.

GENTLE = 10
"""By how much the process lowers its priority, so that a stream on the same cores goes first."""


def release(where: Lake, host: str, *, go: bool) -> list[str]:
    """Let go what a machine held of which a person says that it is gone, and return who held it; only return it without ``go``.

    Raises:
        DefinitionError: It is this machine, of whose processes we know which are gone.
    """
    if host == own()["host"]:
        raise DefinitionError(
            f"{host} is this machine: what a process of it that is gone held is free already",
            hint="`strandline maintain --dry-run` names the process that still holds something; end that one.",
        )
    return list(let_go(where.root, host, go=go))


def policy_of(keep: str, most: str, *, go: bool = True) -> Policy:
    """Return what maintenance may do: how long replaced files stay, and how long it may take from now on."""
    begun, allowed = time.monotonic(), seconds(most)
    return Policy(
        keep=timedelta(seconds=seconds(keep)),
        is_over=lambda: time.monotonic() > begun + allowed,
        is_half_over=lambda: time.monotonic() > begun + allowed / 2,
        go=go,
        moments=timedelta(seconds=settings().moments_kept),
    )


def orphans(where: Lake, *, go: bool) -> list[Left]:
    """Return what killed batches left behind; with ``go`` it is taken away."""
    found = list(left(where, clock.now()))
    for each in found if go else ():
        take_away(each)
    return found


# Models of tables: versions are trained and evaluated, and decisions about them signed.


def trained(
    model: Model, span: Span, found: Settings, where: Lake, says: Says
) -> Mapping[str, Any]:
    """Train a version on a range of its table's rows, and return it."""
    where.refuse_missing(model.of)
    # Not imported above: MLlib takes numpy, and the other use cases need no Spark.
    from strandline.engine.learning.train_model import train  # noqa: PLC0415  # as above

    return train(_spark(found, where, says), model, where, span, clock.now())


def evaluated(  # noqa: PLR0913, PLR0917  # which version of what, on what, where, and who hears of it
    model: Model, version: str, span: Span, found: Settings, where: Lake, says: Says
) -> dict[str, float]:
    """Return how a version does on a range of its table's rows; nothing is written."""
    from strandline.engine.learning.train_model import evaluate  # noqa: PLC0415  # as above

    return evaluate(_spark(found, where, says), model, where, version, span)


def desk_of(name: str, lake: Lake) -> "Desk":
    """Return where decisions about a model are made, signed by the user."""
    # Not imported above: a project without models imports nothing of them.
    from strandline.engine.learning.promote_model import Desk  # noqa: PLC0415  # as above

    return Desk(lake=lake, model=catalog.model(name), clock=clock.now, by=clock.login())


def version_of(lake: Lake, name: str, digits: str) -> str:
    """Return the version that begins with some digits.

    Raises:
        DefinitionError: There is none, or there are several.
    """
    catalog.model(name)
    known = [str(each["version"]) for each in shelves.versions(lake, name)]
    fitting = [each for each in known if digits and each.startswith(digits)]
    if len(fitting) == 1:
        return fitting[0]
    said = "several versions begin with" if fitting else "no version begins with"
    raise DefinitionError(
        f"{said} {digits or 'nothing'}",
        hint=f"the versions of {name} are {', '.join(known) or 'none yet; train one'}.",
        model=name,
    )


def _spark(found: Settings, where: Lake, says: Says) -> Any:  # noqa: ANN401  # its class takes half a second to import
    return session.site(found, where.open_for_writing(), None, is_brief=True, says=says).spark
