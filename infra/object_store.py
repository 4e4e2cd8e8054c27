"""The class path that a lake on an object store needs beside Spark's own, made when the first such lake is opened.

Two parts: the jars of Hadoop's file system s3a, fetched by Ivy like the others, and how Delta's log and Spark's checkpoints are
written there, compiled from ``infra/spark/*.scala`` (infra/scala.py).
"""

import fcntl
from pathlib import Path

from infra import home, jars, java, scala
from infra.logged import Runner, SetupError

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
    program = java.java_home(venv)
    if program is None:
        raise SetupError("no Java 17 or 21 was found.", hint=f"run `{home.setup_command()}`.")
    folder = venv / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "object_store.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several programs may open their first such lake at once
        run = Runner(log=venv / "setup.log", lock=lock.fileno())
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
