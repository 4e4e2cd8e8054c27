"""Bytewax: a dataflow from a topic to Parquet files, with its recovery store, one worker (Python has one lock for all threads)."""

from datetime import timedelta
from importlib.metadata import version

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import FixedPartitionedSink, StatefulSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import run_main
from readings import Item, Met, Seen, judged
from serve import Files, Order, serve

BATCH = 100_000
EPOCH = timedelta(seconds=10)
SETTINGS = {
    "isolation.level": "read_committed",
    "queued.min.messages": "200000",
    "fetch.message.max.bytes": str(8 << 20),
}


def do(order: Order) -> None:
    """Run the dataflow of a job to the end of the topic."""
    flow = Dataflow(order.job)
    source = KafkaSource(
        [order.address], [order.topic], tail=False, add_config=SETTINGS, batch_size=10_000
    )
    records = op.input("records", flow, source)
    if order.job == "ingest":
        rows = op.flat_map_batch("met", records, _met)
    elif order.job == "clean":
        judgements = op.flat_map_batch("judge", records, _judged)
        # Equal ids have one device, and a device has one partition: a partition's ids are the whole state.
        rows = op.stateful_batch("first copies", judgements, Copies)
    else:
        raise NotImplementedError(order.job)
    op.output("files", rows, Tables(order))
    store = order.root / "recovery"
    store.mkdir(parents=True)
    init_db_dir(store, 1)
    run_main(flow, epoch_interval=EPOCH, recovery_config=RecoveryConfig(str(store)))


def _met(batch: list[KafkaSourceMessage]) -> list[tuple[str, Met]]:
    return [
        (
            str(each.partition),
            Met(each.partition, each.offset, each.timestamp[1], each.key, each.value or b""),
        )
        for each in batch
    ]


def _judged(batch: list[KafkaSourceMessage]) -> list[tuple[str, Item]]:
    return [(partition, judged(met)) for partition, met in _met(batch)]


class Copies(StatefulBatchLogic):
    """Lets the first copy of a reading pass, and what is none."""

    def __init__(self, seen: Seen | None) -> None:
        """Begin, or go on with what was seen."""
        self._seen = seen or Seen()

    def on_batch(self, values: list[Item]) -> tuple[list[Item], bool]:
        """Return what passes, and that the state stays."""
        passing = [
            item for item in values if item.reason is not None or not self._seen.is_copy(item)
        ]
        self._seen.forget()
        return passing, False

    def snapshot(self) -> Seen:
        """Return a copy of what is kept for a restart, which is written while the state goes on."""
        return Seen({**self._seen.ids}, {**self._seen.newest})


class Tables(FixedPartitionedSink):
    """The files of a job."""

    def __init__(self, order: Order) -> None:
        """Keep where they are."""
        self._order = order

    def list_parts(self) -> list[str]:
        """Return the one part that a worker has."""
        return ["0"]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> "Part":
        """Go on after the files of the last epoch."""
        del step_id
        return Part(self._order, Files(self._order.root, for_part, resume_state or 0))


class Part(StatefulSinkPartition):
    """Rows wait until a file is large, or an epoch ends; a restart writes the files of its epoch again."""

    def __init__(self, order: Order, files: Files) -> None:
        """Begin with no rows."""
        self._write = files.write_raw if order.job == "ingest" else files.write_items
        self._files = files
        self._rows: list[Met | Item] = []

    def write_batch(self, values: list[Met | Item]) -> None:
        """Take rows."""
        self._rows += values
        if len(self._rows) >= BATCH:
            self._flush()

    def snapshot(self) -> int:
        """Write what waits, and return how many files there are."""
        self._flush()
        return self._files.number

    def close(self) -> None:
        """Write what waits."""
        self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._write(self._rows)
            self._rows = []


if __name__ == "__main__":
    serve(do, f"bytewax {version('bytewax')}")
