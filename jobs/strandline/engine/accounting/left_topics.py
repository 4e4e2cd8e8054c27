"""What a bronze table is no longer fed from: topics that were retired, or are not declared any more, and clusters that it left.

It is read from the ledger alone: no Spark, no broker (jobs/strandline/engine/repair/retire.py writes it).
"""

from collections.abc import Mapping

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer
from strandline.core.table import Ingested, Table
from strandline.engine.kafka.slices import Part, range_ends
from strandline.engine.kafka.topic_changes import current, identities_in, stays
from strandline.engine.lake.files.damage import damage
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table, last_entry
from strandline.engine.lake.log.ledger_sums import sums_of

UNKNOWN = -1
"""The end of a partition that was not asked for."""
NOT_ASKED = "its end was not asked"
NO_ID = "-"
"""For the id of a topic that the declaration did not name any more when it was retired."""


def said(table: Ingested, lake: Lake) -> list[str]:
    """Return a sentence for each topic and each cluster that a table has left."""
    path = lake.table(table)
    newest = last_entry(path)
    if newest is None:
        return []
    read, declared = range_ends(newest[1].offsets), {topic.name for topic in table.topics}
    now = stays(read)
    # Sums read up to a thousand commits, and `status` asks all tables: where the newest entry names
    # each topic as read, on its first cluster, and each is declared, there is nothing to say.
    if {*now} <= declared & {*identities_in(newest[1].stream)} and not any(now.values()):
        return []
    sums = sums_of(path)
    undecided = sorted({*now} - {*sums.retired} - declared)
    return [
        *(
            f"retired from {table.id}: {topic}, read up to {_at(read, topic)}, by {decided(why)}"
            for topic, why in sorted(sums.retired.items())
        ),
        *(
            f"no longer fed: {topic}, which the declaration of {table.id} does not name any more, read up to "
            f"{_at(read, topic)}; `strandline retire {table.id} --topic {topic}` asks whether it has more, and signs it"
            for topic in undecided
        ),
        *(
            f"moved to another cluster: {name} of {table.id}, read up to offset {at}, "
            + (NOT_ASKED if end == UNKNOWN else f"which ended at {end}")
            for name, (at, end) in sorted(sums.clusters.items())
        ),
    ]


def topics_read(lake: Lake) -> set[str]:
    """Return the topics that tables of a lake have read: none of them may be made anew under its name."""
    return {topic for table in catalog.tables() for topic in read_before(table, lake)}


def read_before(table: Table, lake: Lake) -> set[str]:
    """Return the topics that a table has read, retired ones as well; of a damaged table all that it declares count as read."""
    if not isinstance(table, Ingested):
        return set()
    try:
        newest = last_entry(lake.table(table)) if lake.exists(table) else None
    except Exception as error:
        if damage(error, table) is None:
            raise
        return {topic.name for topic in table.topics}
    if newest is None:
        return set()
    return {*identities_in(newest[1].stream), *stays(range_ends(newest[1].offsets))}


def decided(why: str) -> str:
    """Return who decided something and why, without the id of the topic."""
    return why.partition(" ")[2]


def _at(read: Mapping[Part, int], topic: str) -> str:
    parts = sorted((part, at) for part, at in current(read).items() if part[0] == topic)
    return " and ".join(f"offset {at} of partition {number}" for (_, number), at in parts)


# Tables that a lake has and no module declares: each was deleted from the project, renamed there, or is of another project.
#
# Nothing feeds, maintains or repairs them, their rows are in no answer, and what their columns mean is not known. So they are named
# where a person looks, and a request to forget, which could not find in them whom it means, is refused.


NAMED = 3
"""So many are named in a sentence."""


def undeclared(lake: Lake) -> list[str]:
    """Return their names; three folders are listed, and no log is read."""
    known = {table.id for table in catalog.tables()}
    return [
        f"{layer}.{name}"
        for layer in Layer
        for name in (lake.root / layer).names()
        if f"{layer}.{name}" not in known and is_table(lake.root / layer / name)
    ]


def listed(names: list[str]) -> str:
    """Return the first of some names, and how many more there are: of another project's lake it is all of them."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def remedy(name: str) -> str:
    """Return what to do about one of them."""
    return (
        f"bring its module back; if it is to be read and no longer fed, `strandline retire {name}`, and leave the module where it "
        f"is. `strandline retire {name} --delete` removes it from the lake, for good."
    )


def refuse_undeclared(lake: Lake) -> None:
    """Refuse a request to forget that would pass over a table.

    Raises:
        DefinitionError: The lake has one that no module declares.
    """
    if found := undeclared(lake):
        raise DefinitionError(
            f"the lake has {listed(found)}, which no module declares, so what a request means there is not known",
            hint=remedy(found[0]),
            tables=found,
        )
