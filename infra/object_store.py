"""The class path that a lake on an object store needs beside Spark's own, made when the first such lake is opened.

Two parts: the jars of Hadoop's file system s3a, fetched by Ivy like the others, and how Delta's log and Spark's checkpoints are
written there, compiled from ``infra/spark/*.scala`` (infra/scala.py).
"""

from pathlib import Path

from infra import home, jars, scala

SOURCES = sorted((Path(__file__).parent / "spark").glob("*.scala"))
SET = "object_store"
LOG_STORE = "strandline.ConditionalLogStore"
"""The class by which Delta writes its log."""
CHECKPOINT_FILES = "strandline.ConditionalCheckpointFiles"
"""The class by which Spark writes the files of a checkpoint."""
NAME = "log-store"


def class_path(venv: Path | None = None) -> list[Path]:
    """Return the jars of an object store; what is missing is fetched and compiled first.

    Raises:
        SetupError: They could not be fetched or compiled.
    """
    venv = venv or home.home()
    found = complete(venv)
    if found:
        return found
    with scala.workshop(SET, venv) as (program, run):
        if not jars.jars(SET, venv):
            jars.fetch(SET, venv=venv, java=program, run=run)
        if not _log_store(venv).exists():
            scala.compile_jar(NAME, SOURCES, venv=venv, java=program, run=run, sets=[SET])
    return complete(venv)


def complete(venv: Path) -> list[Path]:
    """Return the jars of an object store if they are all there, else none."""
    fetched, compiled = jars.jars(SET, venv), _log_store(venv)
    return [*fetched, compiled] if fetched and compiled.exists() else []


def _log_store(venv: Path) -> Path:
    """Return the file of the compiled log store."""
    return scala.jar_of(NAME, SOURCES, venv)
