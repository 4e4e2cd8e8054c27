"""Pathway: a static run over a topic, whose rows a callback writes to Parquet files.

Its own sinks of Delta and Iceberg ask for a licence key, and it has no other of Parquet.
"""

import os
from importlib.metadata import version
from typing import Any

os.environ.setdefault("PATHWAY_THREADS", "2")

import pathway as pw
from pathway.internals.parse_graph import G
from readings import Item, Met, judged
from serve import Files, Order, serve

BATCH = 100_000


def do(order: Order) -> None:
    """Run a graph over all that is in the topic now."""
    G.clear()
    settings = {
        "bootstrap.servers": order.address,
        "group.id": f"pathway-{order.root.name}",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "queued.min.messages": "200000",
    }
    records = pw.io.kafka.read(
        settings,
        topic=order.topic,
        format="raw",
        mode="static",
        autogenerate_key=True,  # else the key of a record is that of its row, and replaces those before
        with_metadata=True,
    )
    taken = Taken(order)
    if order.job == "ingest":
        pw.io.subscribe(records, on_change=taken.raw)
    elif order.job == "clean":
        items = records.select(
            item=pw.apply_with_type(
                _judged, pw.PyObjectWrapper, pw.this.key, pw.this.data, pw.this._metadata
            )
        )
        named = items.select(pw.this.item, name=pw.apply_with_type(_name, str, pw.this.item))
        first = named.deduplicate(
            value=pw.this.item, instance=pw.this.name, acceptor=lambda *_: False
        )
        pw.io.subscribe(first, on_change=taken.item)
    else:
        raise NotImplementedError(order.job)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    taken.write()


def _met(key: bytes | None, payload: bytes, metadata: pw.Json) -> Met:
    where: dict[str, Any] = metadata.value
    return Met(where["partition"], where["offset"], where["timestamp_millis"], key, payload or b"")


def _judged(key: bytes | None, payload: bytes, metadata: pw.Json) -> pw.PyObjectWrapper:
    return pw.wrap_py_object(judged(_met(key, payload, metadata)))


def _name(wrapped: pw.PyObjectWrapper) -> str:
    """Return the id of a reading; what is held has a name of its own."""
    item: Item = wrapped.value
    if item.reading is not None and item.reason is None:
        return item.reading.event_id or ""
    return f"held/{item.met.partition}/{item.met.offset}"


class Taken:
    """Rows that wait until a file is large."""

    def __init__(self, order: Order) -> None:
        """Begin with no rows."""
        self._is_raw = order.job == "ingest"
        self._files = Files(order.root, "0")
        self._rows: list[Any] = []

    def raw(self, key: object, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ARG002, FBT001  # as the library calls it
        """Take a record."""
        self._take(_met(row["key"], row["data"], row["_metadata"]))

    def item(self, key: object, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ARG002, FBT001  # as above
        """Take a reading, or what is held."""
        self._take(row["item"].value)

    def write(self) -> None:
        """Write what waits."""
        if self._rows:
            write = self._files.write_raw if self._is_raw else self._files.write_items
            write(self._rows)
            self._rows = []

    def _take(self, row: Met | Item) -> None:
        self._rows.append(row)
        if len(self._rows) >= BATCH:
            self.write()


if __name__ == "__main__":
    serve(do, f"pathway {version('pathway')}")
