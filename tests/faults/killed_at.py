"""A process that is killed while a batch is at each of the points of `stop_at`, each in a lake of its own: ``python -m tests.faults.killed_at FOLDER``."""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from fleet.silver.user_actions import TABLE
from strandline.core.stateful import AvailableNow
from strandline.engine.flow.runner import run
from strandline.engine.runtime import processes
from strandline.operate.session import trial_spark
from strandline.testing.scenario import Scenario
from strandline.testing.ways import POINTS, Death


def action(name: str) -> dict[str, Any]:
    return {"action_id": name, "user_id": "u1", "action": "login", "device_id": "d1"}


def begun(spark: SparkSession, folder: Path) -> Scenario:
    """Return a scenario whose stream has read a first record, in its first batch."""
    made = Scenario(TABLE, spark=spark, folder=folder, mode="stream")
    # A stream that looks before bronze has the row has an empty batch before it, so bronze has it first.
    made.mode = "catch-up"
    made.send(action("a"), at="09:00:00")
    run(TABLE.reads[0], AvailableNow(), made.lake, site=made._way.site)
    made.mode = "stream"
    made.expect(rows=[{"action_id": "a"}])
    return made


def fatal(scenario: Scenario) -> None:
    """Send what makes the batch that dies."""
    scenario.send(action("b"), "no action", at="09:01:00")


def main(folder: Path) -> None:
    """Run three streams until each is at its point, and then be killed with the JVM."""
    with trial_spark(folder) as spark:
        jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        at_points = threading.Barrier(len(POINTS))

        def end() -> None:
            at_points.wait(120)
            os.kill(jvm, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

        scenarios = {point: begun(spark, folder / point) for point in POINTS}
        for point, scenario in scenarios.items():
            for place in Death(point, TABLE, scenario.lake)._places("stream"):
                processes.end_at(*place, end)
            threading.Thread(target=fatal, args=(scenario,)).start()
        threading.Event().wait(150)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
