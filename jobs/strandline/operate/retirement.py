"""A table or a topic is read no more, and a cluster is left: by whose decision, and why."""

from dataclasses import dataclass

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.table import Ingested, Recomputed, Table
from strandline.engine.accounting.left_topics import remedy, undeclared
from strandline.engine.flow.runner import Site
from strandline.engine.lake.handover import handed_over
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.retired import Retirement
from strandline.engine.quarantine.write import Signed
from strandline.engine.repair import retire
from strandline.engine.repair.retire import Leaving
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.operate import lakes, session
from strandline.operate.listener import Says
from strandline.operate.ranges import moment


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
