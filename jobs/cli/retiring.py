"""``retire`` and ``move``: a topic that is read no more, and a cluster that is left."""

from typing import Annotated

import typer

from jobs import catalog
from jobs.cli import completion, engine, place
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.ranges import moment
from jobs.cli.screen import emit, note, say
from jobs.core.errors import DefinitionError
from jobs.core.table import Ingested
from jobs.engine.accounting.left_topics import NOT_ASKED
from jobs.engine.pipeline.runner import Site
from jobs.engine.quarantine.write import Signed
from jobs.engine.repair import leave_topic
from jobs.engine.repair.leave_topic import Leaving
from jobs.engine.runtime.settings import Settings
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry

TableArgument = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="A bronze table.", autocompletion=completion.tables),
]
BecauseOption = Annotated[str, typer.Option("--because", help="The reason, for the ledger.")]
FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="HOST:PORT", help="The cluster that was read until now."),
]
LeaveOption = Annotated[
    bool,
    typer.Option(
        "--leave-unread",
        help="Go on although records were not read, or the cluster cannot be asked any more; the ledger names them.",
    ),
]
UndoOption = Annotated[bool, typer.Option("--undo", help="Take it back.")]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("retire")(retire)
    app.command("move")(move)


def retire(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    table: TableArgument,
    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic.")],
    because: BecauseOption = "",
    former: FromOption = None,
    leave_unread: LeaveOption = False,
    undo: UndoOption = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Retire a topic: a bronze table reads it no more, and keeps what it has of it.

    Its rows stay readable, every table above goes on, and the ledger and `status` say up to which offset it was read, by
    whose decision and why. Type it before the topic is deleted: it asks the cluster whether there is more, and refuses while
    records are unread or the topic cannot be asked; --leave-unread goes on all the same. Then take the topic out of the
    table's `reads`. The last topic of a table is not retired: name another one there first. It is refused beside a running
    stream of the table: `strandline pause` first. --undo reads the topic on from where it ended.

    \b
    strandline retire bronze.device_telemetry --topic device-telemetry-v1 --because "the last of the old devices is gone"
    strandline retire bronze.device_telemetry --topic device-telemetry-v1 --undo --because "they are back"
    """
    found, where, chosen = _asked(table, because, lake)
    signed = Signed(who=place.login(), at=place.now(), why=because.strip())
    site = _site(found, where, None)
    try:
        if undo:
            entry = leave_topic.take_back(chosen, topic, where, site, signed)
        else:
            known = former or place.address(found, where)
            leaving = Leaving(signed=signed, address=known, leaves_unread=leave_unread)
            entry = leave_topic.retire(chosen, topic, where, site, leaving)
    finally:
        site.spark.stop()
    if as_json:
        emit(_figures(entry))
        return
    say(f"{table}: {topic} is {'read again from where it ended' if undo else 'retired'}")
    if entry.retired[topic].endswith(NOT_ASKED):
        note(f"what {topic} had beyond what was read is not known: {NOT_ASKED}")
    if not undo and topic in {each.name for each in chosen.topics}:
        note(f"take {topic} out of the `reads` of {table}; until then it is passed over")


def move(  # noqa: PLR0913, PLR0917  # as above
    table: TableArgument,
    because: BecauseOption = "",
    former: FromOption = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Begin with what arrived at this time; with the first record that the new cluster has when absent."
        ),
    ] = None,
    leave_unread: LeaveOption = False,
    undo: UndoOption = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Move a bronze table to another Kafka cluster, where the offsets of its topics begin again.

    Set STRANDLINE_KAFKA to the new cluster, name the former one with --from. It is refused while the former one has records
    that were not read. The ledger then has both sides: up to which offset each partition was read there and where it ended,
    and where it begins here. In the lake, the partitions of the new cluster count from 1,000,000 on (those of a third one from
    2,000,000), so no two events have one place; topic and offset are those of Kafka. All tables above go on as they are.

    Where a mirror copied older records to the new cluster, --since leaves them out: give the time at which the producers
    changed over. What is read twice all the same is dropped by silver as copies, and counted. --undo takes a move back of
    which nothing was read yet. The streams of the table are stopped meanwhile (`strandline pause`).
    A topic that was made anew under its name on the same cluster is a move as well: --leave-unread, because what the former
    one had cannot be asked.

    \b
    STRANDLINE_KAFKA=new:9092 strandline move bronze.dhcp_events --from old:9092 --because "the old data centre closes"
    strandline move bronze.dhcp_events --undo --because "the new cluster is not ready"
    """
    found, where, chosen = _asked(table, because, lake)
    signed = Signed(who=place.login(), at=place.now(), why=because.strip())
    site = _site(found, where, None if undo else place.demanded_address(found, where))
    try:
        if undo:
            entry = leave_topic.move_back(chosen, where, site, signed)
        else:
            leaving = Leaving(signed=signed, address=former, leaves_unread=leave_unread)
            begin = moment(since, "--since") if since else None
            entry = leave_topic.move(chosen, where, site, leaving, begin)
    finally:
        site.spark.stop()
    if as_json:
        emit(_figures(entry))
        return
    for name, (at, _) in sorted(entry.moved.items()):
        say(f"{table}: {name} ends at offset {at}")
    for name, (_, at) in sorted(entry.offsets.items()):
        if name not in entry.moved and leave_topic.is_new(name, entry):
            say(f"{table}: {name} begins at offset {at}")
    for name in leave_topic.feeds_of(chosen, where):
        note(
            f"{name} reads the same topics live, and stops at the other cluster (infra/runbooks/lost.md)"
        )


def _asked(table: str, because: str, lake: str | None) -> tuple[Settings, Lake, Ingested]:
    if not because.strip():
        raise DefinitionError(
            "what a table is fed from is changed for a reason",
            hint='give it: --because "the old data centre closes".',
        )
    found, where = place.existing(lake, writes=True)
    chosen = catalog.find(table)
    if not isinstance(chosen, Ingested):
        raise DefinitionError(
            f"{table} reads tables and no topic",
            hint=f"name the bronze table at its begin; it reads {', '.join(each.id for each in chosen.upstream)}.",
            table=table,
        )
    where.refuse_missing(chosen)
    return found, where, chosen


def _site(found: Settings, where: Lake, address: str | None) -> Site:
    note("starting Spark …")
    return engine.site(found, where, address, is_brief=True)


def _figures(entry: Entry) -> dict[str, object]:
    return {
        "table": entry.table,
        "mode": entry.mode,
        "ends": {name: list(each) for name, each in entry.moved.items()},
        "offsets": {name: end for name, (_, end) in entry.offsets.items()},
        "lost": {name: list(each) for name, each in entry.lost.items()},
        "retired": dict(entry.retired),
        "accepted": entry.accepted,
    }
