"""What silver costs with the reader of ours, and with Spark's: ``python -m tests.benchmarks.strict_pass [EVENTS] [ROUNDS]``.

One JVM fills silver from the same bronze again and again, by the one and by the other in turn, so that a busy machine and a warm
compiler are the same to both. CPU seconds of the JVM and of Python; those of the JVM's compilers are left out, because they are
spent once. What both wrote is compared: rows and reasons.
"""

import os
import shutil
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from unittest import mock

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from fleet.bronze import device_telemetry as bronze
from fleet.play.domain import readings
from fleet.play.plan import Plan
from fleet.silver import device_telemetry as silver
from strandline.core.stateful import AvailableNow
from strandline.engine.flow.batch.governor import Size
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import spark_session
from strandline.engine.runtime.settings import settings
from tests.support import wrapped_json
from tests.support.events import Event, received

SINCE = datetime(2026, 11, 20, tzinfo=UTC)
READERS = {"spark": wrapped_json.parse_json, "ours": bronze.NEWER.parse}
TABLE = replace(silver.TABLE, transform=silver.newer)  # all events are of this shape
SIZES: dict[str, object] = Size.__init__.__kwdefaults__  # all in one batch
TICKS = os.sysconf("SC_CLK_TCK")
COMPILERS = ("C1 ", "C2 ")


def main() -> None:
    """Measure, and print a line for each run, and the ratio of the medians of the warm half."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5  # a word of the command
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "logs").mkdir()
        filled(Lake(root / "begin"), count)
        spark = spark_session.start(settings(lake=root), root / "logs" / "spark.log")
        took, wrote = defaultdict[str, list[float]](list), {}
        for number in range(rounds):
            for name in READERS if number % 2 else reversed(READERS):
                spent, wrote[name] = once(spark, name, root)
                took[name].append(spent / count * 1e6)
                print(f"{number} {name}: {took[name][-1]:.2f} µs of CPU an event", flush=True)  # noqa: T201  # its answer
            if wrote["ours"] != wrote["spark"]:
                raise AssertionError("rows differ")
        warm = {name: median(each[rounds // 2 :]) for name, each in took.items()}
        counts = ", ".join(f"{each.num_rows:,}" for each in wrote["ours"])
        print(f"rows and held: {counts}; ours / Spark's: {warm['ours'] / warm['spark']:.2f}")  # noqa: T201  # as above
        spark.stop()


def filled(lake: Lake, count: int) -> None:
    """Write readings into bronze as one commit, dirt and copies among them."""
    plan = Plan(since=SINCE, until=SINCE + timedelta(days=1), events=count, seed=7)
    events = []
    for part in readings(plan):
        for chunk in part.player.chunks():
            for value, at in zip(chunk.values, chunk.arrived_at, strict=True):
                arrived = datetime.fromtimestamp(at / 1000, UTC)
                events.append(Event(payload=value, arrived_at=arrived, ingested_at=arrived))
    received(lake, events, files=2)


def once(spark: SparkSession, name: str, root: Path) -> tuple[float, list[pa.Table]]:
    """Fill silver by a reader; return the CPU seconds, and what was written."""
    lake = Lake(root / "run")
    shutil.copytree(root / "begin", root / "run", copy_function=os.link)
    topic = replace(bronze.NEWER, parse=READERS[name])
    begun = cpu(spark)
    with mock.patch.object(bronze, "NEWER", topic), mock.patch.dict(SIZES, rows=10**7):
        run(TABLE, AvailableNow(), lake, site=Site(spark=spark, clock=lambda: SINCE, address=""))
    spent = cpu(spark) - begun
    tables = (lake.table(TABLE), lake.quarantine(TABLE))
    rows = [DeltaTable(each).to_pyarrow_table().sort_by("_offset") for each in tables]
    shutil.rmtree(root / "run")
    return spent, rows


def cpu(spark: SparkSession) -> float:
    """Return the CPU seconds of the JVM and of this process, the compilers of the JVM aside."""
    assert spark.sparkContext._jvm is not None
    machine = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    spent = sum(os.times()[:2])
    for thread in Path(f"/proc/{machine}/task").iterdir():
        try:
            text = (thread / "stat").read_text()
        except OSError:
            continue  # it has ended
        name, _, rest = text.partition("(")[2].rpartition(")")
        if not name.startswith(COMPILERS):
            spent += sum(map(int, rest.split()[11:13])) / TICKS
    return spent


if __name__ == "__main__":
    main()
