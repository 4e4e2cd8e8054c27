"""The step of set-up that makes archives of Java's classes, so that later starts are faster (jobs/strandline/engine/service/class_archive.py)."""

import contextlib
from importlib.metadata import version

from strandline_infra import jars, java
from strandline_infra.clone import Place
from strandline_infra.logged import Runner, SetupError


def make(place: Place, run: Runner) -> None:
    """Start Spark and the broker once, so that later starts are faster (jobs/strandline/engine/service/class_archive.py); optional."""
    for stale in (place.venv / "jvm").glob("*.jsa"):
        stale.unlink()
    with contextlib.suppress(SetupError):  # the error is in the log
        run(
            [place.python, "-m", "strandline.engine.service.class_archive"],
            doing="making the archives",
            hint="the log is setup.log in the environment.",
        )
    (place.venv / "jvm").mkdir(exist_ok=True)
    (place.venv / "jvm" / "done").write_text(_archived_for(place))


def is_made(place: Place) -> bool:
    """Return whether the archive was made here, for the present packages, Java and jars."""
    note = place.venv / "jvm" / "done"
    return note.is_file() and note.read_text() == _archived_for(place)


def has_both(place: Place) -> bool:
    """Return whether the archives of an installed wheel's Java and jars are there; by their names."""
    home = java.recorded(place.venv)
    if home is None:
        return False
    spark = java.archive(home, jars.spark_jars(place.venv), version("pyspark"))
    return spark.exists() and java.archive(home, jars.broker_jars(place.venv)).exists()


def has_any(place: Place) -> bool:
    """Return whether a Java of this machine could make one."""
    return any(file.stat().st_size for file in (place.venv / "jvm").glob("*.jsa"))


def _archived_for(place: Place) -> str:
    # An archive names the jars by their paths, and the JVM of a copy elsewhere passes over it without a sentence: it
    # then parses 13,000 classes at each start, which took 20 s [perf counters of a start on two busy cores].
    names = " ".join(jar.name for name in jars.SETS for jar in jars.jars(name, place.venv))
    return f"{place.venv} {place.wanted_packages()} {java.recorded(place.venv)} {names}"
