"""Rows that leave: what a project publishes is sent to its targets, once or for as long as the process lives."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from strandline.core.errors import DefinitionError, LakeError
from strandline.engine.flow.lineage.column_lineage import hidden
from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.read.duckdb_table import Range, columns_of
from strandline.engine.lake.store_lease import FencedError
from strandline.engine.publish.declared import (
    KafkaTopic,
    PostgresTable,
    Publish,
    declared,
    find,
    identity,
)
from strandline.engine.publish.publisher import Publisher, Route
from strandline.engine.publish.targets import Target, ToFunction, ToKafka, ToPostgres
from strandline.engine.repair import closed_range
from strandline.engine.runtime import clock
from strandline.engine.runtime.outage import Pause
from strandline.engine.runtime.settings import Settings
from strandline.operate import lakes
from strandline.operate.listener import Log

LOOK = 1.0
"""Seconds between two looks for a new commit."""


def publishers(
    found: Settings, where: Lake, names: Sequence[str] = (), *, sends: bool = True
) -> list[Publisher]:
    """Return what sends the publications of these names; all when none is named.

    Raises:
        DefinitionError: There is none of a name, or a table does not exist yet.
    """
    wanted = [find(name) for name in names] if names else [*declared()]
    if not wanted:
        find("")
    for each in wanted:
        where.refuse_missing(each.table)
    if sends:
        where.open_for_writing()
    return [
        Publisher(
            each,
            where,
            partial(route, each, found, where),
            clock.now,
            partial(_masked, each, where),
        )
        for each in wanted
    ]


def _masked(declared: Publish, where: Lake) -> frozenset[str]:
    """Return the columns that leave masked."""
    return frozenset() if declared.unmasked.strip() else hidden(declared.table, where)


def route(declared: Publish, found: Settings, where: Lake) -> Route:
    """Return the way of a publication, with the columns that its table has now.

    Raises:
        DefinitionError: Its key is masked, or there is no broker.
    """
    table, path = declared.table, where.table(declared.table)
    columns = columns_of(path, key := identity(table))
    masked = _masked(declared, where)
    if secret := sorted(masked.intersection(key)):
        raise DefinitionError(
            f"{declared.name} publishes {table.id}, whose key {' and '.join(secret)} is masked: masked values are no key",
            hint='give the reason for which its columns leave in the clear: unmasked="billing bills by e-mail".',
            table=table.id,
        )
    kinds = {name: "VARCHAR" if name in masked else kind for name, kind in columns.kinds.items()}
    id_ = f"strandline-{declared.name}-{table_id(path)[:8]}"
    return Route(columns=columns, masked=masked, target=_target(declared, id_, kinds, found, where))


def _target(
    declared: Publish, id_: str, kinds: Mapping[str, str], found: Settings, where: Lake
) -> Target:
    match declared.to:
        case KafkaTopic() as topic:
            return ToKafka(topic.name, id_, _locate(topic, found, where), found.kafka_options)
        case PostgresTable() as table:
            return ToPostgres(table.name, table.url, id_, kinds)
        case function:
            return ToFunction(function)


def _locate(topic: KafkaTopic, found: Settings, where: Lake) -> Callable[[], str]:
    def located() -> str:
        address = lakes.demanded_address(found, where)
        if found.kafka is None:
            broker.create_topic(address, topic.name, topic.partitions, {})
        return address

    return located


def send_once(
    all_: Sequence[Publisher], *, again: bool, since: str | None = None, until: str | None = None
) -> None:
    """Send what there is to each target, then end.

    Args:
        all_: What sends.
        again: Whether all rows are sent anew; with a range those of it once more.
        since: The first moment of the range.
        until: The moment after it.

    Raises:
        LakeError: It failed for a target, the first of them; the others have got what there is.
    """
    spans = [closed_range.both(since, until, "neither for all rows", each.table) for each in all_]
    if any(spans) and not again:
        raise DefinitionError(
            "a range was given, and not what to do with it",
            hint="add --again: its rows are sent once more.",
        )
    failures = []
    for each, span in zip(all_, spans, strict=True):
        try:
            with each.lease():
                if again and not span:
                    each.again()
                while each.step():
                    pass
                if span:
                    each.replay(Range(each.table.event_at or "", span.since, span.until))
        except LakeError as error:
            failures.append(error)
    if failures:
        raise failures[0]


class PublishHost:
    """Sends to several targets until it is stopped: a thread for each, so that one that is away holds no other up."""

    def __init__(
        self, all_: Sequence[Publisher], where: Lake, log: Log, stop: threading.Event
    ) -> None:
        """Prepare; nothing is read yet."""
        self._all, self._log, self._stop = all_, log, stop
        self._pause = where.pause(LOOK)
        self._error: Exception | None = None

    def serve(self) -> None:
        """Send until stopped.

        Raises:
            TransientError: Another process sends to one of the targets, or has taken over.
        """
        with ExitStack() as held:
            for each in self._all:
                held.enter_context(each.lease())
            threads = [threading.Thread(target=self._tend, args=(each,)) for each in self._all]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if self._error is not None:
            raise self._error

    def _tend(self, each: Publisher) -> None:
        pause, said = Pause(), ""
        while not self._stop.is_set():
            is_sent = False
            try:
                is_sent = pause.is_due() and each.step()
            except FencedError as error:
                self._error = error
                self._stop.set()
            except Exception as error:  # noqa: BLE001  # it is tried again, and the others go on
                pause.failed()
                reason = error.message if isinstance(error, LakeError) else repr(error)
                if reason != said:
                    self._log.warning("waits", publication=each.name, reason=reason)
                said = reason
            else:
                if is_sent:
                    pause.well()
                    said = ""
            if not is_sent:
                self._stop.wait(self._pause)
