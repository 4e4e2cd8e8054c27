"""The jar of ``strandline serve``, compiled from ``infra/spark/server/*.scala`` when the first server is started."""

import fcntl
from pathlib import Path

from infra import home, java, scala
from infra.logged import Runner, SetupError

SOURCES = sorted((Path(__file__).parent / "spark" / "server").glob("*.scala"))
NAME = "sql-server"
EXTENSION = "strandline.Guard"
"""The extension of Spark that refuses all but queries of views."""
FILES = "strandline.ReadOnlyFiles"
"""A disk that is not written."""
USERS = "strandline.Users"
"""The class by which Hive's server checks a password."""


def class_path(venv: Path | None = None) -> list[Path]:
    """Return the jar; it is compiled first where it is missing.

    Raises:
        SetupError: It cannot be compiled.
    """
    venv = venv or home.home()
    program = java.java_home(venv)
    if program is None:
        raise SetupError("no Java 17 or 21 was found.", hint=f"run `{home.setup_command()}`.")
    folder = venv / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{NAME}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several programs may start their first server at once
        target = scala.jar_of(NAME, SOURCES, venv)
        if not target.exists():
            run = Runner(log=venv / "setup.log", lock=lock.fileno())
            scala.compile_jar(NAME, SOURCES, venv=venv, java=program, run=run)
    return [target]
