"""A process that spark-submit has started: its JVM is there already, with the class path and the master that were typed.

What is fixed once a JVM runs (its class path, its heap, its log) cannot be set from here, so spark-submit is given it in a file,
which ``python -m strandline.cli.spark_properties`` writes (infra/docs/cluster.md).
"""

import os
from typing import Any

import psutil
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from strandline.core.errors import DefinitionError
from strandline.engine.runtime.settings import MASTER, Settings, is_submitted
from strandline_infra import jars

THREADS = "local"


def gateway() -> Any:  # noqa: ANN401  # py4j's objects have no types
    """Return the gateway to the JVM of spark-submit; None where no spark-submit started this process.

    Raises:
        DefinitionError: The JVM was started without the options of the project.
    """
    if not is_submitted():
        return None
    found = launch_gateway()  # type: ignore[no-untyped-call]  # PySpark has no types there
    path = SparkConf(_jvm=found.jvm).get("spark.driver.extraClassPath") or ""
    if not {str(jar) for jar in jars.spark_jars()} <= set(path.split(":")):
        raise DefinitionError(
            "spark-submit started a JVM without Strandline's jars",
            hint="`python -m strandline.cli.spark_properties > strandline.conf`, "
            "then `spark-submit --properties-file strandline.conf …`.",
        )
    # It is our parent, and not a child as where we start it.
    found.proc = psutil.Process(os.getppid())
    return found


def placed(settings: Settings, found: Any) -> Settings:  # noqa: ANN401  # as above
    """Return the settings with the master that spark-submit was given.

    Raises:
        DefinitionError: Nothing is known about such a cluster.
    """
    master = SparkConf(_jvm=found.jvm).get("spark.master") or THREADS
    return settings.model_copy(update={"master": cluster_of(master)})


def cluster_of(master: str) -> str | None:
    """Return the cluster that a master of Spark's names; None for threads of this machine.

    Raises:
        DefinitionError: Nothing is known about such a cluster.
    """
    if master.startswith(THREADS):
        return None
    if not MASTER.fullmatch(master):
        raise DefinitionError(
            f"spark-submit was given the master {master}",
            hint="Strandline knows spark://host:port, k8s://host:port and local[N].",
            master=master,
        )
    return master
