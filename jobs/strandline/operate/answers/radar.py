"""How long every reader of a lake still has, what was seen kept for the report, and what a person must act on now refused."""

from collections.abc import Iterator, Sequence

from strandline import catalog

from strandline.core.errors import DataError
from strandline.engine.flow.radar import (
    Danger,
    Level,
    TopicReader,
    keep,
    table_dangers,
    topic_dangers,
    topic_readers,
)
from strandline.engine.kafka.topic_changes import WAY
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.engine.service.receivers import stored_offsets
from strandline.operate import lakes

ALERTS = "bronze.alerts"


def dangers_of(found: Settings, where: Lake) -> list[Danger]:
    """Look at all readers of a lake, and keep what was found for its report.

    Raises:
        DefinitionError: No broker is known.
        TransientError: None answers.
    """
    readers = [*topic_readers(where), *_receivers(where)]
    dangers = table_dangers(where)
    if readers:
        address = lakes.demanded_address(found, where)
        dangers = [
            *topic_dangers(readers, address, found.kafka_options, clock.now()),
            *dangers,
        ]
    keep(where, dangers, clock.now())
    return dangers


def refuse_danger(dangers: Sequence[Danger]) -> None:
    """Refuse what a person must act on now.

    Raises:
        DataError: Something is lost, or will be soon.
    """
    alarming = [each for each in dangers if each.level.is_alarming]
    if not alarming:
        return
    lost = [each for each in alarming if each.level is Level.LOST]
    what = "records are gone that were not read" if lost else "unread records may soon be gone"
    raise DataError(
        f"{what}:\n  " + "\n  ".join(f"{e.reader}, {e.source}: {e.says}" for e in alarming),
        hint=_hint(lost, alarming),
        readers=sorted({each.reader for each in alarming}),
    )


def _hint(lost: Sequence[Danger], alarming: Sequence[Danger]) -> str:
    renamed = [each for each in lost if each.lost is None]
    if renamed:
        return WAY
    if lost:
        return f'`strandline accept-loss {lost[0].reader} --because "…"` records that, and it goes on (infra/runbooks/lost.md).'
    return (
        f"let {alarming[0].reader} read (`strandline status`), or let its topic keep records for longer "
        "(infra/runbooks/expiring.md)."
    )


def _receivers(where: Lake) -> Iterator[TopicReader]:
    """Yield the receivers of notices; they read the topic of alerts, go on where a record is gone, and count it."""
    alerts = next((table for table in catalog.tables() if table.id == ALERTS), None)
    topics = alerts.topics if alerts else ()
    for topic in topics:
        for receiver, offsets in stored_offsets(where):
            positions = {(topic.name, number): at for number, at in offsets.items()}
            yield TopicReader(name=f"notices to {receiver}", positions=positions, stops=False)
