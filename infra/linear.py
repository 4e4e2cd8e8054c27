"""The jars of SQL's functions ``linear_…``: re2j, and what is compiled from ``infra/spark/linear/*.scala``.

Set-up makes them; where a clone was brought up to date without it, the first Spark that starts does.
"""

from pathlib import Path

from infra import home, jars, scala

SOURCES = sorted((Path(__file__).parent / "spark" / "linear").glob("*.scala"))
SET = "linear"
NAME = "linear-functions"
FUNCTIONS = "strandline.LinearFunctions"
"""The extension of Spark that brings the functions."""


def class_path(venv: Path | None = None) -> list[Path]:
    """Return the jars; what is missing is fetched and compiled first.

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
        if not scala.jar_of(NAME, SOURCES, venv).exists():
            scala.compile_jar(NAME, SOURCES, venv=venv, java=program, run=run, sets=[SET])
    return complete(venv)


def complete(venv: Path) -> list[Path]:
    """Return the jars if they are all there, else none."""
    fetched, compiled = jars.jars(SET, venv), scala.jar_of(NAME, SOURCES, venv)
    return [*fetched, compiled] if fetched and compiled.exists() else []
