"""The jar of ``strandline serve``, compiled from ``infra/strandline_infra/spark/server/*.scala`` when the first server is started."""

from pathlib import Path

from strandline_infra import home, scala

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
    with scala.workshop(NAME, venv) as (program, run):
        target = scala.jar_of(NAME, SOURCES, venv)
        if not target.exists():
            scala.compile_jar(NAME, SOURCES, venv=venv, java=program, run=run)
    return [target]
