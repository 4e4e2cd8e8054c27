"""The class path that a lake on an object store needs beside Spark's own, made when the first such lake is opened.

Two parts: the jars of Hadoop's file system s3a, fetched by Ivy like the others, and how Delta's log and Spark's checkpoints are
written there, compiled from ``infra/strandline_infra/spark/*.scala`` (infra/strandline_infra/scala.py).
"""

from pathlib import Path

from strandline_infra.scala import Compiled

LOG_STORE = "strandline.ConditionalLogStore"
"""The class by which Delta writes its log."""
CHECKPOINT_FILES = "strandline.ConditionalCheckpointFiles"
"""The class by which Spark writes the files of a checkpoint."""

JARS = Compiled(
    fetched="object_store",
    name="log-store",
    sources=sorted((Path(__file__).parent / "spark").glob("*.scala")),
)
