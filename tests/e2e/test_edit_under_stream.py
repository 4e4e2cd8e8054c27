"""Tables are added, edited, broken and retired while the stream runs: one process, no table that is not concerned waits."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock
from tests.cli.typed import Answer, start, strandline

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.whole]

PATIENCE = 240.0
MORE = '''"""What each customer ordered in ten minutes."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from strandline import Windowed

from shop.silver import orders


def by_customer(rows: DataFrame) -> DataFrame:
    """Count the orders of each customer."""
    windows = rows.groupBy("customer", F.window("ordered_at", "10 minutes"))
    return windows.agg(F.count("*").alias("orders")).select(
        "customer", F.col("window.start").alias("begins"), F.col("window.end").alias("ends"), "orders"
    )


TABLE = Windowed(
    name="by_customer",
    reads=(orders.TABLE,),
    transform=by_customer,
    key=("customer", "begins"),
    window="10 minutes",
    window_from="begins",
    closes_at="ends",
)
'''
SELECTED = "    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())\n"
WITH_CENTS = """    rows = topic.parse(events, FIELDS)
    cents = (rows.amount * 100).cast("long")
    return rows.withColumn("cents", cents).select(*CARRIED, *FIELDS.fieldNames(), "cents")
"""


class Shop:
    """A project of one's own whose orders come all the time."""

    def __init__(self, folder: Path) -> None:
        """Make it, with a broker, and begin to send."""
        strandline("init", folder / "shop", cwd=folder).succeeded()
        self.folder, self.lake = folder / "shop", folder / "shop" / ".lake"
        found = self.typed("up", "--json").succeeded().json
        assert isinstance(found, dict)
        self._producer = Producer({"bootstrap.servers": found["address"]})
        self._ended = threading.Event()
        self._restarted: subprocess.Popen[bytes] | None = None
        self.sent = 0
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def typed(self, *words: str) -> Answer:
        """Type a command in its folder."""
        return strandline(*words, cwd=self.folder, timeout=580)

    def module(self, name: str) -> Path:
        """Return the module of a table."""
        layer, _, table = name.partition(".")
        return self.folder / "shop" / layer / f"{table}.py"

    def entries(self, name: str) -> list[tuple[str, int]]:
        """Return stream and number of each batch of a table."""
        place = Place.of(str(self.lake / Path(*name.split("."))))
        return [(each.stream, each.batch) for _, each in entries(place)]

    def query(self, question: str) -> list[dict[str, object]]:
        """Ask a question."""
        found = self.typed("query", question, "--json").succeeded().json
        assert isinstance(found, dict | list)
        rows = found["rows"] if isinstance(found, dict) else found
        return [dict(each) for each in rows]

    def pulse(self) -> dict[str, object]:
        """Return the stream's heartbeat."""
        return dict(json.loads(Lake(Place.of(str(self.lake))).heartbeat.text() or ""))

    def tables(self) -> dict[str, object]:
        """Return the tables of the stream."""
        found = self.pulse()["tables"]
        assert isinstance(found, dict)
        return found

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for a state."""
        due = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < due, what
            time.sleep(0.5)

    def is_failing(self, name: str) -> bool:
        """Return whether a table fails."""
        found = self.tables().get(name)
        return isinstance(found, dict) and bool(found.get("failing"))

    def killed_and_restarted(self) -> None:
        """Kill the stream, and start it as a watchdog does."""
        pid = int(str(self.pulse()["pid"]))
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: not Path(f"/proc/{pid}").exists(), "the killed process is gone")
        log = self.folder / "restarted.log"
        self._restarted = start("stream", "--patient", "--every", "1s", cwd=self.folder, log=log)

    def stop(self) -> None:
        """Stop what runs."""
        self.typed("pause")
        if self._restarted is not None:
            self._restarted.terminate()
            self._restarted.wait(120)
        self.typed("down")

    def end(self) -> None:
        """Send no more."""
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(30) == 0

    def _send(self) -> None:
        while not self._ended.wait(0.05):
            at = clock.now() - timedelta(seconds=1)
            order = {
                "order_id": f"o{self.sent}",
                "customer": f"c{self.sent % 7}",
                "amount": 1.25,
                "ordered_at": at.isoformat(),
            }
            self._producer.produce("orders", json.dumps(order), f"c{self.sent % 7}")
            self._producer.poll(0)
            self.sent += 1


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Return it with its stream; both end with the test."""
    found = Shop(tmp_path)
    try:
        found.typed("resume", "--every", "1s").succeeded()
        yield found
    finally:
        found.end()
        found.stop()


def test_tables_come_change_break_and_go_under_one_stream(shop: Shop) -> None:
    shop.until(lambda: len(shop.entries("silver.orders")) > 1, "silver has rows")
    began = shop.pulse()

    shop.module("gold.by_customer").write_text(MORE)
    added = shop.typed("migrate", "--go").succeeded()
    assert "gold.by_customer: is fed from now on, in the stream that runs" in added.out
    shop.until(lambda: len(shop.entries("gold.by_customer")) > 0, "the new table is fed")

    silver = shop.module("silver.orders")
    text = silver.read_text()
    silver.write_text(text + "def (\n")
    broken = shop.typed("migrate", "--go")
    assert (broken.code, "silver/orders.py" in broken.err) == (2, True), broken.printed

    assert SELECTED in text
    assert shop.pulse()["pid"] == began["pid"]
    silver.write_text(text.replace(SELECTED, WITH_CENTS))
    shop.killed_and_restarted()
    shop.until(lambda: shop.is_failing("silver.orders"), "an edited table waits for its migration")
    before = len(shop.entries("bronze.orders"))
    shop.until(lambda: len(shop.entries("bronze.orders")) > before, "the others run on")
    again = shop.pulse()
    edited = shop.typed("migrate", "--go").succeeded()
    assert "silver.orders: replaced by" in edited.out
    before = len(shop.entries("silver.orders"))
    shop.until(lambda: len(shop.entries("silver.orders")) > before, "silver goes on")

    shop.typed("retire", "gold.sales_10m", "--because", "another counts it").succeeded()
    shop.until(lambda: "gold.sales_10m" not in shop.tables(), "a retired table is left")
    shop.module("gold.by_customer").unlink()
    gone = shop.typed("migrate", "--go").succeeded()
    assert "gold.by_customer: is fed no more" in gone.out
    shop.until(lambda: "gold.by_customer" not in shop.tables(), "one without a module too")
    shop.end()
    counted = "SELECT count(*) AS n, count(cents) AS cents FROM silver.orders"
    shop.until(lambda: shop.query(counted) == [{"n": shop.sent, "cents": shop.sent}], "all read")

    after = shop.pulse()
    assert after["pid"] == again["pid"]
    streams = {stream for stream, _ in shop.entries("bronze.orders")}
    assert len(streams) == 1
    numbers = [number for _, number in shop.entries("bronze.orders")]
    assert numbers == [*range(len(numbers))]
    sheets = shop.typed("ledger", "--json").succeeded().json
    assert isinstance(sheets, list)
    assert all(sheet["balanced"] for sheet in sheets), sheets
    assert "all is well" in shop.typed("status").out


TOTALLED = """    rows = topic.parse(events, FIELDS).withColumnRenamed("amount", "total")
    return rows.select(*CARRIED, "order_id", "customer", "total", "ordered_at")
"""


def test_a_column_gets_another_name_under_the_stream(shop: Shop) -> None:
    """The table and the one above it are handed over for the length of it, and go on with their state and their places."""
    shop.until(lambda: len(shop.entries("gold.sales_10m")) > 1, "gold has batches")
    began = shop.pulse()
    silver, gold = shop.module("silver.orders"), shop.module("gold.sales_10m")
    text = silver.read_text().replace(SELECTED, TOTALLED)
    for name in ('"ordered_at", max_failed', "between("):
        assert name in text
    text = text.replace(
        '"customer", "amount", "ordered_at", max', '"customer", "total", "ordered_at", max'
    )
    silver.write_text(text.replace('between("amount"', 'between("total"'))
    gold.write_text(gold.read_text().replace('F.sum("amount")', 'F.sum("total")'))

    plan = shop.typed("migrate", "silver.orders", "--rename", "amount=total").succeeded()
    done = shop.typed("migrate", "silver.orders", "--rename", "amount=total", "--go").succeeded()
    before = [len(shop.entries(name)) for name in ("silver.orders", "gold.sales_10m")]
    for name, count in zip(("silver.orders", "gold.sales_10m"), before, strict=True):
        shop.until(
            lambda name=name, count=count: len(shop.entries(name)) > count, f"{name} goes on"
        )  # type: ignore[misc]
    shop.end()
    counted = "SELECT count(*) AS n, count(total) AS total FROM silver.orders"
    shop.until(lambda: shop.query(counted) == [{"n": shop.sent, "total": shop.sent}], "all read")

    assert "amount would be called total" in plan.out
    assert "amount is called total" in done.out
    assert shop.pulse()["pid"] == began["pid"]
    for name in ("silver.orders", "gold.sales_10m"):
        streams = {stream for stream, _ in shop.entries(name)}
        numbers = [number for _, number in shop.entries(name)]
        assert len(streams) == 1
        assert numbers == sorted(set(numbers)), "no batch is written twice, and none begins anew"
    assert "there is nothing to do" in shop.typed("migrate", "--go").succeeded().out
    assert "all is well" in shop.typed("status").out
