"""A table or a topic is read no more, or a topic is read from another cluster.

A bronze table reads a topic no more, or reads its topics from another cluster: each is one commit without rows in its ledger.

What was read stays as it was read, under its places, and every table above goes on. Nothing is left unread in silence: the
end of each partition is asked of the cluster that is left, and what it has beyond is read first, or named in the ledger as
left with who decided that and why.

* **A topic is retired.** The table goes on with its others, and with what it has of this one; it is the same whether the topic
  is still in the declaration or not. Taken back, it is read on from where it ended.
* **A cluster is left.** On another one offsets begin again, so the partitions get numbers of their own
  (jobs/strandline/engine/kafka/topic_log.py): the former ones end where they were read, and the new ones begin where the new cluster does, or
  at a moment. Taken back before anything was read there, the table reads on at the former cluster where it ended.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from strandline import catalog

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.core.kind import Layer
from strandline.core.routes import schemas_from
from strandline.core.stateful import AvailableNow
from strandline.core.table import Feed, Ingested, Recomputed, Table
from strandline.core.topic import Topic
from strandline.engine.accounting.held_records import Signed
from strandline.engine.accounting.routes import NO_ID, NOT_ASKED, UNKNOWN, decided, undeclared
from strandline.engine.flow import function_plan, new_entry
from strandline.engine.flow.ingest import identity, own_of, refuse_retired
from strandline.engine.flow.recompute import Afresh
from strandline.engine.flow.runner import Site
from strandline.engine.kafka.slices import Backlog, Bounds, Part, name_of, part_of, range_ends
from strandline.engine.kafka.topic_log import STAY, count, described, identities_in, stays
from strandline.engine.lake import completeness
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.completeness import (
    Retirement,
    changed,
    refuse_signed,
    retired,
    strike_out,
    write_down,
)
from strandline.engine.lake.lake import ENTRIES, Lake
from strandline.engine.lake.locks import WriterWatch, is_held, lease
from strandline.engine.lake.log.commit_log import log_of
from strandline.engine.lake.log.ledger import Entry, is_table, last_entry
from strandline.engine.lake.log.ledger_sums import FOLDER, sums_of
from strandline.engine.lake.place import Place
from strandline.engine.lake.shelves import Shelf
from strandline.engine.repair.expire import refuse_unfit

RETIRE = "retire topic"
MOVE = "move cluster"

WITHOUT = (
    "name the cluster that was read until now with --from; if that is gone for good, or the topic was deleted or made anew "
    "there, --leave-unread goes on without asking it, and the ledger says so."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """Who leaves a topic or a cluster, and what is known of what it still has.

    Args:
        signed: Who, when and why.
        address: Where the topic that is left is asked; None where it cannot be any more.
        leaves_unread: Whether what it has beyond what was read is left, and named in the ledger.
    """

    signed: Signed
    address: str | None
    leaves_unread: bool = False


def retire_topic(table: Ingested, topic: str, lake: Lake, site: Site, leaving: Leaving) -> Entry:
    """Read a topic no more.

    Raises:
        DefinitionError: The table never read it, or it is retired already, or no other one feeds the table.
        DataError: It has records that were not read, or cannot be asked.
    """
    with lease(site.spark, table, lake):
        newest = _newest(table, lake)
        if topic not in stays(range_ends(newest.offsets)):
            raise DefinitionError(
                f"{table.id} never read a topic {topic}",
                hint=f"it has read {', '.join(sorted(stays(range_ends(newest.offsets))))}.",
                table=table.id,
                topic=topic,
            )
        known = sums_of(lake.table(table)).retired
        if topic in known:
            raise DefinitionError(
                f"{topic} is retired already, by {decided(known[topic])}",
                hint=f"`strandline retire {table.id} --topic {topic} --undo` reads it again.",
                table=table.id,
                topic=topic,
            )
        _refuse_last(table, topic, known)
        read = own_of(range_ends(newest.offsets), (topic,))
        ends = _asked(leaving, site, [Topic(name=topic)], newest, read)
        left = _left(table, read, ends, leaving)
        ids = identities_in(newest.stream)
        own_id = ids.pop(topic, NO_ID)
        by = _words(leaving.signed)
        decision = new_entry.decided(newest, RETIRE, stream=identity(ids), by=by, lost=left)
        reason = f"{own_id} {by}{'' if ends else f'; {NOT_ASKED}'}"
        return _commit(table, lake, site, replace(decision, retired={topic: reason}))


def take_back_topic(table: Ingested, topic: str, lake: Lake, site: Site, signed: Signed) -> Entry:
    """Read a retired topic again, from where it ended.

    Raises:
        DefinitionError: It is not retired.
    """
    with lease(site.spark, table, lake):
        newest, known = _newest(table, lake), sums_of(lake.table(table)).retired
        if topic not in known:
            raise DefinitionError(
                f"{topic} is not retired from {table.id}",
                hint="`strandline ledger` lists what is.",
                table=table.id,
                topic=topic,
            )
        # As it was read: a topic that was made anew meanwhile is noticed at the next read.
        id_, _ = known[topic].split(" ", 1)
        former = {} if id_ == NO_ID else {topic: id_}
        ids = {**former, **identities_in(newest.stream)}
        by = _words(signed)
        decision = new_entry.decided(newest, RETIRE, stream=identity(ids), by=by)
        return _commit(table, lake, site, replace(decision, retired={topic: ""}))


def move(
    table: Ingested, lake: Lake, site: Site, leaving: Leaving, since: datetime | None = None
) -> Entry:
    """Read a table's topics on from the cluster of the settings; one that is there the topic that was read stays as it is.

    Args:
        table: The table.
        lake: Its lake.
        site: Spark, and the new cluster.
        leaving: Who moves it, and where the former cluster is.
        since: The arrival at which to begin there; what it has when absent. For a cluster that got copies of older records.

    Raises:
        DefinitionError: All topics are those that were read before.
        DataError: The former cluster has records that were not read, or cannot be asked.
    """
    with lease(site.spark, table, lake):
        newest = _newest(table, lake)
        read = range_ends(newest.offsets)
        topics = [
            each for each in table.topics if each.name not in sums_of(lake.table(table)).retired
        ]
        refuse_retired(table, topics)
        before, ids = identities_in(newest.stream), _ids(table, site, topics)
        same = {name for name, id_ in ids.items() if before.get(name) == id_}
        if same:  # the cluster that is read already: of the others, those that were made anew there
            topics = [each for each in topics if each.name in before.keys() - same]
        if not topics:
            raise DefinitionError(
                f"{' and '.join(sorted(same))} at {site.kafka(table.id)} is the topic that {table.id} reads already",
                hint="set STRANDLINE_KAFKA to the new cluster; --from names the former one.",
                table=table.id,
            )
        names = [each.name for each in topics]
        own = own_of(read, names)
        backlog = Backlog(site.kafka(table.id), site.options, topics, _next_stay(read, names))
        try:
            begins = _begins(backlog, backlog.bounds(), since)
        finally:
            backlog.close()
        ends = _asked(leaving, site, topics, newest, own)
        left = _left(table, own, ends, leaving)
        stream = identity({**before, **{name: ids[name] for name in names}})
        by = _words(leaving.signed)
        decision = new_entry.decided(newest, MOVE, stream=stream, by=by, lost=left, begins=begins)
        moved = {name_of(part): (at, ends.get(part, UNKNOWN)) for part, at in own.items()}
        return _commit(table, lake, site, replace(decision, moved=moved))


def move_back(table: Ingested, lake: Lake, site: Site, signed: Signed) -> Entry:
    """Take a move back of which nothing was read: the table reads on at the former cluster where it ended.

    Raises:
        DefinitionError: Its last entry is no move.
    """
    with lease(site.spark, table, lake):
        version, newest = _last(table, lake)
        before = last_entry(lake.table(table), version - 1)
        if newest.mode != MOVE or before is None or not newest.moved:
            raise DefinitionError(
                f"{table.id} was not moved, or has read records since",
                hint="set STRANDLINE_KAFKA to the cluster that it is to read, and move it there: "
                f"`strandline move {table.id} --from THIS`, with --since the time of the move.",
                table=table.id,
            )
        read = range_ends(newest.offsets)
        left = own_of(range_ends(before[1].offsets), identities_in(before[1].stream))
        on = stays(read)
        begins = {
            (topic, number % STAY + (on[topic] + 1) * STAY): at
            for (topic, number), at in left.items()
            if name_of((topic, number)) in newest.moved
        }
        if newest.lost:  # what was named as left is read after all, and would be in two places
            raise DefinitionError(
                f"the move of {table.id} left unread records of the former cluster, and they are in the ledger as left",
                hint="move it back as to any cluster: `strandline move`, with --since.",
                table=table.id,
            )
        stream, by = before[1].stream, _words(signed)
        decision = new_entry.decided(newest, MOVE, stream=stream, by=by, begins=begins)
        own = own_of(read, {topic for topic, _ in begins})
        moved = {name_of(part): (at, at) for part, at in own.items()}
        return _commit(table, lake, site, replace(decision, moved=moved))


def _ids(table: Ingested, site: Site, topics: Sequence[Topic]) -> dict[str, str]:
    backlog = Backlog(site.kafka(table.id), site.options, topics)
    try:
        return backlog.identities()
    finally:
        backlog.close()


def _refuse_last(table: Ingested, topic: str, retired: Mapping[str, str]) -> None:
    """Refuse to retire the last topic that feeds a table: without one it would fail at each start.

    Raises:
        DefinitionError: It is the last one.
    """
    if not {each.name for each in table.topics} - {topic, *retired}:
        raise DefinitionError(
            f"{topic} is the last topic that feeds {table.id}, so it is not retired",
            hint=f"if its producers write to another topic now, name that in the `reads` of {table.id} first; if it was made "
            f"anew, or is on another cluster, `strandline move {table.id}` reads it on. A topic to which nothing comes "
            "any more costs nothing: leave it as it is.",
            table=table.id,
            topic=topic,
        )


def _asked(
    leaving: Leaving, site: Site, topics: Sequence[Topic], newest: Entry, read: Mapping[Part, int]
) -> dict[Part, int]:
    """Return the ends of the topics that are left; none of one that cannot be asked any more, where that was decided.

    Raises:
        DefinitionError: One is not at that address, or another topic has its name there.
        TransientError: No broker answers there.
    """
    ends: dict[Part, int] = {}
    for topic in topics if leaving.address is not None else ():
        backlog = Backlog(str(leaving.address), site.options, [topic], read)
        try:
            _refuse_another(backlog.identities(), newest, str(leaving.address))
            ends |= {part: end for part, (_, end) in backlog.bounds().items()}
        except (DefinitionError, TransientError) as error:
            if leaving.leaves_unread:
                continue
            # What makes a missing topic is no way on: a new one would have the places of what was read.
            is_away = isinstance(error, TransientError)
            hint = f"{error.hint} {WITHOUT}".strip() if is_away else WITHOUT
            raise type(error)(error.message, hint=hint, **error.fields) from error
        finally:
            backlog.close()
    return ends


def _refuse_another(ids: Mapping[str, str], newest: Entry, address: str) -> None:
    known = identities_in(newest.stream)
    if other := sorted(name for name, id_ in ids.items() if known.get(name, id_) != id_):
        raise DefinitionError(
            f"{' and '.join(other)} at {address} is another topic than the one that was read",
            hint=WITHOUT,
            address=address,
        )


def _left(
    table: Ingested, read: Mapping[Part, int], ends: Mapping[Part, int], leaving: Leaving
) -> dict[Part, tuple[int, int]]:
    """Return what is left unread.

    Raises:
        DataError: Something is, or may be, and that was not decided.
    """
    left = {part: (at, ends[part]) for part, at in read.items() if ends.get(part, at) > at}
    left |= {part: (0, end) for part, end in ends.items() if part not in read and end}
    if leaving.leaves_unread:
        return left
    if leaving.address is None:
        raise DataError(
            f"what {table.id} has not read of the topic that it leaves is not known: no cluster was asked",
            hint="name the cluster with --from HOST:PORT; if it is gone for good, --leave-unread goes on, and the ledger says so.",
            table=table.id,
        )
    if left:
        raise DataError(
            f"{table.id} has not read {described(left)} ({count(left):,} offsets)",
            hint=f"stop the producers, and `strandline run {table.id}` reads the rest from the cluster that is left; or "
            "--leave-unread goes on without them, and the ledger names them as lost.",
            table=table.id,
            unread={name_of(part): list(each) for part, each in left.items()},
        )
    return {}


def _begins(backlog: Backlog, bounds: Bounds, since: datetime | None) -> dict[Part, int]:
    if since is None:
        return {part: first for part, (first, _) in bounds.items()}
    found = backlog.at(int(since.timestamp() * 1000), bounds)
    return {part: max(found[part], first) for part, (first, _) in bounds.items()}


def _next_stay(read: Mapping[Part, int], names: Sequence[str]) -> list[Part]:
    """Return a partition of each topic on the cluster after that on which it is."""
    now = stays(read)
    return [(name, (now[name] + 1) * STAY) for name in names if name in now]


def _commit(table: Ingested, lake: Lake, site: Site, entry: Entry) -> Entry:
    lake.raise_to(ENTRIES)
    delta_commit.Commit(site.spark, lake.table(table)).commit(entry.encoded())
    return entry


def _newest(table: Ingested, lake: Lake) -> Entry:
    return _last(table, lake)[1]


def _last(table: Ingested, lake: Lake) -> tuple[int, Entry]:
    """Return the newest entry.

    Raises:
        DefinitionError: It has read nothing yet.
    """
    found = last_entry(lake.table(table))
    if found is None:
        raise DefinitionError(
            f"{table.id} has read nothing yet, so there is nothing that it leaves",
            hint="correct its declaration or STRANDLINE_KAFKA; it begins with what Kafka has.",
            table=table.id,
        )
    return found


def _words(signed: Signed) -> str:
    at = signed.at.isoformat(timespec="seconds") if signed.at else ""
    return f"{signed.who} at {at}: {signed.why}"


def is_new(name: str, entry: Entry) -> bool:
    """Return whether a partition is one of the cluster to which an entry moves its table."""
    part = part_of(name)
    return part in own_of(range_ends(entry.offsets), (part[0],)) and part[0] in {
        part_of(each)[0] for each in entry.moved
    }


def feeds_of(table: Ingested, lake: Lake) -> list[str]:
    """Return the feeds of alerts that have read a topic of a table; each reads Kafka by itself."""
    names, folder = {topic.name for topic in table.topics}, lake.root / Feed.layer
    found = (
        (name, last_entry(folder / name)) for name in folder.names() if is_table(folder / name)
    )
    return [
        f"{Feed.layer}.{name}"
        for name, newest in found
        if newest and names & {*stays(range_ends(newest[1].offsets))}
    ]


# A table is retired: it is fed no more, keeps what it has, and stays readable; and taken back.
#
# No row moves, and no entry of its ledger is written. The decision is one file of the lake (jobs/strandline/engine/lake/completeness.py), which
# is asked before a table is run and again once its lease is taken; who retires a table has it handed over by its stream first,
# so no batch of it is under way then. Requests to forget, retention, maintenance, snapshots and questions go on.


def retire(table: Table, lake: Lake, signed: Signed, writer: WriterWatch) -> Retirement:
    """Feed a table no more.

    Args:
        table: It exists.
        lake: Its lake.
        signed: Who decides it, when and why.
        writer: Says whether a process writes the table after all.

    Raises:
        DefinitionError: It is retired already, or a table that is fed reads it, or something of it is half done.
        HasWriterError: A process has begun to write it.
    """
    known = retired(lake)
    refuse_signed(table.id, known)
    readers = [
        each.id
        for each in catalog.tables()
        if table.id in {source.id for source in each.needs}
        and each.id not in known
        and lake.exists(each)
    ]
    if readers:
        raise DefinitionError(
            f"{' and '.join(readers)} would get no more rows, because {table.id} is read by "
            f"{'it' if len(readers) == 1 else 'them'}",
            hint=f"retire what reads it first (`strandline retire {readers[-1]}`), or let it read another table.",
            table=table.id,
            readers=readers,
        )
    refuse_unfit(table, lake)
    writer.refuse()
    found = Retirement(
        who=signed.who,
        at=signed.at.isoformat(timespec="seconds") if signed.at else "",
        why=signed.why or "",
    )
    # What it could bear bounds no batch of its sources any more.
    lake.batch_size(table).remove_file()
    write_down(table.id, found, lake)
    try:
        writer.refuse()  # a run that had looked before it was written down
    except BaseException:
        strike_out(table.id, lake)
        raise
    # Last: what is being computed sees from now on that the table is retired, and takes away what it wrote.
    completeness.remove(lake, table.id)
    return found


def take_back(table: Table, lake: Lake) -> None:
    """Feed a retired table again, from where it ended.

    Raises:
        DefinitionError: It is not retired, or a table that it reads is; or its stream cannot go on where it ended.
    """
    with changed(lake) as known:
        _refuse_unready(table, known)
        if not known[table.id].place_kept:
            raise DefinitionError(
                f"{table.id} cannot go on where it ended: what it has not read was kept for a week, or was deleted or forgotten "
                "since",
                hint=_way_on(table),
                table=table.id,
            )
        known.pop(table.id)


def is_behind_for_good(table: Table, lake: Lake) -> bool:
    """Return whether a retired table can be fed again only by recomputing what it has not followed, and it is one that is recomputed."""
    known = retired(lake).get(table.id)
    return isinstance(table, Recomputed) and known is not None and not known.place_kept


def take_back_anew(table: Recomputed, lake: Lake, site: Site) -> Entry:
    """Recompute a retired table whose place was let go, and feed it again; windows of which retention deleted rows stay.

    Typed again after a kill it is recomputed once more: until that is done, it is retired.

    Raises:
        DefinitionError: It is not retired, or a table that it reads is.
        GateShutError: The gate of a source is shut.
        HasWriterError: Another process does the same.
    """
    with lease(site.spark, table, lake), schemas_from(Shelf(lake.schemas)):
        _refuse_unready(table, retired(lake))
        function_plan.learn(site.spark, table, lake)
        entry = Afresh(site.spark, table, lake, AvailableNow().name).anew()
        with changed(lake) as known:
            _refuse_unready(
                table, known
            )  # a source that was retired meanwhile would feed it no more
            known.pop(table.id)
    return entry


def _refuse_unready(table: Table, known: Mapping[str, Retirement]) -> None:
    if table.id not in known:
        raise DefinitionError(
            f"{table.id} is not retired",
            hint="`strandline ledger` lists what is.",
            table=table.id,
        )
    if below := [each.id for each in table.needs if each.id in known]:
        raise DefinitionError(
            f"{table.id} reads {' and '.join(below)}, which {'is' if len(below) == 1 else 'are'} retired",
            hint=f"first `strandline retire {below[0]} --undo`.",
            table=table.id,
        )


def _way_on(table: Table) -> str:
    """Return how a table is had again whose place was let go."""
    if isinstance(table, Recomputed):
        return f"`strandline retire {table.id} --undo` recomputes it; its place was let go at this moment."
    return (
        f"`strandline rebuild {table.id}` computes it anew from what there is, and `strandline promote {table.id}` feeds "
        "it from there on. Where retention has deleted rows below it since, so that a rebuild is refused: declare it under "
        "another name, which computes it from what there is; this one stays readable."
    )


def delete(name: str, lake: Lake) -> None:
    """Delete a table that no module declares; typed again after a kill it goes on, because its log goes last.

    Raises:
        DefinitionError: A module declares it, or there is none.
    """
    if name not in undeclared(lake):
        raise DefinitionError(
            f"{name} is not a table that no module declares, and only such a one is deleted",
            hint="`strandline status` names those that there are. A table that is declared is retired and kept.",
            table=name,
        )
    if is_held(lake.lease_of(name)):
        raise DefinitionError(
            f"a process writes {name}",
            hint="stop it first: `strandline pause`.",
            table=name,
        )
    strike_out(name, lake)
    for place in _beside(name, lake):
        place.remove()
    layer, _, bare = name.partition(".")
    _remove_table(lake.root / layer / bare)


def _beside(name: str, lake: Lake) -> Iterator[Place]:
    """Yield what the lake has of a table beside the table; each place is derived from its name, as in ``Lake``."""
    layer, _, bare = name.partition(".")
    root = lake.root
    yield from (root / folder / name for folder in ("_checkpoints", "_rebuild", "provisional"))
    yield from (root / folder / f"{name}.json" for folder in ("_sizes", "_audits", "_lineage"))
    yield from (
        root / "_certificates" / each
        for each in (f"{name}.json", f"{name}.range.json", f"{name}.duckdb.json")
    )
    known = {name}
    if layer == Layer.SILVER:
        known |= {f"quarantine.{bare}", f"resolutions.{bare}"}
        yield from (root / folder / bare for folder in ("quarantine", "resolutions"))
    for folder in (root / FOLDER, lake.gates):
        for each in folder.names():
            if any(each.startswith(f"{of}.") for of in known):
                yield folder / each


def _remove_table(path: Place) -> None:
    log = log_of(path).name
    for each in path.names():
        if each != log:
            (path / each).remove()
    path.remove()
