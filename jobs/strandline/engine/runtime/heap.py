"""How short the JVM's heap is: what is in use after a full collection, and the time that collecting takes.

Why not the memory in use: a heap fills until it is collected, so a healthy one is often nearly full. What a full
collection leaves is in use, and its share of the old generation says how much more a batch may need.
"""

import time
from typing import Any

from pyspark.sql import SparkSession

from strandline.engine.runtime.jvm import has_ended, jvm

OLD = ("Old Gen", "Tenured Gen")
"""What collectors call the old generation: "PS Old Gen", "G1 Old Gen", "Tenured Gen"."""

FULL = ("PS MarkSweep", "G1 Old Generation", "MarkSweepCompact")


class Heap:
    """Reads the beans of the JVM; a look is some ten calls of it, which take about 2 ms together."""

    def __init__(self, spark: SparkSession) -> None:
        """Find the beans, and begin to measure."""
        self._spark = spark
        beans: Any = jvm(spark).java.lang.management.ManagementFactory
        pools = list(beans.getMemoryPoolMXBeans())
        old = (pool for pool in pools if pool.getName().endswith(OLD))
        self._old = next(old, None)  # a collector without generations has none
        self._collectors = list(beans.getGarbageCollectorMXBeans())
        self._full = [each for each in self._collectors if each.getName() in FULL]
        self.bytes = int(beans.getMemoryMXBean().getHeapMemoryUsage().getMax())
        self._at, self._spent, self._times = 0.0, 0, 0
        self.begin()

    def begin(self) -> None:
        """Measure from here on."""
        self._at, self._spent, self._times = time.monotonic(), self._collected(), self._fully()

    def is_gone(self) -> bool:
        """Return whether the JVM has ended, or ends within a second."""
        return has_ended(self._spark)

    def held(self) -> float:
        """Return the share of the old generation in use after the last full collection; 0 without one since the beginning."""
        if self._old is None or self._fully() == self._times:
            return 0.0
        usage = self._old.getCollectionUsage()
        return float(usage.getUsed() / usage.getMax()) if usage.getMax() > 0 else 0.0

    def collecting(self) -> float:
        """Return the share of the time since the beginning that went to collecting garbage."""
        passed = max(time.monotonic() - self._at, 0.001) * 1000
        return float(min((self._collected() - self._spent) / passed, 1.0))

    def _collected(self) -> int:
        return sum(int(each.getCollectionTime()) for each in self._collectors)

    def _fully(self) -> int:
        return sum(int(each.getCollectionCount()) for each in self._full)
