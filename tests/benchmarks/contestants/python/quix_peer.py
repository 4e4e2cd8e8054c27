"""Quix Streams: an application from a topic to Parquet files, its state in RocksDB with a changelog in Kafka."""

from importlib.metadata import version
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from quixstreams import Application, State
from quixstreams.sinks import BaseSink
from readings import Item, Met, judged
from serve import Files, Order, serve

COMMIT_SECONDS, COMMIT_RECORDS = 10.0, 100_000


def do(order: Order) -> None:
    """Run the application of a job until it has reached the end of each partition."""
    app = Application(
        broker_address=order.address,
        consumer_group=f"quix-{order.root.name}",
        auto_offset_reset="earliest",
        commit_interval=COMMIT_SECONDS,
        commit_every=COMMIT_RECORDS,
        state_dir=order.root / "state",
        loglevel="WARNING",
        on_message_processed=lambda _, partition, offset: reached(partition, offset),
        consumer_extra_config={"queued.min.messages": 200_000, "fetch.message.max.bytes": 8 << 20},
    )
    missing = _ends(order)

    def reached(partition: int, offset: int) -> None:
        if offset + 1 >= missing.get(partition, 0):
            missing.pop(partition, None)
            if not missing:
                app.stop()

    topic = app.topic(order.topic, value_deserializer="bytes", key_deserializer="bytes")
    frame = app.dataframe(topic)
    if order.job == "clean":
        frame = frame.apply(_judged, metadata=True).filter(_is_first, stateful=True)
    elif order.job != "ingest":
        raise NotImplementedError(order.job)
    frame.sink(Tables(order))
    app.run()


def _ends(order: Order) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": order.address, "group.id": "ends"})
    try:
        found = consumer.list_topics(order.topic).topics[order.topic].partitions
        ends = {
            each: consumer.get_watermark_offsets(TopicPartition(order.topic, each))[1]
            for each in found
        }
        return {each: end for each, end in ends.items() if end}
    finally:
        consumer.close()


def _judged(value: bytes, key: bytes | None, timestamp: int, headers: Any) -> Item:  # noqa: ANN401, ARG001  # as the library calls it
    return judged(Met(0, 0, timestamp, key, value or b""))


def _is_first(item: Item, state: State) -> bool:
    """Return whether it is the first copy of a reading, or none; the state is that of a device, the key of the record."""
    if item.reason is not None or item.reading is None:
        return True
    if state.exists(item.reading.event_id):
        return False
    state.set(item.reading.event_id, 1)
    return True


class Tables(BaseSink):
    """The files of a job, written at each commit of the application."""

    def __init__(self, order: Order) -> None:
        """Begin with no rows."""
        super().__init__()
        self._is_raw = order.job == "ingest"
        self._files = Files(order.root, "0")
        self._rows: list[Any] = []

    def add(  # noqa: PLR0913, PLR0917  # as the library calls it
        self,
        value: Any,  # noqa: ANN401
        key: Any,  # noqa: ANN401
        timestamp: int,
        headers: Any,  # noqa: ANN401, ARG002
        topic: str,  # noqa: ARG002
        partition: int,
        offset: int,
    ) -> None:
        """Take a row."""
        if self._is_raw:
            self._rows.append(Met(partition, offset, timestamp, key, value or b""))
        else:
            met = value.met._replace(partition=partition, offset=offset)
            self._rows.append(value._replace(met=met))

    def flush(self) -> None:
        """Write what was taken since the last commit."""
        if self._rows:
            write = self._files.write_raw if self._is_raw else self._files.write_items
            write(self._rows)
            self._rows = []


if __name__ == "__main__":
    serve(do, f"quixstreams {version('quixstreams')}")
