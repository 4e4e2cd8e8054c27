"""Letting other programs of the machine go first.

A nice value counts within a session of programs only, where the kernel groups them (``sched_autogroup_enabled``, the default of
most distributions), and each JVM of the project has a session of its own. So the group is given the value as well.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

NICE = 10
"""A tenth of the share of a program that does not give way; with 15 a server took two minutes to start on a machine whose cores had
nine programs each."""


def let_give_way(spark: SparkSession, nice: int = NICE) -> None:
    """Let the JVM of a session give way, with all of its threads, and as a group where the kernel has groups."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001  # there is no public way
    with suppress(OSError, AttributeError):
        pid = gateway.proc.pid
        os.setpriority(os.PRIO_PROCESS, pid, nice)  # of all threads on macOS, of the first on Linux
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)
        Path(f"/proc/{pid}/autogroup").write_text(f"{nice}\n")
